"""Any endpoint that speaks the chat-completions protocol.

What a server says that its model said, and refused to pass on (Groq), is read as an answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar
from urllib.parse import urlsplit

from openvibe.engines.llm.adaptations.adaptations import CallPlan
from openvibe.engines.llm.answers.thoughts import AnswerText, read_answer
from openvibe.engines.llm.answers.tool_calls import merge_calls, resolve_name
from openvibe.engines.llm.answers.written_calls import read_calls
from openvibe.engines.llm.errors import EmptyAnswer, ModelError
from openvibe.engines.llm.fences import clean_text
from openvibe.engines.llm.http_model import Accumulator, HttpModel
from openvibe.engines.llm.openai.answers import ChatAccumulator
from openvibe.engines.llm.openai.requests import encode_request
from openvibe.engines.llm.protocol import ModelStream
from openvibe.engines.llm.retries import Retries
from openvibe.engines.llm.values import Completion, ReasoningDelta, TextDelta, TextReset, ToolSpec, Usage
from openvibe.engines.text.cleaning import has_visible_character

MAX_CHARACTERS = 100_000
_CODES = ("tool_use_failed", "output_parse_failed")
_END = re.compile(r"\s*(?:</function>|<\|[a-z_]{1,20}\|>)\s*\Z")
_MARKUP = re.compile(r"[{<\[]")


def read_failed_generation(error: ModelError, tools: Sequence[ToolSpec]) -> Completion | None:
    """The completion, without usage; None where the error is another, or what was said is no answer. The latter may be
    otherwise the next time, so the error then says that it may pass."""
    if (text := _text_in(error)) is None:
        return None
    text = clean_text(text[:MAX_CHARACTERS])
    answer = read_answer(text, tools)
    try:
        calls = answer.all_calls(())
    except EmptyAnswer:
        calls = ()
    said = answer.text
    if not calls:
        written = read_calls(_END.sub("", text)) or []
        if written and all(resolve_name(call.name, tools) for call in written):
            calls, said = tuple(merge_calls((), written, tools)), ""
    if not calls and (not has_visible_character(said) or _MARKUP.search(said)):
        error.may_pass = True
        return None
    return Completion(said, calls, Usage(0, 0), "tool_calls" if calls else "stop", {}, answer.reasoning)


def _text_in(error: ModelError) -> str | None:
    body: Any = error.report.body if error.report else None
    inner = body.get("error") if isinstance(body, Mapping) else None
    for place in (inner, body):
        if isinstance(place, Mapping) and place.get("code") in _CODES:
            text = place.get("failed_generation", "")
            return text if isinstance(text, str) else ""
    return None


class OpenAIModel(HttpModel):
    """A ModelClient for one endpoint."""

    path: ClassVar[str] = "/chat/completions"

    def _plan(self, plan: CallPlan) -> CallPlan:
        is_official = (urlsplit(self._connection.base_url).hostname or "").endswith("openai.com")
        return replace(plan, limit_name="max_completion_tokens" if is_official else "max_tokens")

    def _request(self, plan: CallPlan) -> dict[str, Any]:
        return encode_request(self.model, plan)

    def _accumulator(self, plan: CallPlan) -> Accumulator:
        return ChatAccumulator(AnswerText(plan.tools))

    def _read(self, retries: Retries, plan: CallPlan) -> ModelStream:
        """The same, and what the model said where its server put that into an error."""
        try:
            yield from super()._read(retries, plan)
        except ModelError as error:
            completion = read_failed_generation(error, plan.tools)
            if completion is None:
                raise
            yield TextReset()
            if completion.reasoning:
                yield ReasoningDelta(completion.reasoning)
            if completion.text:
                yield TextDelta(completion.text)
            yield self._end(completion, plan)
