"""What people do with endpoints."""

from __future__ import annotations

import time
from dataclasses import dataclass

from openvibe.llm.errors import ModelError
from openvibe.llm.fences import fence
from openvibe.llm.models import Endpoint
from openvibe.llm.registry import unbroken_client_for
from openvibe.llm.values import ChatMessage


@dataclass(frozen=True)
class TryResult:
    """How a try went. `said` is the model's answer or, where `ok` is False, what is wrong and what to do."""

    ok: bool
    said: str
    seconds: float


def try_endpoint(*, endpoint: Endpoint) -> TryResult:
    """Ask the endpoint one tiny question. Never raises a ModelError."""
    question = [ChatMessage("user", fence("request", "Say hello in one short sentence."))]
    begun = time.monotonic()
    try:
        completion = unbroken_client_for(endpoint).complete(question, max_output_tokens=256)
    except ModelError as error:
        return TryResult(False, f"{error} {error.advice}", time.monotonic() - begun)
    return TryResult(True, completion.text.strip(), time.monotonic() - begun)
