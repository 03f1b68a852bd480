"""What a deleted or edited message said leaves all that was stored of it, while agents answer, too."""

import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from agents.models import Agent, EntryErasure, Run, Snapshot, ToolCall
from agents.prompts.snapshots.entry_erasure import erase_entries
from agents.prompts.snapshots.origins import DELETED_REASON
from agents.prompts.snapshots.redaction import read_snapshot
from agents.prompts.snapshots.store import load_content
from knowledge.models import Entry
from knowledge.services import erase_entry, update_entry
from openvibe.api.models import IdempotencyKey
from openvibe.chat.models import Erasure, Message, Quote, Thread
from openvibe.chat.services import delete_message, describe_image, erase_texts, start_dive, update_message
from openvibe.engines.database.fields import decrypt
from openvibe.workspaces.models import Member
from tests.agents.runs.scripted_runs import LOG, ask, calling, meanwhile, reply_of, told
from tests.engines.llm.factories import EndpointFactory
from tests.factories import access, make_agent, make_channel, make_entry, make_suggestion, make_thread, say, show
from tests.memory.factories import WorkItemFactory

SECRET = "The vault code is tulip, the fourth drawer holds the key to it."
LOOK = ("memory", {"action": "search", "query": "vault"})
Poster = Callable[[Thread, str, str], dict[str, Any]]


def settle() -> None:
    """The passes of the job: at once, and when everything under way has ended."""
    erase_texts()
    erase_texts(now=timezone.now() + timedelta(minutes=1))
    erase_entries()
    erase_entries(now=timezone.now() + timedelta(minutes=1))


def stored_words() -> str:
    """All that stored prompts, calls, kept answers and the erasures themselves say."""
    answers = [decrypt(body or "") for body in IdempotencyKey.objects.values_list("body", flat=True)]
    prompts = [json.dumps(load_content(row), ensure_ascii=False) for row in Snapshot.objects.all()]
    calls = [f"{row.arguments} {row.result} {row.why}" for row in ToolCall.objects.all()]
    return "\n".join([*answers, *prompts, *calls, *Erasure.objects.values_list("texts", flat=True)])


def test_a_deleted_image_leaves_the_stored_prompts(ana: Member, vibe: Agent, thread: Thread) -> None:
    EndpointFactory.create(
        workspace=ana.workspace,
        name="m",
        base_url="https://m.example/v1",
        model="scripted",
        is_default=True,
        sees_images=True,
    )
    secret = show(thread, ana, "The vault.", description=SECRET)
    run = ask(thread, ana)
    told(run, "I see.")
    stored = load_content(Snapshot.objects.get())
    assert [row["images"] for row in stored["messages"] if row["images"]]
    assert "tulip" in stored_words()

    delete_message(message=secret, by=access(ana))
    settle()
    stored = load_content(Snapshot.objects.get())
    assert not [row["images"] for row in stored["messages"] if row["images"]]
    assert "tulip" not in stored_words()
    pixels = [item for item in stored["items"] if item["key"].startswith("pixels:")]
    assert [(item["author"], item["tokens"] > 0) for item in pixels] == [("", True)]
    view = read_snapshot(run, access(ana))
    assert view is not None
    shown = [item for section in view.sections for item in section.items if item.key.startswith(("pixels:", "image:"))]
    assert {(item.hidden, item.image_id) for item in shown} == {(DELETED_REASON, None)}


def test_a_description_that_was_changed_leaves_the_stored_prompts(ana: Member, vibe: Agent, thread: Thread) -> None:
    image = show(thread, ana, "The vault.", description=SECRET).images.get()
    told(ask(thread, ana), "I see.")
    assert "tulip" in stored_words()
    describe_image(image=image, by=access(ana), description="A vault")
    settle()
    assert "tulip" not in stored_words()


def test_a_deleted_message_leaves_the_stored_prompts(ana: Member, vibe: Agent, thread: Thread) -> None:
    secret = say(thread, ana, SECRET)
    run = ask(thread, ana)
    told(run, calling(LOOK), "I see.")
    told(ask(thread, ana), "I still see.")
    before = Snapshot.objects.order_by("pk").values_list("tokens", "included_count", "layers")
    counts = list(before)
    assert "tulip" in stored_words()

    delete_message(message=secret, by=access(ana))
    settle()

    assert "tulip" not in stored_words()
    assert list(before.all()) == counts
    view = read_snapshot(run, access(ana))
    assert view is not None
    items = {item.key: item for section in view.sections for item in section.items}
    assert items[f"message:{secret.pk}"].hidden == DELETED_REASON
    assert "[1 item" in "".join(message.content for message in view.messages)
    erasure = Erasure.objects.get()
    assert (erasure.finished_at is not None, erasure.texts) == (True, "")
    assert erasure.counts == {"stored prompts": 2}


def test_what_was_posted_while_the_clock_was_ahead_leaves_all_that_was_stored(
    ana: Member, vibe: Agent, thread: Thread, client_of: Callable[[Member], "Poster"]
) -> None:
    secret = Message.objects.get(pk=client_of(ana)(thread, SECRET, "k1")["id"])
    Message.objects.filter(pk=secret.pk).update(created_at=timezone.now() + timedelta(hours=2))
    told(ask(thread, ana), calling(LOOK), "I see.")
    quoting = say(thread, ana, f"As I wrote: {SECRET}")
    entry = make_entry(ana, "Vault", f"They say: {SECRET}")

    delete_message(message=secret, by=access(ana))
    settle()

    assert "tulip" not in stored_words()
    assert set(Quote.objects.values_list("kind", "ref")) == {("message", quoting.pk), ("entry", entry.pk)}


def test_a_dive_from_the_message_forgets_it_too(ana: Member, vibe: Agent, thread: Thread) -> None:
    secret = say(thread, ana, SECRET)
    dive = start_dive(source=secret, by=access(ana), agent=vibe.participant, body="Why?")
    told(Run.objects.get(thread=dive.thread), "Because.")
    assert "tulip" in stored_words()

    delete_message(message=secret, by=access(ana))
    settle()
    assert "tulip" not in stored_words()


def test_an_edited_message_leaves_only_what_still_stands(ana: Member, vibe: Agent, thread: Thread) -> None:
    message = say(thread, ana, SECRET)
    run = ask(thread, ana)
    told(run, "I see.")
    update_message(message=message, by=access(ana), body="The vault code is secret.")
    told(ask(thread, ana), "I see.")
    settle()

    assert "tulip" not in stored_words()
    assert "The vault code is secret." in stored_words()
    view = read_snapshot(run, access(ana))
    assert view is not None
    assert "tulip" not in "".join(message.content for message in view.messages)


def test_kept_answers_say_it_no_more(ana: Member, thread: Thread, client_of: Callable[[Member], "Poster"]) -> None:
    post = client_of(ana)
    first = post(thread, SECRET, "k1")
    other = post(thread, "Watering is due.", "k2")
    delete_message(message=Message.objects.get(pk=first["id"]), by=access(ana))
    settle()

    again = post(thread, SECRET, "k1")
    assert (again["id"], "tulip" in json.dumps(again)) == (first["id"], False)
    assert post(thread, "Watering is due.", "k2") == other
    assert Message.objects.filter(thread=thread).count() == 2


def test_kept_answers_show_erased_knowledge_no_more(ana: Member) -> None:
    client = APIClient()
    client.force_login(ana.user)
    headers = {"Idempotency-Key": "k1", "X-Workspace": ana.workspace.slug}

    def create() -> Any:
        body = {"topic": "The vault", "content": SECRET}
        response = client.post("/api/v1/knowledge/", body, format="json", headers=headers)
        assert response.status_code == 201, response.data
        return response.json()

    entry_id = create()["id"]
    erase_entry(entry=Entry.objects.get(pk=entry_id), by=access(ana))
    settle()
    again = create()
    assert (again["id"], again["topic"]) == (entry_id, f"Deleted {entry_id}")
    assert "tulip" not in stored_words()


@pytest.fixture
def client_of() -> Callable[[Member], Poster]:
    """Posts through the API with an Idempotency-Key."""

    def make(member: Member) -> Poster:
        client = APIClient()
        client.force_login(member.user)

        def post(thread: Thread, body: str, key: str) -> dict[str, Any]:
            answer = client.post(
                f"/api/v1/threads/{thread.pk}/messages/",
                {"body": body},
                format="json",
                headers={"Idempotency-Key": key, "X-Workspace": member.workspace.slug},
            )
            assert answer.status_code == 201, answer.content
            data: dict[str, Any] = answer.json()
            return data

        return post

    return make


@pytest.mark.django_db(transaction=True)
def test_a_message_deleted_while_the_agent_answers_is_in_no_further_turn(
    ana: Member, vibe: Agent, thread: Thread
) -> None:
    secret = say(thread, ana, SECRET)
    run = ask(thread, ana)

    def deleted() -> object:
        return delete_message(message=Message.objects.get(pk=secret.pk), by=access(ana))

    quoting = ("log_progress", {"checkpoint": "The vault code is tulip, the fourth drawer"})
    model = told(run, calling(LOOK), meanwhile(deleted, calling(quoting)), calling(LOG), "Done.")
    assert run.state == "done"
    for turn in model.calls[2:]:
        said = "\n".join(f"{message.content} {message.tool_calls}" for message in turn.messages)
        assert "tulip" not in said
    settle()
    assert "tulip" not in stored_words()
    assert list(run.tool_calls.order_by("id").values_list("decision", flat=True)) == ["allowed", "refused", "allowed"]


@pytest.mark.django_db(transaction=True)
def test_a_change_is_noticed_by_whatever_clock_it_is_dated(ana: Member, vibe: Agent, thread: Thread) -> None:
    secret = say(thread, ana, SECRET)
    edited = say(thread, ana, "The rose stands by the gate.")
    update_message(message=edited, by=access(ana), body="The rose stands by the wall.")
    Message.objects.filter(pk=edited.pk).update(edited_at=timezone.now() + timedelta(hours=1))
    run = ask(thread, ana)

    def deleted() -> object:
        delete_message(message=Message.objects.get(pk=secret.pk), by=access(ana))
        return Message.objects.filter(pk=secret.pk).update(deleted_at=timezone.now() - timedelta(hours=1))

    model = told(run, calling(LOG), meanwhile(deleted, calling(LOG)), "Done.")
    assert list(run.tool_calls.order_by("id").values_list("decision", flat=True)) == ["allowed", "refused"]
    assert "tulip" not in "".join(message.content for message in model.calls[2].messages)


@pytest.mark.django_db(transaction=True)
def test_an_answer_that_quotes_what_was_deleted_meanwhile_is_listed(
    ana: Member, dora: Member, vibe: Agent, thread: Thread
) -> None:
    secret = say(thread, dora, SECRET)
    run = ask(thread, ana)

    def deleted() -> object:
        delete_message(message=Message.objects.get(pk=secret.pk), by=access(dora))
        return erase_texts(now=timezone.now() + timedelta(minutes=1))

    told(run, meanwhile(deleted, calling(text=f"Dora said: {SECRET}")))
    assert Erasure.objects.get().finished_at is None  # it was still being written
    settle()

    assert Erasure.objects.get().finished_at is not None
    quote = Quote.objects.get()
    assert (quote.kind, quote.ref, quote.owner_id) == ("message", reply_of(run).pk, vibe.participant_id)


@pytest.mark.django_db(transaction=True)
def test_a_deleted_request_is_not_sent_again(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana, f"@vibe {SECRET}")

    def deleted() -> object:
        return delete_message(message=Message.objects.get(pk=run.trigger_id), by=access(ana))

    model = told(run, meanwhile(deleted, calling(LOOK)), "Done.")
    assert (run.state, run.error_code, len(model.calls)) == ("failed", "deleted", 1)
    settle()
    assert "tulip" not in stored_words()


def test_a_message_quoted_in_ten_places_is_found_in_all_of_them(
    ana: Member, dora: Member, vibe: Agent, thread: Thread
) -> None:
    secret = say(thread, dora, SECRET)
    for n in range(4):
        say(thread, ana, f"> {SECRET}\n\nReally, {n}?")
    elsewhere = make_thread(make_channel(ana, "den", private=True), ana)
    say(elsewhere, ana, "Dora says the vault code is tulip, the fourth drawer.")
    told(ask(thread, ana), f"Dora said: {SECRET}")
    make_entry(ana, "Vault", SECRET)
    sage = make_agent(ana, "sage", level=3, channel=thread.channel)
    make_suggestion(sage, "Code", SECRET, why="It was said.")
    WorkItemFactory.create(thread=thread, kind="todo", text=f"Change it: {SECRET}", author=ana.participant)
    say(thread, ana, "The code of the vault should be changed.")
    delete_message(message=secret, by=access(dora))
    settle()

    kinds = sorted(Quote.objects.values_list("kind", flat=True))
    assert kinds == ["entry"] * 2 + ["message"] * 6 + ["work"]
    assert "tulip" not in stored_words()
    assert Entry.objects.filter(content=SECRET).count() == 2


def test_an_erased_entry_is_named_in_no_stored_prompt(ana: Member, thread: Thread) -> None:
    """Whether it stood in the prompt, in the index of topics or among what was left out; by its former topic, too."""
    make_agent(ana, "fern", level=3, channel=thread.channel)
    entry = make_entry(ana, "Zinnia & cellar", "The code of the vault is tulip.")
    told(ask(thread, ana, "@fern what about roses?"), "Nothing.")
    entry = update_entry(entry=entry, by=access(ana), topic="The <oleander>")
    told(ask(thread, ana, "@fern what is the code of the vault?"), "I see it.")
    Entry.objects.filter(pk=entry.pk).update(expires_at=timezone.now() - timedelta(hours=1))
    told(ask(thread, ana, "@fern what is the code of the vault, then?"), "I do not know.")
    words = stored_words()
    assert (words.count("Zinnia"), words.count("tulip") > 0, words.count("oleander") > 3) == (2, True, True)

    erase_entry(entry=entry, by=access(ana))
    settle()

    assert not EntryErasure.objects.exists()
    assert not {"Zinnia", "oleander", "tulip"} & set(re.findall(r"\w+", stored_words()))


ZINNIAS = ("knowledge", {"action": "search", "query": "zinnia"})


def test_an_erased_entry_is_shown_to_nobody_before_the_job_took_it_out(ana: Member, thread: Thread) -> None:
    """The request only asks for it: how many prompts are stored costs it nothing."""
    make_agent(ana, "fern", level=3, channel=thread.channel)
    entry = make_entry(ana, "Zinnia", "The code of the vault is tulip.")
    make_entry(ana, "Rose", "Roses are pruned in March.")
    run = ask(thread, ana, "@fern what is the code of the vault?")
    told(run, calling(ZINNIAS), "I see.")
    Entry.objects.filter(pk=entry.pk).update(expires_at=timezone.now() - timedelta(hours=1))
    later = ask(thread, ana, "@fern what is the code of the vault, then?")
    told(later, "I do not know.")
    before = read_snapshot(run, access(ana))
    assert "tulip" in str(before)
    packed = dict(Snapshot.objects.values_list("pk", "content"))

    erase_entry(entry=entry, by=access(ana))

    assert {pk: bytes(content or b"") for pk, content in Snapshot.objects.values_list("pk", "content")} == {
        pk: bytes(content or b"") for pk, content in packed.items()
    }
    for each in (run, later):
        shown = str(read_snapshot(each, access(ana)))
        assert not {"Zinnia", "tulip"} & set(re.findall(r"\w+", shown))
        assert "Rose" not in shown
    erase_entries()
    assert EntryErasure.objects.exists()  # what is being written might still tell of it
    settle()
    assert not {"Zinnia", "tulip"} & set(re.findall(r"\w+", stored_words()))


def test_an_erased_entry_waits_for_runs_that_began_before(ana: Member, thread: Thread) -> None:
    """A prompt that was being made meanwhile is stored behind the first pass."""
    make_agent(ana, "fern", level=3, channel=thread.channel)
    entry = make_entry(ana, "Zinnia", "The code of the vault is tulip.")
    run = ask(thread, ana, "@fern what is the code of the vault?")
    told(run, "I see.")
    late = Snapshot.objects.get(run=run).content
    erase_entry(entry=entry, by=access(ana))
    Run.objects.filter(pk=run.pk).update(state=Run.State.READING)
    settle()
    Snapshot.objects.filter(run=run).update(content=late)

    assert "tulip" not in str(read_snapshot(run, access(ana)))
    Run.objects.filter(pk=run.pk).update(state=Run.State.DONE)
    settle()

    assert "tulip" not in stored_words()
    assert not EntryErasure.objects.exists()
