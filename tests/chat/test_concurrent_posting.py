"""One message is one statement: what holds when the same message comes twice, or several at once."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from agents.agent.services import save_soul, set_trust_level, update_daily_budgets
from agents.models import Agent, Run
from memory.plugins.services import configure_plugin
from openvibe.base.models import Event
from openvibe.chat.models import Message, ReadMarker, Thread
from openvibe.chat.services import DraftChanged, get_or_create_speaker, post_message, save_draft
from openvibe.workspaces.models import Member
from openvibe.workspaces.services import add_member, create_snippet
from tests.factories import SOUL, access, make_user, say


def posted(thread: Thread, by: Member, client_id: str) -> int:
    try:
        return post_message(thread=thread, by=access(by), body="Once, @ana", client_id=client_id).pk
    finally:
        connection.close()


@pytest.mark.django_db(transaction=True)
def test_the_same_message_from_five_at_once_is_one_message(ana: Member, thread: Thread) -> None:
    before = thread.messages.count()
    with ThreadPoolExecutor(5) as callers:
        message_ids = set(callers.map(lambda _: posted(thread, ana, "k"), range(5)))
    assert len(message_ids) == 1
    assert thread.messages.count() == before + 1
    assert Event.objects.filter(kind="message_posted", message_id__in=message_ids).count() == 1


@pytest.mark.django_db(transaction=True)
def test_messages_at_once_leave_no_gap(ana: Member, thread: Thread) -> None:
    first = say(thread, ana, "First").seq
    with ThreadPoolExecutor(4) as callers:
        list(callers.map(lambda n: posted(thread, ana, f"k{n // 2}"), range(8)))
    assert list(thread.messages.order_by("seq").values_list("seq", flat=True))[first - 1 :] == list(
        range(first, first + 5)
    )
    assert ReadMarker.objects.get(thread=thread, participant=ana.participant).last_read_seq == first + 4


def test_a_message_sent_again_touches_nothing(ana: Member, thread: Thread) -> None:
    first = post_message(thread=thread, by=access(ana), body="Once", client_id="k")
    save_draft(thread=thread, by=access(ana), body="The next thing")
    second_message = post_message(thread=thread, by=access(ana), body="Once more", client_id="k")
    assert (second_message.pk, second_message.body) == (first.pk, "Once")
    assert thread.drafts.get().body == "The next thing"


def try_to_save(thread: Thread, by: Member, body: str) -> str:
    try:
        save_draft(thread=thread, by=access(by), body=body)
    except DraftChanged as problem:
        return problem.text
    finally:
        connection.close()
    return ""


@pytest.mark.django_db(transaction=True)
def test_of_drafts_saved_at_once_one_stands_and_the_others_are_told(ana: Member, thread: Thread) -> None:
    with ThreadPoolExecutor(4) as callers:
        standing = list(callers.map(lambda n: try_to_save(thread, ana, f"Text {n}"), range(4)))
    body = thread.drafts.get().body
    assert sorted(standing) == sorted(["", body, body, body])
    assert standing[int(body[-1])] == ""


def test_the_message_that_comes_back_is_the_stored_one(ana: Member, thread: Thread) -> None:
    message = say(thread, ana, "Ask @ben and @nobody")
    stored = Message.objects.get(pk=message.pk)
    for field in ("seq", "author_id", "kind", "state", "body", "client_id", "token_count", "created_at"):
        assert getattr(message, field) == getattr(stored, field)
    message.save()
    assert thread.messages.filter(pk=message.pk).count() == 1


def test_a_message_is_one_statement_however_many_are_named(
    ana: Member, ben: Member, vibe: Agent, thread: Thread
) -> None:
    thread.channel  # noqa: B018  loaded by whoever found the thread
    for body in ("Nobody", "@ben", "@ben @ana"):
        with CaptureQueriesContext(connection) as queries:
            say(thread, ana, body)
        assert len(queries) == 1, [each["sql"] for each in queries.captured_queries]


def add_snippet(ana: Member, vibe: Agent) -> None:
    create_snippet(workspace=ana.workspace, by=access(ana), name="tone", text="Be brief.")


def let_somebody_in(ana: Member, vibe: Agent) -> None:
    add_member(workspace=ana.workspace, user=make_user("Ida"))


def name_a_speaker(ana: Member, vibe: Agent) -> None:
    get_or_create_speaker(ana.workspace, "Zoë")


def set_budgets(ana: Member, vibe: Agent) -> None:
    update_daily_budgets(workspace=ana.workspace, by=access(ana), tokens=9_000, agent_tokens={vibe.pk: 900})


def set_level(ana: Member, vibe: Agent) -> None:
    set_trust_level(agent=vibe, by=access(ana), level=3, note="It answers well.")


def save_a_soul(ana: Member, vibe: Agent) -> None:
    save_soul(agent=vibe, by=access(ana), text=SOUL.format(name="Vibe"), note="Anew", based_on=1)


def switch_plugin(ana: Member, vibe: Agent) -> None:
    configure_plugin(workspace=ana.workspace, name="memory/simple", config={}, by=access(ana))


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "change", [add_snippet, let_somebody_in, name_a_speaker, set_budgets, set_level, save_a_soul, switch_plugin]
)
def test_nobody_waits_with_a_message_for_a_change_of_settings(
    ana: Member, vibe: Agent, thread: Thread, change: Callable[[Member, Agent], None]
) -> None:
    """The change waits at its commit for the events of the message: waiting for one another, one of the two is lost."""

    def ask() -> str:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET lock_timeout = '5s'")
            return post_message(thread=thread, by=access(ana), body="@vibe when do I prune?").body
        finally:
            connection.close()

    with transaction.atomic():
        change(ana, vibe)
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(ask).result() == "@vibe when do I prune?"
    assert Run.objects.filter(thread=thread).count() == 1
