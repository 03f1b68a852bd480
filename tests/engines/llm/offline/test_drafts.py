"""A draft of a result is read from whatever form a model gave it, and written so that it can be read back."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openvibe.engines.llm import tokens
from openvibe.engines.llm.fences import fence
from openvibe.engines.llm.offline.drafts import (
    DRAFT_FORMAT,
    OFFLINE_NOTE,
    ResultDraft,
    extract_draft,
    parse_draft,
    render_card,
    render_draft,
)
from openvibe.engines.llm.offline.offline import OPENING, OfflineModel
from openvibe.engines.llm.values import ChatMessage

ROSES = ResultDraft(
    "Prune roses in March",
    ("Before the buds open", "With clean shears", "Climbers after they flower"),
    "Ana said so.\n\n### Why\n\nFrost: it kills what is cut too early.",
    ("The hedge",),
    ("Who has the ladder?",),
)
AS_ASKED = """\
## Headline
Prune roses in March

## Key points
- Before the buds open
- With clean shears
- Climbers after they flower

## Full text
Ana said so.

### Why

Frost: it kills what is cut too early.

## Deferred
- The hedge

## Open questions
- Who has the ladder?"""
IN_ANOTHER_ORDER = """\
Here is the draft you asked for:

**Open questions:**
1. Who has the ladder?

**Deferred**
* The hedge

# HEADLINE: Prune roses in March

### Key Points:
1) Before the buds open
2) With clean
   shears
3) Climbers after they flower

## Full Text ##
Ana said so.

### Why

Frost: it kills what is cut too early."""
AS_JSON = json.dumps(
    {
        "headline": ROSES.headline,
        "key_points": ROSES.bullets,
        "full_text": ROSES.full,
        "deferred": ROSES.deferred,
        "open_questions": ROSES.questions,
    }
)


@pytest.mark.parametrize(
    "text",
    [
        AS_ASKED,
        IN_ANOTHER_ORDER,
        f"```markdown\n{AS_ASKED}\n```",
        f"Of course.\n\n```md\n{AS_ASKED}\n```\n",
        AS_JSON,
        f"```json\n{AS_JSON}\n```",
    ],
)
def test_the_same_draft_in_any_form(text: str) -> None:
    assert parse_draft(text) == ROSES


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Prune in March.",
        "## Headline\n\n## Key points\n- One",
        "## Headline\nMarch",
        "{",
        "[" * 100_000,
        '{"headline":' * 50_000,
        '{"headline": 3, "key_points": {"a": 1}}',
        "#" * 100_000,
        "- " * 100_000,
        "Headline" * 50_000,
        "\n" * 200_000,
    ],
)
def test_what_is_no_draft_is_none(text: str) -> None:
    assert parse_draft(text) is None


def test_too_much_is_cut_to_what_a_result_may_hold() -> None:
    items = "".join(f"- point {number}\n" for number in range(9))
    draft = parse_draft(f"## Headline\n{'Very long words ' * 20}\n## Key points\n{items}## Deferred\n{items}")

    assert draft is not None
    assert len(draft.headline) <= 120
    assert draft.headline.endswith("words Very…")
    assert (len(draft.bullets), len(draft.deferred)) == (5, 2)


def test_nothing_is_not_an_open_question() -> None:
    draft = parse_draft("## Headline\nA\n## Key points\n- b\n## Deferred\nNone.\n## Open questions\n- n/a")
    assert draft == ResultDraft("A", ("b",))


def test_what_stands_in_code_of_the_full_text_is_no_heading() -> None:
    text = "## Headline\nA\n## Key points\n- b\n## Full text\n```\n## Deferred\n- not this\n```"
    draft = parse_draft(text)
    assert draft is not None
    assert (draft.full, draft.deferred) == ("```\n## Deferred\n- not this\n```", ())


def test_the_card_holds_headline_and_points() -> None:
    assert render_card(ResultDraft("A", ("b", "c"), "full")) == "**A**\n\n- b\n- c"


plain = st.from_regex(r"[A-Z][a-z]{2,8}( [a-z]{3,8}){1,5}[.?]?", fullmatch=True).filter(lambda text: len(text) < 100)


@settings(deadline=None)
@given(
    st.builds(
        ResultDraft,
        headline=plain,
        bullets=st.lists(plain, min_size=1, max_size=5).map(tuple),
        full=st.lists(plain, max_size=4).map("\n\n".join),
        deferred=st.lists(plain, max_size=2).map(tuple),
        questions=st.lists(plain, max_size=2).map(tuple),
    )
)
def test_what_is_written_is_read_back(draft: ResultDraft) -> None:
    assert parse_draft(render_draft(draft)) == draft


@settings(deadline=None)
@given(st.text(st.sampled_from('#*-:{}[]"`~ \nHeadlinekypotsu1.)'), max_size=300))
def test_no_text_upsets_it(text: str) -> None:
    draft = parse_draft(f"## Headline\n{text}\n## Key points\n- {text}")
    assert draft is None or (0 < len(draft.headline) <= 120 and 0 < len(draft.bullets) <= 5)


# --- without a model ----------------------------------------------------------------------------------------

SAID = [
    ("Ana", "When do I prune the roses? We postponed the hedge to autumn."),
    ("Vibe", "Prune roses in March, before the buds open. Climbing roses are pruned after they flower."),
    ("Ana", "Use clean shears for roses, always. The ladder is broken. Who repairs the ladder?"),
]


def test_every_sentence_of_an_extract_was_said() -> None:
    draft = extract_draft(SAID)
    said = " ".join(text for _, text in SAID)

    assert draft.headline in said
    assert 3 <= len(draft.bullets) <= 5
    assert all(bullet in said for bullet in draft.bullets)
    assert draft.deferred == ("We postponed the hedge to autumn.",)
    assert draft.questions == ("Who repairs the ladder?",)
    assert draft.full.startswith(OFFLINE_NOTE)
    assert "Ana: Use clean shears for roses, always." in draft.full


@pytest.mark.parametrize("said", [[], [("Ana", "")], [("", "```\n```")]])
def test_of_nothing_said_nothing_is_made_up(said: list[tuple[str, str]]) -> None:
    assert extract_draft(said) == ResultDraft(full=OFFLINE_NOTE)


def prompt_for(*said: tuple[str, str]) -> list[ChatMessage]:
    fenced = [fence("data", text, source="message", ref=str(n), author=who) for n, (who, text) in enumerate(said, 1)]
    knowledge = fence("data", "Roses cost nine euros in May.", source="knowledge", ref="k1")
    return [
        ChatMessage("system", f"You are Vibe.\n\n{DRAFT_FORMAT}"),
        *(ChatMessage("user", block) for block in fenced),
        ChatMessage("assistant", f"{OPENING} This bears on it:\n\n> Roses like sun all day.\n> — Ben, message 3"),
        ChatMessage("user", knowledge),
        ChatMessage("user", fence("request", "Asked @vibe to draft the result.")),
    ]


def test_the_offline_model_drafts_from_the_dive_alone_and_says_what_it_is() -> None:
    text = OfflineModel().complete(prompt_for(*SAID)).text
    draft = parse_draft(text)

    assert draft is not None
    assert OFFLINE_NOTE in draft.full
    assert "Roses like sun all day." in draft.full
    for foreign in (OPENING, "nine euros", "Asked @vibe", "message 3"):
        assert foreign not in text


def test_an_earlier_draft_is_not_drafted_from() -> None:
    first = OfflineModel().complete(prompt_for(*SAID)).text
    again = OfflineModel().complete(prompt_for(*SAID, ("Vibe", first))).text
    assert again == first


def test_a_short_answer_still_has_headline_and_points() -> None:
    completion = OfflineModel().complete(prompt_for(*SAID, ("Ben", "Mulch in May. " * 400)), max_output_tokens=260)
    assert completion.usage.output_tokens <= 260
    assert tokens.count_tokens(completion.text) <= 260
    assert parse_draft(completion.text) is not None
