"""P1, work: what the thread is working on, as rows and not as prose, so that no summary can lose it.

Constraints stand in every prompt, word for word. The rest comes as far as it fits: objective, plan, goals, to-dos,
approvals, what not to do again, then what tools answered last and whether the tools have changed.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import count

from agents.assembler.found import Asking, Found, Logged, Observed, Work
from agents.assembler.gather import Scene, one_each, trust_of
from agents.assembler.items import item
from agents.assembler.values import Item, Offer, Trust
from memory.models import Approval, WorkItem
from memory.work import row_text
from openvibe.base.secrets import mask_secrets
from openvibe.llm.fences import fence
from openvibe.llm.tokens import TokenCounter, head_and_tail

SHARE = 3
"""Work other than constraints takes at most one in so many tokens of P1, and at least LEAST."""

LEAST = 1_000

OBSERVATION = 250
"""Tokens of one answer of a tool that stand in a later prompt."""

CHANGED = "[Left out: a message it may have quoted was edited or deleted since.]"


def work(scene: Scene, found: Found, tools: Iterable[str]) -> tuple[Offer, Offer]:
    """Constraints, always; then all other work in the order of its weight."""
    own_id = scene.agent.participant_id
    rows = [work_item(scene.counter, row, is_own=row.author_id == own_id) for row in found.work]
    bound = [entry for row, entry in zip(found.work, rows, strict=True) if row.kind == WorkItem.Kind.CONSTRAINT]
    rest = [entry for row, entry in zip(found.work, rows, strict=True) if row.kind != WorkItem.Kind.CONSTRAINT]
    others = [
        *rest,
        *(approval_item(scene.counter, asking) for asking in reversed(found.approvals)),
        *_tools_changed(scene.counter, found.tools_before, tools),
        *(progress_item(scene.counter, line, is_own=line.author_id == own_id) for line in reversed(found.progress)),
        *(observation_item(scene.counter, seen) for seen in reversed(found.observed)),
    ]
    cap = max((scene.budget.caps["P1"] or scene.budget.ceiling) // SHARE, LEAST)
    order = count()
    return (
        Offer("P1", "work", one_each(_in_order(bound, order)), required=True),
        Offer("P1", "work", one_each(_in_order(others, order)), cap=cap),
    )


def _in_order(items: Sequence[Item], order: Iterator[int]) -> list[Item]:
    return [replace(entry, order=next(order)) for entry in items]


@lru_cache(maxsize=4_096)
def _row_item(
    counter: TokenCounter, text: str, kind: str, ref: str, author: str, trust: Trust, stage: str = ""
) -> Item:
    words = mask_secrets(text)
    block = fence("data", words, source=kind, ref=ref, author=author, trust=trust, stage=stage or None)
    source = str(WorkItem.Kind(kind).label).lower() if kind in WorkItem.Kind.values else kind
    return item(counter, section="work", key=ref, text=block, trust=trust, source=source, author=author, ref=ref)


def work_item(counter: TokenCounter, row: Work, *, is_own: bool) -> Item:
    """The row's own words, with what its kind adds; a plan's stage is a field, which no words can pass for."""
    trust = trust_of(row.author_kind, is_own=is_own)
    stage = str(row.data.get("stage", ""))
    return _row_item(counter, row_text(row.text, row.data), row.kind, f"work:{row.pk}", row.author, trust, stage)


def approval_item(counter: TokenCounter, asking: Asking) -> Item:
    """State, who decided and when are fields; only what was asked for, and the note, are words.

    Words are trusted once a person has granted them: who denies a request does not stand up for what it says.
    """
    ref = f"approval:{asking.pk}"
    trust: Trust = "trusted" if asking.state == Approval.State.GRANTED else "semi_trusted"
    block = fence(
        "approval",
        mask_secrets("\n".join(filter(None, (asking.what, asking.note and f"Note: {asking.note}")))),
        ref=ref,
        state=asking.state,
        asked_by=asking.requested_by,
        decided_by=asking.decided_by or None,
        time=asking.at[:16].replace("T", " "),
        trust=trust,
    )
    return item(
        counter,
        section="work",
        key=ref,
        text=block,
        trust=trust,
        source="approval",
        author=asking.requested_by,
        ref=ref,
    )


def progress_item(counter: TokenCounter, line: Logged, *, is_own: bool) -> Item:
    """One checkpoint of the progress log."""
    parts = (
        ("Changed", line.changed), ("Evidence", line.evidence), ("Open", line.open_issues), ("Next", line.next_action),
    )  # fmt: skip
    said = "\n".join([line.checkpoint, *(f"{name}: {text}" for name, text in parts if text)])
    text = head_and_tail(mask_secrets(said), OBSERVATION, counter, " … ")
    trust = trust_of(line.author_kind, is_own=is_own)
    return _row_item(counter, text, "progress", f"progress:{line.pk}", line.author, trust)


def observation_item(counter: TokenCounter, seen: Observed) -> Item:
    """What a tool answered before, in short; nothing of it once a message changed that it may have quoted."""
    result = CHANGED if seen.is_changed else mask_secrets(seen.result)
    asked = "" if seen.is_changed else head_and_tail(mask_secrets(seen.arguments), 80, counter, " … ")
    text = f"{seen.name} {asked}".rstrip() + f"\n{head_and_tail(result, OBSERVATION, counter, ' … ')}"
    return _row_item(counter, text, "tool", f"observation:{seen.pk}", seen.name, "untrusted")


def _tools_changed(counter: TokenCounter, before: Sequence[str] | None, now: Iterable[str]) -> list[Item]:
    """A line when the agent has other tools than when it answered here last."""
    have, had = set(now), set(before or ())
    if before is None or had == have:
        return []
    gained = f"you now have {', '.join(sorted(have - had))}" if have - had else ""
    lost = f"you no longer have {', '.join(sorted(had - have))}" if had - have else ""
    said = "; ".join(filter(None, (gained, lost)))
    text = f"Your tools have changed since your last answer here: {said}."
    return [_row_item(counter, text, "tools", "tools", "OpenVibe", "semi_trusted")]
