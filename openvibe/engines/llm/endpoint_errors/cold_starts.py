"""Cold starts: a server that answers while its model is still being loaded, told by the words of its refusal.

llama.cpp: 503 "Loading model"; Hugging Face: 503 "… is currently loading" with `estimated_time`; gateways and hosts
that sleep: 502, 503 or 504 "warming up", "starting up"; Amazon Bedrock: 429 `ModelNotReadyException`.
"""

from __future__ import annotations

import re

from openvibe.engines.llm.errors import ModelLoading

_STATUSES = frozenset((425, 429, 502, 503, 504, 529))
_LOADING = re.compile(
    r"\b(?:re)?loading\b|\bbeing (?:re)?loaded\b|\bwarm(?:ing|s)?[ -]?up\b|\bcold[ -]start|\bstarting(?: up)?\b"
    r"|\binitiali[sz]ing\b|\b(?:not|n't)(?: yet)? (?:ready|loaded|finished loading)\b|model_?not_?ready|\bspinning up\b"
    r"|\bbooting\b|\bscaling up\b|\bestimated_time\b",
    re.IGNORECASE,
)
_LOADING_OF_BUSY = re.compile(
    r"model_?not_?ready|\bmodel\b.{0,120}\b(?:not(?: yet)? ready|(?:re)?loading)\b", re.IGNORECASE
)
"""A pattern for answers whose status itself says that too much was asked."""
_FAILURE = re.compile(
    r"\b(?:fail(?:ed|ure|s)?|unable|could ?n[o']t|cannot|can ?not|crashed|exited|out of memory)\b.{0,40}"
    r"\b(?:load(?:ing)?|start(?:ing)?|initiali[sz](?:e|ing))\b"
    r"|\berror[ :]+(?:(?:while|when|during|in) )?(?:load|start|initiali)|\bload(?:ing)? (?:failed|error)\b",
    re.IGNORECASE | re.DOTALL,
)


def loading_error(status: int, text: str, detail: str = "") -> ModelLoading | None:
    """The error where a refusal says that the model will be there in a moment. `detail`: its words, as a sentence."""
    if status not in _STATUSES or text.lstrip().startswith("<"):
        return None
    pattern = _LOADING_OF_BUSY if status == 429 else _LOADING
    if not pattern.search(text[:4_000]) or _FAILURE.search(text[:4_000]):
        return None
    return ModelLoading(f"The model is still being loaded (HTTP {status}).{detail}")
