"""The button “This was wrong” beside knowledge in a reply's viewer: from there it waits for its owner, and leaves every
prompt."""

import pytest

from agents.agent.audience import CallSource, save_sources
from agents.models import Agent, Run, ToolCall
from agents.prompts.snapshots.redaction import CALL_QUOTES_KNOWLEDGE, visible_tool_calls
from agents.statistics.knowledge_uses import record_uses
from agents.web.knowledge_uses import used_entries
from knowledge.models import Entry, Notice, Revision
from knowledge.services import archive_entry
from openvibe.chat.models import Thread
from openvibe.chat.services import add_to_channel
from openvibe.workspaces.models import Member
from tests.factories import access, make_entry, say, signed_in

HTMX = {"HX-Request": "true"}


@pytest.fixture
def run(ana: Member, vibe: Agent, thread: Thread) -> Run:
    return Run.objects.get(trigger=say(thread, ana, "@vibe what does Starter cost?"))


@pytest.fixture
def entry(ana: Member, run: Run) -> Entry:
    """What Ana knows and the run had before it."""
    used_entry = make_entry(ana)
    record_uses(run=run, entry_ids=[used_entry.pk], how="prompt")
    return used_entry


def address(run: Run, entry: Entry) -> str:
    return f"/w/{run.workspace.slug}/runs/{run.pk}/wrong/{entry.pk}/"


def test_it_goes_to_review_with_the_reason_and_its_owner_is_told(dora: Member, run: Run, entry: Entry) -> None:
    page = signed_in(dora).post(address(run, entry), {"note": "It is $35."}, headers=HTMX).content.decode()

    entry.refresh_from_db()
    assert (entry.status, entry.reason, entry.reason_note) == ("needs_review", "wrong", "It is $35.")
    assert "Sent to review: Ana decides" in page
    assert "“It is $35.”" in page
    assert "<form" not in page
    assert Notice.objects.get().participant == entry.owner
    assert not Entry.objects.current().exists()


def test_said_twice_it_is_said_once(dora: Member, run: Run, entry: Entry) -> None:
    browser = signed_in(dora)
    first = browser.post(address(run, entry), {"note": "It is $35."}, headers=HTMX)
    second_response = browser.post(address(run, entry), {"note": ""}, headers=HTMX)

    assert second_response.content == first.content
    assert Revision.objects.filter(entry=entry, action="flagged").count() == 1


def test_without_javascript_it_leads_back_to_the_viewer(dora: Member, run: Run, entry: Entry) -> None:
    answer = signed_in(dora).post(address(run, entry), {"note": ""})

    assert answer.status_code == 302
    assert answer["Location"].endswith(f"/runs/{run.pk}/context/")


def test_what_was_typed_is_kept_when_it_cannot_be(dora: Member, run: Run, entry: Entry) -> None:
    page = signed_in(dora).post(address(run, entry), {"note": "x" * 2_001}, headers=HTMX).content.decode()

    assert 'role="alert"' in page
    assert "x" * 2_001 in page
    entry.refresh_from_db()
    assert entry.status == "active"


def test_what_holds_no_more_anyway_is_left_alone(ana: Member, dora: Member, run: Run, entry: Entry) -> None:
    archive_entry(entry=entry, by=access(ana))

    page = signed_in(dora).post(address(run, entry), {}, headers=HTMX).content.decode()

    assert "it is in no prompt" in page
    entry.refresh_from_db()
    assert entry.status == "archived"


def test_a_guest_looks_on(ben: Member, run: Run, entry: Entry) -> None:
    add_to_channel(channel=run.thread.channel, participant=ben.participant, by=access(entry.owner.member))
    (seen,) = used_entries(run, access(ben)).values()
    answer = signed_in(ben).post(address(run, entry), {})

    assert not seen.may_flag
    assert answer.status_code == 403
    entry.refresh_from_db()
    assert entry.status == "active"


def test_strangers_and_what_the_run_never_had_are_unknown(
    ana: Member, dora: Member, cleo: Member, run: Run, entry: Entry
) -> None:
    other = make_entry(ana, "Watering")
    restricted = make_entry(ana, "Salaries", visibility="restricted")
    record_uses(run=run, entry_ids=[restricted.pk], how="prompt")

    assert signed_in(cleo).post(address(run, entry)).status_code == 404
    assert signed_in(dora).post(address(run, other)).status_code == 404
    assert signed_in(dora).post(address(run, restricted)).status_code == 404
    assert signed_in(ana).post(address(run, restricted)).status_code == 302


def test_looking_changes_nothing(dora: Member, run: Run, entry: Entry) -> None:
    assert signed_in(dora).get(address(run, entry)).status_code == 405


def test_results_of_a_search_are_shown_to_who_may_read_all_of_it(
    ana: Member, dora: Member, run: Run, entry: Entry
) -> None:
    call = ToolCall.objects.create(
        run=run,
        attempt=1,
        round=1,
        call_id="c1",
        name="knowledge_search",
        arguments='{"query": "pay"}',
        decision="allowed",
        result="Starter costs $29 a month.",
    )
    save_sources(call, [CallSource("entry", entry.pk, entry.version)])
    (open_call,) = visible_tool_calls(run, access(dora))
    save_sources(call, [CallSource("entry", make_entry(ana, "Pay", visibility="restricted").pk, 1)])
    (closed_call,) = visible_tool_calls(run, access(dora))
    (ana_sees,) = visible_tool_calls(run, access(ana))

    assert open_call.result == ana_sees.result == "Starter costs $29 a month."
    assert (closed_call.hidden, closed_call.arguments, closed_call.result) == (CALL_QUOTES_KNOWLEDGE, "", "")


def test_the_tools_tab_lists_what_was_looked_up(ana: Member, dora: Member, answered: Run) -> None:
    looked_up = make_entry(ana, "Opening hours")
    record_uses(run=answered, entry_ids=[looked_up.pk], how="tool")

    page = signed_in(dora).get(f"/w/{answered.workspace.slug}/runs/{answered.pk}/context/tools/").content.decode()

    assert "Opening hours" in page
    assert address(answered, looked_up) in page
