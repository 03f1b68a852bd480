"""`manage.py memory`: checking, compacting and counting from a shell."""

import io

import pytest
from django.core.management import CommandError, call_command

from agents.models import Agent
from memory.plugins.lcm.models import Item, Summary
from memory.plugins.models import Compaction, MemoryPlugin
from openvibe.chat.models import Thread
from openvibe.workspaces.models import Member
from tests.engines.llm.factories import EndpointFactory
from tests.factories import make_thread
from tests.memory.factories import CompactionFactory, MemoryPluginFactory
from tests.memory.plugins.lcm.factories import condensed, leaf, taken_in, told


def memory(*words: object) -> str:
    output = io.StringIO()
    call_command("memory", *map(str, words), stdout=output)
    return output.getvalue()


@pytest.fixture
def long(thread: Thread, ana: Member, vibe: Agent) -> Thread:
    told(thread, ana.participant, *[f"Bed {number}: roses want water and mulch. " * 20 for number in range(120)])
    return thread


def test_check_finds_all_well(long: Thread) -> None:
    assert memory("check", "--thread", long.pk) == "Threads checked: 1. All is well.\n"
    assert memory("check") == "Threads checked: 0. All is well.\n"
    taken_in(long)
    assert memory("check") == "Threads checked: 1. All is well.\n"


def test_check_names_the_broken_row_and_exits_1(long: Thread, ana: Member) -> None:
    other = make_thread(long.channel, ana, "Another")
    told(other, ana.participant, "word")
    for one in (long, other):
        taken_in(one)
    Item.objects.filter(conversation__thread=long, ordinal=7).delete()
    output = io.StringIO()
    with pytest.raises(CommandError) as error:
        call_command("memory", "check", stdout=output)
    assert error.value.returncode == 1
    assert f"Thread {long.pk}: Message" in output.getvalue()
    assert "(number 7)" in output.getvalue()
    assert memory("check", "--thread", other.pk) == "Threads checked: 1. All is well.\n"


def test_compact_tells_the_size_before_and_after(long: Thread) -> None:
    said = memory("compact", "--thread", long.pk, "--full")
    done = Compaction.objects.get()
    assert said == (
        f"{done.tokens_before:,} tokens before, {done.tokens_after:,} after; new summaries: {done.created_count}.\n"
    )
    assert done.full
    assert done.tokens_after is not None
    assert done.tokens_before is not None
    assert done.tokens_after < done.tokens_before
    assert Summary.objects.count() == done.created_count > 0
    assert memory("check") == "Threads checked: 1. All is well.\n"
    assert memory("compact", "--thread", long.pk, "--full").startswith("Nothing to compact")


def test_compact_does_not_start_beside_another(long: Thread) -> None:
    CompactionFactory.create(thread=long, plugin="memory/lcm", trigger="hand", state="running")
    with pytest.raises(CommandError, match="already"):
        memory("compact", "--thread", long.pk)


def test_compact_says_why_it_cannot(long: Thread) -> None:
    MemoryPlugin.objects.filter(workspace=long.workspace).delete()
    MemoryPluginFactory.create(workspace=long.workspace, name="memory/simple", enabled=True)
    with pytest.raises(CommandError, match="makes no summaries"):
        memory("compact", "--thread", long.pk)


def test_stats_are_a_line_for_each_thread(long: Thread) -> None:
    taken_in(long)
    header, line = memory("stats").splitlines()
    assert header.split() == ["thread", "messages", "in", "context", "tokens", "summaries", "deepest"]
    assert line.replace(",", "").split()[:3] == [str(long.pk), "120", "120"]
    Thread.objects.filter(pk=long.pk).update(access="human_only")
    assert "people only" in memory("stats", "--thread", long.pk)


@pytest.mark.parametrize("verb", ["check", "compact", "stats"])
@pytest.mark.django_db
def test_a_thread_that_is_not_there(verb: str) -> None:
    with pytest.raises(CommandError, match="There is no thread 999"):
        memory(verb, "--thread", 999)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("Error: 500 Internal Server Error", "it is an error message"),
        ("I'm sorry, but I can't help with that.", "it is a refusal"),
        ("<think>The beds want water.</think>", "it holds a model's thoughts"),
        ('<tool_call>{"name": "memory", "arguments": {}}</tool_call>', "it holds a call of a tool"),
        ('{"name": "memory", "arguments": {"action": "status"}}', "it holds a call of a tool"),
        ("\u200b\u200d", "it shows no word"),
        ("All is well.", "it says nothing of what was said"),
        ("Ana: the beds want roses, water and mulch for 999 euros.", "it names what nobody said: 999"),
        (
            "Ana: beds with roses want mulch. The whole farm was sold abroad yesterday.",
            "it says nothing of what was said",
        ),
    ],
)
def test_check_finds_what_is_no_summary_and_rebuild_has_it_written_anew(long: Thread, answer: str, reason: str) -> None:
    conversation = taken_in(long)
    leaf_summary, good = (
        leaf(conversation, 1, 20, answer),
        leaf(conversation, 21, 40, "Ana on beds 21 to 39: water, mulch."),
    )
    above = condensed(conversation, [leaf_summary, good], "Ana on all beds: water and mulch.")
    with pytest.raises(CommandError):
        memory("check", "--thread", long.pk)
    output = io.StringIO()
    with pytest.raises(CommandError, match="Do what they say"):
        call_command("memory", "check", stdout=output)
    assert (
        f"Summary {leaf_summary.pk} (1–20) is no summary: {reason}. `manage.py memory rebuild --thread {long.pk}`"
        in (output.getvalue())
    )
    assert output.getvalue().count("is no summary") == 1
    assert "1 that were none" in memory("rebuild", "--thread", long.pk)
    assert memory("check") == "Threads checked: 1. All is well.\n"
    leaf_summary.refresh_from_db()
    above.refresh_from_db()
    good.refresh_from_db()
    assert "mulch" in leaf_summary.content
    assert (leaf_summary.version, above.version, good.version) == (3, 3, 1)
    assert "every summary stands" in memory("rebuild")


def test_rebuild_says_why_a_model_could_not(long: Thread, ana: Member) -> None:
    leaf(taken_in(long), 1, 20, "Error: 500")
    EndpointFactory.create(
        workspace=ana.workspace, name="Gone", is_default=True, base_url="http://127.0.0.1:9/v1", model="m"
    )
    with pytest.raises(CommandError, match=r"could not be made.*Workers try again"):
        memory("rebuild")
    assert Summary.objects.get().stale
