"""Thoughts that stand in the text of an answer, however it is cut into pieces."""

import pytest

from openvibe.llm.errors import EmptyAnswer
from openvibe.llm.thoughts import IncrementalThoughts
from openvibe.llm.values import Completion, StreamEnd, TextDelta
from tests.llm.conformance import PROMPT
from tests.llm.model_server import Answer, serving
from tests.llm.test_answer_shapes import delta, stream_chunks
from tests.llm.test_openai import client

ANSWERS = [
    ("<think>\nMarch, or April?\n</think>\n\nIn March.", "In March."),
    (" \n<Think>Hm.</THINK > <thinking>Hm again: <think>.</thinking>In March.", "In March."),
    ("<think>\nMarch, or", ""),
    ("<think></think>\n", ""),
    ("  In March.", "  In March."),
    ("In March. <think>Or so.</think>", "In March. <think>Or so.</think>"),
    ("`<think>` opens a thought.", "`<think>` opens a thought."),
    ("<thi", "<thi"),
    ("<thinker>", "<thinker>"),
    ("</think>In March.", "</think>In March."),
    ("\n", "\n"),
]


@pytest.mark.parametrize(("text", "answer"), ANSWERS)
def test_thoughts_before_an_answer_are_no_part_of_it(text: str, answer: str) -> None:
    for size in range(1, len(text) + 1):
        thoughts = IncrementalThoughts()
        pieces = [thoughts.remove(text[start : start + size]) for start in range(0, len(text), size)]
        assert "".join([*pieces, thoughts.rest()]) == answer


def read(text: str, reason: str = "stop") -> Completion:
    body = stream_chunks(*(delta(letter) for letter in text), delta(None, reason))
    with serving(Answer(body=body)) as server:
        *pieces, end = client(server).stream(PROMPT)
    assert isinstance(end, StreamEnd)
    assert "".join(piece.text for piece in pieces if isinstance(piece, TextDelta)) == end.completion.text
    return end.completion


def test_an_endpoint_that_sends_thoughts_as_text_gives_the_answer() -> None:
    for text, answer in ANSWERS:
        if answer.strip():
            assert read(text).text == answer


def test_nothing_but_thoughts_is_no_answer() -> None:
    with pytest.raises(EmptyAnswer, match="answered nothing"):
        read("<think>March.</think>")
    with pytest.raises(EmptyAnswer, match="used all its output tokens before it said a word"):
        read("<think>March, or", "length")
