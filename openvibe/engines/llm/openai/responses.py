"""Any endpoint that speaks the Responses protocol.

Nothing is stored at the provider: what its model thought comes sealed with the answer, and goes back to it within the
run. All else is as in `openai`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from openvibe.engines.llm.adaptations.adaptations import CallPlan
from openvibe.engines.llm.adaptations.request_options import RESPONSES_LACKS
from openvibe.engines.llm.answers.thoughts import AnswerText
from openvibe.engines.llm.http_model import Accumulator
from openvibe.engines.llm.openai.client import OpenAIModel
from openvibe.engines.llm.openai.responses_answers import ResponseAccumulator
from openvibe.engines.llm.openai.responses_requests import encode_response_request

_LIMIT_NAME = "max_output_tokens"


class ResponsesModel(OpenAIModel):
    """A ModelClient for one endpoint."""

    path: ClassVar[str] = "/responses"

    def _plan(self, plan: CallPlan) -> CallPlan:
        return replace(
            plan,
            limit_name=_LIMIT_NAME,
            limit_names=(_LIMIT_NAME,),
            asks_for_usage=False,
            asks_for_thought_summary=True,
            asks_for_sealed_thought=True,
        )

    def _protocol_lacks(self, plan: CallPlan) -> Mapping[str, str]:
        return RESPONSES_LACKS

    def _request(self, plan: CallPlan) -> dict[str, Any]:
        return encode_response_request(self.model, plan)

    def _accumulator(self, plan: CallPlan) -> Accumulator:
        return ResponseAccumulator(self._connection.api_key, AnswerText(plan.tools))
