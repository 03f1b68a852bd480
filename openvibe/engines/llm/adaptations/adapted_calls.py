"""One call of a model that changes its request as the endpoint asks, and what is known of that endpoint.

Each kind of adaptation is tried once in a call, a few in all. What helped is remembered once the call is answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from types import MappingProxyType

from openvibe.engines.llm.adaptations.adaptations import KINDS, Adaptation, CallPlan, adapt, changing_kinds, recognise
from openvibe.engines.llm.endpoint_errors.endpoint_errors import masked_line
from openvibe.engines.llm.errors import BadAnswer, ModelError
from openvibe.engines.llm.protocol import ModelStream
from openvibe.engines.llm.retries import Retries
from openvibe.engines.llm.values import CallNotice, StreamEnd, TextReset

MAX_ADAPTATIONS = 8
"""Adaptations that are tried in one call."""


class AdaptationMemory:
    """The adaptations of one endpoint and model, in this process. `pending`: those that a call handed back, to be
    remembered once another one was answered with them."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self.pending: list[Adaptation] = []

    def values(self) -> Mapping[str, str]:
        """The value of each kind that is known."""
        return self._values

    def remember(self, learned: Sequence[Adaptation], plan: CallPlan) -> None:
        """Remembers what helped to get `plan` answered."""
        self._values |= {adaptation.kind: adaptation.value for adaptation in learned}

    def save(self) -> None:
        """Saves for others what was learned, where that is done later than it is learned."""


class ToolsRefused(ModelError):
    """The endpoint takes no tools. Raised where the caller wants to make its prompt anew, without a word of them."""

    code = "model_takes_no_tools"
    advice = "Admins can choose a model that takes tools: Settings, Models."

    def __init__(self, notice: CallNotice) -> None:
        super().__init__(notice.text)
        self.notice = notice


class AdaptedCall:
    """The adaptations of one call: those known before, and those that its refusals ask for."""

    def __init__(
        self,
        plan: CallPlan,
        memory: AdaptationMemory,
        *,
        hands_back_tools: bool = False,
        protocol_lacks: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`protocol_lacks`: kinds that every call in its protocol needs."""
        self._asked, self._memory, self._hands_back_tools = plan, memory, hands_back_tools
        self._known = {**memory.values(), **protocol_lacks}
        self._learned: list[Adaptation] = list(memory.pending)
        self._tried: list[Adaptation] = []
        self.plan = adapt(plan, self._values)
        self.notices: list[CallNotice] = [
            CallNotice(kind.name, Adaptation(kind.name, self._known[kind.name]).effect)
            for kind in changing_kinds(plan, self._known)
            if kind.is_told
        ]

    @property
    def _values(self) -> dict[str, str]:
        return {**self._known, **{adaptation.kind: adaptation.value for adaptation in self._learned}}

    def learn(self, error: ModelError, key: str) -> CallNotice | None:
        """What changes in the request so that the endpoint takes it; None where nothing does. Raises ToolsRefused where
        tools are handed back, BadAnswer where the endpoint contradicts itself or wants too much."""
        found = recognise(error, self.plan)
        tried = {adaptation.kind for adaptation in self._tried}
        adaptation = next((each for each in found if each.kind not in tried), None)
        if adaptation is None:
            if found:
                raise _contradiction(error, self._tried)
            return None
        if len(self._tried) >= MAX_ADAPTATIONS:
            raise _contradiction(error, self._tried)
        adaptation = replace(adaptation, words=masked_line(adaptation.words, key))
        self._tried.append(adaptation)
        self._learned = [*(each for each in self._learned if each.kind != adaptation.kind), adaptation]
        self.plan = adapt(self._asked, self._values)
        notice = CallNotice(adaptation.kind, adaptation.effect)
        if adaptation.kind == "no_tools" and self._hands_back_tools:
            self._memory.pending = self._learned
            raise ToolsRefused(notice)
        self.notices = [*(each for each in self.notices if each.code != notice.code), notice]
        return notice

    def answered(self) -> None:
        """The endpoint took the request: what it was changed by is remembered, but for what people's words say, and
        for what helped this one conversation."""
        self._memory.pending = []
        lasting = [each for each in self._learned if each.is_certain and KINDS[each.kind].is_lasting]
        self._memory.remember(lasting, self._asked)


def stream_adapted(
    call: AdaptedCall, retries: Retries, read: Callable[[CallPlan], ModelStream], *, key: str, is_whole: bool = False
) -> ModelStream:
    """The answer to a call that is tried again, and adapted, until its first piece came; `is_whole`: until its last.

    `read` makes one request and yields its answer."""
    yield from call.notices
    while True:
        has_text = False
        try:
            with closing(read(call.plan)) as pieces:
                for piece in pieces:
                    if isinstance(piece, StreamEnd):
                        call.answered()
                        notices = (*piece.completion.notices, *call.notices)
                        piece = StreamEnd(replace(piece.completion, notices=notices))
                    has_text = True
                    yield piece
            return
        except ModelError as error:
            if has_text and not is_whole:
                raise
            if notice := call.learn(error, key):
                yield notice
            else:
                waits = retries.notices(error)
                call.notices += waits
                yield from waits
                retries.wait_or_raise(error)
            yield TextReset()


def last_completion(pieces: Iterator[object]) -> StreamEnd:
    *_, end = pieces
    assert isinstance(end, StreamEnd)
    return end


def _contradiction(error: ModelError, tried: Sequence[Adaptation]) -> BadAnswer:
    changes = " ".join(KINDS[adaptation.kind].effect.format(adaptation.value) for adaptation in tried)
    contradiction = BadAnswer(
        "The endpoint asks for changes of the request that contradict one another, or for too many. "
        f"Changed already: {changes} Then: {error}",
        advice="Admins can test the model, and forget what it asked for before: Settings, Models.",
    )
    contradiction.report = error.report
    return contradiction
