"""What endpoints refuse, and how a request changes so that they answer: one catalogue for all protocols. Pure.

A kind of adaptation says how a refusal is recognised, by its status, the field it names and its words, and what changes
in a `CallPlan`. A refusal that the plan gave no cause for is none of its kind. What people wrote and an endpoint quotes
is not the endpoint's word: what is recognised in that alone is tried, and not to be remembered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial

from openvibe.engines.llm.adaptations import request_shapes as shapes
from openvibe.engines.llm.adaptations.refusals import REFUSAL_WORDS, Refusal, near, read_refusal
from openvibe.engines.llm.adaptations.tool_turn_refusals import (
    has_spent_fields,
    is_not_its_call,
    takes_single_calls,
    wants_named_results,
    wants_other_ids,
    wants_text_beside_calls,
)
from openvibe.engines.llm.errors import ModelError
from openvibe.engines.llm.values import NO_OPTIONS, CallOptions, ChatMessage, ToolSpec

CHAT_LIMIT_NAMES = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""What chat-completions endpoints call the most tokens that an answer may have."""

MIN_OUTPUT_TOKENS = 16
"""A limit that an endpoint names is not below this."""


@dataclass(frozen=True)
class CallPlan:
    """One call before it is written in a protocol. `limit_name` is what the output limit is called, empty where none is
    sent; `limit_names` the names that the protocol knows, none where it has but one. `streams`: whether the answer is
    to come in pieces, `asks_for_usage` whether such a stream is to say what was used, `asks_for_thought_summary` and
    `asks_for_sealed_thought` whether a protocol that has them asks for what the model thought in short, and for what it
    thought sealed, to be sent back. `off_effort`: what the provider calls thinking not at all; `thinks_adaptively`:
    whether a model of the Messages protocol is told an effort, not a budget. `names_results`: whether what a tool
    answered says the tool's name, too; `marks_cache`: whether it is said, in a protocol that can, what to cache."""

    messages: tuple[ChatMessage, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_output_tokens: int | None = None
    options: CallOptions = NO_OPTIONS
    limit_name: str = "max_tokens"
    limit_names: tuple[str, ...] = CHAT_LIMIT_NAMES
    streams: bool = True
    asks_for_usage: bool = True
    asks_for_thought_summary: bool = False
    asks_for_sealed_thought: bool = False
    off_effort: str = "none"
    thinks_adaptively: bool = False
    names_results: bool = False
    marks_cache: bool = False


@dataclass(frozen=True)
class Kind:
    """One kind of adaptation. `recognise` gives its value, empty where it has none, or None. `effect` says in plain
    words what it means, with the value as `{}`. `is_told`: in every answer that it changes, not only in the first.
    `is_lasting`: it holds for the endpoint; one that does not helps in the call at hand alone, and is not remembered.
    """

    name: str
    effect: str
    recognise: Callable[[Refusal, CallPlan], str | None]
    change: Callable[[CallPlan, str], CallPlan]
    is_told: bool = False
    is_lasting: bool = True

    def applies(self, plan: CallPlan, value: str) -> bool:
        """Whether it changes anything in the plan."""
        if self.name in ("no_provider_fields", "spent_fields"):
            return any(map(shapes.has_provider_fields, plan.messages))
        return self.change(plan, value) != plan


@dataclass(frozen=True)
class Adaptation:
    """A kind with its value, and the words of the endpoint that it comes from. `is_certain`: they are its own."""

    kind: str
    value: str = ""
    words: str = field(default="", compare=False)
    is_certain: bool = field(default=True, compare=False)

    @property
    def effect(self) -> str:
        return KINDS[self.kind].effect.format(self.value)


def _flag(is_recognised: bool) -> str | None:
    return "" if is_recognised else None


def recognise(error: ModelError, plan: CallPlan) -> list[Adaptation]:
    """Every adaptation that the error asks for and that would change the plan, the likeliest first."""
    if (refusal := read_refusal(error)) is None:
        return []
    own = read_refusal(error, plan.messages)
    found = []
    for kind in CATALOGUE:
        value = kind.recognise(refusal, plan)
        if value is not None and kind.applies(plan, value):
            is_certain = own is not None and kind.recognise(own, plan) == value
            words = error.report.message if error.report else ""
            found.append(Adaptation(kind.name, value, words, is_certain))
    return found


def adapt(plan: CallPlan, values: Mapping[str, str]) -> CallPlan:
    """The plan as an endpoint with these kinds, each with its value, wants it."""
    for kind in CATALOGUE:
        if kind.name in values:
            plan = kind.change(plan, values[kind.name])
    return plan


def changing_kinds(plan: CallPlan, values: Mapping[str, str]) -> list[Kind]:
    """Those of the kinds that change something in the plan."""
    return [kind for kind in CATALOGUE if kind.name in values and kind.applies(plan, values[kind.name])]


# How each kind is recognised


_NOT = r"(?:not|un|n't) ?-?(?:supported|available|allowed|enabled|permitted|implemented|accepted)"
_DOES_NOT = r"(?:n't|not|no) (?:currently |yet )?(?:support|allow|accept|have|include|take)(?:s|ed|ing)?"


def _any(*patterns: str) -> str:
    return "|".join(patterns)


_MUST_STREAM = _any(
    r"must have '?stream'? ?= ?true",
    r"stream(?:ing)? (?:is|must be) (?:required|enabled)",
    r"(?:for|in) non-?stream\w* (?:calls|requests|mode)",
    r"'?stream'? ?= ?'?false",
    r"only supports? (?:the )?stream",
    r"stream\w* (?:mode )?(?:is|are) required",
    r"must (?:be )?(?:use )?stream(?:ed|ing)?\b",
    r"stream'? must be (?:set to )?true",
    r"please enable the stream",
    r"'stream' does not support false",
    r"non-?stream\w*[^\n]{0,60}not (?:supported|allowed)",
)
_CANNOT_STREAM = _any(
    r"(?:unsupported|not (?:be )?(?:supported|available|allowed|enabled)) (?:for|in|with) stream",
    r"in streaming mode",
    r"'stream' does not support true",
    r"verified to stream",
    r"stream'? must be (?:set to )?false",
    r"n[o']t support (?:the )?stream(?:ing|ed)?\b(?!_)",
    rf"stream(?:ing|ed)?'? (?:mode |responses? )?(?:is|are) (?:currently )?{_NOT}",
    r"(?:unsupported|unknown|unrecogni[sz]ed)[^\n]{0,40}'stream'",
)


def _streaming(refusal: Refusal, plan: CallPlan) -> str | None:
    if not plan.streams:
        return "always" if refusal.says(_MUST_STREAM) else None
    return "never" if refusal.param == "stream" or refusal.says(_CANNOT_STREAM) else None


def _usage(refusal: Refusal, plan: CallPlan) -> str | None:
    return _flag(refusal.is_about("stream_options", "include_usage") or "stream_options" in refusal.words)


def _thought_summary(refusal: Refusal, plan: CallPlan) -> str | None:
    names = (r"reasoning\.summary", r"reasoning summar(?:y|ies)", r"(?:generate|include)[^\n]{0,20}summar(?:y|ies)")
    is_refused = refusal.is_about(*names) or refusal.says(r"verified to generate reasoning summar")
    return _flag(plan.asks_for_thought_summary and (is_refused or _refuses_reasoning(refusal, plan)))


def _refuses_reasoning(refusal: Refusal, plan: CallPlan) -> bool:
    """Whether reasoning is refused where nothing but the summary is asked of what the model thinks."""
    return plan.options.effort is None and refusal.param == "reasoning" and refusal.says(REFUSAL_WORDS)


def _sealed_thought(refusal: Refusal, plan: CallPlan) -> str | None:
    is_field = refusal.param.split(".")[0] == "include" or refusal.says(r"encrypted content is not supported")
    is_refused = is_field or refusal.is_about(r"include", r"reasoning\.encrypted_content")
    return _flag(plan.asks_for_sealed_thought and is_refused)


def _off_effort(refusal: Refusal, plan: CallPlan) -> str | None:
    """The least effort that the endpoint names where it cannot do without any."""
    if plan.options.effort != "off" or not refusal.is_about(*_OPTION_FIELDS["effort"]):
        return None
    efforts = ("none", "minimal", "low")
    weaker = efforts[efforts.index(plan.off_effort) + 1 :] if plan.off_effort in efforts else ()
    return next((effort for effort in weaker if refusal.says(rf"(?<!\w){effort}(?!\w)")), None)


def _thinking_budget(refusal: Refusal, plan: CallPlan) -> str | None:
    thinks = plan.thinks_adaptively and plan.options.effort not in (None, "off")
    is_refused = refusal.says("adaptive") or refusal.is_about("output_config", r"effort(?: parameter)?")
    return _flag(thinks and is_refused)


_TOO_MUCH = _any(
    *("too (?:large|big|high|many)", "at most", "less than", "lower than", "maximum", "valid range", "range of"),
    *("between", "exceed", "<=", "above", "up to", "greater", "supported range", "must be in", "is limited"),
)
_ANSWER_TOKENS = _any(
    *(
        r"max_\w*tokens",
        "max(?:output)?tokens",
        "maximum (?:output )?tokens",
        "(?:completion|output) tokens",
        "max output",
    )
)


def _limit_name(refusal: Refusal, plan: CallPlan) -> str | None:
    """The name that the endpoint gives; empty where it gives none: then no limit is sent."""
    sent = plan.limit_name
    if plan.max_output_tokens is None or not sent or not plan.limit_names or not refusal.is_about(sent):
        return None
    others = [name for name in plan.limit_names if name != sent and refusal.says(rf"(?<!\w){name}(?!\w)")]
    if not others and (refusal.says(_TOO_MUCH) or refusal.says(r"invalid")):
        return None
    return others[0] if others else ""


def _lower_limit(refusal: Refusal, plan: CallPlan) -> str | None:
    """The number that the endpoint names: the largest below what was asked for."""
    limit = plan.max_output_tokens
    if limit is None or not (refusal.says(_ANSWER_TOKENS) or "max" in refusal.param) or not refusal.says(_TOO_MUCH):
        return None
    numbers = []
    for match in re.finditer(r"(?<![\w.-])(\d{1,3}(?:,\d{3})+|\d+)(?![\w-]|\.\d)( \(exclusive\))?", refusal.words):
        number = int(match[1].replace(",", ""))
        before = refusal.words[: match.start()]
        is_exclusive = bool(match[2]) or re.search(r"(?:lower|less|smaller) than '?$", before) is not None
        numbers.append(number - is_exclusive)
    fitting = [number for number in numbers if MIN_OUTPUT_TOKENS <= number < limit]
    return str(max(fitting)) if fitting else None


_CREDIT = re.compile(r"can only afford (\d+)")


def _affordable(refusal: Refusal, plan: CallPlan) -> str | None:
    match = _CREDIT.search(refusal.words)
    is_shorter = match is not None and MIN_OUTPUT_TOKENS <= int(match[1]) < (plan.max_output_tokens or 0)
    return match[1] if match and is_shorter else None


_OPTION_FIELDS: dict[str, tuple[str, ...]] = {
    "top_p": ("top_p", "topp"),
    "temperature": ("temperature",),
    "seed": ("seed",),
    "stop": ("'stop'", "stop_sequences", "stopsequences", "stop sequences?", "stop(?=:)", "(?<=: )stop"),
    "presence_penalty": ("presence_penalty", "presencepenalty", "penalty"),
    "frequency_penalty": ("frequency_penalty", "frequencypenalty", "penalty"),
    "parallel_tool_calls": ("parallel_tool_calls", "disable_parallel_tool_use", "parallel tool calls"),
    "response_format": (
        *("response_format", "output_format", "text.format", "json_schema", "json_object", "json mode"),
        *("structured outputs?", "json schema", "response_?mime_?type", "response mime type", "json grammar"),
    ),
    "effort": (
        *("reasoning_effort", "reasoningeffort", "reasoning.effort", "effort", "thinking", "thinking_budget"),
        *("reasoning", "think value"),
    ),
}
"""What the protocols call each of `CallOptions`, and how endpoints speak of it. Of two that exclude one another the
first goes."""

_OPTION_WORDS = {
    "top_p": "no top_p",
    "temperature": "no temperature",
    "seed": "no seed",
    "stop": "no stop sequences",
    "presence_penalty": "no presence penalty",
    "frequency_penalty": "no frequency penalty",
    "parallel_tool_calls": "no setting for calls at the same time",
    "response_format": "no format of answers (JSON)",
    "effort": "no setting for how long to think",
}


_OPTION_VALUE = r"(?:must|should|ha[sv]e? to|only|range|取值|[<>] ?\d)"
"""Said of the value of an option, whose field is known."""
_OTHER_FORMAT = r"must contain the word 'json'|type: input should be 'text'"


def _option(name: str, refusal: Refusal, plan: CallPlan) -> str | None:
    if getattr(plan.options, name) == getattr(NO_OPTIONS, name):
        return None
    if name == "response_format" and refusal.says(_OTHER_FORMAT):
        return ""
    is_value = any(refusal.says(rf"(?<!\w){field}(?!\w)[^\n]{{0,80}}{_OPTION_VALUE}") for field in _OPTION_FIELDS[name])
    return _flag(is_value or refusal.is_about(*_OPTION_FIELDS[name]))


def _without_option(name: str, plan: CallPlan, value: str) -> CallPlan:
    return replace(plan, options=replace(plan.options, **{name: getattr(NO_OPTIONS, name)}))


def _tool_choice(refusal: Refusal, plan: CallPlan) -> str | None:
    is_refused = refusal.is_about("tool_choice") or refusal.says(r"support the provided 'tool_choice'")
    return _flag(plan.options.tool_choice is not None and is_refused)


_NO_IMAGES = _any(
    r"support image input",
    r"unknown variant 'image_url'",
    r"content[^\n]{0,40} (?:must|should) be a (?:valid )?string",
    r"at most 0 image",
    r"only text content",
    r"content\.type[^\n]{0,30}\['text'\]",
    r"not (?:a )?(?:multi-?modal|vision)",
    r"invalid content type",
    r"requires? (?:an? )?mmproj",
    r"text-only",
)


def _images(refusal: Refusal, plan: CallPlan) -> str | None:
    names = (r"images?(?:_url|_inputs?| inputs?| content)?", "input_image", "vision", "multi-?modal", "mmproj")
    return _flag(refusal.is_about(*names) or refusal.says(_NO_IMAGES))


_SYSTEM_FIRST = _any(
    r"system'? (?:messages?|roles?|prompts?)[^\n]{0,60}(?:beginning|start\b|first|initial|once|one\b)",
    r"(?:first|initial)[^\n]{0,50}'?system'? (?:message|role)",
    r"(?:multiple|more than one|only one) '?system",
    r"unexpected (?:role|message)[^\n]{0,30}'?system",
    r"invalid chat setting",
)
_BAD_ROLE = r"(?:invalid|unknown|unsupported|unexpected|incorrect|bad) (?:message )?role:?"
_ONE_OF_ROLES = r"role'?s?[^\n]{0,40}(?:must be|should be|one of|either)"
_SYSTEM = r"'?(?:system|developer)'?(?: (?:messages?|roles?|prompts?|instructions?))?"
_NO_SYSTEM = _any(
    rf"{_SYSTEM} (?:is |are )?(?:currently )?{_NOT}",
    rf"{_DOES_NOT}(?: the)? {_SYSTEM}",
    rf"{_BAD_ROLE}[^\n]{{0,20}}'?(?:system|developer)",
    rf"{_SYSTEM} is not one of",
    rf"^instructions (?:is |are ){_NOT}",
    r"invalid chat setting",
    r"only (?:the )?'?user'?,?(?: and|/|,| or)? '?(?:assistant|model)'? (?:roles?|messages?)",
    rf"{_ONE_OF_ROLES}[^\n]{{0,20}}'?user'?(?:,| or| and|\|) ?'?(?:assistant|model)",
)
_USER_AFTER_TOOL = _any(
    r"unexpected role '?user'? after (?:role )?'?tool",
    r"tool result blocks cannot be provided in the same turn",
    r"(?:user|human) (?:message|role)[^\n]{0,40}(?:after|follow\w*)[^\n]{0,20}tool",
)
_TURNS = (
    r"(?:must|should|to|requests) (?:strictly )?alternate",
    r"alternating|roles? alternate",
    r"consecutive '?(?:messages|roles?|user|assistant)",
    r"in a row",
    r"(?:multiple|two|same|repeated) '?user'?[^\n]{0,10}(?:messages|roles)",
    r"(?:even|odd) (?:index|number)",
    r"交替",
)
_NEIGHBOURS = _any(*_TURNS)
_ALTERNATE = _any(
    *_TURNS,
    r"first (?:non-system )?(?:message|role|turn)[^\n]{0,60}'?(?:user|human)",
    r"must start with a[^\n]{0,10}user",
)
_CALLS_AS_TEXT = _any(
    rf"{_BAD_ROLE}[^\n]{{0,20}}'?(?:tool|function)\b",
    rf"'?tool'? (?:role|messages?) (?:is|are) {_NOT}",
    rf"{_DOES_NOT}(?: the)? '?tool'? (?:role|messages?)",
    r"roles are supported",
    r"role'?[^\n]{0,30}does not support 'tool'",
    rf"{_ONE_OF_ROLES}[^\n]{{0,40}}assistant",
)
_USER_LAST = _any(
    r"(?:last|final) (?:message|role|turn|content)[^\n]{0,60}user",
    r"end with a[^\n]{0,10}user",
    r"expected last role",
    r"assistant (?:message )?prefill",
    r"cannot end with",
    r"last message (?:cannot|must not|can't)",
)


def _system_first(refusal: Refusal, plan: CallPlan) -> str | None:
    return _flag(refusal.says(_SYSTEM_FIRST))


def _no_system(refusal: Refusal, plan: CallPlan) -> str | None:
    names_role = "system" in refusal.words and re.search(r"messages\[\d\]\.role", refusal.param)
    return _flag(bool(names_role) or refusal.says(_NO_SYSTEM))


def _user_after_tool(refusal: Refusal, plan: CallPlan) -> str | None:
    return _flag(refusal.says(_USER_AFTER_TOOL))


def _neighbours(refusal: Refusal, plan: CallPlan) -> str | None:
    has_neighbours = shapes.with_joined_neighbours(plan.messages) is not plan.messages
    return _flag(has_neighbours and refusal.says(_NEIGHBOURS))


def _alternate(refusal: Refusal, plan: CallPlan) -> str | None:
    return _flag(refusal.says(_ALTERNATE))


def _calls_as_text(refusal: Refusal, plan: CallPlan) -> str | None:
    return _flag(refusal.says(_CALLS_AS_TEXT))


def _user_last(refusal: Refusal, plan: CallPlan) -> str | None:
    return _flag(refusal.says(_USER_LAST))


_SCHEMA_KEYWORDS = _any(
    *(r"additional_?properties", r"\$schema", r"\$ref", r"\$defs", "any_?of", "one_?of", "all_?of", "pattern"),
    *("exclusive_?(?:minimum|maximum)", "property_?names", "(?:min|max)_?(?:length|items)", "strict"),
    "'(?:const|default|format|title|minimum|maximum|examples|type)'",
)
_BAD_SCHEMA = _any(
    near(rf"(?:{_SCHEMA_KEYWORDS})"),
    r"(?:invalid|unsupported|bad|incompatible)[^\n]{0,40}schema",
    r"schema[^\n]{0,120}(?:invalid|unsupported|not (?:valid|support|permit|allow))",
    r"properties\S{0,80}type: must be specified",
    r"cannot unmarshal \w+ into[^\n]{0,80}type",
)
_BAD_GRAMMAR = _any(
    r"failed to parse grammar",
    r"json schema conversion failed",
    r"cannot apply filter",
    r"failed to (?:compile|convert)",
)
"""What servers make of the tools' schemas, and cannot."""
_OF_TOOLS = r"\btools?\b|functions?\b|function_declarations|parameters|input_?schema"


def _plain_schemas(refusal: Refusal, plan: CallPlan) -> str | None:
    is_of_tools = refusal.says(_OF_TOOLS) or re.search("tool|function", refusal.param)
    return _flag(refusal.says(_BAD_GRAMMAR) or (bool(is_of_tools) and refusal.says(_BAD_SCHEMA)))


def _no_cache(refusal: Refusal, plan: CallPlan) -> str | None:
    return _flag(plan.marks_cache and refusal.is_about("cache_control", "prompt caching"))


def _no_provider_fields(refusal: Refusal, plan: CallPlan) -> str | None:
    names = {name for message in plan.messages for name in message.provider_fields}
    names |= {name for message in plan.messages for call in message.tool_calls for name in call.provider_fields}
    own = (re.escape(name.lower()) for name in names)
    return _flag(bool(names) and refusal.is_about(*own, r"signature", r"encrypted_content", r"thinking(?: blocks?)?"))


_TOOLS = r"(?:tools?(?:[ _-]?(?:use|usage|calls?|calling))?|functions?(?:[ _-]?call(?:s|ing)?)?)"
_NO_TOOLS = _any(
    rf"{_DOES_NOT} (?:support )?(?:for |of )?(?:the |any )?(?:use of )?'?{_TOOLS}\b(?!_| role| message)",
    rf"(?<!\w){_TOOLS}'? (?:support )?(?:is|are)(?: currently)? ?{_NOT}",
    rf"endpoints found that support {_TOOLS}",
    r"--enable-auto-tool-choice|--tool-call-parser|requires? --jinja",
    r"(?:unsupported|unknown|unrecogni[sz]ed|unexpected)[^\n]{0,50}(?<![\w.])(?:tools|functions)(?![\w\[])",
    r"(?<![\w.])(?:tools|functions)'?:? (?:extra inputs|extra fields|not (?:permitted|allowed|supported))",
    rf"without {_TOOLS}\b|no {_TOOLS} support|supported for {_TOOLS}",
    rf"(?<!\w){_TOOLS} not support",
    r"not support (?:auto|automatic) tools?\b",
    rf"(?<!\w){_TOOLS} (?:is|are) only (?:available|supported)",
    rf"(?<!\w){_TOOLS}'? (?:is|are|has been|have been) (?:disabled|incompatible|turned off)",
)


def _no_tools(refusal: Refusal, plan: CallPlan) -> str | None:
    is_field = refusal.param in ("tools", "functions") and refusal.says(REFUSAL_WORDS)
    return _flag(is_field or refusal.says(_NO_TOOLS))


def _shaped(change: Callable[[shapes.Messages], shapes.Messages], plan: CallPlan, value: str) -> CallPlan:
    return replace(plan, messages=change(plan.messages))


def _without_tools(plan: CallPlan, value: str) -> CallPlan:
    options = replace(plan.options, parallel_tool_calls=None, tool_choice=None)
    messages = shapes.with_calls_as_text(plan.messages)
    return replace(plan, tools=(), options=options, messages=messages)


def _lowered(plan: CallPlan, value: str) -> CallPlan:
    limit = plan.max_output_tokens
    return plan if limit is None else replace(plan, max_output_tokens=min(limit, int(value)))


CATALOGUE: tuple[Kind, ...] = (
    Kind(
        "calls_told",
        "Tools were called here as it does not take it, so what was called is told to it in words.",
        is_not_its_call,
        partial(_shaped, shapes.with_calls_as_text),
        is_lasting=False,
    ),
    Kind(
        "spent_fields",
        "It cannot read any more what it added to its answers here, so that is left out.",
        has_spent_fields,
        partial(_shaped, shapes.without_provider_fields),
        is_lasting=False,
    ),
    Kind(
        "affordable_limit",
        "The key's credit pays for {} tokens of an answer, fewer than were asked for.",
        _affordable,
        _lowered,
        is_lasting=False,
    ),
    Kind(
        "streaming",
        "Its answers come whole or in pieces, not as one likes: asked to stream {}.",
        _streaming,
        lambda plan, value: replace(plan, streams=value == "always"),
    ),
    Kind(
        "no_stream_usage",
        "It cannot say in a stream how many tokens were used, so they are counted here.",
        _usage,
        lambda plan, value: replace(plan, asks_for_usage=False),
    ),
    Kind(
        "no_thought_summary",
        "It does not show what its model thinks, so that is not asked for.",
        _thought_summary,
        lambda plan, value: replace(plan, asks_for_thought_summary=False),
    ),
    Kind(
        "no_sealed_thought",
        "What its model thinks is not given out sealed, so it begins to think anew after each tool.",
        _sealed_thought,
        lambda plan, value: replace(plan, asks_for_sealed_thought=False),
    ),
    Kind(
        "limit_name",
        "The most tokens of an answer have another name there, or none: {}.",
        _limit_name,
        lambda plan, value: (
            replace(plan, limit_name=value) if plan.limit_names and plan.max_output_tokens is not None else plan
        ),
    ),
    Kind(
        "off_effort",
        "Its model cannot do without thinking, so it thinks as little as it can: {}.",
        _off_effort,
        lambda plan, value: replace(plan, off_effort=value) if plan.options.effort == "off" else plan,
        is_told=True,
    ),
    Kind(
        "thinking_budget",
        "Its model is told how long to think in tokens, not in words.",
        _thinking_budget,
        lambda plan, value: replace(plan, thinks_adaptively=False) if plan.options.effort else plan,
    ),
    Kind("lower_limit", "Its answers may have {} tokens at most, fewer than were asked for.", _lower_limit, _lowered),
    *(
        Kind(
            f"no_{name}",
            f"It takes {_OPTION_WORDS[name]}, so that is left out.",
            partial(_option, name),
            partial(_without_option, name),
            is_told=True,
        )
        for name in _OPTION_FIELDS
    ),
    Kind(
        "no_tool_choice",
        "It chooses itself whether to call a tool, so it is not told.",
        _tool_choice,
        partial(_without_option, "tool_choice"),
        is_told=True,
    ),
    Kind(
        "no_images",
        "It takes no images, so it reads their names and descriptions.",
        _images,
        partial(_shaped, shapes.without_images),
        is_told=True,
    ),
    Kind(
        "system_first",
        "What it is told about itself has to stand first, so it is put there.",
        _system_first,
        partial(_shaped, shapes.with_system_first),
    ),
    Kind(
        "no_system",
        "It takes no system message, so its rules stand at the beginning of the first message.",
        _no_system,
        partial(_shaped, shapes.without_system),
        is_told=True,
    ),
    Kind(
        "answer_after_tools",
        "After what tools answered it wants its own word first, so one is put in.",
        _user_after_tool,
        partial(_shaped, shapes.with_answers_after_results),
    ),
    Kind(
        "calls_as_text",
        "It knows no messages of tools, so what they answered is told to it in words.",
        _calls_as_text,
        partial(_shaped, shapes.with_calls_as_text),
    ),
    Kind(
        "single_calls",
        "It reads one call of a tool at a time, so several are told one after the other.",
        takes_single_calls,
        partial(_shaped, shapes.with_single_calls),
    ),
    Kind(
        "call_ids",
        "It wants the marks of calls in a form of its own, so they are written so.",
        wants_other_ids,
        partial(_shaped, shapes.with_short_ids),
    ),
    Kind(
        "text_beside_calls",
        "It wants words beside every call of a tool, so some are put in.",
        wants_text_beside_calls,
        partial(_shaped, shapes.with_text_beside_calls),
    ),
    Kind(
        "named_results",
        "It wants to read which tool answered, so that is said.",
        wants_named_results,
        lambda plan, value: (
            replace(plan, names_results=True) if any(each.role == "tool" for each in plan.messages) else plan
        ),
    ),
    Kind(
        "no_cache",
        "It cannot be told what to keep in its cache, so that is left out.",
        _no_cache,
        lambda plan, value: replace(plan, marks_cache=False),
    ),
    Kind(
        "joined_neighbours",
        "Two messages of one role in a row are refused, so they are sent as one.",
        _neighbours,
        partial(_shaped, shapes.with_joined_neighbours),
    ),
    Kind(
        "alternate_roles",
        "People and model have to speak by turns, so messages are joined.",
        _alternate,
        partial(_shaped, shapes.with_alternating_roles),
    ),
    Kind(
        "user_last",
        "The last word has to be a person's, so it is asked to go on.",
        _user_last,
        partial(_shaped, shapes.with_user_last),
    ),
    Kind(
        "plain_schemas",
        "It reads only simple descriptions of tools, so theirs are made simple.",
        _plain_schemas,
        lambda plan, value: replace(plan, tools=shapes.with_plain_schemas(plan.tools)),
    ),
    Kind(
        "no_provider_fields",
        "It does not take back what it added to its answers, so that is left out.",
        _no_provider_fields,
        partial(_shaped, shapes.without_provider_fields),
    ),
    Kind("no_tools", "It takes no tools, so agents answer without them.", _no_tools, _without_tools, is_told=True),
)
"""Every kind there is, in the order in which a refusal is compared with them and in which they change a plan."""

KINDS: dict[str, Kind] = {kind.name: kind for kind in CATALOGUE}

assert {*_OPTION_FIELDS, "tool_choice"} == {option.name for option in fields(CallOptions)}
