"""The model that needs no key and no network: it quotes what in its prompt bears on the question.

It reads the prompt's fences, ranks the passages of the `data` ones by the words they share with the last block (or
with the last `request`), and says plainly that it is the offline model. The same prompt always gives the same answer.
A `request` with the attribute `task="summarise"` is answered with the gist of the `data`, and nothing else; a prompt
that asks for the result of a dive (`openvibe.llm.drafts`) with a draft picked from what was said.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from openvibe.llm import tokens
from openvibe.llm.drafts import DRAFT_FORMAT, OFFLINE_NOTE, draft_markdown, extract_draft, parse_draft
from openvibe.llm.fences import Fence, read_fences
from openvibe.llm.gist import gist
from openvibe.llm.passages import Passage, best_passages, words
from openvibe.llm.protocol import ModelStream
from openvibe.llm.values import ChatMessage, Completion, Finished, TextDelta, ToolSpec, Usage

OPENING = "I am the offline model: I do not think, I quote what I was shown."
_NOTHING = "Nothing I was shown bears on this request."
_NO_WORDS = "This request names nothing that I could look for. Ask about something by its name."
_FEEDBACK = "[RECENT FEEDBACK]"
_MOST_QUOTES = 5
_QUOTE_CHARACTERS = 420
_WORDS_PER_DELTA = 6
_SUMMARY_TOKENS = 500
_DRAFT_TOKENS = 600
_NOTHING_SAID = "Nothing was said."
_MENTION = re.compile(r"(?<![\w.])@[\w.-]+")
_MARKUP = re.compile(r"(?m)^[ \t]*(?:[>#]+|[-*+]|\d{1,3}[.)])[ \t]+|[`*_~|]{1,3}")


_SCENERY = frozenset({"feedback", "episode", "workspace", "channel", "clock"})
"""Sources that say how and where to answer, not what."""


class OfflineModel:
    """A ModelClient without a model. Tools are accepted and never called."""

    model = "offline"

    def complete(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        max_output_tokens: int | None = None,
    ) -> Completion:
        counter = tokens.counter_for(self.model)
        whole = answer(messages, max_output_tokens)
        text = whole if max_output_tokens is None else tokens.cut_to_tokens(whole, max_output_tokens, counter)
        usage = Usage(tokens.prompt_tokens(messages, tools, counter), counter.count(text))
        return Completion(text, (), usage, "stop" if text == whole else "length")

    def stream(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        max_output_tokens: int | None = None,
    ) -> ModelStream:
        completion = self.complete(messages, tools=tools, max_output_tokens=max_output_tokens)
        pieces = re.findall(r"\s*\S+\s*", completion.text)
        for start in range(0, len(pieces), _WORDS_PER_DELTA):
            yield TextDelta("".join(pieces[start : start + _WORDS_PER_DELTA]))
        yield Finished(completion)


def answer(messages: Sequence[ChatMessage], max_output_tokens: int | None = None) -> str:
    """The answer in Markdown. With a limit, the best quotes that fit are kept whole."""
    fences = [found for m in messages if m.role != "system" for found in read_fences(m.content)]
    asked = next((found.attributes for found in reversed(fences) if found.tag == "request"), {})
    if asked.get("task") == "summarise":
        return _summary(fences, asked.get("tokens", ""), max_output_tokens)
    if any(m.role == "system" and DRAFT_FORMAT in m.content for m in messages):
        return _draft(messages, max_output_tokens)
    question = _question(messages, fences)
    feedback = _feedback_line(fences)
    passages = best_passages(
        _passages(fences, question), words(question), most=_MOST_QUOTES, characters=_QUOTE_CHARACTERS
    )
    if not passages:
        why = _NOTHING if words(question) else _NO_WORDS
        return "\n\n".join(filter(None, (f"{OPENING} {why}", feedback)))
    best_first = sorted(passages, key=lambda p: (-p.score, p.position))
    for kept in range(len(best_first), 0, -1):
        chosen = [p for p in passages if p in best_first[:kept]]
        text = "\n\n".join(filter(None, (f"{OPENING} This bears on it:", *map(_quote, chosen), feedback)))
        if max_output_tokens is None or tokens.count(text) <= max_output_tokens:
            return text
    return text


def _draft(messages: Sequence[ChatMessage], max_output_tokens: int | None) -> str:
    """A result picked from the dive's own messages and its source; half of the answer at most is full text."""
    said: list[tuple[str, str]] = []
    for message in messages:
        if message.role == "assistant":
            said.append(("", message.content))
        elif message.role == "user":
            fences = [found for found in read_fences(message.content) if found.tag in ("data", "summary")]
            said += [(found.attributes.get("author", ""), found.text) for found in fences if _is_of_dive(found)]
    room = _DRAFT_TOKENS if max_output_tokens is None else min(_DRAFT_TOKENS, max_output_tokens // 2)
    return draft_markdown(extract_draft([(who, _said(text)) for who, text in said], tokens=room))


def _is_of_dive(found: Fence) -> bool:
    source = found.attributes.get("source", "")
    return found.tag == "summary" or source == "message" or "dive started from" in source


def _said(text: str) -> str:
    """Of an answer of this model what it quoted; nothing of an earlier draft."""
    if OPENING in text:
        quoted = [line for line in text.split("\n") if line.startswith("> ") and not line.startswith("> —")]
        return "\n".join(quoted)
    return "" if OFFLINE_NOTE in text or parse_draft(text) else text


def _summary(fences: Sequence[Fence], wanted: str, max_output_tokens: int | None) -> str:
    """What the `data` comes to, in as many tokens as the request wants and the caller allows."""
    limits = [int(wanted)] if wanted.isdecimal() and len(wanted) < 10 else []
    limits += [] if max_output_tokens is None else [max_output_tokens]
    text = "\n".join(found.text for found in fences if found.tag == "data")
    return gist(text, min(limits, default=_SUMMARY_TOKENS)) or _NOTHING_SAID


def _question(messages: Sequence[ChatMessage], fences: Sequence[Fence]) -> str:
    requests = [found.text for found in fences if found.tag == "request"]
    if requests:
        return _MENTION.sub(" ", requests[-1])
    last = [read_fences(m.content) for m in messages if m.role == "user"][-1:]
    if last and last[0]:
        return _MENTION.sub(" ", last[0][-1].text)
    said = [m.content for m in messages if m.role == "user"]
    return _MENTION.sub(" ", said[-1]) if said else ""


def _passages(fences: Sequence[Fence], question: str) -> list[Passage]:
    """What may be quoted, oldest message first: not the scenery, not the request itself, not an earlier answer."""
    asked = " ".join(question.split())
    return [
        Passage(text=text, author=found.attributes.get("author", ""), reference=_reference(found), position=place)
        for place, found in sorted(enumerate(fences), key=lambda pair: (_message_number(pair[1]), pair[0]))
        if found.tag in ("data", "reference", "summary") and found.attributes.get("source") not in _SCENERY
        if (text := _plain(found.text)) and OPENING not in found.text
        if " ".join(_MENTION.sub(" ", found.text).split()) != asked
    ]


def _message_number(found: Fence) -> int:
    """What a message is numbered in its thread; 0 for everything else, which stands first."""
    ref = found.attributes.get("ref", "")
    return int(ref) if found.attributes.get("source") == "message" and ref.isdecimal() else 0


def _plain(text: str) -> str:
    return " ".join(_MARKUP.sub("", text).split())


def _reference(found: Fence) -> str:
    if found.tag == "summary":
        return f"summary of messages {found.attributes.get('messages', '')}".strip()
    ref = found.attributes.get("ref", "")
    source = found.attributes.get("source", "")
    return f"{source} {ref}".strip() if ref[:1].isdigit() else ref or source


def _quote(passage: Passage) -> str:
    told = ", ".join(filter(None, (passage.author, passage.reference)))
    return f"> {passage.text}" + (f"\n> — {told}" if told else "")


def _feedback_line(fences: Sequence[Fence]) -> str:
    shown = [found.text for found in fences if found.attributes.get("source") == "feedback"]
    pieces = sum(max(1, text.count(_FEEDBACK)) for text in shown)
    if not pieces:
        return ""
    return f"I carry {pieces} {'piece' if pieces == 1 else 'pieces'} of recent feedback on my answers."
