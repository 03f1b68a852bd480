"""What of an answer's words cites something, and that nothing else does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.prompts.citations.find import MAX_CITATIONS, Citable, find_citations
from openvibe.engines.text.html_links import linkable_texts
from openvibe.engines.text.markdown import render_markdown

FOX = "🦊 عمر"
SHOWN = (
    Citable("message", 101, "message:101", 1, author="Ana"),
    Citable("message", 104, "message:104", 4, author=FOX),
    Citable("message", 107, "message:107", 7, by_hash=True),
    Citable("message", 300, number=3, thread_id=12),
    Citable("knowledge", 7, "knowledge:7", name="Mulch", references=("knowledge:7",), author="Ana"),
    Citable("knowledge", 8, "knowledge:8", name="Bark mulch prices", references=("knowledge:8",)),
    Citable("knowledge", 9, name="Pricing", references=("knowledge:9",)),
    Citable("knowledge", 10, name="pricing", references=("knowledge:10",)),
    Citable("file", 9, "file:101:9", name="plan (v2).pdf", references=("attachment:9",), pages={3: "piece:101:9:2"}),
    Citable("work", 5, "work:5", references=("work:5",)),
)


def found(*texts: str, shown: tuple[Citable, ...] = SHOWN) -> list[tuple[str, int, str]]:
    return [(one.words, one.occurrence, one.item_key or str(one.cited.ref)) for one in find_citations(texts, shown)]


@pytest.mark.parametrize(
    ("text", "citations"),
    [
        ("In March [message 4].", [("[message 4]", 0, "message:104")]),
        ("— Ana, message 1", [("Ana, message 1", 0, "message:101")]),
        ("(Ben, message 1)", [("message 1", 0, "message:101")]),
        (f"({FOX}, message 4)", [(f"{FOX}, message 4", 0, "message:104")]),
        ("MESSAGE #4, Message no. 7", [("MESSAGE #4", 0, "message:104"), ("Message no. 7", 0, "message:107")]),
        ("messages 4, 9 and 7", [("messages 4", 0, "message:104"), ("7", 0, "message:107")]),
        ("7 people; messages 1–7", [("messages 1", 0, "message:101"), ("7", 1, "message:107")]),
        ("Nachrichten 4 und 7", [("Nachrichten 4", 0, "message:104"), ("7", 0, "message:107")]),
        ("消息4说", [("消息4", 0, "message:104")]),
        ("as said in [4] and [1, 7]", [("[4]", 0, "message:104"), ("1", 0, "message:101"), ("7", 0, "message:107")]),
        ("#7 and #4", [("#7", 0, "message:107")]),
        ("message 3 in thread 12", [("message 3 in thread 12", 0, "300")]),
        ("[knowledge:7], work: 5", [("[knowledge:7]", 0, "knowledge:7"), ("work: 5", 0, "work:5")]),
        ("knowledge entry 8", [("knowledge entry 8", 0, "knowledge:8")]),
        ("Under “mulch” it says", [("mulch", 0, "knowledge:7")]),
        ("Bark mulch prices: Bark mulch prices", [("Bark mulch prices", 0, "knowledge:8")]),
        ("page 3 of plan (v2).pdf", [("page 3 of plan (v2).pdf", 0, "piece:101:9:2")]),
        ("PLAN (v2).pdf, p. 3", [("PLAN (v2).pdf, p. 3", 0, "piece:101:9:2")]),
        ("plan (v2).pdf, page 8", [("plan (v2).pdf, page 8", 0, "file:101:9")]),
    ],
)
def test_models_cite_in_many_ways(text: str, citations: list[tuple[str, int, str]]) -> None:
    assert found(text) == citations


@pytest.mark.parametrize(
    "text",
    [
        *(
            "message 2",
            "messages 2 and 3",
            "message 99999999999999999999",
            "message four",
            "message 4.5",
            "message 4th",
        ),
        *("messages 4,500", "submessage 4", "error message 4", "commit message", "4 messages", "#4", "abc#7", "#71"),
        *(
            "[2]",
            "[4] and [2]",
            "x[4]",
            "[4](",
            "[x] [ ]",
            "knowledge:70",
            "knowledge:7.5e",
            "acknowledge:7",
            "entry 70",
        ),
        *("Mulch is bark", "“Pricing”", "bark mulch prices", "myplan (v2).pdf", "plan (v2).pdf.bak", "plan", "work 5"),
        *("message 3", "message 1 of thread 12", "message 3 in thread 13", "Ana", "", "\x00", "message:"),
    ],
)
def test_what_was_not_shown_or_may_mean_something_else_stays_text(text: str) -> None:
    assert found(text) == [], text


def test_numbers_of_a_list_of_sources_are_not_those_of_messages() -> None:
    assert found("as [1] says", "[1] https://example.org") == []


def test_a_message_of_the_thread_above_is_the_one_a_dive_began_with() -> None:
    source = Citable("message", 50, "message:50", references=("source:4",))
    assert found("message 4 of the thread", shown=(*SHOWN, source)) == [("message 4", 0, "message:50")]
    assert found("message 1 of the thread", shown=(*SHOWN, source)) == []


def test_code_and_links_cite_nothing() -> None:
    body = "`message 4` [message 4](https://a.b/) https://a.b/message/4\n\n```\nmessage 4\n```\n\n    message 4\n"
    assert find_citations(linkable_texts(render_markdown(body)), SHOWN) == []


def test_an_answer_of_citations_alone_is_bounded() -> None:
    assert len(found("message 4 " * 10_000)) == MAX_CITATIONS
    assert len(found("message ٤, " + "messages 1, 4, 7, " * 3_000)) == MAX_CITATIONS


PIECES = st.sampled_from(
    [
        *(
            "message ",
            "messages ",
            "1",
            "4",
            "7",
            "9",
            ", ",
            " and ",
            "[",
            "]",
            "(",
            ")",
            "#",
            "knowledge:",
            "Ana",
            FOX,
        ),
        *(
            "\n",
            "\n\n",
            "`",
            "**",
            "> ",
            "| ",
            "“",
            "”",
            "Mulch",
            "plan (v2).pdf",
            "page 3 of ",
            "<b>",
            "&amp;",
            "\u202e",
        ),
    ]
)


@given(st.lists(PIECES, max_size=40).map("".join))
def test_whatever_is_written_only_what_was_shown_is_found_where_it_stands(body: str) -> None:
    texts = linkable_texts(render_markdown(body))
    known = {(one.kind, one.ref) for one in SHOWN}
    for one in find_citations(texts, SHOWN):
        assert (one.cited.kind, one.cited.ref) in known
        assert one.words
        assert one.occurrence < sum(text.count(one.words) for text in texts)
        if one.cited.kind == "message":
            assert str(one.cited.number) in one.words
