"""What a prompt holds of a SOUL, by task type."""

from agents.agent.soul import SOUL_TOKEN_ADVICE, SOUL_TOKEN_LIMIT, render_soul, soul_text, soul_tokens
from agents.agent.soul.parser import parse_soul
from openvibe.engines.llm.tokens import count_tokens
from tests.agents.agent.soul.sample_souls import FERN


def test_sections_grow_with_the_task() -> None:
    fern = parse_soul(FERN)
    core = ["Identity", "Principles", "Constraints"]
    assert [section.title for section in render_soul(fern, "mention")] == core
    assert [section.title for section in render_soul(fern, "thread")] == [*core, "Capabilities"]
    assert [section.title for section in render_soul(fern, "dive")] == [*core, "Capabilities", "Behavior"]
    assert render_soul(fern, "publish") == render_soul(fern, "dive")


def test_everything_the_soul_says_is_in_the_fullest_rendering() -> None:
    said = soul_text(parse_soul(FERN), "dive")
    for words in (
        "Fern, Gardener of the roof",
        "every plant by name",
        "Ask before you prune",
        "patience",
        "soil",
        "knowledge_search",
        "mushrooms",
        "frost tonight",
        "under 800 tokens",
        "salaries",
        "Recommend poison",
        "somebody ate a plant: hand over to a human",
        "as briefly as",
        "short answer first",
    ):
        assert words in said


def test_a_bare_soul_renders_no_empty_sections() -> None:
    bare = parse_soul("identity: {name: Fern, role: gardener}")
    assert [section.title for section in render_soul(bare, "dive")] == ["Identity", "Constraints"]


def test_tokens_are_those_of_the_fullest_rendering() -> None:
    fern = parse_soul(FERN)
    assert soul_tokens(fern, count_tokens) == count_tokens(soul_text(fern, "dive"))
    assert 0 < soul_tokens(fern, count_tokens) < SOUL_TOKEN_LIMIT == SOUL_TOKEN_ADVICE[1]
