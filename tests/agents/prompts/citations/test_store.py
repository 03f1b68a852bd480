"""What answers cite is found at their runs' end, kept, and shown to whom may see it; it goes with what it tells of."""

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from agents.agent.access import visible_to
from agents.models import Agent, Citation, Run, Snapshot
from agents.prompts.citations.store import erase_citations_quoting, save_citations
from agents.prompts.snapshots.store import expire_records
from agents.runs.external.lifecycle import (
    ReportedUsage,
    assemble_for_session,
    begin_external_run,
    finish_external_run,
    keep_context,
)
from knowledge.models import Entry
from knowledge.services import erase_entry
from memory.work.services import create_work_item
from openvibe.base.quotation import Quotation
from openvibe.chat.models import Message, Thread
from openvibe.chat.queries import read_citations
from openvibe.chat.services import add_to_channel, delete_message, update_message
from openvibe.chat.wiring import Citation as ShownCitation
from openvibe.chat.wiring import ErasedText
from openvibe.workspaces.models import Member
from tests.agents.factories import CitationFactory
from tests.agents.runs.scripted_runs import ask, calling, reply_of, told
from tests.factories import access, attach, make_channel, make_entry, make_thread, say, signed_in


@pytest.fixture
def vibe(vibe: Agent) -> Agent:
    """Vibe at the level that reads shared knowledge."""
    Agent.objects.filter(pk=vibe.pk).update(level=3)
    vibe.refresh_from_db()
    return vibe


def cited(run: Run, reader: Member) -> list[ShownCitation]:
    reply = Message.objects.select_related("author").get(pk=reply_of(run).pk)
    return list(read_citations([reply], access(reader)).get(reply.pk, ()))


def words_of(run: Run, reader: Member) -> list[tuple[str, str]]:
    return [(one.words, one.label) for one in cited(run, reader)]


def page_of(run: Run, reader: Member) -> str:
    page = signed_in(reader).get(f"/w/{run.workspace.slug}/t/{run.thread_id}/")
    return page.content.decode().partition(f'data-id="{reply_of(run).pk}"')[2].partition("</li>\n<li")[0]


@pytest.fixture
def said(ana: Member, thread: Thread) -> Message:
    return say(thread, ana, "Row 3 needs mulch before the frost comes.")


def test_what_it_names_is_a_link_into_its_prompt(ana: Member, vibe: Agent, thread: Thread, said: Message) -> None:
    run = ask(thread, ana)
    told(run, "Mulch it first [message 1], and see message 9 and `message 1`.")
    assert words_of(run, ana) == [("[message 1]", "message 1")]
    [one] = cited(run, ana)
    assert (one.kind, one.ref, one.author) == ("message", said.pk, "Ana")
    context = f"/w/{ana.workspace.slug}/runs/{run.pk}/context/#item-message-{said.pk}"
    html = page_of(run, ana)
    marks = f'class="place-chip cite" data-reference="message-{said.pk}" data-panel="" dir="auto"'
    link = f'<a href="{context}" {marks}>message 1</a>'
    assert f"Mulch it first {link}, and see message 9 and <code>message 1</code>." in html
    assert signed_in(ana).get(context).status_code == 200


def test_entries_files_and_work_are_cited_by_name_and_number(ana: Member, vibe: Agent, thread: Thread) -> None:
    entry = make_entry(ana, "Mulch", "Bark mulch costs 4 euros a sack.")
    attach(thread, ana, "Look", **{"plan.txt": "Beds and mulch"})
    item = create_work_item(thread=thread, by=access(ana), kind="objective", text="A mulched garden")
    run = ask(thread, ana, "@vibe what does mulch cost?")
    told(run, f"See “mulch” [knowledge:{entry.pk}], plan.txt and work:{item.pk}.")
    assert words_of(run, ana) == [
        ("mulch", "Mulch"),
        (f"[knowledge:{entry.pk}]", "Mulch"),
        ("plan.txt", "plan.txt"),
        (f"work:{item.pk}", "A mulched garden"),
    ]
    browser = signed_in(ana)
    for one in cited(run, ana):
        assert browser.get(one.path).status_code == 200, one
        preview = browser.get(f"/w/{ana.workspace.slug}/previews/", {"ref": one.reference}).json()["previews"]
        assert "<time" in preview[one.reference], one


def test_what_it_repeats_without_naming_it_stands_numbered_under_it(
    ana: Member, vibe: Agent, thread: Thread, said: Message
) -> None:
    run = ask(thread, ana)
    told(run, "As row 3 needs mulch before the frost comes, begin now.")
    assert words_of(run, ana) == [("", "message 1")]
    html = page_of(run, ana)
    assert '<ol aria-label="Also used">' in html
    assert "Ana, message 1</a>" in html


def test_what_its_tools_returned_is_cited_too(ana: Member, vibe: Agent, thread: Thread) -> None:
    say(thread, ana, "The shears are behind the shed.")
    for number in range(120):
        say(thread, ana, f"Note {number} about the weather of a long and windy week. " * 12)
    run = ask(thread, ana)
    told(run, calling(("memory", {"action": "search", "query": "shears shed"})), "Behind the shed (#1).")
    assert ("#1", "message 1") in words_of(run, ana)


def test_a_private_place_is_a_link_to_its_members_alone(
    ana: Member, dora: Member, ben: Member, vibe: Agent, thread: Thread
) -> None:
    entry = make_entry(ana, "Budget plan of spring", "Four thousand euros.", visibility="restricted")
    add_to_channel(channel=thread.channel, participant=ben.participant, by=access(ana))
    run = ask(thread, ana, "@vibe hello")
    told(run, f"See [knowledge:{entry.pk}], the Budget plan of spring.")
    row = {"kind": "knowledge", "entry": entry, "ref": entry.pk, "item_key": f"knowledge:{entry.pk}"}
    CitationFactory.create(run=run, position=0, words=f"[knowledge:{entry.pk}]", **row)
    CitationFactory.create(run=run, position=1, **row)
    assert len(cited(run, ana)) == 2
    for reader in (dora, ben):
        assert cited(run, reader) == []
        html = page_of(run, reader)
        assert f"See [knowledge:{entry.pk}], the Budget plan of spring." in html
        assert "Also used" not in html
    assert f"knowledge-{entry.pk}" in page_of(run, ana)  # kept HTML is nobody else's
    assert f"knowledge-{entry.pk}" not in page_of(run, dora)


def test_a_message_of_another_private_thread_is_text_to_whoever_may_not_see_it(
    ana: Member, dora: Member, vibe: Agent, thread: Thread
) -> None:
    secret = say(make_thread(make_channel(ana, "secret", private=True), ana), ana, "A party!")
    run = ask(thread, ana)
    told(run, "As message 5 in thread 3 says.")
    CitationFactory.create(
        run=run, position=0, words="message 5 in thread 3", kind="message", message=secret, ref=secret.pk
    )
    assert words_of(run, dora) == []
    [one] = cited(run, ana)
    assert one.address == f"/w/{ana.workspace.slug}/m/{secret.pk}/"


def test_a_deleted_message_is_cited_by_nobody(ana: Member, vibe: Agent, thread: Thread, said: Message) -> None:
    run = ask(thread, ana)
    told(run, "Mulch it first [message 1].")
    delete_message(message=said, by=access(ana))
    assert not Citation.objects.exists()
    assert "Mulch it first [message 1]." in page_of(run, ana)


def test_a_deleted_answer_cites_nothing(ana: Member, vibe: Agent, thread: Thread, said: Message) -> None:
    run = ask(thread, ana)
    told(run, "Mulch it first [message 1].")
    delete_message(message=Message.objects.get(pk=reply_of(run).pk), by=access(ana))
    assert not Citation.objects.exists()


def test_an_erased_entry_leaves_no_words_of_it(ana: Member, vibe: Agent, thread: Thread) -> None:
    entry = make_entry(ana, "The secret of the roses", "Banana peel.")
    run = ask(thread, ana, "@vibe what is the secret of the roses?")
    told(run, "The secret of the roses is peel.")
    assert words_of(run, ana) == [("The secret of the roses", "The secret of the roses")]
    erase_entry(entry=Entry.objects.get(pk=entry.pk), by=access(ana))
    assert not Citation.objects.exists()


def test_words_that_repeat_an_erased_text_go(ana: Member, vibe: Agent, thread: Thread, said: Message) -> None:
    make_entry(ana, "The gate code of the shed is 4711", "It is.")
    run = ask(thread, ana, "@vibe what is the gate code of the shed?")
    told(run, "The gate code of the shed is 4711.")
    assert Citation.objects.exclude(words="").count() == 1
    quotation = Quotation(["The gate code of the shed is 4711"])
    place = {"message_id": said.pk, "thread_id": thread.pk, "workspace_id": thread.workspace_id, "seq": 1}
    erased = ErasedText(**place, quotable_since=said.created_at, erased_at=said.created_at, quotation=quotation)
    assert erase_citations_quoting(erased) == 1
    assert erase_citations_quoting(erased) == 0


def test_chips_stay_when_the_prompt_is_kept_no_more(ana: Member, vibe: Agent, thread: Thread, said: Message) -> None:
    run = ask(thread, ana)
    told(run, "Mulch it first [message 1].")
    Snapshot.objects.update(created_at="2020-01-01T00:00Z")
    expire_records()
    [one] = cited(run, ana)
    assert one.address == f"/w/{ana.workspace.slug}/m/{said.pk}/"
    assert f'<a href="{one.address}" class="place-chip cite"' in page_of(run, ana)


def test_an_agent_elsewhere_cites_what_it_was_shown(ana: Member, vibe: Agent, thread: Thread, said: Message) -> None:
    Agent.objects.filter(pk=vibe.pk).update(answers_itself=True)
    vibe.refresh_from_db()
    run = begin_external_run(agent=vibe, message=say(thread, ana, "@vibe and now?"))
    prompt = assemble_for_session(run=run, after_run=None, tools=())
    keep_context(run=run, prompt=prompt)
    finish_external_run(run=run, words="Mulch [message 1], not [message 77].", usage=ReportedUsage())
    run.refresh_from_db()
    assert words_of(run, ana) == [("[message 1]", "message 1")]


def test_an_answer_begun_anew_cites_what_its_last_attempt_said(
    ana: Member, vibe: Agent, thread: Thread, said: Message
) -> None:
    run = ask(thread, ana)
    told(run, "Mulch it first [message 1].")
    assert save_citations(run, "Nothing.") == 0
    assert save_citations(run, "[message 1], message 2") == 2
    assert [one.position for one in Citation.objects.all()] == [0, 1]


def test_markup_in_what_is_cited_is_text(ana: Member, vibe: Agent, thread: Thread) -> None:
    make_entry(ana, "<img src=x> & “roses”", "Nothing.")
    make_entry(ana, "\u202eevil roses 🦊🦊🦊", "Nothing.")
    run = ask(thread, ana, "@vibe what of roses?")
    told(
        run,
        'See "<img src=x> & “roses”" and “\u202eevil roses 🦊🦊🦊”, <script>alert(1)</script> [message 1]"onclick=x',
    )
    html = page_of(run, ana)
    assert "<img src=x" not in html
    assert "<script" not in html.partition('id="newer"')[0]
    assert 'dir="auto">evil roses 🦊🦊🦊</a>' in html


def test_a_page_of_answers_costs_what_one_costs(ana: Member, vibe: Agent, thread: Thread, said: Message) -> None:
    told(ask(thread, ana), "Mulch it first [message 1].")
    reader = access(ana)
    for answers in (1, 4):
        while Run.objects.count() < answers:
            told(ask(thread, ana), "Mulch it first [message 1], #general.")
        replies = list(Message.objects.select_related("author").filter(author=vibe.participant))
        reader.memo.pop("visibility", None)
        with CaptureQueriesContext(connection) as statements:
            assert len(read_citations(replies, reader)) == answers
        assert len(statements) == 2  # what she reaches, what is cited


def test_the_api_says_what_an_answer_cites(
    ana: Member, dora: Member, vibe: Agent, thread: Thread, said: Message
) -> None:
    run = ask(thread, ana)
    told(run, "Mulch it first [message 1]. Row 3 needs mulch before the frost comes.")
    client: Client = signed_in(dora)
    for address in (f"threads/{thread.pk}/messages/", "search/?q=mulch", f"messages/{reply_of(run).pk}/"):
        answer = client.get(f"/api/v1/{address}", headers={"X-Workspace": ana.workspace.slug}).json()
        rows = answer.get("results", [answer])
        [row] = [row for row in rows if row["id"] == reply_of(run).pk]
        [one] = row["citations"]
        assert one | {"url": ""} == {
            "text": "[message 1]",
            "is_named": True,
            "kind": "message",
            "id": said.pk,
            "url": "",
        }
        assert one["url"] == f"{settings.PUBLIC_URL}/w/{ana.workspace.slug}/m/{said.pk}/"


def test_an_edited_answer_cites_what_it_says_now(ana: Member, vibe: Agent, thread: Thread, said: Message) -> None:
    run = ask(thread, ana)
    told(run, "Mulch it first [message 1].")
    reply = Message.objects.get(pk=reply_of(run).pk)
    update_message(message=reply, by=visible_to(vibe), body="Ask Ana, message 2.")
    assert words_of(run, ana) == [("Ana, message 2", "message 2")]
