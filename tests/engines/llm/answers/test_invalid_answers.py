"""Answers that are none: garbage, emptiness, and anything at all."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openvibe.engines.llm.errors import BadAnswer, ModelError
from openvibe.engines.llm.values import Completion, StreamEnd
from openvibe.engines.network.ssrf_guard import MAX_RESPONSE_BYTES
from tests.engines.llm.conformance import PROMPT
from tests.engines.llm.model_server import Answer, serving
from tests.engines.llm.openai.test_openai import client
from tests.examples import examples

_FIELD_NAMES = "content tool_calls id index function name arguments choices message role finish_reason prompt_tokens"
FIELDS = st.sampled_from(_FIELD_NAMES.split())


@pytest.mark.parametrize(
    "body",
    [
        b"<html>Welcome!</html>",
        b"",
        b"{",
        b"null",
        b"[]",
        b'"text"',
        b'{"choices": []}',
        b'{"choices": null}',
        b'{"choices": "many"}',
        b'{"choices": [7]}',
        b'{"choices": [{"message": null, "finish_reason": "stop"}]}',
        b'{"choices": [{"message": {"content": 7}, "finish_reason": "stop"}]}',
        b'{"choices": [{"message": {"content": "   "}, "finish_reason": "stop"}]}',
        b"data: {\n\n",
        b"data: null\n\n",
        b"data: [1]\n\n",
        b'data: {"choices": 3}\n\n',
        b'data: {"choices": [{"delta": {"content": {"a": 1}}}]}\n\n',
        b"data: \xff\xfe\n\n",
        b"data: [DONE]\n\n",
        b"[" * 200_000,
        b"data: " + b"[" * 200_000 + b"\n\n",
    ],
)
def test_garbage_is_a_bad_answer(body: bytes) -> None:
    with serving(Answer(body=body)) as server:
        with pytest.raises(BadAnswer):
            client(server).complete(PROMPT)
        with pytest.raises(BadAnswer):
            list(client(server).stream(PROMPT))


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4),
    max_leaves=12,
)
CHOICE = st.fixed_dictionaries(
    {},
    optional={
        "message": st.dictionaries(FIELDS, ANYTHING, max_size=4),
        "delta": st.dictionaries(FIELDS, ANYTHING, max_size=4),
        "finish_reason": ANYTHING,
    },
)
ANSWERS = st.fixed_dictionaries(
    {}, optional={"choices": ANYTHING | st.lists(CHOICE, max_size=2), "usage": ANYTHING, "error": ANYTHING}
)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(ANYTHING | ANSWERS, min_size=1, max_size=3))
def test_whatever_comes_is_an_answer_or_a_typed_error(answers: list[Any]) -> None:
    whole = Answer(body=json.dumps(answers[0]).encode())
    streamed = Answer(body=b"".join(b"data: " + json.dumps(a).encode() + b"\n\n" for a in answers))
    with serving(whole, streamed) as server:
        model = client(server, attempts=1)
        with suppress(ModelError):
            assert isinstance(model.complete(PROMPT), Completion)
        with suppress(ModelError):
            assert isinstance([*model.stream(PROMPT)][-1], StreamEnd)


@pytest.mark.parametrize(
    "answer",
    [
        Answer(body=b"out of \x00 tokens\x1b"),
        Answer(status=500, error={"message": "out of \x00 tokens\ud800"}),
        Answer(body=b'data: {"error": {"message": "out of \\u0000 tokens\\ud800"}}\n\n'),
    ],
)
def test_what_an_endpoint_says_can_be_stored(answer: Answer) -> None:
    with serving(answer) as server, pytest.raises(ModelError, match=r"says: out of tokens\.?$"):
        list(client(server, attempts=1).stream(PROMPT))


def calls(count: int, arguments: str = "{}") -> Answer:
    many = [{"id": f"c{n}", "function": {"name": "a", "arguments": arguments}} for n in range(count)]
    choice = {"message": {"content": None, "tool_calls": many}, "finish_reason": "tool_calls"}
    return Answer(body=json.dumps({"choices": [choice]}).encode())


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (calls(1_001), "more than 1,000 tools at once"),
        (calls(1, "x" * 1_000_001), "more than 1,000,000 characters of arguments"),
        (Answer(body=gzip.compress(b"data: " * 1_000_000), headers={"Content-Encoding": "gzip"}), "compresses"),
        (Answer(body=bytes(MAX_RESPONSE_BYTES + 1)), "more than 67,108,864 bytes"),
    ],
    ids=["calls", "arguments", "compressed", "bytes"],
)
def test_what_would_take_all_memory_is_a_bad_answer(answer: Answer, words: str) -> None:
    with serving(answer) as server, pytest.raises(BadAnswer, match=words):
        client(server).complete(PROMPT)
    assert len(server.asked) == 1


def test_an_empty_answer_says_why() -> None:
    with serving(Answer(""), Answer("", finish_reason="length"), Answer("", finish_reason="content_filter")) as server:
        for words in ("answered nothing", "output tokens", "content filter"):
            with pytest.raises(BadAnswer, match=words):
                list(client(server).stream(PROMPT))
