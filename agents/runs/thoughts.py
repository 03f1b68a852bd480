"""What the model of a run thinks, kept beside its reply while it comes: one row for each turn that thought.

It is shown to whoever sees the reply, and is in no prompt, no quotation and no export of what was said. Only the
attempt that has the run writes it."""

from dataclasses import dataclass, field
from time import monotonic

from django.db import transaction

from agents.agent.models import RUNS, Run, RunStep
from openvibe.base.events import emit
from openvibe.engines.jobs.jobs import JobLost
from openvibe.engines.llm.fences import clean_text
from openvibe.engines.llm.tokens import count_tokens
from openvibe.engines.text.masking import mask_secrets

MAX_THOUGHT_CHARACTERS = 100_000
"""The most characters of one turn: of a longer one its beginning and its end are kept."""

WRITE_SECONDS = 0.5
"""Seconds between two writes of a thought that goes on."""

CUT_NOTE = "\n\n[What came between is not kept: it was too long.]\n\n"

STEP_CHANGED = "run_step"
"""The event that tells open pages of a run's steps."""


def bounded_thought(text: str, limit: int = MAX_THOUGHT_CHARACTERS) -> str:
    """The text without secrets and control characters; of a longer one its beginning and its end."""
    text = mask_secrets(clean_text(text))
    if len(text) <= limit:
        return text
    half = (limit - len(CUT_NOTE)) // 2
    return text[:half] + CUT_NOTE + text[-half:]


def emit_step(run: Run) -> None:
    """Has pages show what the run does now, in the caller's transaction: at its reply, or at the question before there
    is one."""
    emit(
        STEP_CHANGED,
        workspace_id=run.workspace_id,
        channel_id=run.thread.channel_id,
        thread_id=run.thread_id,
        message_id=run.reply_id or run.trigger_id,
    )


def remove_steps(run: Run) -> None:
    """The run is begun anew: what an earlier attempt thought and reported is replaced."""
    run.own_steps.filter(attempt__lt=run.attempt).delete()


@dataclass
class ThoughtWriter:
    """The thoughts of one turn. Nothing is written, and nothing costs anything, while the model does not think."""

    run: Run
    round_number: int
    is_counted: bool = False
    _pieces: list[str] = field(default_factory=list)
    _length: int = 0
    _step_id: int | None = None
    _is_open: bool = True
    _begun_at: float = field(default_factory=monotonic)
    _heard_at: float = field(default_factory=monotonic)
    _written_at: float = 0.0

    @property
    def has_any(self) -> bool:
        """Whether something was thought in this turn, also if it was taken back since."""
        return self._step_id is not None

    def add(self, text: str) -> None:
        """The next words of it, written now or soon. Raises JobLost."""
        now = monotonic()
        if not self._pieces and self._step_id is None:
            self._begun_at = now
        self._pieces.append(text)
        self._length += len(text)
        self._heard_at = now
        if self._length > 4 * MAX_THOUGHT_CHARACTERS:
            self._pieces = [bounded_thought("".join(self._pieces), 2 * MAX_THOUGHT_CHARACTERS)]
            self._length = len(self._pieces[0])
        if self._step_id is None:
            self._create()
        elif now - self._written_at >= WRITE_SECONDS:
            self.save_pending()

    def save_pending(self) -> None:
        """Writes what came since the last write: of a model that pauses no more may come for long. Raises JobLost."""
        if self._is_open and self._step_id is not None and self._heard_at > self._written_at:
            self._write(self._whole_words())

    def reset(self) -> None:
        """The answer begins anew: what was thought until now is no part of it."""
        self._pieces, self._length = [], 0

    def answer_begins(self) -> None:
        """The first word of the answer came: it has thought until now, as far as anybody knows, also if it said nothing
        of it for a while. Raises JobLost."""
        if not self._is_open:
            return
        self._is_open, self._heard_at = False, monotonic()
        if self._step_id is not None:
            with transaction.atomic():
                self._write(self._whole_words(), state=RunStep.State.DONE)
                emit_step(self.run)

    def end(self, tokens: int | None = None, *, text: str = "", is_kept: bool = True) -> int:
        """The turn is over; the tokens that were thought. Raises JobLost.

        `tokens` as the provider counted them, else they are counted here. `text`: the whole thought, where none of it
        came in pieces. Unless `is_kept`, only the figures are.
        """
        self.is_counted = True
        if self._is_open:  # it only called tools, or gave all at once
            self._heard_at = monotonic()
        if not self._pieces and text:
            self._pieces = [text]
        if not self._pieces and not tokens:
            if self._step_id is not None:
                RunStep.objects.filter(pk=self._step_id).delete()
            return 0
        if self._step_id is None:
            self._create()
        thought = bounded_thought("".join(self._pieces))
        tokens = tokens or self.count_tokens()
        self._write(thought if is_kept else "", state=RunStep.State.DONE, tokens=tokens)
        return tokens

    def count_tokens(self) -> int:
        """Tokens of what was thought so far, counted here."""
        return count_tokens("".join(self._pieces)) if self._pieces else 0

    def _whole_words(self) -> str:
        """What is written while more is to come: a key that has come in part cannot be told for one."""
        text = "".join(self._pieces)
        end = max(text.rfind(" "), text.rfind("\n"))
        return bounded_thought(text[: end + 1])

    @transaction.atomic
    def _create(self) -> None:
        RUNS.lock_owned(self.run)
        step, _ = RunStep.objects.update_or_create(
            run=self.run,
            key=f"thought:{self.run.attempt}:{self.round_number}",
            defaults={
                "attempt": self.run.attempt,
                "kind": RunStep.Kind.THOUGHT,
                "state": RunStep.State.RUNNING,
                "text": self._whole_words(),
            },
        )
        self._step_id, self._written_at = step.pk, monotonic()
        emit_step(self.run)

    def _write(self, text: str, **fields: object) -> None:
        self._written_at = monotonic()
        rows = RunStep.objects.filter(pk=self._step_id or 0, run__attempt=self.run.attempt, run__state__in=RUNS.active)
        milliseconds = round((self._heard_at - self._begun_at) * 1000)
        if not rows.update(text=text, milliseconds=milliseconds, **fields):
            raise JobLost
