"""The memory map of a thread at one of its steps: what is read for it, and its layout."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.contrib.postgres.fields import ArrayField
from django.db.models import BigIntegerField, Count, F, Func, IntegerField, Min, Sum, Value
from django.utils import timezone

from memory.plugins.base import ENVELOPE_TOKENS, MemoryProvider, PointInTime, Session, SummarySpan
from memory.plugins.map.map_layout import MapLayout, Measure, Piece, build_map_layout, split_thread
from memory.plugins.map.timeline import (
    PROMPT_HISTORY,
    Neighbours,
    PromptPart,
    PromptReading,
    Step,
    access_compaction,
    neighbours,
    newest_step,
)
from memory.plugins.models import Compaction
from memory.plugins.sessions import MESSAGE_COST, context_budget, prompt_messages
from openvibe.chat.models import Thread


@dataclass(frozen=True)
class MemoryMap:
    """One step, those beside it, and its layout: None where the text of the prompt is no longer kept, and where
    nothing was said. `step` is None before the first one: then it is the memory as it stands."""

    step: Step | None
    beside: Neighbours
    layout: MapLayout | None
    prompt: PromptReading | None = None
    compaction: Compaction | None = None


def build_memory_map(
    thread: Thread, provider: MemoryProvider, session: Session, *, run_id: int = 0, compaction_id: int = 0
) -> MemoryMap:
    """The map at a prompt, at a compaction, else at the newest step. At most six statements. Raises Missing."""
    if not (run_id or compaction_id):
        step = newest_step(thread)
        if step is None:
            layout = _context_layout(thread, session, _spans(provider, session, timezone.now()), thread.last_seq)
            return MemoryMap(None, Neighbours(None, None), layout)
        run_id, compaction_id = (step.id, 0) if step.kind == "prompt" else (0, step.id)
    if run_id:
        prompt = PROMPT_HISTORY.only().read(thread, run_id)
        spans = _spans(provider, session, prompt.step.at)
        layout = _prompt_layout(thread, session, prompt, spans)
        return MemoryMap(prompt.step, neighbours(thread, prompt.step), layout, prompt)
    compaction = access_compaction(thread, compaction_id)
    at = compaction.finished_at or compaction.queued_at
    step = Step(at, "compaction", compaction.pk)
    layout = _context_layout(thread, session, _spans(provider, session, at), compaction.at_seq, compaction)
    return MemoryMap(step, neighbours(thread, step), layout, compaction=compaction)


def _spans(provider: MemoryProvider, session: Session, at: datetime) -> list[SummarySpan]:
    return provider.summaries_at(session, at) if isinstance(provider, PointInTime) else []


def _prompt_layout(
    thread: Thread, session: Session, prompt: PromptReading, spans: Sequence[SummarySpan]
) -> MapLayout | None:
    if prompt.parts is None:
        return None
    pieces = split_thread(prompt.parts, spans, end=prompt.request_seq, last=thread.last_seq)
    return _measured_layout(session, thread.last_seq, pieces, tokens=prompt.tokens, budget=prompt.budget)


def _context_layout(
    thread: Thread, session: Session, spans: Sequence[SummarySpan], end: int, compaction: Compaction | None = None
) -> MapLayout | None:
    """What memory holds where no prompt was read: its summaries, and every other message up to `end`."""
    parts = [PromptPart("summary", span.first, span.last, span.tokens + ENVELOPE_TOKENS, span.id) for span in spans]
    created = compaction.summary_ids if compaction else ()
    pieces = split_thread(parts, spans, end=end, last=thread.last_seq, created=created)
    whole = [piece if piece.kind != "unseen" else Piece("whole", piece.first, piece.last) for piece in pieces]
    return _measured_layout(session, thread.last_seq, whole, tokens=0, budget=context_budget(thread))


def _measured_layout(
    session: Session, last: int, pieces: Sequence[Piece], *, tokens: int, budget: int
) -> MapLayout | None:
    """The layout of the pieces. What was said is counted as memory counts it, so that all of the page agrees."""
    starts = [piece.first for piece in pieces if piece.kind != "recalled"]
    if not starts:
        return None
    edges = Value(starts, output_field=ArrayField(BigIntegerField()))
    part = Func(F("seq"), edges, function="width_bucket", output_field=IntegerField())
    rows = prompt_messages(session).filter(seq__lte=last).annotate(part=part).order_by().values("part")
    totals = rows.annotate(messages=Count("pk"), size=Sum(MESSAGE_COST), first=Min("pk"))
    measures = {
        starts[number - 1]: Measure(*measure)
        for number, *measure in totals.values_list("part", "messages", "size", "first")
        if number
    }
    return build_map_layout(pieces, measures, tokens=tokens, budget=budget)
