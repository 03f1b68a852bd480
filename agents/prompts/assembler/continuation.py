"""What is new for a session that goes on: the difference between a prompt and what the session was shown before.

The prompt is assembled whole as ever; `continue_session` leaves out of it what the session has. A part counts as read
only where all of it stood in an earlier prompt: what was cut there for want of room is new. Parts are compared, not
times. Where what stands above it all is another by now (`HeadFacts`), what was read has to be taken back, or the
thread was compacted, nothing is left out, and a sentence says why. Nothing is read here."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agents.prompts.assembler.items import FitResult, Item
from agents.prompts.assembler.render import DATA_NOTICE, render, sent_tokens
from agents.prompts.assembler.sections.history import UNFINISHED_SIGN
from openvibe.engines.llm.fences import unescape_text
from openvibe.engines.llm.tokens import MESSAGE_OVERHEAD, TokenCounter, count_text
from openvibe.engines.llm.transcripts import message_text
from openvibe.engines.llm.values import ChatMessage
from openvibe.engines.text.cleaning import join_words, pluralize

HeadFacts = Mapping[str, str]
"""What stands above all that a session reads, by its name for people: while all of it is the same, the session goes
on."""

_AGE = re.compile(r"\((?:just now|\d+ (?:minute|hour|day)s? ago)\)")
_CUT = re.compile(r"\[… [^\]]* …\]")
"""What stands in place of what was cut."""
_BINDING = frozenset(("instructions", "constraints"))
_FORM_OF_TASK = "instructions:draft"
"""The form that one task asks for; it is no instruction that was taken back where another task is asked."""


@dataclass(frozen=True)
class Session:
    """What a session of an agent elsewhere has been shown, in the order of its prompts. `run_id`: whose prompt, in
    which `attempt`, it read last. `items`: all that stood in them. `left_out`: keys of what did not. `own_ids`:
    messages that the session wrote itself."""

    run_id: int
    attempt: int
    items: Sequence[Item]
    left_out: frozenset[str]
    own_ids: frozenset[int]
    head: HeadFacts
    latest: Mapping[str, Item] = field(init=False, repr=False, compare=False)
    """What it was shown last of each key: that is what it goes by."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "latest", {item.key: item for item in self.items})

    def has_read(self, item: Item) -> bool:
        """Whether all that the item says was shown to it, or said by it."""
        kind, _, number = item.key.partition(":")
        if kind == "message" and number.isdecimal() and int(number) in self.own_ids:
            return True
        earlier = self.latest.get(item.key)
        if earlier is not None and earlier.text and (item.section == "dives" or _holds(_words(earlier), _words(item))):
            return True  # of the result of a dive the headline, too
        message = self.latest.get(f"message:{number}") if item.section == "recall" else None
        return message is not None and bool(message.text) and not _CUT.search(_words(message))  # passages of it


def _holds(read: str, words: str) -> bool:
    """Whether what was read says this too; the whole of a text holds its head and tail, too."""
    if read == words:
        return True
    cut = _CUT.search(words)
    if cut is None or _CUT.search(read):
        return False
    return read.startswith(words[: cut.start()].strip()) and read.endswith(words[cut.end() :].strip())


def _words(item: Item) -> str:
    """What an item says, without what changes while it says the same: who is named beside it, when, how long ago."""
    text = item.text
    if item.key.startswith("message:"):
        if item.opening or text.startswith("<request "):
            text = message_text(re.sub(r"^<request [^>\n]*>\n|</request>\s*$", "", text))
        else:
            text = unescape_text(text.removesuffix(UNFINISHED_SIGN))
    elif item.key.startswith("episode:"):
        text = _AGE.sub("", text).partition("): ")[2] or _AGE.sub("", text)
    return " ".join(text.split())


def why_whole(session: Session, fit_result: FitResult, left_out: Iterable[str], head: HeadFacts) -> str:
    """The reason, as a sentence, why the session cannot go on with what is new alone; empty where it can. `left_out`:
    keys of what does not stand in the prompt now."""
    changes = [name for name in dict.fromkeys((*session.head, *head)) if session.head.get(name) != head.get(name)]
    if changes:
        return f"Changed since: {join_words(changes)}."
    keys = {item.key for item in fit_result.included}
    known_keys = session.left_out | session.latest.keys()
    if any(key.startswith("summary:") and key not in known_keys for key in keys):
        return "The thread was compacted since."
    standing_keys = keys | set(left_out) | {_FORM_OF_TASK}
    bound = {item.key: item.section for item in session.items if item.section in _BINDING}
    for key, section in bound.items():
        if key not in standing_keys:
            return f"{'An instruction' if section == 'instructions' else 'A constraint'} holds no more since."
    return ""


def continue_session(session: Session, fit_result: FitResult) -> FitResult:
    """What of the prompt the session was not shown yet; the request and its situation always. No tools: a session has
    those that it began with, and is offered others beside its prompts."""
    items = [item for item in fit_result.included if item.section != "tools"]
    included = tuple(item for item in items if item.section in ("request", "situation") or not session.has_read(item))
    dropped = tuple(item for item in fit_result.dropped if item.key not in session.latest)
    return replace(fit_result, included=included, dropped=dropped)


def render_continuation(fit_result: FitResult, counter: TokenCounter) -> tuple[tuple[ChatMessage, ...], int]:
    """The messages of what is new, and their tokens: a system message only where something new stands in it."""
    system, *others = render(fit_result)
    tokens = sent_tokens(fit_result, counter)
    if any(item.slot == "system" for item in fit_result.included):
        return (system, *others), tokens
    return tuple(others), tokens - MESSAGE_OVERHEAD - count_text(DATA_NOTICE, counter)


_NOUNS: tuple[tuple[frozenset[str], str, str], ...] = (
    (frozenset(("history", "later", "recall")), "message", ""),
    (frozenset(("instructions",)), "instruction", ""),
    (frozenset(("constraints",)), "constraint", ""),
    (frozenset(("preferences",)), "preference", ""),
    (frozenset(("feedback",)), "piece of feedback", "pieces of feedback"),
    (frozenset(("knowledge",)), "entry of knowledge", "entries of knowledge"),
    (frozenset(("work",)), "item of work", "items of work"),
)


def continuation_words(session: Session, items: Iterable[Item]) -> str:
    """What is new, as a sentence."""
    counts: Counter[str] = Counter()
    for item in items:
        names = (one for sections, one, _ in _NOUNS if item.section in sections)
        counts[next(names, "other")] += item.section not in ("request", "situation")
    words = [pluralize(counts[one], one, many) for _, one, many in _NOUNS if counts[one]]
    if counts["other"]:
        words.append(pluralize(counts["other"], "other part"))
    return f"New since run {session.run_id}: {join_words([*words, 'the question'])}."
