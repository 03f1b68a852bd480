"""`manage.py embed` and the line of `manage.py doctor`."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from openvibe.chat.models import MessageToEmbed, MessageVector, Thread
from openvibe.engines.search.models import VectorSpace
from openvibe.engines.search.space_lifecycle import diagnose_search
from openvibe.workspaces.models import Member
from tests.engines.llm.factories import EndpointFactory
from tests.engines.search.fakes import FakeEmbedder, Trouble
from tests.factories import make_channel, make_thread, say


def embed(*arguments: str) -> str:
    output = StringIO()
    call_command("embed", *arguments, stdout=output)
    return output.getvalue()


def test_it_makes_all_that_wait_of_one_workspace(ana: Member, cleo: Member, thread: Thread) -> None:
    say(thread, ana, "Prune in March")
    say(make_thread(make_channel(cleo), cleo), cleo, "Tulips")

    said = embed("--workspace", ana.workspace.slug)

    assert f"{ana.workspace.slug}, messages: 1 made, 0 wait" in said
    assert "knowledge entries: nothing waits." in said
    assert MessageToEmbed.objects.get().message.body == "Tulips"
    embed()
    assert not MessageToEmbed.objects.exists()
    with pytest.raises(CommandError, match="no workspace 'nowhere'"):
        embed("--workspace", "nowhere")


def test_it_finds_what_was_overlooked(ana: Member, thread: Thread) -> None:
    say(thread, ana, "Prune in March")
    MessageToEmbed.objects.all().delete()

    embed()
    assert not MessageVector.objects.exists()
    embed("--check")
    assert MessageVector.objects.exists()


def test_trouble_is_said(ana: Member, thread: Thread, fake_embedder: FakeEmbedder) -> None:
    assert diagnose_search() == ("search", "every text has its vector.", "")
    endpoint = EndpointFactory.create(workspace=ana.workspace, name="Garden", base_url="https://a.example", model="m")
    VectorSpace.objects.update(kind="openai", dimension=256, endpoint=endpoint, address="https://a.example", model="m")
    say(thread, ana, "Prune in March")
    fake_embedder.trouble = Trouble("It is on fire.")

    assert "messages: 1 still wait. It is on fire. Look at the endpoint." in embed()
    what, finding, advice = diagnose_search()
    assert (what, finding) == (
        "search",
        "1 texts wait for their vectors. Ana's garden: It is on fire. Look at the endpoint.",
    )
    assert "“Search” in its settings" in advice
