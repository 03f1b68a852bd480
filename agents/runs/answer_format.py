"""Answers that have to be JSON, as a chat client asks for with `response_format`: what the model is told besides, and
what of its answer is one. A model that can do it by itself is asked in its own words, too."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from openvibe.engines.llm.answers.structured_output import UnparsableAnswer
from openvibe.engines.llm.fences import clean_text
from openvibe.engines.llm.tokens import TokenCounter
from openvibe.engines.llm.values import CallOptions, ChatMessage

_FENCE_PATTERN = re.compile(r"```(?:json|JSON)?[ \t]*\n(.*?)\n?[ \t]*```", re.DOTALL)
_MAX_REPEATED_CHARACTERS = 2_000
"""The most characters of an answer that is shown to its model again."""
_CORRECTION_TOKENS = 800


@dataclass(frozen=True)
class AnswerFormat:
    """The whole answer is one JSON value: any object where there is no `schema`."""

    schema: Mapping[str, Any] | None = None

    @property
    def instruction(self) -> ChatMessage:
        text = "Answer with one JSON object and nothing else: no words before or after it, no code fence."
        if self.schema is not None:
            schema = json.dumps(self.schema, ensure_ascii=False)
            text = (
                "Answer with one JSON value and nothing else: no words before or after it, no code fence. "
                f"It has to be valid by this JSON schema:\n{schema}"
            )
        return ChatMessage("user", clean_text(text))

    def correction(self, answer: str, problem: str) -> tuple[ChatMessage, ...]:
        """What asks for the same answer once more."""
        text = f"That is not what was asked for: {problem} Answer again, with the JSON alone."
        return (ChatMessage("assistant", answer[:_MAX_REPEATED_CHARACTERS]), ChatMessage("user", clean_text(text)))

    def count_tokens(self, counter: TokenCounter) -> int:
        """What the instruction and one correction take in a prompt."""
        return counter.count(self.instruction.content) + _CORRECTION_TOKENS

    def read(self, answer: str) -> str:
        """The JSON in an answer, as the model wrote it. Raises UnparsableAnswer, which says what is wrong."""
        problem = "There is no JSON in it."
        for text in _candidates(answer):
            try:
                value = json.loads(text)
            except (ValueError, RecursionError) as error:
                problem = f"It is no JSON ({str(error)[:100]})."
                continue
            if problem := self._find_problem(value):
                continue
            return text
        raise UnparsableAnswer(problem)

    def _find_problem(self, value: Any) -> str:
        if self.schema is None:
            return "" if isinstance(value, dict) else "It is no JSON object."
        from agents.runs.json_schema import find_value_problem  # 80 ms and 5 MB, and hardly any run has a schema

        return find_value_problem(self.schema, value)


def answer_format(options: CallOptions) -> AnswerFormat | None:
    """What the answer has to be; None where it may be any text."""
    wanted = options.response_format or {}
    if wanted.get("type") == "json_object":
        return AnswerFormat()
    schema = wanted.get("json_schema")
    if wanted.get("type") == "json_schema" and isinstance(schema, Mapping):
        return AnswerFormat(schema.get("schema") or {})
    return None


def _candidates(answer: str) -> Iterator[str]:
    """The parts of an answer that may be the JSON: all of it, what stands in a code fence, what stands in brackets."""
    text = answer.strip()
    yield text
    for fenced in _FENCE_PATTERN.findall(text)[:5]:
        yield fenced.strip()
    for opening, closing in (("{", "}"), ("[", "]")):
        start, end = text.find(opening), text.rfind(closing)
        if 0 <= start < end and (start, end) != (0, len(text) - 1):
            yield text[start : end + 1]
