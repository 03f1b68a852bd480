"""The page *Where does it still stand?*: the page, the API, and what becomes of each place."""

from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from rest_framework.test import APIClient

from agents.agent.services import save_soul
from agents.models import Agent, Schedule
from agents.schedules.services import ScheduleDraft, create_schedule
from knowledge.models import Entry, Revision
from knowledge.services import update_entry
from memory.episodes.models import Proposal
from memory.work.models import ProgressEntry, WorkItem
from openvibe.chat.models import Message, Quote, Thread
from openvibe.chat.queries import access_quotes
from openvibe.chat.services import delete_message, erase_texts, publish_dive, set_instructions, start_dive
from openvibe.engines.llm.offline.drafts import ResultDraft
from openvibe.workspaces.models import Member
from openvibe.workspaces.services import create_snippet, update_workspace
from tests.factories import (
    SOUL,
    access,
    make_agent,
    make_channel,
    make_entry,
    make_suggestion,
    make_thread,
    say,
    signed_in,
)
from tests.memory.factories import BlockFactory, ProgressEntryFactory, WorkItemFactory

SECRET = "The vault code is tulip, the fourth drawer holds the key to it."


def page_of(message: Message, reader: Member, status: int = 200) -> str:
    answer = signed_in(reader).get(reverse("message-quotes", args=[reader.workspace.slug, message.pk]))
    assert answer.status_code == status
    return str(answer.content.decode())


def press(message: Message, by: Member, kind: str, ref: int, **button: str) -> Any:
    address = reverse("message-quotes", args=[by.workspace.slug, message.pk])
    return signed_in(by).post(address, {"kind": kind, "ref": str(ref), **button})


@pytest.fixture
def secret(dora: Member, thread: Thread) -> Message:
    return say(thread, dora, SECRET)


def test_it_is_listed_before_and_after_the_message_is_deleted(
    ana: Member, dora: Member, thread: Thread, secret: Message
) -> None:
    quoting = say(thread, ana, f"> {SECRET}")
    for _ in range(2):
        page = page_of(secret, dora)
        assert reverse("message", args=[ana.workspace.slug, quoting.pk]) in page
        assert "tulip" not in page or not Message.objects.get(pk=secret.pk).is_deleted
        delete_message(message=secret, by=access(dora))
    erase_texts()
    assert "Ana, message 2 in “Pruning”" in page_of(secret, dora)


def test_what_a_result_left_open_is_listed_too(ana: Member, vibe: Agent, thread: Thread) -> None:
    dive = start_dive(source=say(thread, ana, "What of the safe?"), by=access(ana), agent=vibe.participant)
    parts = ResultDraft("The safe", ("One.", "Two.", "Three."), "At length.", questions=(SECRET,))
    result = publish_dive(dive=dive, by=access(ana), result=parts)
    quoting = say(thread, ana, f"> {SECRET}")
    assert f"message {quoting.seq} in “Pruning”" in page_of(result, ana)


def test_what_stands_in_prompts_again_and_again_is_listed_too(
    ana: Member, dora: Member, thread: Thread, secret: Message
) -> None:
    """What a channel is for, instructions of channel and thread, and what agents are told on schedule."""
    den = make_channel(ana, "den", private=True)
    for channel, field in ((thread.channel, "description"), (den, "instructions")):
        setattr(channel, field, f"Remember: {SECRET}")
        channel.save()
    set_instructions(scope=thread, by=access(ana), text=f"Remember: {SECRET}")
    sage = make_agent(ana, "sage", level=3, channel=thread.channel)
    draft = ScheduleDraft("Vault", "0 12 * * *", "UTC", f"Say it: {SECRET}", thread.channel, thread)
    schedule = create_schedule(agent=sage, by=access(ana), draft=draft)
    page = page_of(secret, dora)
    places = ("Channel #general", "Instructions for agents in “Pruning”", "Schedule “Vault” of @sage")
    assert [place for place in places if place not in page] == []
    assert "#den" not in page
    delete_message(message=secret, by=access(dora))
    erase_texts()
    kinds = Quote.objects.order_by("kind", "ref").values_list("kind", "ref")
    channels = [("channel", pk) for pk in sorted((thread.channel_id, den.pk))]
    assert list(kinds) == [*channels, ("instructions", thread.pk), ("schedule", schedule.pk)]
    assert "Channel #den" in page_of(secret, ana)
    press(secret, ana, "schedule", schedule.pk)
    assert not Schedule.objects.exists()


def test_what_the_organisation_writes_and_each_soul_is_listed_too(
    ana: Member, dora: Member, thread: Thread, secret: Message
) -> None:
    """Snippets for admins alone, like their page."""
    update_workspace(workspace=ana.workspace, by=access(ana), description=SECRET, instructions=f"No: {SECRET}")
    create_snippet(workspace=ana.workspace, by=access(ana), name="vault", text=SECRET)
    sage = make_agent(ana, "sage", channel=thread.channel)
    for name, number in ((f'"{SECRET}"', 1), ('"Never lie to anybody"', 2), (f'"Say: {SECRET}"', 3)):
        text = SOUL.format(name="Sage").replace("Quote before you conclude", name)
        save_soul(agent=sage, by=access(ana), text=text, note="Another rule", based_on=number)
    slug = ana.workspace.slug
    page = page_of(secret, ana)
    links = [
        f'href="/w/{slug}/{rest}/"' for rest in ("settings/general", "settings/instructions", "snippets", "agents/sage")
    ]
    links.append(f'href="{reverse("agent-soul", args=[slug, "sage"])}"')
    titles = ["of the organisation", "Snippet “vault”", "SOUL of @sage, version 4", "SOUL of @sage, version 2"]
    assert [each for each in (*links, *titles) if each not in unescape(page)] == []
    assert "version 3" not in page
    hers = unescape(page_of(secret, dora))
    assert [title in hers for title in titles] == [True, False, True, True]
    assert reverse("agent-soul", args=[slug, "sage"]) not in hers
    delete_message(message=secret, by=access(dora))
    erase_texts()
    kinds = set(Quote.objects.values_list("kind", flat=True))
    assert kinds == {"description", "organisation", "snippet", "soul"}


def test_whoever_deletes_sees_only_places_she_may_see_and_the_owners_are_told(
    ana: Member, dora: Member, thread: Thread, secret: Message
) -> None:
    den = make_thread(make_channel(ana, "den", private=True), ana, "Plans")
    private_message = say(den, ana, f"Dora says: {SECRET}")
    delete_message(message=secret, by=access(dora))
    erase_texts()

    assert "Plans" not in page_of(secret, dora)
    assert "Plans" in page_of(secret, ana)
    inbox = signed_in(ana).get(f"/w/{ana.workspace.slug}/").content.decode()
    assert "says what stood in a message that was deleted" in inbox
    assert press(secret, ana, "message", private_message.pk).status_code == 302
    assert Message.objects.get(pk=private_message.pk).is_deleted
    assert "what stood in a message" not in signed_in(ana).get(f"/w/{ana.workspace.slug}/").content.decode()


def test_others_see_only_what_is_theirs(
    ana: Member, ben: Member, dora: Member, cleo: Member, thread: Thread, secret: Message
) -> None:
    thread.channel.memberships.create(participant=ben.participant)
    say(thread, ana, f"> {SECRET}")
    page_of(secret, ben, 404)
    own = say(thread, ben, f"{SECRET} Really?")
    page_of(secret, ben, 404)  # the message still stands: it is nobody's but hers
    delete_message(message=secret, by=access(dora))
    erase_texts()

    page = page_of(secret, ben)
    assert "Ben, message" in page
    assert "Ana, message" not in page
    assert press(secret, ben, "message", own.pk).status_code == 302
    page_of(secret, ben, 404)
    stranger = signed_in(cleo).get(reverse("message-quotes", args=[cleo.workspace.slug, secret.pk]))
    assert stranger.status_code == 404


def test_what_its_owner_keeps_is_not_asked_for_again(
    ana: Member, dora: Member, thread: Thread, secret: Message
) -> None:
    quoting = say(thread, ana, f"> {SECRET}")
    delete_message(message=secret, by=access(dora))
    erase_texts()
    press(secret, ana, "message", quoting.pk, keep="1")

    assert "what stood in a message" not in signed_in(ana).get(f"/w/{ana.workspace.slug}/").content.decode()
    assert "it stays, its owner says" in page_of(secret, dora)
    assert not Message.objects.get(pk=quoting.pk).is_deleted


def test_she_deletes_what_she_may_and_is_told_of_the_rest(
    ana: Member, dora: Member, vibe: Agent, thread: Thread, secret: Message
) -> None:
    others = say(thread, ana, f"> {SECRET}")
    entry, of_ana = make_entry(dora, "Vault", SECRET), make_entry(ana, "Safe", SECRET)
    update_entry(entry=entry, by=access(dora), content="It was changed.")
    suggestion = make_suggestion(vibe, "Code", SECRET, why="It was said.")
    todo = WorkItemFactory.create(thread=thread, kind="todo", text=SECRET, author=dora.participant)
    line = ProgressEntryFactory.create(thread=thread, checkpoint="Vault", changed=SECRET, author=vibe.participant)
    BlockFactory.create(agent=vibe.participant, label="team", content=SECRET, tokens=20)
    delete_message(message=secret, by=access(dora))
    erase_texts()
    page = page_of(secret, dora)
    assert "Context block “team”" in page
    assert "An admin can edit or delete the block." in page

    for kind, ref in (("entry", entry.pk), ("entry", suggestion.pk), ("work", todo.pk), ("progress", line.pk)):
        assert press(secret, dora, kind, ref).status_code == 302, kind
    refused = press(secret, dora, "message", others.pk)
    assert refused.status_code == 403
    assert "only what you wrote" in refused.content.decode()

    refused = press(secret, dora, "entry", of_ana.pk)
    assert refused.status_code == 403
    assert "its owner or an admin" in refused.content.decode()
    assert press(secret, ana, "entry", of_ana.pk).status_code == 302

    assert sorted(Quote.objects.values_list("kind", flat=True)) == ["block", "message"]
    assert not Entry.objects.filter(content__contains="tulip").exists()
    assert not [row for row in Revision.objects.all() if "tulip" in str(row.changes) + row.note]
    assert not WorkItem.objects.filter(text__contains="tulip").exists()
    assert not ProgressEntry.objects.exists()


def test_a_suggestion_of_an_agent_is_taken_back_by_an_admin(
    ana: Member, dora: Member, vibe: Agent, thread: Thread, secret: Message
) -> None:
    proposal = Proposal.objects.create(
        agent=vibe.participant, thread=thread, kind="episode", text=SECRET, because="A talk", since_seq=0, upto_seq=9
    )
    delete_message(message=secret, by=access(dora))
    erase_texts()
    assert "would learn" not in page_of(secret, dora)
    assert "What @vibe would learn" in page_of(secret, ana)
    press(secret, ana, "proposal", proposal.pk)
    assert not Proposal.objects.exists()


def test_the_api_tells_the_same(ana: Member, dora: Member, thread: Thread, secret: Message) -> None:
    quoting = say(thread, ana, f"> {SECRET}")
    mine = say(thread, dora, f"As I said: {SECRET}")
    client = APIClient()
    client.force_login(dora.user)
    headers = {"X-Workspace": dora.workspace.slug}
    address = f"/api/v1/messages/{secret.pk}/quotes/"
    before = client.get(address, headers=headers).json()
    assert (before["deleted_at"], before["finished"]) == (None, False)
    delete_message(message=secret, by=access(dora))
    erase_texts()

    after = client.get(address, headers=headers).json()
    assert before["quotes"] == after["quotes"]
    assert [(quote["ref"], quote["may_delete"]) for quote in after["quotes"]] == [(mine.pk, True), (quoting.pk, False)]
    assert client.delete(f"{address}message/{mine.pk}/", headers=headers).status_code == 204
    assert client.delete(f"{address}message/{quoting.pk}/", headers=headers).status_code == 403
    assert client.delete(f"{address}message/{mine.pk}/", headers=headers).status_code == 404
    assert client.delete(f"{address}spade/{mine.pk}/", headers=headers).status_code == 404


@pytest.mark.parametrize(
    "sent", [{}, {"kind": "message"}, {"kind": "\x00", "ref": "-1"}, {"kind": "spade", "ref": "1"}]
)
def test_a_place_that_is_none_is_unknown(dora: Member, secret: Message, sent: dict[str, str]) -> None:
    delete_message(message=secret, by=access(dora))
    address = reverse("message-quotes", args=[dora.workspace.slug, secret.pk])
    assert signed_in(dora).post(address, sent).status_code == 404


def test_many_places_cost_as_many_queries_as_one(ana: Member, dora: Member, thread: Thread, secret: Message) -> None:
    delete_message(message=secret, by=access(dora))
    text = SOUL.format(name="Sage").replace("Quote before you conclude", f'"{SECRET}"')
    counts: list[int] = []
    for _ in range(2):
        for number in range(3 if counts else 1):
            sage = make_agent(ana, f"sage-{len(counts)}-{number}")
            save_soul(agent=sage, by=access(ana), text=text, note="A rule", based_on=1)
            say(thread, ana, f"> {SECRET}")
            WorkItemFactory.create(thread=thread, kind="todo", text=SECRET, author=ana.participant)
        with CaptureQueriesContext(connection) as queries:
            page_of(secret, dora)
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_the_tombstone_leads_there_for_whom_it_is(ana: Member, dora: Member, thread: Thread, secret: Message) -> None:
    eve = signed_in(ana)
    delete_message(message=secret, by=access(dora))
    link = reverse("message-quotes", args=[ana.workspace.slug, secret.pk])
    assert link in eve.get(f"/w/{ana.workspace.slug}/t/{thread.pk}/").content.decode()
    assert link in signed_in(dora).get(f"/w/{ana.workspace.slug}/t/{thread.pk}/").content.decode()


GATE = "The gate code is QUOKKA-7731."


def test_rare_values_are_found_wherever_they_stand_reworded_or_not(ana: Member, dora: Member, thread: Thread) -> None:
    """Texts from before the message count, too: they still tell."""
    sage = make_agent(ana, "sage", channel=thread.channel)
    entry = make_entry(ana, topic="Gate", content="Opens with quokka 7731, until May.")
    far = say(make_thread(thread.channel, ana, "Deliveries"), ana, "They need QUOKKA 7731 at the ramp.")
    message = say(thread, dora, GATE)
    near = say(thread, ana, "I wrote QUOKKA-7731 on the door.")
    todo = WorkItemFactory.create(thread=thread, author=ana.participant, text="Change quokka7731 soon")
    block = BlockFactory.create(agent=sage.participant, content="When asked for the gate: QUOKKA-7731")
    before = {(view["kind"], view["ref"]) for view in _api_quotes(message, dora)}
    delete_message(message=message, by=access(dora))
    erase_texts()
    stored = set(Quote.objects.values_list("kind", "ref"))
    wanted = {("entry", entry.pk), ("message", far.pk), ("message", near.pk), ("work", todo.pk), ("block", block.pk)}
    assert stored == wanted
    assert before <= wanted
    page = page_of(message, ana)
    for title in ("Knowledge: “Gate”", "in “Deliveries”", "in “Pruning”", "Context block"):
        assert title in page
    Quote.objects.all().delete()


def test_values_that_stand_everywhere_and_names_of_people_here_are_no_trace(
    ana: Member, dora: Member, thread: Thread
) -> None:
    for at in range(45):
        say(thread, ana, f"Line {at}: build 2026-1 is red, Lisbon waits.")
    message = say(thread, dora, "Then Ana told Lisbon of build 2026-1 and of QUOKKA-7731.")
    say(thread, ana, "Ana here, good morning.")
    delete_message(message=message, by=access(dora))
    erase_texts()
    assert not Quote.objects.exists()


def _api_quotes(message: Message, reader: Member) -> list[dict[str, Any]]:
    return [
        {"kind": view.quote.kind, "ref": view.quote.ref} for view in access_quotes(access(reader), message.pk).quotes
    ]
