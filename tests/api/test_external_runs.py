"""Agents that answer themselves: they begin a run, read, write their reply as it grows, and end it, over the API."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django.fixtures import Settings

from agents.agent.services import deactivate_agent
from agents.agent.token_budgets import tokens_used_today
from agents.models import Agent, Run
from agents.runs.executor import execute_run
from agents.runs.lifecycle import stop_run
from agents.runs.recovery import recover_runs
from memory.episodes.models import Episode
from openvibe.api.models import Token
from openvibe.chat.api.event_frames import event_kind
from openvibe.chat.live.batch import read_batch
from openvibe.chat.live.viewers import Viewer, refresh_viewers
from openvibe.chat.models import Channel, Dive, Message, Thread
from openvibe.chat.services import delete_message, set_thread_access, start_dive, update_message
from openvibe.engines.text.cleaning import MAX_BODY_CHARACTERS
from openvibe.webhooks.models import Delivery, Webhook
from openvibe.workspaces.models import Member
from tests import factories
from tests.api.client import Api, is_problem
from tests.api.conftest import Enter
from tests.factories import access, say


@pytest.fixture
def reed(ana: Member, channel: Channel) -> Agent:
    return factories.make_agent(ana, "reed", channel=channel, answers_itself=True)


@pytest.fixture
def api(reed: Agent, by_token: Enter) -> Api:
    return by_token(reed.participant)


@pytest.fixture
def question(ana: Member, reed: Agent, thread: Thread) -> Message:
    return say(thread, ana, "@reed when do I prune?")


@pytest.fixture
def run(api: Api, question: Message) -> Run:
    return Run.objects.get(pk=begin(api, question)["id"])


def begin(api: Api, message: Message) -> dict[str, Any]:
    answer = api.post("runs/", {"message": message.pk})
    assert answer.status_code == 201, answer.json()
    body: dict[str, Any] = answer.json()
    return body


def write(api: Api, run: Run, offset: int, words: str, attempt: int = 1) -> tuple[int, object]:
    answer = api.patch(f"runs/{run.pk}/reply/", {"attempt": attempt, "offset": offset, "body": words})
    body = answer.json()
    return (200, (body["state"], body["length"])) if answer.status_code == 200 else (answer.status_code, body["code"])


def finish(api: Api, run: Run, attempt: int = 1, **body: object) -> tuple[int, str]:
    answer = api.post(f"runs/{run.pk}/finish/", {"attempt": attempt, **body})
    return answer.status_code, answer.json().get("state") or answer.json()["code"]


def steps_of(api: Api, run: Run) -> list[str]:
    return [event["text"] for event in api.get(f"runs/{run.pk}/").json()["events"]]


def reply_of(run: Run) -> tuple[str, str, str]:
    run.refresh_from_db()
    return run.state, run.reply.body if run.reply else "", run.reply.state if run.reply else ""


def test_a_reply_grows_as_its_agent_writes_and_is_counted_once(api: Api, reed: Agent, run: Run) -> None:
    assert reply_of(run) == ("reading", "", "")
    assert write(api, run, 0, "") == (200, ("reading", 0))
    assert write(api, run, 0, "In ") == (200, ("writing", 3))
    assert write(api, run, 3, "March.") == write(api, run, 3, "March.") == (200, ("writing", 9))
    assert reply_of(run) == ("writing", "In March.", "writing")
    assert write(api, run, 0, "In March. Or") == (200, ("writing", 12))

    for _ in range(2):
        assert finish(api, run, body="In March.", model="own-7b", input_tokens=90) == (200, "done")

    assert reply_of(run) == ("done", "In March.", "complete")
    assert (run.model, run.input_tokens, run.output_tokens) == ("own-7b", 90, 3)
    assert tokens_used_today(agent=reed) == 93
    assert Message.objects.filter(author=reed.participant).count() == 1
    assert write(api, run, 9, " Late.") == (409, "run_over")
    assert steps_of(api, run) == ["Ana asked", "Taken up", "The model answered", "Done"]


def test_words_that_do_not_follow_are_not_taken(api: Api, run: Run) -> None:
    write(api, run, 0, "In March.")
    for offset, words in ((12, "Gap"), (0, "In April."), (3, "March?"), (9, "x" * MAX_BODY_CHARACTERS)):
        status, code = write(api, run, offset, words)
        assert (status, code) in ((409, "wrong_offset"), (400, "too_long"))
    assert write(api, run, 9, "\x00") == (400, "bad_characters")
    assert reply_of(run) == ("writing", "In March.", "writing")


def test_a_message_is_answered_once_whatever_begins_it(api: Api, ana: Member, run: Run, question: Message) -> None:
    later = say(question.thread, ana, "@reed and the ivy?")
    for message in (question, later):
        assert is_problem(api.post("runs/", {"message": message.pk}), 409, "being_written")
    assert finish(api, run) == finish(api, run, body="\u200b") == (400, "empty")
    finish(api, run, body="In March.")
    assert is_problem(api.post("runs/", {"message": question.pk}), 409, "answered")
    begin(api, later)


def test_stop_ends_it_at_once_and_its_agent_is_told(api: Api, ana: Member, run: Run) -> None:
    write(api, run, 0, "In Mar")
    stop_run(run=run, by=access(ana))
    assert reply_of(run) == ("stopped", "In Mar", "stopped")
    assert steps_of(api, run)[-1] == "Stopped by Ana"
    assert write(api, run, 6, "ch.") == (200, ("stopped", 6))
    assert finish(api, run, body="In March.") == (200, "stopped")
    assert reply_of(run) == ("stopped", "In Mar", "stopped")


def test_whoever_falls_silent_fails_with_its_words_kept_and_may_begin_anew(
    api: Api, run: Run, question: Message
) -> None:
    write(api, run, 0, "In Mar")
    recover_runs()
    assert reply_of(run)[0] == "writing"
    Run.objects.update(heard_at=timezone.now() - timedelta(minutes=2))
    assert recover_runs() == []
    assert reply_of(run) == ("failed", "In Mar", "failed")
    assert "fell silent" in run.error
    assert write(api, run, 6, "ch.") == (409, "run_over")

    assert begin(api, question)["attempt"] == 2
    assert write(api, run, 6, "ch.") == (409, "run_over")
    assert write(api, run, 0, "In April.", attempt=2) == (200, ("writing", 9))
    assert finish(api, run, attempt=2) == (200, "done")
    assert reply_of(run) == ("done", "In April.", "complete")


def test_each_prompt_counts_once_whatever_attempts_there_are(api: Api, run: Run, question: Message) -> None:
    def end(attempt: int, **body: object) -> int:
        assert finish(api, run, attempt=attempt, **body)[0] == 200
        run.refresh_from_db()
        return run.input_tokens

    def read_context(attempt: int) -> int:
        tokens: int = api.post(f"runs/{run.pk}/context/", {"attempt": attempt}).json()["tokens"]
        return tokens

    first = read_context(1)
    assert read_context(1) == first
    assert end(1, error="Away.") == first > 0
    begin(api, question)
    assert end(2, error="Away again.") == first
    begin(api, question)
    second = read_context(3)
    assert end(3, error="Once more.") == first + second
    begin(api, question)
    assert end(4, body="In March.", input_tokens=7) == first + second + 7


def test_a_failure_is_told_in_words_without_secrets(api: Api, run: Run) -> None:
    write(api, run, 0, "In Mar")
    assert finish(api, run, error="exit code 1: bad key sk-abcdefghijklmnopqrstuv") == (200, "failed")
    assert reply_of(run) == ("failed", "In Mar", "failed")
    assert (run.error_code, run.error) == ("agent_failed", "exit code 1: bad key [secret removed]")


def test_an_answer_that_comes_with_an_error_is_not_dropped_unread(api: Api, run: Run) -> None:
    assert finish(api, run, body="In March.", error="Half of it is missing.") == (400, "invalid")
    assert finish(api, run, body="In March.", error=None) == (200, "done")


def test_a_run_that_failed_and_is_begun_anew_lost_no_worker(api: Api, run: Run, question: Message) -> None:
    assert finish(api, run, error="The model is down.") == (200, "failed")
    assert begin(api, question)["attempt"] == 2
    events = api.get(f"runs/{run.pk}/").json()["events"]
    assert [(event["text"], event["detail"]) for event in events[-2:]] == [
        ("Failed", "The model is down."),
        ("Taken up", "attempt 2"),
    ]


def test_no_empty_request_is_read_once_the_message_was_deleted(
    api: Api, ana: Member, run: Run, question: Message
) -> None:
    assert api.post(f"runs/{run.pk}/context/", {"attempt": 1}).status_code == 200
    delete_message(message=question, by=access(ana))
    assert is_problem(api.post(f"runs/{run.pk}/context/", {"attempt": 1}), 409, "deleted")
    recover_runs()
    assert "deleted" in Run.objects.get(pk=run.pk).error


def test_a_thread_closed_meanwhile_ends_it_and_says_so(api: Api, ana: Member, run: Run, thread: Thread) -> None:
    write(api, run, 0, "In Mar")
    set_thread_access(thread=thread, by=access(ana), access="human_only")
    assert write(api, run, 6, "ch.") == (404, "not_found")
    recover_runs()
    assert reply_of(run) == ("failed", "In Mar", "failed")
    assert "for people only" in run.error


def test_what_it_reads_is_kept_and_carries_feedback(
    api: Api, ana: Member, by_token: Enter, run: Run, question: Message
) -> None:
    finish(api, run, body="In March.")
    assert run.pk == Run.objects.get().pk
    reply = Message.objects.get(run=run)
    by_token(ana.participant).post("feedback/", {"message": reply.pk, "verdict": "down", "text": "Name the roses."})
    second = Run.objects.get(pk=begin(api, say(question.thread, ana, "@reed and now?"))["id"])

    prompt = api.post(f"runs/{second.pk}/context/", {"attempt": 1}).json()

    assert "Name the roses." in str(prompt["messages"])
    assert prompt["tokens"] == second.snapshot.tokens
    assert Episode.objects.get(feedback__message=reply).prompt_count == 1
    assert api.get(f"runs/{second.pk}/context/").json()["messages"] == prompt["messages"]


def test_it_answers_all_that_is_said_in_its_dive_and_where_it_follows(
    api: Api, ana: Member, reed: Agent, thread: Thread, by_token: Enter
) -> None:
    thread.following_agents.add(reed.participant)
    message = say(thread, ana, "Roses are red.")
    assert begin(api, message)["task"] == "thread"
    body = {"message": message.pk, "agent": "reed", "body": "Every rose?"}
    dive = by_token(ana.participant).post("dives/", body).json()
    run = Run.objects.get(pk=begin(api, Message.objects.filter(thread=dive["thread"])[0])["id"])
    write(api, run, 0, "Not wh")
    by_token(ana.participant).post(f"dives/{dive['id']}/discard/")
    assert (run.task, reply_of(run)) == ("dive", ("stopped", "Not wh", "stopped"))


def test_who_may_begin(api: Api, ana: Member, reed: Agent, vibe: Agent, thread: Thread, by_token: Enter) -> None:
    unnamed, other = say(thread, ana, "Roses are red."), say(thread, ana, "@reed @vibe both?")
    assert is_problem(api.post("runs/", {"message": unnamed.pk}), 403, "not_addressed")
    assert is_problem(by_token(vibe.participant).post("runs/", {"message": other.pk}), 403, "answered_here")
    assert is_problem(by_token(ana.participant).post("runs/", {"message": other.pk}), 403, "not_allowed")
    run = Run.objects.get(pk=begin(api, other)["id"])
    assert write(by_token(vibe.participant), run, 0, "Mine!") == (404, "not_found")
    reed.daily_token_budget = 0
    reed.save()
    finish(api, run, body="Yes.")
    response = api.post("runs/", {"message": say(thread, ana, "@reed again?").pk})
    assert is_problem(response, 403, "agent_silent")


def test_what_an_agent_says_it_used_is_at_most_its_own_budget(api: Api, reed: Agent, run: Run) -> None:
    """A lie would otherwise keep all agents of the workspace silent until midnight."""
    most = 100_000_000
    assert finish(api, run, error="Away.", input_tokens=most, output_tokens=most)[0] == 200
    assert tokens_used_today(agent=reed) == 2 * reed.daily_token_budget < reed.workspace.daily_token_budget


def test_nothing_is_written_into_a_reply_that_was_deleted(ana: Member, api: Api, run: Run, question: Message) -> None:
    write(api, run, 0, "In Mar")
    finish(api, run, error="The line broke.")
    run.refresh_from_db()
    assert run.reply is not None
    delete_message(message=run.reply, by=access(ana))
    assert begin(api, question)["attempt"] == 2
    assert write(api, run, 0, "In March.", attempt=2) == (409, "deleted")
    assert finish(api, run, attempt=2, body="In March.") == (409, "deleted")
    assert finish(api, run, attempt=2, error="Nothing can be said.") == (200, "failed")
    assert reply_of(run) == ("failed", "", "failed")


# --- what people ask for besides: another try, another answer, a draft ---------------------------------------


@pytest.fixture
def by_ana(ana: Member, by_token: Enter) -> Api:
    return by_token(ana.participant)


def asked_kinds(agent: Agent, message: Message) -> list[str]:
    """What the agent's own event stream tells of the message, as `mention`s and the like."""
    viewer = Viewer(agent.workspace_id, agent.participant_id)
    refresh_viewers([viewer])
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # events are numbered, as at the commit
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")
    events = [event for event in read_batch(agent.workspace_id, after=0).events if viewer.sees(event)]
    return [event_kind(event, agent.participant_id) for event in events if event.message_id == message.pk]


def test_retry_asks_the_agent_again_and_its_reply_is_written_anew(
    api: Api, by_ana: Api, reed: Agent, run: Run, question: Message
) -> None:
    write(api, run, 0, "In Mar")
    finish(api, run, error="The model is away.")
    before = asked_kinds(reed, question).count("mention")
    response = by_ana.post(f"runs/{run.pk}/retry/")
    assert (response.status_code, response.json()["state"]) == (202, "queued")
    assert asked_kinds(reed, question).count("mention") == before + 1
    assert reply_of(run) == ("queued", "In Mar", "failed")
    assert execute_run(run.pk) is None
    assert api.get("runs/?state=queued").json()["results"][0]["trigger"] == question.pk

    assert begin(api, question)["attempt"] == 2
    write(api, run, 0, "In March.", attempt=2)
    finish(api, run, attempt=2)
    assert reply_of(run) == ("done", "In March.", "complete")
    assert steps_of(api, run)[3:6] == ["Failed", "Ana tried it again", "Taken up"]


def test_a_stopped_answer_can_be_tried_again_too(api: Api, by_ana: Api, run: Run, question: Message) -> None:
    by_ana.post(f"runs/{run.pk}/stop/")
    assert is_problem(api.post("runs/", {"message": question.pk}), 409, "answered")
    by_ana.post(f"runs/{run.pk}/retry/")
    assert begin(api, question)["state"] == "reading"


def test_regenerate_is_a_run_of_its_own_and_keeps_the_answer(
    api: Api, by_ana: Api, reed: Agent, run: Run, question: Message
) -> None:
    finish(api, run, body="In March.")
    answers = [by_ana.post(f"runs/{run.pk}/regenerate/") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [202, 202]
    again = Run.objects.get(pk=answers[0].json()["id"])
    assert answers[1].json()["id"] == again.pk
    assert asked_kinds(reed, question).count("mention") == 2

    begun = begin(api, question)
    assert (begun["id"], begun["regenerates"], begun["state"]) == (again.pk, run.pk, "reading")
    finish(api, again, body="In April.")
    assert (reply_of(run)[1], reply_of(again)[1]) == ("In March.", "In April.")
    assert is_problem(api.post("runs/", {"message": question.pk}), 409, "answered")
    assert is_problem(api.post(f"runs/{run.pk}/regenerate/"), 403, "not_allowed")


def test_one_answer_at_a_time_and_what_waits_holds_up_no_other(
    api: Api, by_ana: Api, ana: Member, run: Run, question: Message
) -> None:
    finish(api, run, body="In March.")
    again = by_ana.post(f"runs/{run.pk}/regenerate/").json()
    other = begin(api, say(question.thread, ana, "@reed and the ivy?"))
    assert is_problem(api.post("runs/", {"message": question.pk}), 409, "being_written")
    api.post(f"runs/{other['id']}/finish/", {"attempt": 1, "body": "In June."})
    assert begin(api, question)["id"] == again["id"]


def test_nobody_begins_in_time_and_people_read_why(
    api: Api, by_ana: Api, run: Run, question: Message, settings: Settings
) -> None:
    settings.AGENT_BEGIN_MINUTES = 3
    write(api, run, 0, "In Mar")
    finish(api, run, error="The model is away.")
    used = Run.objects.get().input_tokens
    by_ana.post(f"runs/{run.pk}/retry/")
    Run.objects.update(heard_at=timezone.now() - timedelta(minutes=2.9))
    assert recover_runs() == []
    assert reply_of(run)[0] == "queued"
    Run.objects.update(heard_at=timezone.now() - timedelta(minutes=3.1))
    assert recover_runs() == []
    assert reply_of(run) == ("failed", "In Mar", "failed")
    assert (run.error_code, run.input_tokens) == ("not_begun", used)
    assert "did not begin within 3 min" in run.error
    assert begin(api, question)["state"] == "reading"  # late is better than never


def test_what_waits_can_be_stopped(api: Api, by_ana: Api, run: Run, question: Message) -> None:
    finish(api, run, body="In March.")
    again = by_ana.post(f"runs/{run.pk}/regenerate/").json()["id"]
    assert by_ana.post(f"runs/{again}/stop/").json()["state"] == "stopped"
    assert is_problem(api.post("runs/", {"message": question.pk}), 409, "answered")


def test_an_agent_that_is_answered_here_by_now_is_tried_here(by_ana: Api, api: Api, reed: Agent, run: Run) -> None:
    finish(api, run, error="The model is away.")
    by_ana.post(f"runs/{run.pk}/retry/")
    Agent.objects.update(answers_itself=False)
    recover_runs()
    assert reply_of(run)[0] == "failed"
    assert "written here" in run.error
    by_ana.post(f"runs/{run.pk}/retry/")
    run.refresh_from_db()
    assert (run.state, run.is_external) == ("queued", False)


def test_what_was_deleted_meanwhile_is_not_begun(
    api: Api, by_ana: Api, ana: Member, run: Run, question: Message
) -> None:
    finish(api, run, error="The model is away.")
    by_ana.post(f"runs/{run.pk}/retry/")
    delete_message(message=question, by=access(ana))
    assert is_problem(api.post("runs/", {"message": question.pk}), 409, "deleted")
    recover_runs()
    assert reply_of(run)[0] == "failed"


@pytest.fixture
def dive(ana: Member, reed: Agent, thread: Thread) -> Dive:
    return start_dive(source=say(thread, ana, "Roses are red."), by=access(ana), agent=reed.participant)


DRAFT = "## Headline\nMarch\n## Key points\n- One\n- Two\n- Three\n## Full text\nAll of it"


def test_a_dive_s_draft_is_asked_of_the_agent(api: Api, by_ana: Api, reed: Agent, dive: Dive) -> None:
    asked = Message.objects.get(pk=by_ana.post(f"dives/{dive.pk}/draft/").json()["id"])
    assert is_problem(by_ana.post(f"dives/{dive.pk}/draft/"), 409, "being_written")
    assert asked_kinds(reed, asked).count("mention") == 1
    begun = begin(api, asked)
    assert begun["task"] == "publish"
    prompt = api.post(f"runs/{begun['id']}/context/", {"attempt": 1}).json()
    assert (prompt["tools"], "## Headline" in str(prompt["messages"])) == ([], True)

    assert finish(api, Run.objects.get(), body=DRAFT) == (200, "done")
    assert by_ana.get(f"dives/{dive.pk}/draft/").json()["draft"]["headline"] == "March"


def test_a_draft_that_is_posted_as_a_message_is_the_answer(api: Api, by_ana: Api, dive: Dive) -> None:
    api.post(f"threads/{dive.thread_id}/messages/", {"body": "Before."})
    by_ana.post(f"dives/{dive.pk}/draft/")
    recover_runs()
    assert Run.objects.get().state == "queued"
    api.post(f"threads/{dive.thread_id}/messages/", {"body": DRAFT})
    recover_runs()
    assert reply_of(Run.objects.get())[:2] == ("done", DRAFT)


def test_a_draft_nobody_writes_holds_up_no_publishing(by_ana: Api, dive: Dive) -> None:
    by_ana.post(f"dives/{dive.pk}/draft/")
    result = {"headline": "March", "bullets": ["One", "Two", "Three"]}
    assert by_ana.post(f"dives/{dive.pk}/publish/", result).status_code == 201
    assert Run.objects.get().state == "stopped"


# --- what is asked while its program does not run -----------------------------------------------------------


def wait_for(seconds: float) -> None:
    """Lets so much time pass for what waits; then the sweep looks."""
    for run in Run.objects.filter(state="queued"):
        Run.objects.filter(pk=run.pk).update(heard_at=run.heard_at and run.heard_at - timedelta(seconds=seconds))
    for token in Token.objects.exclude(last_used_at=None):
        at = token.last_used_at and token.last_used_at - timedelta(seconds=seconds)
        Token.objects.filter(pk=token.pk).update(last_used_at=at)
    recover_runs()


def waits(run: Run) -> tuple[str, str]:
    run.refresh_from_db()
    return run.state, run.error_code


def events_about(message: Message) -> list[str]:
    number_events()
    events = read_batch(message.thread.workspace_id, after=0).events
    return [event.kind for event in events if event.message_id == message.pk and event.kind == "run_changed"]


def number_events() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")


def test_a_mention_that_nobody_begins_says_so_within_a_minute_and_fails_after_five(
    api: Api, by_ana: Api, reed: Agent, question: Message
) -> None:
    run = Run.objects.get(trigger=question)
    assert (run.state, run.task, run.attempt, run.is_external) == ("queued", "mention", 0, True)
    assert asked_kinds(reed, question).count("mention") == 1, "told once, by the message itself"
    assert execute_run(run.pk) is None
    wait_for(40)
    assert (waits(run), events_about(question)) == (("queued", ""), ["run_changed"])
    wait_for(15)
    assert (waits(run), events_about(question)) == (("queued", "not_connected"), ["run_changed"] * 2)
    wait_for(10)
    assert len(events_about(question)) == 2, "told once"
    row = by_ana.get(f"runs/{run.pk}/").json()
    assert (row["state"], row["error_code"]) == ("queued", "not_connected")
    assert "up to 5 min" in row["error"]
    wait_for(240)
    assert waits(run) == ("failed", "not_begun")
    assert "press Retry" in run.error

    assert by_ana.post(f"runs/{run.pk}/retry/").json()["error_code"] == ""
    assert asked_kinds(reed, question).count("mention") == 2
    assert begin(api, question)["id"] == run.pk
    assert finish(api, run, body="In March.") == (200, "done")
    assert Run.objects.count() == 1


def test_a_program_that_comes_back_in_time_finds_what_waits_and_answers_it_once(
    api: Api, reed: Agent, question: Message
) -> None:
    run = Run.objects.get(trigger=question)
    wait_for(60)
    assert waits(run) == ("queued", "not_connected")
    (waiting,) = api.get("runs/?state=queued").json()["results"]
    recover_runs()
    assert (waits(run), run.error) == (("queued", ""), ""), "it was heard"
    assert begin(api, Message.objects.get(pk=waiting["trigger"]))["error_code"] == ""
    assert is_problem(api.post("runs/", {"message": question.pk}), 409, "being_written")
    assert finish(api, run, body="In March.") == (200, "done")
    assert is_problem(api.post("runs/", {"message": question.pk}), 409, "answered")


def test_an_answer_after_the_failure_is_the_answer(api: Api, question: Message) -> None:
    run = Run.objects.get(trigger=question)
    wait_for(310)
    assert waits(run) == ("failed", "not_begun")
    assert begin(api, question)["attempt"] == 1
    assert finish(api, run, body="In March.") == (200, "done")


@pytest.mark.parametrize("seconds", [1, 310])
def test_a_message_of_its_own_is_the_answer_too(api: Api, ana: Member, question: Message, seconds: int) -> None:
    """Programs that know no runs: over MCP, from a webhook, with one call."""
    earlier = Run.objects.get(trigger=question)
    run = Run.objects.get(trigger=say(question.thread, ana, "@reed and the ivy?"))
    wait_for(seconds)
    answer = api.post(f"threads/{question.thread_id}/messages/", {"body": "Both in March."}).json()
    assert (reply_of(run)[:2], run.reply_id) == (("done", "Both in March."), answer["id"])
    assert reply_of(earlier)[:2] == ("done", "")
    assert begin(api, question)["state"] == "reading", "that was a word in between"


def test_a_message_posted_while_it_writes_answers_nothing_else(api: Api, ana: Member, run: Run) -> None:
    other = Run.objects.get(trigger=say(run.thread, ana, "@reed and the ivy?"))
    api.post(f"threads/{run.thread_id}/messages/", {"body": "I look it up."})
    assert (waits(run)[0], waits(other)[0]) == ("reading", "queued")


def test_what_its_webhook_took_and_what_it_writes_are_signs_of_life(
    api: Api, ana: Member, reed: Agent, question: Message
) -> None:
    run = Run.objects.get(trigger=question)
    made = {"workspace": ana.workspace, "participant": reed.participant, "url": "https://93.184.216.34/x"}
    webhook = Webhook.objects.create(**made, kinds=["mention"], made_by=ana.participant)
    Token.objects.update(last_used_at=None)
    taken = Delivery.objects.create(webhook=webhook, kind="mention", position=1, state="delivered")
    Delivery.objects.filter(pk=taken.pk).update(attempted_at=timezone.now())
    wait_for(60)
    assert waits(run) == ("queued", "")
    Delivery.objects.update(attempted_at=timezone.now() - timedelta(minutes=2))
    wait_for(1)
    assert waits(run) == ("queued", "not_connected")
    other = begin(api, say(factories.make_thread(question.thread.channel, ana), ana, "@reed here?"))
    write(api, Run.objects.get(pk=other["id"]), 0, "In ")
    Token.objects.update(last_used_at=None)
    wait_for(1)
    assert waits(run) == ("queued", "")


def test_who_is_gone_is_not_waited_for(api: Api, ana: Member, reed: Agent, question: Message) -> None:
    run = Run.objects.get(trigger=question)
    update_message(message=question, by=access(ana), body="@reed when do I prune the ivy?")
    wait_for(1)
    assert waits(run) == ("queued", "")
    deactivate_agent(agent=reed, by=access(ana))
    wait_for(1)
    assert waits(run) == ("failed", "agent_silent")
    assert "deactivated" in run.error


def test_a_question_that_was_deleted_is_not_waited_for(ana: Member, question: Message) -> None:
    run = Run.objects.get(trigger=question)
    delete_message(message=question, by=access(ana))
    wait_for(1)
    assert waits(run) == ("failed", "deleted")


def test_a_question_that_was_stopped_is_not_begun(api: Api, by_ana: Api, question: Message) -> None:
    run = Run.objects.get(trigger=question)
    wait_for(60)
    stopped = by_ana.post(f"runs/{run.pk}/stop/").json()
    assert (stopped["state"], stopped["error_code"]) == ("stopped", "")
    assert is_problem(api.post("runs/", {"message": question.pk}), 409, "answered")


def test_many_that_wait_cost_as_many_queries_each(ana: Member, thread: Thread, reed: Agent) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            recover_runs()
        return len(captured)

    say(thread, ana, "@reed one")
    of_one = queries()
    say(thread, ana, "@reed two")
    of_two = queries()
    say(thread, ana, "@reed three")
    assert queries() - of_two == of_two - of_one


def test_the_agents_page_says_when_its_program_was_heard(ana: Member, api: Api, reed: Agent) -> None:
    page = f"/w/{ana.workspace.slug}/agents/reed/"
    assert "It was never heard" in factories.signed_in(ana).get(page).content.decode()
    api.get("me/")
    assert "last heard" in factories.signed_in(ana).get(page).content.decode()
