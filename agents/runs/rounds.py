"""What the model is asked, round by round: the prompt, then its own calls with their results, never over the ceiling.

A call and its result never part, and nothing is made up: what does not fit is named as left out. Where room is
short, the results of earlier rounds become references first; then the prompt is assembled anew with less history;
when there is still no room, the tools are withdrawn and the model is asked for its answer. Sizes in tokens of the
prompt's counter. No database here.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from agents.assembler.assemble import Prompt
from agents.assembler.render import exact_tokens, message_tokens
from agents.assembler.wording import data_block
from openvibe.base.problems import Problem
from openvibe.llm.tokens import TokenCounter, head_and_tail
from openvibe.llm.values import ChatMessage, ToolCall, ToolSpec

ROUNDS = 8
"""Rounds of tool calls in one run; after them the model is asked once more, without tools."""

LEAST_RESULT = 150
"""Tokens that a result of the newest round keeps, its fence included; with less room there is no use in calling."""

NO_ROUNDS_LEFT = "The rounds for tools are used up. Answer the request now with what you have."
NO_ROOM_LEFT = "There is no room left for tools. Answer the request now with what you have."
_CUT = "\n[… cut here to make room …]\n"


@dataclass(frozen=True)
class Answered:
    """A call and what came of it."""

    call: ToolCall
    result: str


@dataclass(frozen=True)
class Round:
    """What the model said and called in one turn, with every result."""

    text: str
    answered: tuple[Answered, ...]


@dataclass(frozen=True)
class Turn:
    """What the model is asked next. `tokens` is all of it, definitions included."""

    messages: tuple[ChatMessage, ...]
    tools: tuple[ToolSpec, ...]
    tokens: int


class Conversation:
    """One run's exchange with the model. `again(budget)` assembles its prompt anew within so many tokens.

    Ids of calls are unique in the whole exchange.
    """

    def __init__(self, prompt: Prompt, again: Callable[[int], Prompt]) -> None:
        self._prompt = prompt
        self._again = again
        self._ceiling = prompt.ceiling
        self._counter = prompt.counter
        self._may_shrink = True
        self.rounds: list[Round] = []

    @property
    def number(self) -> int:
        """Which round comes next, from 1."""
        return len(self.rounds) + 1

    def add(self, done: Round) -> None:
        self.rounds.append(done)

    def turn(self) -> Turn:
        """The next turn, within the ceiling."""
        if not self.rounds:
            return Turn(self._prompt.messages, self._prompt.tools, self._prompt.tokens)
        if len(self.rounds) >= ROUNDS:
            return self._last_turn(NO_ROUNDS_LEFT)
        said = shown(self.rounds, self._room(), self._counter, cut_newest=False)
        if said is None:
            self._make_room()
            said = shown(self.rounds, self._room(), self._counter)
        if said is None:
            return self._last_turn(NO_ROOM_LEFT)
        return self._turn(said, self._prompt.tools)

    def _room(self) -> int:
        return self._ceiling - exact_tokens(self._prompt.messages, self._prompt.tools, self._counter)

    def _make_room(self) -> None:
        """Once: the prompt with less history, so that a third of the ceiling, at most a half, is for rounds."""
        if not self._may_shrink:
            return
        self._may_shrink = False
        whole = sum(message_tokens(message, self._counter) for message in _messages(self.rounds))
        wanted = max(self._ceiling // 3, min(whole, self._ceiling // 2))
        try:
            self._prompt = self._again(self._ceiling - wanted)
        except Problem:  # what every prompt needs takes more than that: it stays as it is
            return

    def _last_turn(self, why: str) -> Turn:
        """Without tools, with as many rounds as fit, the newest first, and a sentence that asks for the answer."""
        asking = ChatMessage("user", why)
        room = self._ceiling - exact_tokens([*self._prompt.messages, asking], (), self._counter)
        for start in range(len(self.rounds) + 1):
            said = shown(self.rounds[start:], room, self._counter)
            if said is not None:
                return self._turn((*said, asking), ())
        return self._turn((), ())

    def _turn(self, said: Sequence[ChatMessage], tools: tuple[ToolSpec, ...]) -> Turn:
        messages = (*self._prompt.messages, *said)
        return Turn(messages, tools, exact_tokens(messages, tools, self._counter))


def shown(
    rounds: Sequence[Round], room: int, counter: TokenCounter, *, cut_newest: bool = True
) -> tuple[ChatMessage, ...] | None:
    """The rounds as messages of at most `room` tokens; None when even their shortest form needs more.

    Earlier results become references, the oldest first, until it fits; then the newest round's results share what
    is left, at least LEAST_RESULT each.
    """
    messages = list(_messages(rounds))
    sizes = [message_tokens(message, counter) for message in messages]
    newest = len(messages) - len(rounds[-1].answered) if rounds else 0
    for at in _results(messages[:newest]):
        if sum(sizes) <= room:
            break
        reference = replace(messages[at], content=_reference(rounds, messages[at].tool_call_id or "", sizes[at]))
        if (size := message_tokens(reference, counter)) < sizes[at]:
            messages[at], sizes[at] = reference, size
    if sum(sizes) > room and cut_newest and rounds:
        _share(rounds[-1], messages, sizes, newest, room, counter)
    return tuple(messages) if sum(sizes) <= room else None


def _share(
    last: Round, messages: list[ChatMessage], sizes: list[int], newest: int, room: int, counter: TokenCounter
) -> None:
    """Cut the longest results of the newest round, so that all of them fit into what the others leave."""
    left = room - sum(sizes[:newest])
    shortest_first = sorted(range(newest, len(messages)), key=lambda at: sizes[at])
    for looked_at, at in enumerate(shortest_first):
        share = left // (len(shortest_first) - looked_at)
        if sizes[at] > share and share >= LEAST_RESULT:
            messages[at] = _cut(last.answered[at - newest], share, counter)
            sizes[at] = message_tokens(messages[at], counter)
        left -= sizes[at]


def _cut(answered: Answered, share: int, counter: TokenCounter) -> ChatMessage:
    """The result with head and tail only, the whole message within `share` tokens as far as that is possible."""
    limit = share
    while True:
        message = _result(answered.call, head_and_tail(answered.result, limit, counter, _CUT))
        over = message_tokens(message, counter) - share
        if over <= 0 or limit <= 16:
            return message
        limit = max(limit - max(over, 8), 16)


def _messages(rounds: Iterable[Round]) -> Iterable[ChatMessage]:
    for done in rounds:
        yield ChatMessage("assistant", done.text, tool_calls=tuple(answered.call for answered in done.answered))
        for answered in done.answered:
            yield _result(answered.call, answered.result)


def _result(call: ToolCall, text: str) -> ChatMessage:
    block = data_block(text, source="tool", ref=call.id, author=call.name, trust="untrusted")
    return ChatMessage("tool", block, tool_call_id=call.id)


def _results(messages: Sequence[ChatMessage]) -> list[int]:
    return [at for at, message in enumerate(messages) if message.role == "tool"]


def _reference(rounds: Sequence[Round], call_id: str, size: int) -> str:
    name = next((a.call.name for done in rounds for a in done.answered if a.call.id == call_id), "the tool")
    return f"[What {name[:40]} answered, {size:,} tokens, is left out here to make room.]"
