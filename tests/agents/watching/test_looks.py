"""Watching: once the talk rests an agent is asked once whether to speak up, and most of the time it is silent."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.agent import pace
from agents.agent.access import visible_to
from agents.agent.services import deactivate_agent, save_soul, set_trust_level
from agents.models import Agent, Run, Watch, WatchedThread, WatchLook
from agents.runs.executor import execute_run
from agents.watching import looks
from agents.watching.looks import due_threads, look
from agents.watching.services import stop_watches, update_watch
from agents.watching.thresholds import read_thresholds
from memory.episodes.services import give_feedback
from openvibe.chat.models import Message, Thread
from openvibe.chat.services import (
    archive_channel,
    delete_message,
    open_direct_messages,
    post_message,
    set_thread_access,
    start_dive,
)
from openvibe.engines.llm.errors import RateLimited
from openvibe.engines.llm.tokens import count_prompt_tokens, counter_for
from openvibe.workspaces.models import Member, Spending
from tests.agents.runs.scripted_runs import told
from tests.agents.watching.watchers import (
    FROST,
    PRICE,
    SILENT,
    SOUL,
    look_at_all,
    make_watcher,
    outcomes,
    rested,
    speaks,
    watching,
)
from tests.concurrency import at_once
from tests.engines.llm.scripted_client import ScriptedModel
from tests.factories import access, make_thread, say


@pytest.fixture
def sage(ana: Member, thread: Thread) -> Agent:
    return make_watcher(ana, thread.channel)


@pytest.fixture
def watch(ana: Member, sage: Agent, thread: Thread) -> Watch:
    return watching(ana, sage, thread.channel)


def test_it_speaks_up_once_the_talk_rests_and_says_why(
    ana: Member, dora: Member, vibe: Agent, sage: Agent, watch: Watch, thread: Thread
) -> None:
    say(thread, ana, "The tomatoes can go out on Thursday.")
    say(thread, dora, "I will plant them, then.")
    assert due_threads(rested(4.9)) == []
    model, (run,) = look_at_all(speaks())
    system, *_, question = (message.content for message in model.calls[0].messages)
    assert FROST in system
    assert PRICE in system
    assert "The tomatoes can go out on Thursday." in model.calls[0].messages[1].content
    assert question.startswith("Messages 1 to 2 are new.")
    assert (run.task, run.requested_by, run.thread) == ("proactive", ana.participant, thread)
    answering = told(run, "Frost on Friday, @vibe: wait a week.")
    assert "you watch this channel and speak up by yourself" in answering.calls[0].messages[-2].content
    assert answering.calls[0].messages[-1].content.startswith(f"Speaks up by itself because of: {FROST} – Frost is")
    assert (run.state, outcomes()) == ("done", ["spoke"])
    assert Run.objects.count() == 1, "agents never wake agents"
    watch.refresh_from_db()
    assert (watch.post_count, watch.silence_count) == (1, 0)


def test_silence_is_counted_and_nothing_else_is_seen_of_it(ana: Member, watch: Watch, thread: Thread) -> None:
    say(thread, ana, "The roses are doing well.")
    _, runs = look_at_all(SILENT)
    watch.refresh_from_db()
    assert (runs, watch.silence_count, watch.note, outcomes()) == ([], 1, "", ["silent"])
    assert Message.objects.filter(thread=thread).count() == 1
    assert not Run.objects.exists()
    model, _ = look_at_all(speaks(), now=rested(600))
    assert model.calls == [], "the same words are asked about once"
    say(thread, ana, "And the tomatoes go out on Thursday.")
    model, _ = look_at_all(SILENT)
    assert model.calls[0].messages[-1].content.startswith("Message 2 is new.")


@pytest.mark.parametrize(
    "answer",
    [
        speaks("Somebody mentions the moon"),
        speaks(""),
        speaks(sure=49),
        '{"speak": "true", "trigger": "x"}',
        "I would like to say something.",
        "[true]",
        '{"speak": true}',
    ],
)
def test_what_is_no_plain_decision_for_one_of_its_triggers_is_silence(
    ana: Member, watch: Watch, thread: Thread, answer: str
) -> None:
    say(thread, ana, "The tomatoes can go out on Thursday.")
    _, runs = look_at_all(answer)
    assert (runs, outcomes()) == ([], ["silent"])
    assert Message.objects.filter(thread=thread).count() == 1


def test_the_question_never_has_more_than_four_thousand_tokens(
    ana: Member, sage: Agent, watch: Watch, thread: Thread
) -> None:
    long_soul = SOUL + "\n".join(f"    - Somebody forgets rule {n} of the long list of the garden" for n in range(110))
    save_soul(agent=sage, by=access(ana), text=long_soul, note="More", based_on=2)
    for number in range(30):
        say(thread, ana, f"{number} " + "The tomatoes can go out on Thursday. " * 60)
    model, _ = look_at_all(SILENT)
    prompt = model.calls[0].messages
    row = WatchLook.objects.get()
    assert 2_000 < count_prompt_tokens(prompt, (), counter_for("m")) == row.tokens <= 4_000
    assert "29 The tomatoes" in "".join(message.content for message in prompt)


def at_level_two(ana: Member, sage: Agent, thread: Thread) -> None:
    set_trust_level(agent=sage, by=access(ana), level=2, note="Too loud.")


def deactivated(ana: Member, sage: Agent, thread: Thread) -> None:
    deactivate_agent(agent=sage, by=access(ana))


def in_archived_channel(ana: Member, sage: Agent, thread: Thread) -> None:
    archive_channel(channel=thread.channel, by=access(ana), archived=True)


def in_closed_thread(ana: Member, sage: Agent, thread: Thread) -> None:
    set_thread_access(thread=thread, by=access(ana), access=Thread.Access.HUMAN_ONLY)


def without_triggers(ana: Member, sage: Agent, thread: Thread) -> None:
    save_soul(agent=sage, by=access(ana), text="identity: {name: Sage, role: Gardener}", note="Quiet", based_on=2)


def with_the_offline_model(ana: Member, sage: Agent, thread: Thread) -> None:
    Agent.objects.filter(pk=sage.pk).update(endpoint=None)


def elsewhere(ana: Member, sage: Agent, thread: Thread) -> None:
    Agent.objects.filter(pk=sage.pk).update(answers_itself=True)


def out_of_tokens(ana: Member, sage: Agent, thread: Thread) -> None:
    Agent.objects.filter(pk=sage.pk).update(daily_token_budget=0)


CLOSED = [
    (at_level_two, "at L2 it does not speak up by itself"),
    (deactivated, "deactivated"),
    (in_archived_channel, "archived"),
    (in_closed_thread, "for people only"),
    (without_triggers, "names no proactive triggers"),
    (with_the_offline_model, "offline model"),
    (elsewhere, "does not run here"),
    (out_of_tokens, "token budget for today is used up"),
]


@pytest.mark.parametrize(("change", "reason"), CLOSED)
def test_where_it_may_not_speak_no_model_is_asked_and_the_page_says_why(
    ana: Member, sage: Agent, watch: Watch, thread: Thread, change: Callable[[Member, Agent, Thread], None], reason: str
) -> None:
    say(thread, ana, "The tomatoes can go out on Thursday.")
    change(ana, sage, thread)
    model, runs = look_at_all(speaks())
    watch.refresh_from_db()
    assert (model.calls, runs, outcomes()) == ([], [], [])
    assert reason in watch.note
    assert due_threads(rested(600)) == []


@pytest.mark.parametrize(("change", "reason"), CLOSED[:-1])
def test_what_changes_while_the_model_decides_keeps_it_silent(
    ana: Member, sage: Agent, watch: Watch, thread: Thread, change: Callable[[Member, Agent, Thread], None], reason: str
) -> None:
    say(thread, ana, "The tomatoes can go out on Thursday.")

    def decide(_: object) -> str:
        change(ana, sage, thread)
        return speaks()

    _, runs = look_at_all(decide)
    assert (runs, Message.objects.filter(thread=thread, author=sage.participant).count()) == ([], 0)
    assert outcomes() == ["silent"]


def test_who_is_asked_or_at_work_there_does_not_look(ana: Member, sage: Agent, watch: Watch, thread: Thread) -> None:
    say(thread, ana, "The tomatoes can go out on Thursday.")
    say(thread, ana, "@sage is that right?")
    asked = Run.objects.get()
    model, _ = look_at_all(speaks())
    assert model.calls == [], "it is at work there"
    told(asked, "No: frost on Friday.")
    model, _ = look_at_all(speaks(), now=rested(12))
    assert (model.calls, due_threads(rested(600))) == ([], []), "it was asked, and has answered"
    say(thread, ana, "Then I plant them on Wednesday.")
    model, _ = look_at_all(SILENT)
    assert model.calls[0].messages[-1].content.startswith("Messages 3 to 4 are new."), "its answer is no talk of people"


def test_two_watchers_in_one_channel_never_talk_to_each_other(
    ana: Member, sage: Agent, watch: Watch, thread: Thread
) -> None:
    fern = make_watcher(ana, thread.channel, "fern")
    watching(ana, fern, thread.channel)
    say(thread, ana, "The tomatoes can go out on Thursday.")
    _, runs = look_at_all(speaks())
    assert {run.agent for run in runs} == {sage, fern}
    for run in runs:
        told(run, f"Frost on Friday, @sage, @fern: {FROST}")
    for minutes in (6, 60, 600):
        model, runs = look_at_all(speaks(), now=rested(minutes))
        assert (model.calls, runs) == ([], [])
    assert Run.objects.count() == 2
    post_message(thread=thread, by=visible_to(fern), body="Shall we plant out on Thursday, @sage?")
    assert due_threads(rested(600)) == []


def test_it_posts_as_rarely_as_schedules_let_it(
    ana: Member, sage: Agent, watch: Watch, thread: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_thread(thread.channel, ana, "Seeds")
    say(thread, ana, "The tomatoes can go out on Thursday.")
    say(other, ana, "And the beans, too.")
    _, runs = look_at_all(speaks())
    assert len(runs) == 1, "its cooldown holds between two threads"
    (first,) = runs
    told(first, "Frost on Friday.")
    assert len(due_threads(timezone.now() + timedelta(hours=1))) == 1, "the other one waits for the cooldown"
    Message.objects.filter(pk=first.trigger_id).update(created_at=timezone.now() - timedelta(minutes=30))
    _, runs = look_at_all(speaks(PRICE), now=timezone.now() + timedelta(minutes=11))
    assert [run.thread for run in runs] == [other]
    Run.objects.update(state="done")
    monkeypatch.setattr(pace, "MAX_PROACTIVE_PER_DAY", 2)
    set_cooldown(sage, 0)
    say(thread, ana, "Now the leeks.")
    model, runs = look_at_all(speaks())
    watch.refresh_from_db()
    assert (model.calls, runs) == ([], [])
    assert "2 times unasked today" in watch.note


def set_cooldown(sage: Agent, minutes: int) -> None:
    Agent.objects.filter(pk=sage.pk).update(proactive_cooldown=minutes)


def judge(message: Message, by: Member, verdict: str = "down") -> None:
    give_feedback(message=message, by=access(by), verdict=verdict)


def test_not_helpful_counts_double_and_makes_it_wait_longer_and_be_surer(
    ana: Member, dora: Member, sage: Agent, watch: Watch, thread: Thread
) -> None:
    say(thread, ana, "The tomatoes can go out on Thursday.")
    _, (run,) = look_at_all(speaks())
    told(run, "Frost on Friday.")
    assert run.reply is not None
    judge(run.reply, dora)
    set_cooldown(sage, 0)
    say(thread, ana, "I plant them anyhow.")
    now = rested(14)
    model, _ = look_at_all(speaks(sure=99), now=now)
    assert model.calls == [], "three times as long"
    _, runs = look_at_all(speaks(sure=59), now=rested(16))
    assert (runs, WatchLook.objects.latest("pk").why) == ([], "It was 59 % sure, and has to be 60 % sure here.")
    judge(run.reply, dora, "up")
    say(thread, ana, "Done.")
    _, runs = look_at_all(speaks(sure=50))
    assert len(runs) == 1, "a verdict that is taken back counts no more"


def test_an_admin_forgets_the_verdicts(ana: Member, dora: Member, watch: Watch, thread: Thread) -> None:
    say(thread, ana, "The tomatoes can go out on Thursday.")
    _, (run,) = look_at_all(speaks())
    told(run, "Frost on Friday.")
    assert run.reply is not None
    judge(run.reply, dora)
    assert read_thresholds([watch])[watch.pk].steps == 2
    assert "found 1 message of its own here not helpful" in read_thresholds([watch])[watch.pk].words
    watch = update_watch(watch=watch, by=access(ana), resets_threshold=True)
    assert read_thresholds([watch])[watch.pk].steps == 0


def test_a_stopped_watch_looks_at_nothing_and_begins_anew(
    ana: Member, dora: Member, watch: Watch, thread: Thread
) -> None:
    say(thread, ana, "The tomatoes can go out on Thursday.")
    now = rested()
    stop_watches(watches=[watch], by=access(dora))
    assert due_threads(now) == []
    say(thread, ana, "Or on Friday.")
    assert not WatchedThread.objects.exists()
    update_watch(watch=watch, by=access(ana), is_active=True)
    say(thread, ana, "Or on Sunday.")
    model, _ = look_at_all(SILENT)
    assert model.calls[0].messages[-1].content.startswith("Message 3 is new.")


def test_words_that_come_while_it_decides_are_heard_first(ana: Member, watch: Watch, thread: Thread) -> None:
    say(thread, ana, "The tomatoes can go out on Thursday.")

    def decide(_: object) -> str:
        say(thread, ana, "No, wait: frost on Friday.")
        return speaks()

    _, runs = look_at_all(decide)
    assert (runs, outcomes()) == ([], ["overtaken"])
    model, _ = look_at_all(SILENT)
    assert model.calls[0].messages[-1].content.startswith("Message 2 is new.")


def test_a_message_deleted_while_it_decides_is_not_spoken_of(ana: Member, watch: Watch, thread: Thread) -> None:
    message = say(thread, ana, "The code of the safe is 4711.")

    def decide(_: object) -> str:
        delete_message(message=message, by=access(ana))
        return speaks(why="The code of the safe is 4711.")

    _, runs = look_at_all(decide)
    row = WatchLook.objects.get()
    assert (runs, row.outcome, row.content, row.why) == ([], "overtaken", None, "")


def test_a_deleted_message_leaves_what_looks_were_shown(ana: Member, watch: Watch, thread: Thread) -> None:
    message = say(thread, ana, "The code of the safe is 4711.")
    look_at_all('{"speak": false, "why": "It is about the safe."}')
    assert WatchLook.objects.get().content
    delete_message(message=message, by=access(ana))
    row = WatchLook.objects.get()
    assert (row.content, row.why) == (None, "")


def test_deleted_words_are_not_looked_at(ana: Member, watch: Watch, thread: Thread) -> None:
    delete_message(message=say(thread, ana, "Oh well."), by=access(ana))
    model, _ = look_at_all(speaks())
    assert (model.calls, outcomes()) == ([], [])


def test_a_model_that_fails_is_asked_once(ana: Member, watch: Watch, thread: Thread) -> None:
    say(thread, ana, "The tomatoes can go out on Thursday.")
    _, runs = look_at_all(RateLimited("Too many requests."))
    watch.refresh_from_db()
    assert (runs, outcomes(), due_threads(rested(600))) == ([], ["failed"], [])
    assert watch.note == "Its last look failed. Too many requests."
    assert (watch.silence_count, watch.post_count) == (0, 0)


def test_what_it_asks_counts_against_the_agents_budget(ana: Member, sage: Agent, watch: Watch, thread: Thread) -> None:
    say(thread, ana, "The tomatoes can go out on Thursday.")
    look_at_all(SILENT)
    spending = Spending.objects.get()
    assert (spending.purpose, spending.agent) == ("watching", sage.participant)
    Agent.objects.filter(pk=sage.pk).update(daily_token_budget=spending.input_tokens + spending.output_tokens + 9)
    say(thread, ana, "The beans, too.")
    model, _ = look_at_all(SILENT)
    assert (model.calls, outcomes()[-1]) == ([], "failed")
    assert "token budget for today is used up" in Watch.objects.get().note


class WorkerDied(BaseException):
    """No code of ours catches it."""


@pytest.mark.parametrize(
    "place",
    ["assemble_watch", "_save_prompt", "_ask", "read_decision", "_decide", "create_system_message", "_end_look"],
)
def test_killed_anywhere_it_neither_speaks_twice_nor_asks_again(
    ana: Member, watch: Watch, thread: Thread, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    say(thread, ana, "The tomatoes can go out on Thursday.")
    (watched_id,) = due_threads(rested())

    def die(*_: object, **__: object) -> None:
        raise WorkerDied

    with monkeypatch.context() as patch:
        patch.setattr(looks, place, die)
        with pytest.raises(WorkerDied):
            look(watched_id, rested(), client=ScriptedModel([speaks()]))
    assert not Run.objects.exists()
    assert Message.objects.filter(thread=thread).count() == 1
    model, runs = look_at_all(speaks(), now=rested(60))
    assert (model.calls, runs, outcomes()) == ([], [], ["asking"])
    say(thread, ana, "The beans, too.")
    _, runs = look_at_all(speaks())
    assert len(runs) == 1, "what is said next is looked at as ever"


def test_killed_before_it_is_on_record_it_looks_later(
    ana: Member, watch: Watch, thread: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(thread, ana, "The tomatoes can go out on Thursday.")
    (watched_id,) = due_threads(rested())

    def die(*_: object, **__: object) -> None:
        raise WorkerDied

    with monkeypatch.context() as patch:
        patch.setattr(looks, "Question", die)
        with pytest.raises(WorkerDied):
            look(watched_id, rested(), client=ScriptedModel([speaks()]))
    _, runs = look_at_all(speaks())
    assert len(runs) == 1


def test_a_run_that_speaks_up_is_carried_out_once(ana: Member, watch: Watch, thread: Thread) -> None:
    say(thread, ana, "The tomatoes can go out on Thursday.")
    _, (run,) = look_at_all(speaks())
    told(run, "Frost on Friday.")
    execute_run(run.pk)
    assert Message.objects.filter(thread=thread, kind="text").exclude(author=ana.participant).count() == 1


def test_what_is_said_costs_no_statement_more_where_somebody_watches(ana: Member, watch: Watch, thread: Thread) -> None:
    thread.channel  # noqa: B018  loaded by whoever found the thread
    with CaptureQueriesContext(connection) as statements:
        say(thread, ana, "The roses are doing well.")
    assert len(statements) == 1
    assert WatchedThread.objects.count() == 1


def test_what_is_said_where_nobody_watches_leaves_no_row(ana: Member, thread: Thread) -> None:
    say(thread, ana, "The roses are doing well.")
    assert not WatchedThread.objects.exists()


def test_looking_for_work_costs_by_what_was_said(ana: Member, sage: Agent, watch: Watch, thread: Thread) -> None:
    say(thread, ana, "The roses are doing well.")
    for number in range(20):
        make_thread(thread.channel, ana, f"Bed {number}")
    assert WatchedThread.objects.count() == 1
    now = rested()
    with CaptureQueriesContext(connection) as statements:
        assert len(due_threads(now)) == 1
    assert len(statements) == 1
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("EXPLAIN " + statements[0]["sql"])
        plan = "\n".join(row for (row,) in cursor.fetchall())
    assert "watched_thread_due" in plan


def test_dives_and_direct_messages_wake_nobody(ana: Member, sage: Agent, watch: Watch, thread: Thread) -> None:
    source = say(thread, ana, "The tomatoes can go out on Thursday.")
    WatchedThread.objects.all().delete()
    dive = start_dive(source=source, by=access(ana), agent=sage.participant)
    say(dive.thread, ana, "When, exactly?")
    direct, _ = open_direct_messages(by=access(ana), recipient=sage.participant)
    say(direct, ana, "Hello?")
    assert not WatchedThread.objects.exists()


def test_a_private_thread_of_others_is_not_looked_at(
    ana: Member, sage: Agent, watch: Watch, thread: Thread, vibe: Agent
) -> None:
    set_thread_access(
        thread=thread, by=access(ana), access=Thread.Access.AGENT_RESTRICTED, allowed_agents=[vibe.participant]
    )
    say(thread, ana, "The tomatoes can go out on Thursday.")
    model, _ = look_at_all(speaks())
    assert model.calls == []
    assert "only to the agents it lists" in Watch.objects.get().note


@pytest.mark.django_db(transaction=True)
def test_workers_that_look_at_once_ask_and_speak_once(ana: Member, sage: Agent, watch: Watch, thread: Thread) -> None:
    say(thread, ana, "The tomatoes can go out on Thursday.")
    (watched_id,) = due_threads(rested())
    now, model = rested(), ScriptedModel([speaks()])
    at_once(*[lambda: look(watched_id, now, client=model)] * 4)
    assert (len(model.calls), Run.objects.count(), outcomes()) == (1, 1, ["spoke"])
