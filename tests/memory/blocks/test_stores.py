"""Both stores keep the same promises; the database keeps versions besides, and loses nothing when many write."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pytest_django import DjangoAssertNumQueries

from agents.models import Agent
from memory.blocks.context_blocks import BlockStore, ContextBlocks
from memory.blocks.models import Block, CarriedVersion
from memory.blocks.values import PREDEFINED_BLOCKS, BlockAuthor, ContextBlock
from openvibe.base.models import Event
from openvibe.base.problems import Conflict, Problem
from openvibe.engines.llm.tokens import count_tokens
from openvibe.workspaces.models import Member, Participant
from tests import factories
from tests.examples import examples
from tests.memory.blocks.conformance import BlockStoreConformance
from tests.memory.blocks.in_memory import InMemoryBlocks

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=40)
WRITES = st.lists(st.tuples(st.sampled_from(["set", "append", "delete"]), st.sampled_from("abc"), TEXTS), max_size=8)


class TestInMemory(BlockStoreConformance):
    @pytest.fixture
    def agent(self) -> Participant:
        return Participant(pk=1, handle="vibe", kind="agent")

    @pytest.fixture
    def store(self) -> InMemoryBlocks:
        return InMemoryBlocks()


class TestDatabase(BlockStoreConformance):
    @pytest.fixture
    def agent(self, vibe: Agent) -> Participant:
        return vibe.participant

    @pytest.fixture
    def store(self, agent: Participant) -> BlockStore:
        return BlockStore(agent.pk)


def check_writes(agent: Participant, store: BlockStore, writes: Sequence[tuple[str, str, str]]) -> None:
    """Checks each write, however it is made (verb, label, text): never over the limit, and nothing else changes."""
    store.clear_blocks(lambda _: None)
    blocks = ContextBlocks(agent, store, predefined=[ContextBlock(label, max_tokens=6) for label in "ab"])
    expected = {"a": "", "b": ""}
    for verb, label, text in writes:
        try:
            if verb == "delete":
                blocks.delete(label)
                expected.pop(label, None)
                expected = {"a": "", "b": ""} | expected
            else:
                expected[label] = getattr(blocks, verb)(label, text).content
        except Problem:
            continue
        clean = text.replace("\r\n", "\n").replace("\r", "\n")
        assert verb == "delete" or expected[label].endswith(clean)
    assert {block.label: block.content for block in blocks.list()} == expected
    for block in blocks.list():
        assert block.tokens == count_tokens(block.content) <= block.max_tokens


@settings(deadline=None, max_examples=examples(300))
@given(writes=WRITES)
def test_whatever_is_written_in_memory(writes: list[tuple[str, str, str]]) -> None:
    check_writes(Participant(pk=1, handle="vibe", kind="agent"), InMemoryBlocks(), writes)


@settings(deadline=None, max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(writes=WRITES)
def test_whatever_is_written_in_the_database(vibe: Agent, writes: list[tuple[str, str, str]]) -> None:
    check_writes(vibe.participant, BlockStore(vibe.participant_id), writes)


def test_versions_say_who_and_how(ana: Member, vibe: Agent) -> None:
    own = ContextBlocks(vibe.participant)
    by_ana = ContextBlocks(vibe.participant, author=BlockAuthor(ana.participant_id, "page", configures=True))
    own.set("team", "We say hi.")
    by_ana.set("team", "We say hello.", max_tokens=100)
    own.append("team", "And bye.")
    versions = CarriedVersion.objects.filter(block__label="team").order_by("number")
    assert list(versions.values_list("number", "author_id", "how", "content")) == [
        (1, vibe.participant_id, "agent", "We say hi."),
        (2, ana.participant_id, "page", "We say hello."),
        (3, vibe.participant_id, "agent", "We say hello.\nAnd bye."),
    ]
    assert Block.objects.get().changed_by_id == vibe.participant_id
    own.delete("team")
    assert not CarriedVersion.objects.exists()


def test_each_change_is_an_event(vibe: Agent) -> None:
    blocks = ContextBlocks(vibe.participant)
    blocks.set("team", "One")
    blocks.set("team", "One")
    blocks.delete("team")
    assert Event.objects.filter(kind="blocks_changed", workspace_id=vibe.workspace_id).count() == 2


def test_blocks_of_agents_do_not_mix(ana: Member, vibe: Agent) -> None:
    fern = factories.make_agent(ana, "fern")
    ContextBlocks(vibe.participant).set("team", "Vibe's")
    ContextBlocks(fern.participant).set("team", "Fern's")
    assert ContextBlocks(fern.participant).clear() == 1
    assert "Vibe's" in ContextBlocks(vibe.participant).text()
    assert ContextBlocks(fern.participant).text() == ""


def test_every_agent_has_two_empty_blocks_to_fill(vibe: Agent) -> None:
    blocks = ContextBlocks(vibe.participant)
    assert [block.label for block in blocks.list()] == ["learned", "team"]
    assert blocks.text() == ""
    assert not Block.objects.exists()
    tool = blocks.tool()
    assert tool is not None
    assert tool.parameters["properties"]["label"]["enum"] == ["learned", "team"]
    assert PREDEFINED_BLOCKS[1].description in tool.description


def test_all_blocks_and_the_tool_cost_one_query_each(
    vibe: Agent, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    blocks = ContextBlocks(vibe.participant, author=BlockAuthor(None, "admin", configures=True))
    blocks.set("team", "We say hello.")
    for number in range(3):
        blocks.set(f"block-{number}", f"Text {number}", readonly=True)
    with django_assert_num_queries(1):
        stored_blocks = blocks.list()
    assert [block.label for block in stored_blocks] == ["block-0", "block-1", "block-2", "learned", "team"]
    assert (stored_blocks[0].content, stored_blocks[0].readonly, stored_blocks[0].version) == ("Text 0", True, 1)
    assert stored_blocks[0].tokens == ContextBlock("x", content="Text 0").tokens
    with django_assert_num_queries(1):
        blocks.tool()


def written(blocks: ContextBlocks, verb: str, text: str, seen: str | None = None) -> bool:
    try:
        getattr(blocks, verb)("team", text, based_on=seen)
    except Conflict:
        return False
    finally:
        connection.close()
    return True


@pytest.mark.django_db(transaction=True)
def test_lines_appended_at_once_are_all_there(vibe: Agent) -> None:
    blocks = ContextBlocks(vibe.participant)
    lines = [f"line {number}" for number in range(12)]
    with ThreadPoolExecutor(4) as writers:
        assert all(writers.map(lambda line: written(blocks, "append", line), lines))
    block = Block.objects.get()
    assert sorted(block.content.split("\n")) == sorted(lines)
    assert (block.version, block.versions.count()) == (12, 12)


@pytest.mark.django_db(transaction=True)
def test_of_writers_who_saw_the_same_one_wins(vibe: Agent) -> None:
    blocks = ContextBlocks(vibe.participant)
    for seen in ("0", None):
        stamp = seen or blocks.set("team", "Start").stamp
        with ThreadPoolExecutor(4) as writers:
            won = list(writers.map(lambda number, stamp=stamp: written(blocks, "set", f"W{number}", stamp), range(4)))
        assert sum(won) == 1
        assert Block.objects.get().content == f"W{won.index(True)}"
