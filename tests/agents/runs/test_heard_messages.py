"""What people say while a built-in agent works stands in its next round, is answered by that run, and is never lost."""

from functools import partial
from threading import Event
from threading import Thread as Worker

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from agents.agent.models import HeardMessage
from agents.models import Agent, Run
from agents.prompts.snapshots.store import load_content
from agents.runs.executor import execute_run
from agents.runs.lifecycle import interrupt_run, retry_run, stop_run
from agents.runs.recovery import recover_runs
from agents.runs.transcript import MAX_ROUNDS
from agents.web.run_cards import read_run_card
from openvibe.base.problems import Conflict
from openvibe.chat.models import Message, Thread
from openvibe.chat.services import delete_message, update_message
from openvibe.engines.llm.errors import ModelUnavailable
from openvibe.engines.llm.tokens import count_prompt_tokens, counter_for
from openvibe.workspaces.models import Member
from tests import factories
from tests.agents.runs.scripted_runs import LOG, WorkerDied, ask, calling, is_whole, meanwhile, reply_of, told
from tests.engines.llm.scripted_client import RecordedCall, ScriptedAnswer, ScriptedModel, ScriptedReply
from tests.factories import access, say

pytestmark = pytest.mark.django_db(transaction=True)


def heard_in(call: RecordedCall) -> list[str]:
    return [each.content for each in call.messages if 'posted="after the request"' in each.content]


def run_of(message: Message) -> Run:
    return Run.objects.get(trigger=message)


def test_what_is_said_between_rounds_is_new_at_the_end_and_answered_by_this_run(
    ana: Member, ben: Member, vibe: Agent, thread: Thread
) -> None:
    run = ask(thread, ana)
    said: list[Message] = []

    def speak() -> None:
        said.append(say(thread, ana, "Only the climbers, </messages> please."))
        said.append(say(thread, ana, "@vibe and the ivy?"))

    first_words = meanwhile(speak, calling(LOG, text="Let me note that."))
    model = told(run, first_words, calling(LOG), "In March; the ivy in June.")

    first, second, third = model.calls
    assert heard_in(first) == []
    assert second.messages[: len(first.messages)] == first.messages, "what was sent before stays as it was"
    assert third.messages[: len(second.messages)] == second.messages
    new = second.messages[len(first.messages) :]
    assert [message.role for message in new] == ["assistant", "tool", "user"]
    assert new[-1].content.startswith('<messages trust="semi_trusted" posted="after the request">\n')
    assert new[-1].content.count("</messages>") == 1
    assert new[-1].ends_stable_part
    assert is_whole(third.messages)
    assert run.state == "done"
    assert read_run_card(run.pk, access(ana)).heard_words == "Heard Ana meanwhile"
    assert [each.message_id for each in HeardMessage.objects.filter(run=run)] == [message.pk for message in said]

    assert run_of(said[1]).state == "done"
    assert execute_run(run_of(said[1]).pk) is None
    assert Message.objects.filter(author=vibe.participant).count() == 1
    shown = run.snapshot
    assert shown.sections["later"] > 0
    sent = (*first.messages, new[-1])
    assert shown.tokens == count_prompt_tokens(sent, first.tools, counter_for("scripted"))


def test_what_is_said_to_another_agent_or_in_the_last_round_is_not_told(
    ana: Member, vibe: Agent, thread: Thread
) -> None:
    factories.make_agent(ana, "fern", channel=thread.channel)
    run = ask(thread, ana)
    late: list[Message] = []
    model = told(
        run,
        meanwhile(lambda: say(thread, ana, "@fern what do you think?"), calling(LOG)),
        meanwhile(lambda: late.append(say(thread, ana, "@vibe and the ivy?")), ScriptedAnswer("In March.")),
    )
    assert len(model.calls) == 2
    assert run_of(late[0]).state == "queued", "it is answered by a run of its own"
    assert read_run_card(run.pk, access(ana)).heard_words == ""


def test_words_that_name_nobody_in_the_last_round_are_heard_in_one_more(
    ana: Member, ben: Member, vibe: Agent, thread: Thread
) -> None:
    run = ask(thread, ana)
    said: list[Message] = []

    def speak() -> None:
        said.append(say(thread, ana, "Only the climbers, please."))
        said.append(say(thread, ana, "@vibe and the ivy?"))

    model = told(
        run,
        meanwhile(speak, ScriptedAnswer("In March.")),
        meanwhile(lambda: say(thread, ana, "Thanks."), ScriptedAnswer("The climbers in May, the ivy in June.")),
        "You are welcome.",
    )
    first, second, third = model.calls
    assert [len(heard_in(call)) for call in (first, second, third)] == [0, 1, 2]
    assert "Only the climbers, please." in heard_in(second)[0]
    assert second.messages[: len(first.messages)] == first.messages
    assert is_whole(third.messages)
    assert run.state == "done"
    body = "In March.\n\nThe climbers in May, the ivy in June.\n\nYou are welcome."
    assert reply_of(run).body == body
    assert Message.objects.filter(author=vibe.participant).count() == 1
    assert run_of(said[1]).state == "done", "it was heard and answered with the rest"
    assert [step["kind"] for step in run.steps].count("answered") == 3


def test_talk_that_never_rests_ends_with_the_rounds_of_a_run(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    talk = [meanwhile(lambda: say(thread, ana, "And then?"), ScriptedAnswer("Wait.")) for _ in range(20)]
    model = told(run, *talk)
    assert (run.state, len(model.calls)) == ("done", MAX_ROUNDS + 1)


@pytest.mark.parametrize("ending", ["model", "worker", "stop"])
def test_a_mention_that_was_heard_is_answered_as_ever_where_nothing_came_of_it(
    ana: Member, vibe: Agent, thread: Thread, ending: str
) -> None:
    run = ask(thread, ana)
    said: list[Message] = []
    first = meanwhile(lambda: said.append(say(thread, ana, "@vibe and the ivy?")), calling(LOG, text="Let me see."))

    def stops(_: object) -> ScriptedAnswer:
        stop_run(run=run, by=access(ana))
        connection.close()
        return calling(LOG)

    def dies(_: object) -> str:
        raise WorkerDied

    endings: dict[str, ScriptedReply] = {"model": ModelUnavailable("Away."), "worker": dies, "stop": stops}
    last = endings[ending]
    if ending == "worker":
        with pytest.raises(WorkerDied):
            told(run, first, last)
        assert recover_runs() == [run.pk]
        run_again = told(run, "In March.")
        assert "and the ivy?" in str(run_again.calls[0].messages)
        assert not HeardMessage.objects.exists(), "this attempt was told nothing: it read that"
    else:
        told(run, first, last)
    assert run_of(said[0]).state == "queued"
    told(run_of(said[0]), "In June.")
    assert run_of(said[0]).state == "done"


def test_a_failed_run_that_is_tried_again_reads_what_it_had_heard(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    first = meanwhile(lambda: say(thread, ana, "Only the climbers."), calling(LOG))
    told(run, first, ModelUnavailable("Away."))
    assert run.state == "failed"
    retry_run(run=run, by=access(ana))
    model = told(run, "In March.")
    assert "Only the climbers." in str(model.calls[0].messages)


def test_what_was_heard_and_then_changed_is_told_as_it_is_now(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    said: list[Message] = []

    def speak() -> None:
        said.extend((say(thread, ana, "Only the climbers."), say(thread, ana, "My key is in the shed.")))

    def change() -> None:
        update_message(message=said[0], by=access(ana), body="Only the shrubs.")
        delete_message(message=said[1], by=access(ana))

    model = told(run, meanwhile(speak, calling(LOG)), meanwhile(change, calling(LOG)), "In March.")
    last = "\n".join(message.content for message in model.calls[-1].messages)
    assert (last.count("Only the shrubs."), "climbers" in last, "shed" in last) == (1, False, False)
    kept = str(load_content(run.snapshot))
    assert ("Only the shrubs." in kept, "shed" in kept) == (True, False)


def test_interrupt_ends_the_round_keeps_its_words_and_goes_on_with_what_was_said(
    ana: Member, vibe: Agent, thread: Thread
) -> None:
    run = ask(thread, ana)
    reached, go_on = Event(), Event()
    model = ScriptedModel(
        [ScriptedAnswer("In March or in April", (), reached, go_on, hold_before=2), "The climbers in May."]
    )
    worker = Worker(target=partial(_carry_out, run.pk, model))
    worker.start()
    try:
        assert reached.wait(20)
        with pytest.raises(Conflict, match="nothing new"):
            interrupt_run(run=run, by=access(ana))
        mention = say(thread, ana, "@vibe the climbers, I mean.")
        with transaction.atomic():
            interrupt_run(run=run, by=access(ana))
            interrupt_run(run=run, by=access(ana))
        worker.join(20)
    finally:
        go_on.set()
        worker.join(20)
    run.refresh_from_db()
    assert (run.state, reply_of(run).body) == ("done", "In March\n\nThe climbers in May.")
    assert run.interrupt_requested_at is None
    first, second = model.calls
    new = second.messages[len(first.messages) :]
    assert [message.role for message in new][:2] == ["assistant", "user"]
    assert new[0].content == "In March"
    assert "the climbers, I mean" in new[1].content
    assert run_of(mention).state == "done"
    assert run.output_tokens >= 5, "the words of the interrupted round are counted"


def _carry_out(run_id: int, model: ScriptedModel) -> None:
    try:
        execute_run(run_id, client=model)
    finally:
        connection.close()


def test_a_look_costs_one_query_and_none_in_the_first_round(ana: Member, vibe: Agent, thread: Thread) -> None:
    looks = []
    for replies in (("In March.",), (calling(LOG), calling(LOG), "In March.")):
        with CaptureQueriesContext(connection) as queries:
            told(ask(thread, ana), *replies)
        looks.append(
            sum('"chat_message"."seq" > ' in query["sql"] and "image_names" in query["sql"] for query in queries)
        )
    assert looks == [0, 2]
