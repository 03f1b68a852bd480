"""Any endpoint that speaks the Responses protocol, through the official `openai` package.

Nothing is stored at the provider: what its model thought comes sealed with the answer, and goes back to it within the
run. All else is as in `openai`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from openvibe.engines.llm.adaptations.adaptations import CallPlan
from openvibe.engines.llm.adaptations.request_options import RESPONSES_LACKS
from openvibe.engines.llm.answers.thoughts import AnswerText
from openvibe.engines.llm.openai.client import OpenAIModel
from openvibe.engines.llm.openai.responses_answers import ResponseAccumulator, adapt_event
from openvibe.engines.llm.openai.responses_requests import encode_response_request
from openvibe.engines.llm.protocol import ModelStream
from openvibe.engines.llm.retries import Retries
from openvibe.engines.llm.values import CallOptions, ChatMessage, StreamEnd, ToolSpec
from openvibe.engines.network.event_stream import EventStream

_LIMIT_NAME = "max_output_tokens"


class ResponsesModel(OpenAIModel):
    """A ModelClient for one endpoint. Opens a connection per call and keeps none."""

    protocol_lacks: ClassVar[Mapping[str, str]] = RESPONSES_LACKS

    def _plan(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[ToolSpec],
        max_output_tokens: int | None,
        options: CallOptions,
    ) -> CallPlan:
        plan = super()._plan(messages, tools, max_output_tokens, options)
        return replace(
            plan,
            limit_name=_LIMIT_NAME,
            limit_names=(_LIMIT_NAME,),
            asks_for_usage=False,
            asks_for_thought_summary=True,
            asks_for_sealed_thought=True,
        )

    def _read(self, retries: Retries, plan: CallPlan) -> ModelStream:
        """One request: the pieces of its answer, then the whole."""
        events, accumulator = (
            EventStream(adapt_event),
            ResponseAccumulator(self._connection.api_key, AnswerText(plan.tools)),
        )
        read_timeout = retries.first_answer_seconds() if plan.streams else retries.remaining_seconds()
        with self._connect(retries, read_timeout, events) as sdk:
            for event in sdk.responses.create(**encode_response_request(self.model, plan), stream=True):
                yield from accumulator.add(event.to_dict(mode="json", use_api_names=True, warnings=False))
            yield from accumulator.end()
            completion = accumulator.completion(events)
        yield StreamEnd(self._with_usage(completion, plan.messages, plan.tools))
