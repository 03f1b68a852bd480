"""The answer of a run as it grows, from the event stream that pages follow, too: no thread and no database connection
waits for it."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, TypeVar

from django.conf import settings
from django.db import connection

from agents.agent.models import ClientTurn, Run
from agents.openai_api.conversations import leave_turn
from agents.openai_api.formats import STILL_HERE, WAITS, Outcome, Piece, Thought
from agents.runs.client_tools import client_calls, client_turn_of, model_text
from agents.runs.steps import read_reasoning
from agents.runs.thoughts import STEP_CHANGED
from openvibe.base.problems import Problem
from openvibe.chat.live.batch import EventBatch, LiveEvent
from openvibe.chat.live.stream import event_stream
from openvibe.chat.live.typing import TypingNote
from openvibe.chat.live.viewers import Viewer
from openvibe.chat.models import Message
from openvibe.engines.text.absolute_links import absolute_links, absolute_links_so_far
from openvibe.workspaces.access import Access

T = TypeVar("T")
FINAL_STATES = (*Run.FINISHED_STATES, Run.State.WAITING)
STOP_REASONS = {"length": "length", "pause": "length", "content_filter": "content_filter"}
"""What a chat client is told of an answer that the model did not end, by why. The protocol has no word for a pause:
`length`, too, says that there is more to ask for."""
FAILURE_STATUSES = {"tools_too_large": 400, "budget_too_small": 400, "answer_not_json": 422}
"""Statuses of what is no better when it is sent again; clients send again what has 503."""
RESTART_MESSAGE = "The answer was begun anew. Send the same request again to get all of it."
NO_ACCESS_MESSAGE = "You have no access to this conversation any more."
BUSY = "Too many answers are awaited at once. Try again in a moment."


def run_outcome(run_id: int) -> Outcome | None:
    """How the run ended; None while it goes on."""
    run = Run.objects.select_related("reply", "client_turn").filter(pk=run_id).first()
    if run is None:
        return _failure(run_id, 404, "gone", "The conversation was deleted.")
    if run.state not in FINAL_STATES:
        return None
    turn: ClientTurn | None = client_turn_of(run)
    calls = tuple(client_calls(run).values_list("call_id", "name", "arguments"))
    reason = STOP_REASONS.get(turn.stop_reason, "stop") if turn else "stop"
    failure_status = FAILURE_STATUSES.get(run.error_code, 503)
    reasoning = read_reasoning(run)
    return Outcome(
        run_id=run.pk,
        text=absolute_links(model_text(run), settings.PUBLIC_URL) + (WAITS if run.state == Run.State.WAITING else ""),
        status=failure_status if run.state == Run.State.FAILED else 200,
        error=run.error if run.state == Run.State.FAILED else "",
        code=run.error_code,
        stop_reason="tool_calls" if calls else reason,
        calls=calls,
        input_tokens=run.input_tokens,
        output_tokens=run.output_tokens,
        cached_tokens=run.cached_tokens or 0,
        reasoning_tokens=(reasoning and reasoning.tokens) or 0,
        thoughts=reasoning.text if reasoning else "",
    )


def _thoughts(run_id: int) -> str:
    """What the run's model has thought so far."""
    run = Run.objects.select_related("reply").filter(pk=run_id).first()
    reasoning = read_reasoning(run) if run else None
    return reasoning.text if reasoning else ""


def _failure(run_id: int, status: int, code: str, error: str) -> Outcome:
    return Outcome(run_id, "", status=status, error=error, code=code)


@dataclass(frozen=True)
class ReplyFrames:
    """The frames of one run's answer: a line of JSON with the text so far each time it grew, one with the thoughts so
    far whenever its model begins or ends to think, and one with the `Outcome`."""

    run_id: int
    thread_id: int
    trigger_id: int
    heartbeat: ClassVar[bytes] = STILL_HERE

    def shows(self, event: LiveEvent) -> bool:
        return event.thread_id == self.thread_id

    def presence_frame(self, here: frozenset[int], viewer: Viewer) -> bytes:
        """A chat client does not show who is here."""
        return b""

    def typing_frame(self, note: TypingNote) -> bytes:
        """Nor who is writing."""
        return b""

    def frame(self, event: LiveEvent, viewer: Viewer, batch: EventBatch) -> bytes:
        if event.thread_id != self.thread_id or batch.ids_only:
            return b""
        if event.kind == "run_changed" and event.message_id == self.trigger_id:
            outcome = run_outcome(self.run_id)
            return _line({"outcome": vars(outcome)}) if outcome else b""
        if event.kind == STEP_CHANGED:
            return _line({"thoughts": thoughts}) if (thoughts := _thoughts(self.run_id)) else b""
        message = batch.messages.get(event.message_id or 0)
        is_reply = message is not None and message.client_id == f"run:{self.run_id}"
        if message is None or not is_reply or event.is_outdated or message.state != Message.State.WRITING:
            return b""
        return _line({"text": absolute_links_so_far(message.body, settings.PUBLIC_URL)})


def _line(data: dict[str, Any]) -> bytes:
    return json.dumps(data).encode() + b"\n"


@dataclass(frozen=True)
class PendingAnswer:
    """An answer that is awaited: its run, who awaits it, and after which event it can only have ended."""

    run_id: int
    thread_id: int
    trigger_id: int
    viewer: Viewer
    asker: Access
    after: int

    async def pieces(self, *, is_whole: bool = False) -> AsyncGenerator[Piece, None]:
        """New words of thoughts and answer as they come, then the `Outcome`. Whoever leaves last before that stops the
        run. `is_whole`: the answer all at once when it is over, for until then it may be begun anew."""
        sent_text, sent_thoughts, is_over = "", "", False
        try:
            async with aclosing(self._lines()) as lines:
                async for line in lines:
                    outcome = _outcome_of(line)
                    thoughts = outcome.thoughts if outcome else str(line.get("thoughts", ""))
                    text = outcome.text if outcome else str(line.get("text", ""))
                    if not line:
                        yield Thought()
                    if thoughts.startswith(sent_thoughts) and len(thoughts) > len(sent_thoughts):
                        yield Thought(thoughts[len(sent_thoughts) :])
                        sent_thoughts = thoughts
                    if outcome is None and (is_whole or not text.startswith(sent_text)):
                        continue  # it was begun anew: perhaps it comes to the same
                    is_over = outcome is not None
                    if outcome and outcome.error:
                        pass
                    elif outcome and not text.startswith(sent_text):
                        outcome = _failure(self.run_id, 503, "answer_restarted", RESTART_MESSAGE)
                    elif len(text) > len(sent_text):
                        yield text[len(sent_text) :]
                        sent_text = text
                    if outcome:
                        yield outcome
                        return
        finally:
            if not is_over:
                asyncio.get_running_loop().run_in_executor(None, self._stop)

    async def _lines(self) -> AsyncGenerator[dict[str, Any], None]:
        frames = ReplyFrames(self.run_id, self.thread_id, self.trigger_id)
        async with aclosing(event_stream(self.viewer, frames, self.after)) as chunks:
            async for chunk in chunks:
                for line in chunk.splitlines():
                    if line.startswith(b"{"):
                        yield json.loads(line)
                    elif line == STILL_HERE.strip():
                        yield {}
                        yield {"thoughts": await asyncio.to_thread(self._read_thoughts)}
                    elif line == b"event: busy":
                        yield {"outcome": vars(_failure(self.run_id, 429, "rate_limit_exceeded", BUSY))}
                    elif line == b"event: gone":
                        yield {"outcome": vars(_failure(self.run_id, 403, "not_allowed", NO_ACCESS_MESSAGE))}
                    elif line == b"event: reload" and (outcome := await asyncio.to_thread(self._read_outcome)):
                        yield {"outcome": vars(outcome)}
        yield {"outcome": vars(_failure(self.run_id, 503, "interrupted", RESTART_MESSAGE))}

    def _read_thoughts(self) -> str:
        return _with_connection(partial(_thoughts, self.run_id))

    def _read_outcome(self) -> Outcome | None:
        return _with_connection(partial(run_outcome, self.run_id))

    def _stop(self) -> None:
        def stop() -> None:
            with suppress(Problem):
                leave_turn(run_id=self.run_id, by=self.asker)

        _with_connection(stop)

    async def outcome(self) -> Outcome:
        """Waits for the end."""
        async with aclosing(self.pieces(is_whole=True)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Outcome):
                    return piece
        return _failure(self.run_id, 503, "interrupted", RESTART_MESSAGE)


def _outcome_of(line: dict[str, Any]) -> Outcome | None:
    fields = line.get("outcome")
    return Outcome(**{**fields, "calls": tuple(map(tuple, fields["calls"]))}) if fields else None


def _with_connection(work: Callable[[], T]) -> T:
    """Does the work on a thread that keeps no database connection."""
    try:
        return work()
    finally:
        connection.close()
