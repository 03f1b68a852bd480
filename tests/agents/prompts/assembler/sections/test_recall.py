"""What was said out of view and bears on a request comes back."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from agents.agent.access import visible_to
from agents.models import Agent, Run, Snapshot
from agents.prompts.assembler.assemble import assemble
from agents.prompts.assembler.sections.recall import packing_order, recall_messages
from agents.prompts.assembler.sections.request import PromptRequest, RequestMessage, read_thread
from agents.prompts.assembler.stack import BUDGETS
from agents.prompts.snapshots.redaction import read_snapshot
from agents.prompts.snapshots.store import load_content
from memory.plugins.services import configure_plugin
from openvibe.chat.models import Message, Thread
from openvibe.chat.queries import MessageHit
from openvibe.chat.services import delete_message, erase_texts
from openvibe.engines.llm.tokens import count_prompt_tokens, counter_for
from openvibe.workspaces.models import Member
from tests.agents.runs.scripted_runs import told
from tests.factories import access, say, say_all
from tests.memory.plugins.lcm.factories import leaf, taken_in


def test_what_was_said_long_ago_comes_back(ana: Member, vibe: Agent, thread: Thread) -> None:
    say(thread, ana, "The spare key of the Harbour roof hangs behind the pump.")
    say_all(thread, ana, (f"Row {n}: " + "roses want water and mulch " * 6 for n in range(300)))
    question = say(thread, ana, "@vibe where is the spare key of the Harbour roof?")
    prompt = assemble(agent=vibe, thread=thread, task="mention", request=question)
    recalled = [entry for entry in prompt.included if entry.section == "recall"]
    assert "behind the pump" in recalled[0].text
    assert recalled[0].source == "message 1, recalled"


@pytest.mark.parametrize("task", ["mention", "thread"])
def test_what_is_recalled_stands_before_the_newest(task: str, ana: Member, vibe: Agent, thread: Thread) -> None:
    """Time runs one way up to the question: older words, the newest, the question."""
    say(thread, ana, "The spare key of the Harbour roof hangs behind the pump.")
    say_all(thread, ana, (f"Row {n}: " + "roses want water and mulch, hedges time; " * 15 for n in range(120)))
    question = say(thread, ana, "@vibe where is the spare key of the Harbour roof?")
    prompt = assemble(agent=vibe, thread=thread, task=task, request=question)
    text = "\n".join(message.content for message in prompt.messages)
    newest = [text.index(f"\n{seq} Ana") for seq in range(question.seq - 5, question.seq)]
    assert text.index("behind the pump") < newest[0]
    assert newest == sorted(newest)
    assert text.endswith("\n@vibe where is the spare key of the Harbour roof?")
    if task == "mention":
        seqs = [int(line.split()[0]) for line in text.splitlines() if " Ana" in line and line.split()[0].isdecimal()]
        assert seqs == sorted(seqs), "a mention has no more history than its neighbours"
    assert prompt.tokens == count_prompt_tokens(prompt.messages, prompt.tools, prompt.counter) <= prompt.ceiling


@pytest.mark.parametrize("task", ["mention", "thread"])
@pytest.mark.parametrize("fillers", [42, 45, 60, 90])
def test_what_just_left_the_view_comes_back_too(
    ana: Member, vibe: Agent, thread: Thread, task: str, fillers: int
) -> None:
    say(thread, ana, "The spare key of the Harbour roof hangs behind the pump.")
    for n in range(fillers):
        say(thread, ana, f"Row {n}: " + "roses want water and mulch, hedges time and ponds rest; " * 15)
    question = say(thread, ana, "@vibe where is the spare key of the Harbour roof?")
    prompt = assemble(agent=vibe, thread=thread, task=task, request=question)
    assert "behind the pump" in "".join(message.content for message in prompt.messages)


@pytest.mark.parametrize("task", ["mention", "thread"])
@pytest.mark.parametrize("fillers", [0, 90])
def test_the_middle_of_a_long_message_in_view_is_searched(
    ana: Member, vibe: Agent, thread: Thread, task: str, fillers: int
) -> None:
    """A long message in view stands with head and tail alone."""
    say_all(thread, ana, (f"Row {n}: " + "roses want water and mulch " * 30 for n in range(fillers)))
    padding = "Roses want water and mulch. " * 300
    source = say(thread, ana, f"{padding}The spare key of the Harbour roof hangs behind the pump. {padding}")
    question = say(thread, ana, "@vibe where is the spare key of the Harbour roof?")
    prompt = assemble(agent=vibe, thread=thread, task=task, request=question)
    number = source.seq
    items = [item for item in prompt.included if item.ref == str(number)]
    assert [(item.section, item.source) for item in items] == [
        ("history", f"message {number}"),
        ("recall", f"message {number}, from its middle"),
    ]
    head, middle = (item.text for item in items)
    assert f"cut here: message {number} is stored whole" in head
    assert "behind the pump" in middle
    assert f"[… from the middle of message {number}, which is stored whole …]" in middle
    assert prompt.tokens == count_prompt_tokens(prompt.messages, prompt.tools, prompt.counter) <= prompt.ceiling
    situation = prompt.messages[-2].content
    seen = "the only message" if not fillers else "recalled of 91 messages"
    assert seen in situation


def test_of_the_middles_those_with_the_requests_words_come_first(ana: Member, vibe: Agent, thread: Thread) -> None:
    """A middle that holds none of the words is left out: it would only take room."""
    padding = "Roses want water and mulch. " * 300
    for n in range(9):
        words = f"The spare key {'of the Harbour roof ' * (n == 1)}hangs behind pump {n}. " if n else ""
        say(thread, ana, f"{padding}{words}{padding}")
    question = say(thread, ana, "where is the spare key of the Harbour roof?")
    prompt = assemble(agent=vibe, thread=thread, task="thread", request=question)
    middles = [item for item in prompt.included if item.key.startswith("middle:")]
    assert [item.ref for item in middles] == sorted(item.ref for item in middles)
    assert "behind pump 1" in middles[0].text
    assert {item.ref for item in middles} <= set("23456789")


def test_of_a_deleted_message_no_middle_is_shown(ana: Member, vibe: Agent, thread: Thread) -> None:
    padding = "Roses want water and mulch. " * 300
    source = say(thread, ana, f"{padding}The spare key of the Harbour roof hangs behind the pump. {padding}")
    run = Run.objects.get(trigger=say(thread, ana, "@vibe where is the spare key of the Harbour roof?"))
    told(run, "Behind the pump.")
    view = read_snapshot(run, access(ana))
    assert view is not None
    assert "hangs behind the pump" in "".join(message.content for message in view.messages)
    delete_message(message=source, by=access(ana))
    view = read_snapshot(run, access(ana))
    assert view is not None
    assert "hangs behind the pump" not in "".join(message.content for message in view.messages)
    erase_texts()
    erase_texts(now=timezone.now() + timedelta(minutes=1))
    content = json.dumps(load_content(Snapshot.objects.get(run=run)))
    assert "hangs behind the pump" not in content
    assert "Roses want water" not in content


def test_what_is_recalled_fits_its_room_however_times_jump(ana: Member, vibe: Agent, thread: Thread) -> None:
    """A line between two others changes what the later one says of its time: an hour may take more than a day."""
    words = ("pump", "leaks", "greenhouse")
    texts = [f"Bed {n}: {' '.join(words[: n * 7 % 4])} and roses want mulch" for n in range(120)]
    say_all(thread, ana, texts)
    for message in thread.messages.all():
        said_at = datetime(2026, 3, 1, tzinfo=UTC) + timedelta(hours=5 * message.seq)
        Message.objects.filter(pk=message.pk).update(created_at=said_at)
    request = prompt_request(vibe, ana, thread, "which pump leaks beside the greenhouse?")
    for room in range(500, 800, 2):
        groups = recall_messages(request, (), room).candidates.groups
        assert sum(group.tokens for group in groups) <= room


def test_neither_deleted_nor_unfinished_text_is_recalled(ana: Member, vibe: Agent, thread: Thread) -> None:
    Message(thread=thread, author=vibe.participant, body="The code is swordfish.", state="failed", token_count=6).save(
        force_insert=True
    )
    delete_message(message=say(thread, ana, "The code was swordfish once."), by=access(ana))
    say_all(thread, ana, (f"Row {n}: " + "roses want water and mulch " * 6 for n in range(300)))
    question = say(thread, ana, "@vibe what is the code, swordfish?")
    prompt = assemble(agent=vibe, thread=thread, task="mention", request=question)
    assert "swordfish" not in "".join(m.content for m in prompt.messages[:-1])


def test_a_recalled_answer_that_was_stopped_says_so(ana: Member, vibe: Agent, thread: Thread) -> None:
    answer = Message(thread=thread, author=vibe.participant, body="The code is swordfish and", state="stopped")
    answer.save(force_insert=True)
    say_all(thread, ana, (f"Row {n}: " + "roses want water and mulch " * 6 for n in range(300)))
    question = say(thread, ana, "@vibe what is the code, swordfish?")
    prompt = assemble(agent=vibe, thread=thread, task="mention", request=question)
    (item,) = [item for item in prompt.included if item.section == "recall" and item.ref == "1"]
    assert item.text.startswith("1 Vibe [unfinished, ")


def prompt_request(vibe: Agent, ana: Member, thread: Thread, question: str) -> PromptRequest:
    """A mention that Ana has not posted yet."""
    access, asker = visible_to(vibe), ana.participant
    thread.refresh_from_db()
    return PromptRequest(
        agent=vibe,
        access=access,
        thread=read_thread(access, thread.pk),
        task="mention",
        message=RequestMessage(question, asker, thread.created_at),
        counter=counter_for("offline"),
        budget=BUDGETS["mention"],
    )


def hit(seq: int, *, tokens: int, score: float, selection_rank: int) -> MessageHit:
    author = {"author_id": 1, "author_name": "Ana", "author_kind": "member", "at": datetime(2026, 3, 1, tzinfo=UTC)}
    place = {"message_id": seq, "seq": seq, "thread_id": 1, "kind": "text", "body": "", "is_neighbour": False}
    return MessageHit(**place, **author, tokens=tokens, score=score, selection_rank=selection_rank)  # type: ignore[arg-type]  # by name


def test_a_long_message_of_the_surplus_takes_no_room_from_what_was_chosen_before_it() -> None:
    """A little more is looked for than fits, and a search divides scores by costs."""
    short = [hit(seq, tokens=28, score=1 + seq / 10, selection_rank=seq) for seq in range(4)]
    long = hit(4, tokens=150, score=9, selection_rank=4)
    best_first = [long, *reversed(short)]
    assert [each.seq for each in packing_order(best_first, 130)] == [3, 2, 1, 0, 4]
    assert [each.seq for each in packing_order(best_first, 280)] == [4, 3, 2, 1, 0]


@pytest.mark.parametrize("task", ["mention", "thread"])
@pytest.mark.parametrize("listed", ["thread", "channel"])
def test_nothing_is_recalled_in_a_thread_that_memory_ignores(
    ana: Member, vibe: Agent, thread: Thread, task: str, listed: str
) -> None:
    say(thread, ana, "The spare key of the Harbour roof hangs behind the pump.")
    say_all(thread, ana, (f"Row {n}: " + "roses want water and mulch, hedges time; " * 15 for n in range(120)))
    leaf(taken_in(thread), 1, 60, "The spare key hangs behind the pump, they said.")
    question = say(thread, ana, "@vibe where is the spare key of the Harbour roof?")

    def text() -> str:
        prompt = assemble(agent=vibe, thread=thread, task=task, request=question)
        assert prompt.tokens <= prompt.ceiling
        return "\n".join(message.content for message in prompt.messages)

    assert "behind the pump" in text()
    config = {"ignored_threads": str(thread.pk) if listed == "thread" else f"#{thread.channel.name}"}
    configure_plugin(workspace=ana.workspace, name="memory/lcm", config=config, by=access(ana))
    ignored = text()
    assert "behind the pump" not in ignored
    assert "Row 119" in ignored
