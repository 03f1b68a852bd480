"""What a run thinks and does, at its reply: folded, loaded when opened, live, as far as whoever reads may see it."""

import json
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.models import Agent, Run, RunStep, ToolCall, ToolSource
from agents.runs.step_words import call_words, reported_words, seconds_words
from agents.runs.thoughts import emit_step
from agents.web.run_cards import RunCard, runs_by_message
from openvibe.base.models import Event
from openvibe.chat.live.batch import EventRow, make_batch
from openvibe.chat.live.growing import ReplyProgress
from openvibe.chat.live.viewers import Viewer, refresh_viewers
from openvibe.chat.models import Message, Thread
from openvibe.chat.web.live import PageFrames
from openvibe.workspaces.models import Member
from tests import factories
from tests.agents.runs.scripted_runs import LOG, ask, calling, reply_of, told
from tests.engines.llm.scripted_client import ScriptedAnswer
from tests.factories import access, signed_in

HTMX = {"HX-Request": "true"}
SEARCH = ("memory", {"action": "search", "query": "mulch"})
TOOL = ScriptedAnswer("", calling(LOG).tool_calls, thoughts=("Zinnias first. ",), reasoning_tokens=7)


def card_of(run: Run, by: Member) -> RunCard:
    card: RunCard = runs_by_message([reply_of(run)], access(by))[reply_of(run).pk]["run"]
    return card


def page_of(by: Member, run: Run, what: str = "", status: int = 200, **headers: str) -> str:
    path = f"runs/{run.pk}/{what}" if what else f"m/{run.reply_id}/"
    response = signed_in(by).get(f"/w/{by.workspace.slug}/{path}", headers={**HTMX, **headers})
    assert response.status_code == status, response.content
    return response.content.decode()


@pytest.fixture
def run(ana: Member, vibe: Agent, thread: Thread) -> Run:
    run = ask(thread, ana)
    told(run, TOOL, "Noted.")
    return run


def test_a_reply_says_in_two_lines_what_was_thought_and_done(ana: Member, run: Run) -> None:
    page = page_of(ana, run)
    assert "Thought for under 1 s, 7 tokens" in page
    assert "1 step, under 1 s" in page
    assert "Zinnias" not in page
    assert "Bed 1 is mulched" not in page
    assert "run-now" not in page
    assert page.index("Thought for") < page.index('class="prose')


def test_folds_are_loaded_when_opened_and_are_pages_of_their_own(ana: Member, run: Run) -> None:
    thoughts = page_of(ana, run, "thoughts/")
    assert "Zinnias first." in thoughts
    assert "hx-get" not in thoughts
    steps = page_of(ana, run, "steps/")
    assert "Noted progress “Bed 1 is mulched”" in steps
    assert "checkpoint" in steps
    for what in ("thoughts/", "steps/"):
        whole = signed_in(ana).get(f"/w/{ana.workspace.slug}/runs/{run.pk}/{what}").content.decode()
        assert "<h1>Run of <bdi>Vibe</bdi></h1>" in whole


def test_who_does_not_see_the_reply_sees_no_thought(ana: Member, run: Run) -> None:
    outsider = factories.make_member("Zed")
    page = signed_in(outsider).get(f"/w/{ana.workspace.slug}/runs/{run.pk}/thoughts/", headers=HTMX)
    assert page.status_code == 404
    guest = factories.make_member("Gus", workspace=ana.workspace, role="guest")
    for what in ("thoughts/", "steps/"):
        page_of(guest, run, what, status=404)


def test_a_result_is_for_who_may_see_its_sources(ana: Member, run: Run) -> None:
    ben = factories.make_member("Ben", workspace=ana.workspace)
    ToolSource.objects.update(kind=ToolSource.Kind.NOTES, ref=ben.participant.pk)
    page = page_of(factories.make_member("Cleo", workspace=ana.workspace), run, "steps/")
    assert "mulched" not in page
    assert "Noted progress" in page
    assert "context-hidden" in page
    Run.objects.update(state="writing", finished_at=None)
    cleo = Member.objects.get(participant__name="Cleo")
    steps, own_steps = card_of(run, cleo).steps, card_of(run, ben).steps
    assert steps is not None
    assert own_steps is not None
    assert (steps.now, own_steps.now) == ("Noted progress", "Noted progress “Bed 1 is mulched”")


def test_a_refused_call_is_a_step_too(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    told(run, calling(("no_such_tool", {})), "Well.")
    page = page_of(ana, run, "steps/")
    assert "is-refused" in page
    assert "Was refused no_such_tool: " in page


def test_while_it_writes_the_newest_steps_stand_in_a_line(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    told(run, calling(LOG, SEARCH, SEARCH, SEARCH), "Noted.")
    Run.objects.update(state="writing", finished_at=None)
    steps = card_of(run, ana).steps
    assert steps is not None
    assert steps.now.count("Searched the conversation for “mulch”, ") == 3
    assert "Noted progress" not in steps.now
    assert "run-now" in page_of(ana, run)


def test_while_it_thinks_the_line_says_so_and_the_fold_asks_again(ana: Member, run: Run) -> None:
    Run.objects.update(state="writing", finished_at=None)
    RunStep.objects.update(state="running")
    page = page_of(ana, run)
    assert "Thinking…" in page
    assert 'data-ticking="' in page
    assert 'hx-trigger="load delay:1s"' in page_of(ana, run, "thoughts/")
    Run.objects.update(state="failed", error="The worker was lost.")
    assert "Thinking…" not in page_of(ana, run)


def rows_since(thread: Thread, position: int) -> list[EventRow]:
    rows = Event.objects.filter(pk__gt=position, thread_id=thread.pk).order_by("pk")
    return [EventRow(row.pk, *(getattr(row, name) for name in EventRow._fields[1:])) for row in rows]


def test_pages_hear_of_each_step_with_the_words_that_came_meanwhile(ana: Member, run: Run, thread: Thread) -> None:
    reply, viewer = reply_of(run), Viewer(ana.workspace_id, ana.participant_id)
    refresh_viewers([viewer])
    page = PageFrames(ana.workspace.slug, "UTC", frozenset({thread.pk}))

    def told_since(position: int, progress: dict[int, ReplyProgress]) -> list[dict[str, Any]]:
        batch = make_batch(ana.workspace_id, rows_since(thread, position))
        batch.progress, batch.wanted_ids = progress, frozenset({reply.pk})
        frames = [page.frame(event, viewer, batch).decode() for event in batch.events]
        return [json.loads(frame.partition("data: ")[2]) for frame in frames if frame]

    progress: dict[int, ReplyProgress] = {}
    Run.objects.update(state="writing", finished_at=None)
    position = Event.objects.latest("pk").pk
    Message.objects.filter(pk=reply.pk).update(state="writing", body="In")
    assert "html" in told_since(position, progress)[0]

    position = Event.objects.latest("pk").pk
    Message.objects.filter(pk=reply.pk).update(body="In March")
    assert told_since(position, progress)[0]["html"] == " March</p>\n"

    position = Event.objects.latest("pk").pk
    Message.objects.filter(pk=reply.pk).update(body="In March, before")
    run.refresh_from_db()
    emit_step(run)
    words, step = told_since(position, progress)
    assert "In March, before" in words["html"]
    assert "Noted progress “Bed 1 is mulched”" in words["html"]
    assert (step["kind"], "html" in step) == ("run_step", False)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("done", "Answered by beta, because alpha did not answer."),
        ("writing", "beta answers, because alpha did not."),
        ("failed", "beta was asked, too, because alpha did not answer."),
    ],
)
def test_nobody_is_said_to_have_answered_who_did_not(ana: Member, run: Run, state: str, words: str) -> None:
    error = "Both failed." if state == "failed" else ""
    Run.objects.update(state=state, error=error, model="beta", first_model="alpha")
    page = page_of(ana, run)
    assert words in page
    assert page.count("because alpha") == 1


def test_lines_cost_no_statement_more_for_many_replies(ana: Member, vibe: Agent, thread: Thread) -> None:
    counts, asker = [], access(ana)
    assert not Message.objects.visible_to(asker).exists()  # what it reads is looked up once a page
    for _ in range(3):
        run = ask(thread, ana)
        told(run, TOOL, "Noted.")
        replies = list(Message.objects.filter(run__isnull=False).select_related("author"))
        with CaptureQueriesContext(connection) as over:
            runs_by_message(replies, asker)
        Run.objects.filter(pk__lte=run.pk).update(state="waiting_approval")
        with CaptureQueriesContext(connection) as under_way:
            runs_by_message(replies, asker)
        Run.objects.filter(pk__lte=run.pk).update(state="done")
        counts.append((len(over), len(under_way)))
    assert counts == [(1, 2)] * 3


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            ("memory", '{"action": "search", "query": "mulch"}', "#4 Ana, noon: x\n#9 Ben: y"),
            "Searched the conversation for “mulch”, 2 found",
        ),
        (("memory", '{"action": "expand", "summary_id": 3}', "#4 Ana: x\n  more\n#30 Ben: y"), "Read messages 4 to 30"),
        (("memory", "{broken", ""), "Looked into its memory"),
        (
            ("knowledge_search", '{"query": "mulch"}', "knowledge:3 Ana: x\nknowledge:4 Ana: y"),
            "Searched knowledge for “mulch”, 2 found",
        ),
        (
            ("read_file", '{"id": 3}', "plan.md, characters 0 to 900 of 2,000. Go on"),
            "Read plan.md, characters 0 to 900",
        ),
        (("weather__forecast", "{}", ""), "Used forecast of weather"),
        (("load_skill", '{"name": "sk-abcdefghij0123456789ABCDEF"}', ""), "Took up the skill “[secret removed]”"),
        (("knowledge_search", json.dumps({"query": "w" * 300}), ""), f"Searched knowledge for “{'w' * 59}…”"),
        (("knowledge_search", '["no object"]', ""), "Searched knowledge"),
        (("memory", '{"action": ["x"]}', ""), "Looked into its memory"),
    ],
)
def test_words_of_calls(call: tuple[str, str, str], words: str) -> None:
    assert call_words(*call) == words


def test_words_of_refusals_reports_and_times() -> None:
    assert call_words("read_file", decision="refused", why="Too late. Ask again.") == "Was refused read_file: Too late."
    assert call_words("request_approval", '{"what": "Order bulbs"}', decision="waits") == "Asked people “Order bulbs”"
    assert call_words("post__send", decision="waits") == "Asked people about send of post"
    assert call_words("a__b", decision="waits") == "Asked people about b of a"
    assert call_words("a__b", is_under_way=True) == "Uses b of a…"
    assert reported_words("tool", "failed", "", "diary") == "Failed: Used diary"
    assert [seconds_words(n) for n in (0.2, 12.3, 150)] == ["under 1 s", "12 s", "2 min 30 s"]


def test_erased_calls_still_are_steps(ana: Member, run: Run) -> None:
    ToolCall.objects.update(arguments="", result="", why="")
    assert "Noted progress" in page_of(ana, run, "steps/")
