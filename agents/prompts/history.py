"""The prompts of a thread through time: each as a step of its memory map, and all of them as one chart."""

from collections.abc import Iterator, Mapping
from typing import Any

from agents.agent.models import Snapshot
from agents.prompts.snapshots.content import UnreadableContent
from agents.prompts.snapshots.store import is_seq, key_ids, load_content, message_ids
from agents.statistics.cache_rates import ThreadCache, thread_caches
from memory.wiring import PromptPart, PromptReading, Step, steps_beside
from openvibe.base.problems import Missing
from openvibe.chat.models import Thread
from openvibe.workspaces.access import Access

THREAD_SECTIONS = ("history", "request", "later", "recall")
"""Sections that hold messages and summaries of the thread itself."""


class PromptSteps:
    """Fills memory's PROMPT_HISTORY. Whoever sees the thread may know which of its messages a prompt held."""

    def steps_beside(self, thread: Thread, step: Step | None) -> list[Step]:
        rows = Snapshot.objects.filter(run__thread=thread)
        return steps_beside(rows, "prompt", step, at="created_at", id="run_id")

    def read(self, thread: Thread, run_id: int) -> PromptReading:
        snapshots = Snapshot.objects.select_related("run__agent__participant", "run__trigger")
        snapshot = snapshots.filter(run=run_id, run__thread=thread).first()
        if snapshot is None:
            raise Missing("This thread has no such prompt.")
        run, parts = snapshot.run, _parts(snapshot)
        return PromptReading(
            Step(snapshot.created_at, "prompt", run.pk),
            run.agent.participant.name,
            run.trigger.seq if run.trigger.thread_id == thread.pk else thread.last_seq,
            snapshot.tokens,
            snapshot.budget,
            parts,
            is_unreadable=snapshot.content is not None and parts is None,
        )

    def charts(self, thread: Thread, access: Access) -> tuple[ThreadCache, ...]:
        return thread_caches(thread, access)


def _parts(snapshot: Snapshot) -> tuple[PromptPart, ...] | None:
    """None where the text is no longer kept, or cannot be read."""
    if snapshot.content is None:
        return None
    try:
        return tuple(_thread_parts(load_content(snapshot)))
    except UnreadableContent:
        return None


def _thread_parts(content: Mapping[str, Any]) -> Iterator[PromptPart]:
    """Numbers and sizes only, of what was deleted since, too."""
    for item in content["items"]:
        first, _, last = item["ref"].partition("-")
        if item["section"] not in THREAD_SECTIONS or not (is_seq(first) and (not last or is_seq(last))):
            continue
        tokens = item["tokens"] + item["opening_tokens"]
        for row_id in key_ids([item["key"]], "summary"):
            yield PromptPart("summary", int(first), int(last or first), tokens, row_id)
        for row_id in message_ids([item["key"]]):
            yield PromptPart(
                "recalled" if item["section"] == "recall" else "message", int(first), int(first), tokens, row_id
            )
