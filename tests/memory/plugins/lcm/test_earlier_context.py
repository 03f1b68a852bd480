"""Earlier context is a source: what is deleted there stands in no later summary, by whatever road it came."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Event
from threading import Thread as Strand

import pytest
from django.db import connection, connections
from django.test import Client

from agents.models import Agent
from agents.prompts.assembler.assemble import assemble
from memory.plugins.base import Session
from memory.plugins.lcm.compaction import compact_conversation, rebuild_conversation
from memory.plugins.lcm.integrity import find_violations
from memory.plugins.lcm.models import STALE_CONTENT, Conversation, Summary
from memory.plugins.lcm.provider import LcmProvider
from openvibe.chat.models import Message, Thread
from openvibe.chat.services import delete_message, update_message
from openvibe.engines.llm.fences import parse_fences
from openvibe.engines.llm.values import ChatMessage
from openvibe.workspaces.models import Member
from tests.api.client import Api
from tests.databases import convert_rows
from tests.engines.llm.scripted_client import ScriptedAnswer, ScriptedModel
from tests.factories import access, say
from tests.memory.plugins.lcm.compactions import BUDGET, TEXT
from tests.memory.plugins.lcm.factories import condensed, leaf, session_of, taken_in, told, told_in_turns

SECRET = "xylograph"
TELLS = f"Ana told the code {SECRET} to Vibe; prune the roses in March."
HARMLESS = "Ana told Vibe to prune the roses in March, before the buds open."


def with_earlier(messages: Sequence[ChatMessage]) -> str:
    """A model that repeats what stands in earlier context, as models do."""
    fences = parse_fences(messages[-1].content)
    return TELLS if any(SECRET in fence.text for fence in fences if fence.tag != "request") else HARMLESS


def talk(thread: Thread, ana: Member, vibe: Agent, messages: int) -> None:
    told_in_turns(thread, vibe.participant, ana.participant, *(f"{at}. {TEXT * 4}" for at in range(messages)))


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel([with_earlier])


@pytest.fixture
def leaked(thread: Thread, session: Session, ana: Member, vibe: Agent, model: ScriptedModel) -> Message:
    """A message with a word in it, which the next summary learned from the summary before it."""
    told(thread, ana.participant, f"The code is {SECRET}. {TEXT * 4}")
    talk(thread, ana, vibe, 59)
    compact_conversation(session, BUDGET, full=False, config={}, client=model)
    talk(thread, ana, vibe, 40)
    compact_conversation(session, BUDGET, full=False, config={}, client=model)
    leaves = list(Summary.objects.filter(depth=0).order_by("first_seq"))
    assert all(SECRET in leaf.content for leaf in leaves[:2])
    assert leaves[1].source_from_seq == 1 < leaves[1].first_seq
    return Message.objects.get(thread=thread, seq=1)


def words_anywhere(thread: Thread, session: Session, ana: Member, vibe: Agent) -> Iterator[str]:
    """Everything that shows summaries: the context, a prompt, search, exploring, the pages and the API."""
    provider = LcmProvider()
    yield from (entry.text for entry in provider.assemble(session, 100_000, 20))
    yield from (hit.snippet for hit in provider.search(session, SECRET))
    request = say(thread, ana, "@vibe what now?")
    prompt = assemble(agent=vibe, thread=thread, task="thread", request=request, tools=())
    yield from (message.content for message in prompt.messages)
    client, slug = Client(), ana.workspace.slug
    client.force_login(ana.user)
    caller = Api(client, {"X-Workspace": slug})
    yield client.get(f"/w/{slug}/t/{thread.pk}/memory/?q={SECRET[:-1]}").content.decode()
    yield str(caller.post("memory/tool/", {"thread": thread.pk, "action": "search", "query": SECRET[1:]}).json())
    for pk in Summary.objects.values_list("pk", flat=True):
        yield provider.describe(session, pk).content
        yield from (entry.text for entry in provider.expand(session, pk).entries)
        yield client.get(f"/w/{slug}/t/{thread.pk}/memory/{pk}/").content.decode()
        yield str(caller.post("memory/tool/", {"thread": thread.pk, "action": "describe", "summary_id": pk}).json())


def test_a_deleted_word_is_nowhere_before_and_after_summaries_are_made_anew(
    thread: Thread, session: Session, ana: Member, vibe: Agent, leaked: Message
) -> None:
    delete_message(message=leaked, by=access(ana))
    assert [text for text in words_anywhere(thread, session, ana, vibe) if SECRET in text] == []
    assert Summary.objects.filter(stale=True).count() >= 2
    assert find_violations(thread.pk) == []
    scripted_model = ScriptedModel([with_earlier])
    rebuild_conversation(session, config={}, client=scripted_model)
    assert [text for text in words_anywhere(thread, session, ana, vibe) if SECRET in text] == []
    assert not Summary.objects.filter(stale=True).exists()
    assert scripted_model.calls
    assert not any(SECRET in str(call) for call in scripted_model.calls)
    assert find_violations(thread.pk) == []


def test_what_stands_above_such_a_summary_loses_its_words_too(thread: Thread, ana: Member, vibe: Agent) -> None:
    talk(thread, ana, vibe, 60)
    conversation = taken_in(thread)
    leaf(conversation, 1, 10, TELLS)
    dependent = leaf(conversation, 11, 20, TELLS, source_from=1)
    above = condensed(conversation, [dependent, leaf(conversation, 21, 30, HARMLESS)], TELLS)
    delete_message(message=Message.objects.get(thread=thread, seq=2), by=access(ana))
    assert Summary.objects.filter(stale=True).count() == 3
    assert Summary.objects.get(pk=above.pk).content == STALE_CONTENT
    assert find_violations(thread.pk) == []


def test_an_edit_in_the_middle_leaves_what_came_before_it_as_it_is(thread: Thread, ana: Member, vibe: Agent) -> None:
    talk(thread, ana, vibe, 60)
    conversation = taken_in(thread)
    first, second = leaf(conversation, 1, 10, HARMLESS), leaf(conversation, 11, 20, HARMLESS, source_from=1)
    later = leaf(conversation, 21, 30, HARMLESS)
    by = Message.objects.filter(thread=thread, seq__gt=10, author=ana.participant).order_by("seq").first()
    assert by is not None
    update_message(message=by, by=access(ana), body="Other words.")
    assert [Summary.objects.get(pk=one.pk).stale for one in (first, second, later)] == [False, True, False]


def test_what_was_made_with_earlier_context_is_not_given_as_such(
    thread: Thread, session: Session, ana: Member, vibe: Agent
) -> None:
    talk(thread, ana, vibe, 90)
    conversation = taken_in(thread)
    leaf(conversation, 1, 10, "The first gist of Ana.")
    leaf(conversation, 11, 20, "The second gist of Ana.", source_from=1)
    model = ScriptedModel([HARMLESS])
    compact_conversation(session, BUDGET, full=False, config={}, client=model)
    earlier = [fence.text for fence in parse_fences(model.calls[0].messages[-1].content) if fence.tag == "earlier"]
    assert earlier == ["The first gist of Ana."]


def test_one_deletion_makes_few_summaries_of_a_long_thread_stale(
    thread: Thread, session: Session, ana: Member, vibe: Agent, model: ScriptedModel
) -> None:
    for _ in range(10):
        talk(thread, ana, vibe, 40)
        compact_conversation(session, BUDGET, full=False, config={}, client=model)
    assert Summary.objects.filter(depth=0).count() >= 10
    delete_message(
        message=Message.objects.filter(thread=thread, author=ana.participant).earliest("seq"), by=access(ana)
    )
    assert Summary.objects.filter(stale=True, depth=0).count() <= 3


@pytest.mark.parametrize("verb", ["delete", "edit"])
def test_a_change_of_earlier_context_while_the_model_answers_makes_it_read_again(
    thread: Thread, session: Session, ana: Member, vibe: Agent, verb: str
) -> None:
    told(thread, ana.participant, f"The code is {SECRET}. {TEXT * 4}")
    talk(thread, ana, vibe, 79)
    leaf(taken_in(thread), 1, 10, TELLS)
    message = Message.objects.get(thread=thread, seq=1)
    answers: list[str] = []

    def change_then_answer(messages: Sequence[ChatMessage]) -> str:
        answers.append(with_earlier(messages))
        if len(answers) == 1 and verb == "delete":
            delete_message(message=message, by=access(ana))
        elif len(answers) == 1:
            update_message(message=message, by=access(ana), body="Nothing to see.")
        return answers[-1]

    compact_conversation(session, BUDGET, full=False, config={}, client=ScriptedModel([change_then_answer]))
    assert answers[:2] == [TELLS, HARMLESS]
    assert Summary.objects.filter(first_seq=11, depth=0).exists()
    assert not any(SECRET in content for content in Summary.objects.values_list("content", flat=True))


@pytest.mark.django_db(transaction=True)
def test_a_deletion_during_a_compaction_leaves_the_word_in_no_summary(thread: Thread, ana: Member, vibe: Agent) -> None:
    told(thread, ana.participant, f"The code is {SECRET}. {TEXT * 4}")
    talk(thread, ana, vibe, 79)
    conversation = taken_in(thread)
    leaf(conversation, 1, 10, TELLS)
    reached, go_on = Event(), Event()
    session = session_of(thread, vibe.participant)

    def work() -> None:
        model = ScriptedModel([ScriptedAnswer(TELLS, reached=reached, go_on=go_on), with_earlier])
        compact_conversation(session, BUDGET, full=False, config={}, client=model)
        connections.close_all()

    strand = Strand(target=work)
    strand.start()
    assert reached.wait(30)
    delete_message(message=Message.objects.get(thread=thread, seq=1), by=access(ana))
    go_on.set()
    strand.join(60)
    assert Summary.objects.filter(first_seq__gt=1).exists()
    assert not any(SECRET in content for content in Summary.objects.values_list("content", flat=True))
    assert find_violations(thread.pk) == []


def test_what_is_cut_from_its_source_depends_on_nothing_else(
    thread: Thread, session: Session, ana: Member, vibe: Agent
) -> None:
    talk(thread, ana, vibe, 80)
    leaf(taken_in(thread), 1, 10, TELLS)
    compact_conversation(session, BUDGET, full=False, config={}, client=ScriptedModel(["I'm sorry, I can't."]))
    summary = Summary.objects.get(level="fallback", depth=0)
    assert summary.source_from_seq == summary.first_seq


# --- summaries of an earlier version, of which nobody kept what they were shown ---------------------------------------


def run_upgrade() -> None:
    convert_rows("lcm", "0002_what_summaries_were_made_from")


@pytest.fixture
def old_summaries(thread: Thread, ana: Member, vibe: Agent) -> Conversation:
    """Three leaves, a container above the last two; only the second was written by a model."""
    talk(thread, ana, vibe, 60)
    conversation = taken_in(thread)
    first, second, third = (leaf(conversation, at, at + 9, TELLS) for at in (1, 11, 21))
    condensed(conversation, [second, third], HARMLESS)
    Summary.objects.filter(pk=first.pk).update(model="offline")
    Summary.objects.filter(pk=third.pk).update(level="fallback", model="none")
    Summary.objects.update(source_from_seq=1)
    return conversation


def test_a_models_old_summaries_may_go_back_to_the_first_message(old_summaries: Conversation) -> None:
    run_upgrade()
    places = Summary.objects.order_by("depth", "first_seq").values_list("depth", "first_seq", "source_from_seq")
    assert list(places) == [(0, 1, 1), (0, 11, 1), (0, 21, 21), (1, 11, 1)]
    assert not Summary.objects.filter(stale=True).exists()
    assert find_violations(old_summaries.thread_id) == []


def test_words_changed_before_the_upgrade_leave_old_summaries_with_it(old_summaries: Conversation) -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE chat_message SET edited_at = now() + interval '1 minute' WHERE seq = 2")
    run_upgrade()
    stale = Summary.objects.filter(stale=True).order_by("depth").values_list("depth", "first_seq")
    assert list(stale) == [(0, 11), (1, 11)]
    assert find_violations(old_summaries.thread_id) == []
