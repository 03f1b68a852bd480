"""The model that needs no key and no network: it quotes what in its prompt bears on the question.

It reads the prompt's fences, ranks the passages of the `data` ones by the words they share with the question (the last
message of a user, or the `request` block in it), and says plainly that it is the offline model. The same prompt always
gives the same answer. A `request` with the attribute `task="summarise"` is answered with the gist of the `data`, and
nothing else; a prompt that asks for the result of a dive (`openvibe.engines.llm.offline.drafts`) with a draft picked
from what was said.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from openvibe.engines.llm import tokens
from openvibe.engines.llm.fences import FENCE_TAGS, Fence, unescape_text
from openvibe.engines.llm.offline.drafts import (
    DRAFT_FORMAT,
    OFFLINE_NOTE,
    extract_draft,
    parse_draft,
    render_draft,
    strip_markdown,
)
from openvibe.engines.llm.offline.extractive_summary import Passage, best_passages, extractive_summary, stem_words
from openvibe.engines.llm.offline.schema_samples import SampleBuilder
from openvibe.engines.llm.protocol import ModelStream
from openvibe.engines.llm.transcripts import parse_blocks
from openvibe.engines.llm.values import (
    NO_OPTIONS,
    CallOptions,
    ChatMessage,
    Completion,
    StreamEnd,
    TextDelta,
    ToolSpec,
    Usage,
)

OPENING = "I am the offline model: I do not think, I quote what I was shown."
CONNECT_LINE = "[Connect a model](/connect-model/) and agents answer with it instead."
_NO_MATCH = "Nothing of it bears on your question."
_NO_TERMS = "Ask me about something by its name."
_FEEDBACK_MARKER = "[RECENT FEEDBACK]"
_MAX_QUOTES = 5
_MAX_QUOTE_CHARACTERS = 420
_WORDS_PER_DELTA = 6
_SUMMARY_TOKENS = 500
_DRAFT_TOKENS = 600
_EMPTY_SUMMARY = "Nothing was said."
_LINK_SIGNS = re.compile(r"[\[\]()<>`*_\\\s]+")
"""Signs of a title that would end its link, or mark it."""
_MENTION = re.compile(r"(?<![\w.])@[\w.-]+")
_NOTE = re.compile(r"\[… [^\[\]\n]{1,200} …\]")
"""What a prompt says about a text that it does not show whole."""
_CONTEXT_SOURCES = frozenset(
    {"feedback", "episode", "workspace", "channel", "clock", "index of knowledge", "skill index"}
)
"""Sources that say how and where to answer, or name what could be looked up, not what."""


@dataclass(frozen=True)
class KnownPlace:
    """A conversation to ask in. `href`: a path of OpenVibe; `has_hit`: its words bear on the question."""

    title: str
    href: str
    has_hit: bool


class OfflineModel:
    """A ModelClient without a model. Tools are accepted and never called.

    `places`: the conversations to offer where nothing in the prompt bears on the question.
    """

    model = "offline"
    is_free = True

    def __init__(self, places: Sequence[KnownPlace] = ()) -> None:
        self._places = places

    def complete(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        max_output_tokens: int | None = None,
        options: CallOptions = NO_OPTIONS,
    ) -> Completion:
        counter = tokens.counter_for(self.model)
        full_text = compose_answer(messages, max_output_tokens, self._places)
        if options.response_format is not None:
            full_text = _json_answer(full_text, options.response_format)
        text = (
            full_text if max_output_tokens is None else tokens.truncate_to_tokens(full_text, max_output_tokens, counter)
        )
        usage = Usage(tokens.count_prompt_tokens(messages, tools, counter), counter.count(text))
        return Completion(text, (), usage, "stop" if text == full_text else "length")

    def stream(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        max_output_tokens: int | None = None,
        options: CallOptions = NO_OPTIONS,
    ) -> ModelStream:
        completion = self.complete(messages, tools=tools, max_output_tokens=max_output_tokens, options=options)
        pieces = re.findall(r"\s*\S+\s*", completion.text)
        for start in range(0, len(pieces), _WORDS_PER_DELTA):
            yield TextDelta("".join(pieces[start : start + _WORDS_PER_DELTA]))
        yield StreamEnd(completion)


def _json_answer(text: str, response_format: Mapping[str, Any]) -> str:
    """The answer in the first string of what the format asks for, or as `answer` where any object will do."""
    wanted = response_format.get("json_schema")
    schema = wanted.get("schema") if isinstance(wanted, Mapping) else None
    value = SampleBuilder(schema, text).build() if isinstance(schema, Mapping) and schema else {"answer": text}
    return json.dumps(value, ensure_ascii=False)


def compose_answer(
    messages: Sequence[ChatMessage], max_output_tokens: int | None = None, places: Sequence[KnownPlace] = ()
) -> str:
    """The answer in Markdown. With a limit, the best quotes that fit are kept whole."""
    fences = [fence for m in messages if m.role != "system" for fence in parse_blocks(m.content)]
    last_blocks = parse_blocks(_last_user_text(messages))
    request = next((fence.attributes for fence in reversed(last_blocks) if fence.tag == "request"), {})
    if request.get("task") == "summarise":
        return _summarise(fences, request.get("tokens", ""), max_output_tokens)
    if any(m.role == "system" and DRAFT_FORMAT in m.content for m in messages):
        return _draft_result(messages, max_output_tokens)
    question = _find_question(messages)
    terms = stem_words(question)
    feedback = _feedback_line(fences)
    passages = best_passages(
        _quotable_passages(fences, question), terms, max_passages=_MAX_QUOTES, max_characters=_MAX_QUOTE_CHARACTERS
    )
    if not passages:
        seen = f"{OPENING} {_describe_prompt(fences, question)} {_NO_MATCH if terms else _NO_TERMS}"
        return "\n\n".join(filter(None, (seen, _offer_places(places), feedback, CONNECT_LINE)))
    best_first = sorted(passages, key=lambda p: (-p.score, p.position))
    for count in range(len(best_first), 0, -1):
        chosen_passages = [p for p in passages if p in best_first[:count]]
        text = "\n\n".join(
            filter(None, (f"{OPENING} This bears on it:", *map(_format_quote, chosen_passages), feedback, CONNECT_LINE))
        )
        if max_output_tokens is None or tokens.count_tokens(text) <= max_output_tokens:
            return text
    return text


def _describe_prompt(fences: Sequence[Fence], question: str) -> str:
    """What of the conversation and of knowledge was shown, as a sentence."""
    refs = {p.reference for p in _quotable_passages(fences, question)}
    said = sum(ref.startswith("message ") for ref in refs)
    others = len(refs) - said
    parts = [f"{said} other message{'s' * (said != 1)}"] if said else ["nothing said before"]
    parts += [f"{others} more passage{'s' * (others != 1)} (knowledge, results, summaries)"] if others else []
    return f"Of this conversation I was shown {' and '.join(parts)}."


def _offer_places(places: Sequence[KnownPlace]) -> str:
    """A sentence on where else to ask; empty without places."""
    if not places:
        return ""
    links = ", ".join(f"[{_LINK_SIGNS.sub(' ', place.title).strip()}]({place.href})" for place in places)
    return f"{'It was talked about in' if places[0].has_hit else 'I also read'} {links}: ask me there."


def _draft_result(messages: Sequence[ChatMessage], max_output_tokens: int | None) -> str:
    """A result picked from the dive's own messages and its source; half of the answer at most is full text."""
    transcript: list[tuple[str, str]] = []
    for message in messages:
        if message.role == "assistant":
            transcript.append(("", _quotable_text(message.content)))
        elif message.role == "user":
            transcript += [
                (fence.attributes.get("author", ""), _quotable_text(fence.text))
                for fence in parse_blocks(message.content)
                if _is_dive_message(fence)
            ]
    max_tokens = _DRAFT_TOKENS if max_output_tokens is None else min(_DRAFT_TOKENS, max_output_tokens // 2)
    return render_draft(extract_draft(transcript, max_tokens=max_tokens))


def _is_dive_message(fence: Fence) -> bool:
    source = fence.attributes.get("source", "")
    return fence.tag == "summary" or (fence.tag == "data" and (source == "message" or "dive started from" in source))


def _quotable_text(text: str) -> str:
    """The text that this model quoted in an answer of its own; nothing of an earlier draft."""
    if OPENING in text:
        return "\n".join(line for line in text.split("\n") if line.startswith("> ") and not line.startswith("> —"))
    return "" if OFFLINE_NOTE in text or parse_draft(text) else text


def _summarise(fences: Sequence[Fence], requested_tokens: str, max_output_tokens: int | None) -> str:
    """What the `data` comes to, in as many tokens as the request wants and the caller allows."""
    limits = [int(requested_tokens)] if requested_tokens.isdecimal() and len(requested_tokens) < 10 else []
    limits += [] if max_output_tokens is None else [max_output_tokens]
    text = "\n".join(map(_transcript_line, (fence for fence in fences if fence.tag == "data")))
    focus = "\n".join(fence.text for fence in fences if fence.tag == "focus")
    return extractive_summary(text, min(limits, default=_SUMMARY_TOKENS), focus) or _EMPTY_SUMMARY


def _transcript_line(block: Fence) -> str:
    """A message with who said it, in the form that summaries are extracted from; other data as it stands."""
    author = block.attributes.get("author")
    role = "summary" if "–" in block.attributes.get("ref", "") else "user"
    return f"[{block.attributes.get('time', '')} | {role} | {author}] {block.text}" if author else block.text


def _find_question(messages: Sequence[ChatMessage]) -> str:
    """All of the last message of a user; where it has blocks the last `request` in it, or else the last block.

    Words that are asked without a block hold none: whatever would open one is escaped in them."""
    text = _last_user_text(messages)
    blocks = [fence for fence in parse_blocks(text) if fence.tag in FENCE_TAGS]
    texts = [fence.text for fence in blocks if fence.tag == "request"] or [fence.text for fence in blocks]
    return _MENTION.sub(" ", texts[-1] if texts else unescape_text(text))


def _last_user_text(messages: Sequence[ChatMessage]) -> str:
    """What was asked, before tools were called for it: what follows a call is no question."""
    asked = takewhile(lambda message: not message.tool_calls, messages)
    return next((message.content for message in reversed(list(asked)) if message.role == "user"), "")


def _quotable_passages(fences: Sequence[Fence], question: str) -> list[Passage]:
    """What may be quoted, oldest message first: not the scenery, not the request itself, not an earlier answer."""
    normalized_question = " ".join(question.split())
    return [
        Passage(text=text, author=fence.attributes.get("author", ""), reference=_reference(fence), position=position)
        for position, fence in sorted(enumerate(fences), key=lambda pair: (_message_number(pair[1]), pair[0]))
        if fence.tag in ("data", "reference", "summary") and fence.attributes.get("source") not in _CONTEXT_SOURCES
        if (text := " ".join(strip_markdown(_NOTE.sub(" ", fence.text)).split())) and OPENING not in fence.text
        if " ".join(_MENTION.sub(" ", fence.text).split()) != normalized_question
    ]


def _message_number(fence: Fence) -> int:
    """What a message is numbered in its thread; 0 for everything else, which stands first."""
    ref = fence.attributes.get("ref", "")
    return int(ref) if fence.attributes.get("source") == "message" and ref.isdecimal() else 0


def _reference(fence: Fence) -> str:
    if fence.tag == "summary":
        return f"summary of messages {fence.attributes.get('messages', '')}".strip()
    ref = fence.attributes.get("ref", "")
    source = fence.attributes.get("source", "")
    return f"{source} {ref}".strip() if ref[:1].isdigit() else ref or source


def _format_quote(passage: Passage) -> str:
    source = ", ".join(filter(None, (passage.author, passage.reference)))
    return f"> {passage.text}" + (f"\n> — {source}" if source else "")


def _feedback_line(fences: Sequence[Fence]) -> str:
    feedback = [fence.text for fence in fences if fence.attributes.get("source") == "feedback"]
    pieces = sum(max(1, text.count(_FEEDBACK_MARKER)) for text in feedback)
    noun = "piece" if pieces == 1 else "pieces"
    return f"I carry {pieces} {noun} of recent feedback on my answers." if pieces else ""
