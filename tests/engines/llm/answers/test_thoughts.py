"""Thoughts that stand in the text of an answer, however it is cut into pieces."""

from collections.abc import Iterable

import pytest

from openvibe.engines.llm.answers.thoughts import AnswerText
from openvibe.engines.llm.anthropic.client import AnthropicModel
from openvibe.engines.llm.errors import EmptyAnswer
from openvibe.engines.llm.http_client import Connection
from openvibe.engines.llm.openai.client import OpenAIModel
from openvibe.engines.llm.values import Completion, StreamEnd, TextDelta, TextReset
from tests.engines.llm.answers.test_answer_shapes import delta, stream_chunks
from tests.engines.llm.conformance import KEY, PROMPT
from tests.engines.llm.messages_protocol import message_events
from tests.engines.llm.model_server import Answer, serving

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
    ("\n", "\n"),
    ("`</think>` and “</think>” end a thought.", "`</think>` and “</think>” end a thought."),
    ("```\n<b></b>\n</think>\n```\nends it: 3 < 4 </", "```\n<b></b>\n</think>\n```\nends it: 3 < 4 </"),
]
UNOPENED = [
    ("March, or April?\n</think>\n\nIn March.", "In March."),
    ("They ask, and I say </thinking> In March.", "In March."),
    ("</think>In March.", "In March."),
    ("Is `</think>` meant? No.</THINK > \n In March, </think>.", "In March, </think>."),
    ("March.</think><think>Or so?</think>In March.", "In March."),
    ("March.\n</think>\n", ""),
    ("March.</think><think>Or", ""),
]
"""The prompts of some models end with `<think>`, so their answers do not begin with it."""


def heard(events: Iterable[object]) -> str:
    """What somebody who listens takes for the answer in the end."""
    text = ""
    for event in events:
        if isinstance(event, TextReset):
            assert text, "there is something to take back"
            text = ""
        elif isinstance(event, TextDelta):
            assert event.text
            text += event.text
    return text


@pytest.mark.parametrize(("text", "answer"), [*ANSWERS, *UNOPENED])
def test_thoughts_before_an_answer_are_no_part_of_it(text: str, answer: str) -> None:
    for size in range(1, len(text) + 1):
        answer_text = AnswerText()
        events = [event for start in range(0, len(text), size) for event in answer_text.add(text[start : start + size])]
        assert heard([*events, *answer_text.end()]) == answer_text.text == answer


@pytest.mark.parametrize(("text", "answer"), ANSWERS)
def test_what_was_opened_is_never_shown(text: str, answer: str) -> None:
    answer_text = AnswerText()
    assert TextReset() not in [event for letter in text for event in answer_text.add(letter)]


def read(build: type[OpenAIModel | AnthropicModel], text: str, reason: str = "stop") -> Completion:
    """What the model answers, letter by letter; a stream that is not asked for says the same."""
    openai_chunks = stream_chunks(*(delta(letter) for letter in text), delta(None, reason))
    body = openai_chunks if build is OpenAIModel else message_events(text, reason)
    with serving(Answer(body=body)) as server:
        model = build(Connection(server.base_url, KEY, allow_private=True), model="m")
        *pieces, end = model.stream(PROMPT)
        assert isinstance(end, StreamEnd)
        assert heard(pieces) == end.completion.text
        assert model.complete(PROMPT) == end.completion
    return end.completion


@pytest.mark.parametrize("build", [OpenAIModel, AnthropicModel])
def test_an_endpoint_that_sends_thoughts_as_text_gives_the_answer(build: type[OpenAIModel | AnthropicModel]) -> None:
    for text, answer in [*ANSWERS, *UNOPENED]:
        if answer.strip():
            assert read(build, text).text == answer


@pytest.mark.parametrize("build", [OpenAIModel, AnthropicModel])
def test_nothing_but_thoughts_is_no_answer(build: type[OpenAIModel | AnthropicModel]) -> None:
    for text in ("<think>March.</think>", "March.</think>"):
        with pytest.raises(EmptyAnswer, match="answered nothing"):
            read(build, text)
    with pytest.raises(EmptyAnswer, match="used all its output tokens before it said a word"):
        read(build, "<think>March, or", "length")
