"""Refusals of turns in which tools were called: what stands in the conversation, not what is asked for. Pure.

Some are about this one conversation: a call that another model made has no thought and no signature of this one, and a
seal can be opened in the region alone that made it. What helps then is not remembered.
"""

from __future__ import annotations

import re

from openvibe.engines.llm.adaptations.refusals import Refusal


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns))


_NOT_ITS_CALLS = _any(
    r"toolconfig field must be defined",
    r"expects the 'tools=' param",
    r"function (?:call|response) turn (?:comes|must come)",
    r"number of function response parts",
    r"not the same number of function calls and responses",
    r"missing (?:a |the )?'?thought_?signature",
    r"expected 'thinking' or 'redacted_thinking'",
    r"reasoning_(?:content|details)'?[^\n]{0,60}must be (?:passed|sent|given|provided|returned)",
    r"reasoning_(?:content|details)'? is (?:missing|required)",
    r"missing[^\n]{0,30}reasoning[ _](?:content|details)|reasoning details to be preserved",
    r"tool (?:result|call)'?s?[^\n]{0,20} id[^\n]{0,80}not found|tool_call_id[^\n]{0,60}not found",
    r"must be a response to a prece+ding message|must follow[^\n]{0,40}tool_calls",
    r"no previous assistant message with a tool call",
    r"'tool_use' ids? (?:were|was) found without|unexpected 'tool_use_id'",
    r"must be followed by tool messages|insufficient tool messages",
    r"no tool (?:call|output) found for",
)
_SPENT_FIELDS = _any(
    r"encrypted[ _]content[^\n]{0,300}(?:could not|cannot|can't|failed to) be (?:verified|decrypted|parsed)",
    r"invalid_encrypted_content",
    r"item[^\n]{0,20}'(?:rs|fc|msg)_\w+'[^\n]{0,80}(?:without its required|not found)",
    r"items are not persisted",
    r"invalid responses api request",
    r"(?:corrupted|invalid)[^\n]{0,20}signature|signature'?[^\n]{0,40}(?:not valid|invalid|corrupted)",
    r"base64 decoding failed[^\n]{0,120}signature",
    r"blocks? in the latest assistant message cannot be modified",
)
_SINGLE_CALLS = _any(r"single tool[ _-]?calls? at once", r"only (?:supports? )?one tool[ _-]?call (?:at|per)")
_CALL_IDS = _any(
    r"tool[ _]call[ _]id was\b",
    r"tool_?use_?id'?[^\n]{0,80}(?:pattern|constraint)|tool_use(?:\.\d+)?\.id:[^\n]{0,40}(?:pattern|match)",
    r"tool_call(?:s\[\d+\]\.|_)id'?[^\n]{0,40}(?:too long|invalid|pattern|length)",
    r"\.call_id'?[^\n]{0,40}too long",
)
_NO_TEXT = _any(
    r"invalid message content type: <nil>",
    r"'content' field must be a string or an array",
    r"content'?[^\n]{0,20}expected a string, (?:got|but got)[^\n]{0,20}null",
    r"content: (?:input should be a valid string|none is not an allowed value|field required)",
    r"'?content'? (?:field )?is (?:a )?required|missing (?:field )?'content'",
    r"messages\[\d+\][^\n]{0,20}: invalid type: null, expected a string",
    r"content (?:can ?not|must not|may not) be (?:null|none|empty)",
)
_NAMED_RESULTS = _any(
    r"function_?response\.name[^\n]{0,20}(?:cannot|can't|must not) be empty",
    r"(?:tool|function)'? (?:messages?|role)[^\n]{0,30}(?:must have|requires?|needs?|missing)[^\n]{0,12}name\b",
)


def is_not_its_call(refusal: Refusal, plan: object) -> str | None:
    """A call that stands there was not made by this model, or not with what it wants to see beside it."""
    return _flag(_NOT_ITS_CALLS, refusal)


def has_spent_fields(refusal: Refusal, plan: object) -> str | None:
    """What the provider added to an answer cannot be read any more."""
    return _flag(_SPENT_FIELDS, refusal)


def takes_single_calls(refusal: Refusal, plan: object) -> str | None:
    return _flag(_SINGLE_CALLS, refusal)


def wants_other_ids(refusal: Refusal, plan: object) -> str | None:
    is_id = re.search(r"tool_calls\[\d+\]\.id$|tool_call_id$|\.call_id$", refusal.param) is not None
    return "" if is_id else _flag(_CALL_IDS, refusal)


def wants_text_beside_calls(refusal: Refusal, plan: object) -> str | None:
    return _flag(_NO_TEXT, refusal)


def wants_named_results(refusal: Refusal, plan: object) -> str | None:
    return _flag(_NAMED_RESULTS, refusal)


def _flag(pattern: re.Pattern[str], refusal: Refusal) -> str | None:
    return "" if pattern.search(refusal.words) else None
