"""The reasons why an answer ended, in the words of many providers. Pure."""

from __future__ import annotations

from openvibe.engines.llm.errors import BadAnswer, ModelError, ModelUnavailable
from openvibe.engines.llm.fences import clean_text

_WORDS = {
    "stop": "complete completed eos eos_token end end_turn stop_sequence stop_token finish finished",
    "length": "max_tokens max_output_tokens max_new_tokens max_length model_length length_limit token_limit",
    "content_filter": (
        "safety sensitive blocklist prohibited_content spii recitation refusal image_safety error_toxic"
        " guardrail_intervened"
    ),
    "tool_calls": "tool_call tool_use function_call function_calls",
}
_OURS = {word: ours for ours, words in _WORDS.items() for word in words.split()}
_BROKEN_OFF = frozenset(
    (
        *("error", "abort", "aborted", "cancelled", "canceled"),
        *("network_error", "engine_error", "insufficient_system_resource"),
    )
)
_LOST_CALL = ("malformed_function_call", "unexpected_tool_call", "malformed_tool_call")


def read_stop_reason(reason: object) -> str:
    """The reason in our words; the provider's own where it is another."""
    text = _plain(reason)
    word = text.lower().replace("-", "_").removeprefix("finish_reason_")
    if word.startswith("content_filter"):
        return "content_filter"
    if word in _OURS.values():
        return word
    return _OURS.get(word, text[:40])


def _plain(reason: object) -> str:
    return " ".join(clean_text(str(reason)).split())[:80]


def failure_of(reason: object) -> ModelError | None:
    """The error where the reason says that the answer is none."""
    reason = _plain(reason)
    word = reason.lower().replace("-", "_")
    if word in _BROKEN_OFF:
        return ModelUnavailable(f"The model broke off in the middle of its answer. Its provider says: {reason}.")
    if any(each in word for each in _LOST_CALL) or word.startswith("function_call_filter"):
        return BadAnswer(
            f"The provider could not read the call of a tool that its model wrote. It says: {reason}.",
            advice="Try again. If it happens often, another model is better at tools.",
            may_pass=True,
        )
    return None
