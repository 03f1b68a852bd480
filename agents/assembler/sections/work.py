"""The thread's work (P1): rows and not prose, so that no summary can lose them.

Constraints stand in every prompt, word for word. The rest comes as far as it fits: objective, plan, goals, to-dos,
approvals, what not to do again, then what tools answered last and whether the tools have changed."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import count

from agents.assembler.items import make_item, single_item_groups
from agents.assembler.queries import ApprovalRow, ProgressRow, PromptContext, ToolResultRow, WorkItemRow
from agents.assembler.sections.request import PromptRequest, author_trust
from agents.assembler.values import Item, SectionCandidates, TrustLabel
from memory.models import Approval, WorkItem
from memory.queries import row_text
from openvibe.base.masking import mask_secrets
from openvibe.llm.fences import fence
from openvibe.llm.tokens import TokenCounter, truncate_middle

WORK_CAP_DIVISOR = 3
"""Work other than constraints takes at most one in so many tokens of P1, and at least LEAST."""

MIN_WORK_TOKENS = 1_000

TOOL_RESULT_TOKENS = 250
"""Tokens of one answer of a tool that stand in a later prompt."""

CHANGED_NOTICE = "[Left out: a message it may have quoted was edited or deleted since.]"


def work_candidates(
    request: PromptRequest, context: PromptContext, tools: Iterable[str]
) -> tuple[SectionCandidates, SectionCandidates]:
    """Constraints, always; then all other work in the order of its weight."""
    own_id = request.agent.participant_id
    rows = [work_item(request.counter, row, is_own=row.author_id == own_id) for row in context.work_items]
    constraints = [
        entry for row, entry in zip(context.work_items, rows, strict=True) if row.kind == WorkItem.Kind.CONSTRAINT
    ]
    other_rows = [
        entry for row, entry in zip(context.work_items, rows, strict=True) if row.kind != WorkItem.Kind.CONSTRAINT
    ]
    other_items = [
        *other_rows,
        *(approval_item(request.counter, asking) for asking in reversed(context.approvals)),
        *_tool_change_items(request.counter, context.previous_tool_names, tools),
        *(progress_item(request.counter, line, is_own=line.author_id == own_id) for line in reversed(context.progress)),
        *(tool_result_item(request.counter, seen) for seen in reversed(context.tool_results)),
    ]
    cap = max((request.budget.caps["P1"] or request.budget.ceiling) // WORK_CAP_DIVISOR, MIN_WORK_TOKENS)
    order = count()
    return (
        SectionCandidates("P1", "work", single_item_groups(_with_order(constraints, order)), required=True),
        SectionCandidates("P1", "work", single_item_groups(_with_order(other_items, order)), cap=cap),
    )


def _with_order(items: Sequence[Item], order: Iterator[int]) -> list[Item]:
    return [replace(entry, order=next(order)) for entry in items]


@lru_cache(maxsize=4_096)
def _row_item(
    counter: TokenCounter, text: str, kind: str, ref: str, author: str, trust: TrustLabel, stage: str = ""
) -> Item:
    words = mask_secrets(text)
    block = fence("data", words, source=kind, ref=ref, author=author, trust=trust, stage=stage or None)
    source = str(WorkItem.Kind(kind).label).lower() if kind in WorkItem.Kind.values else kind
    return make_item(counter, section="work", key=ref, text=block, trust=trust, source=source, author=author, ref=ref)


def work_item(counter: TokenCounter, row: WorkItemRow, *, is_own: bool) -> Item:
    """The row's own words, with what its kind adds; a plan's stage is a field, which no words can pass for."""
    trust = author_trust(row.author_kind, is_own=is_own)
    stage = str(row.data.get("stage", ""))
    return _row_item(counter, row_text(row.text, row.data), row.kind, f"work:{row.pk}", row.author, trust, stage)


def approval_item(counter: TokenCounter, row: ApprovalRow) -> Item:
    """State, who decided and when are fields; only what was asked for, and the note, are words.

    Words are trusted once a person has granted them: who denies a request does not stand up for what it says.
    """
    ref = f"approval:{row.pk}"
    trust: TrustLabel = "trusted" if row.state == Approval.State.GRANTED else "semi_trusted"
    block = fence(
        "approval",
        mask_secrets("\n".join(filter(None, (row.what, row.note and f"Note: {row.note}")))),
        ref=ref,
        state=row.state,
        asked_by=row.requested_by,
        decided_by=row.decided_by or None,
        time=row.at[:16].replace("T", " "),
        trust=trust,
    )
    return make_item(
        counter,
        section="work",
        key=ref,
        text=block,
        trust=trust,
        source="approval",
        author=row.requested_by,
        ref=ref,
    )


def progress_item(counter: TokenCounter, row: ProgressRow, *, is_own: bool) -> Item:
    """One checkpoint of the progress log."""
    parts = (
        ("Changed", row.changed),
        ("Evidence", row.evidence),
        ("Open", row.open_issues),
        ("Next", row.next_action),
    )
    lines = "\n".join([row.checkpoint, *(f"{name}: {text}" for name, text in parts if text)])
    text = truncate_middle(mask_secrets(lines), TOOL_RESULT_TOKENS, counter, " … ")
    trust = author_trust(row.author_kind, is_own=is_own)
    return _row_item(counter, text, "progress", f"progress:{row.pk}", row.author, trust)


def tool_result_item(counter: TokenCounter, row: ToolResultRow) -> Item:
    """What a tool answered before, in short; nothing of it once a message changed that it may have quoted."""
    result = CHANGED_NOTICE if row.is_changed else mask_secrets(row.result)
    arguments = "" if row.is_changed else truncate_middle(mask_secrets(row.arguments), 80, counter, " … ")
    text = f"{row.name} {arguments}".rstrip() + f"\n{truncate_middle(result, TOOL_RESULT_TOKENS, counter, ' … ')}"
    return _row_item(counter, text, "tool", f"observation:{row.pk}", row.name, "untrusted")


def _tool_change_items(counter: TokenCounter, before: Sequence[str] | None, now: Iterable[str]) -> list[Item]:
    """A line when the agent has other tools than when it answered here last."""
    current, previous = set(now), set(before or ())
    if before is None or previous == current:
        return []
    gained = f"you now have {', '.join(sorted(current - previous))}" if current - previous else ""
    lost = f"you no longer have {', '.join(sorted(previous - current))}" if previous - current else ""
    changes = "; ".join(filter(None, (gained, lost)))
    text = f"Your tools have changed since your last answer here: {changes}."
    return [_row_item(counter, text, "tools", "tools", "OpenVibe", "semi_trusted")]
