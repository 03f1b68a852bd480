"""The situation (P1): when the request was made, who made it and in which role, and how much of the thread is in view.

Fields, not prose, so that no name can pass for one. It ends the dynamic block: nothing before it changes with it."""

from typing import Any, NamedTuple

from django.db.models import OuterRef, QuerySet
from django.utils import timezone

from agents.assembler.items import Item, SectionCandidates, make_item, section_candidates
from agents.assembler.sections.request import PromptRequest, QueryScope
from openvibe.base.query_cache import JsonRows
from openvibe.llm.fences import fence
from openvibe.workspaces.models import Member, Participant


class AskerRow(NamedTuple):
    """The role of a member who asks."""

    role: str


def _asker(scope: QueryScope) -> QuerySet[Any, Any]:
    return Member.objects.filter(participant=scope.person_id, workspace_id=OuterRef("workspace_id")).order_by()


ASKER = JsonRows("asker", AskerRow, _asker)


def view_line(newest: int, recalled: int, total: int) -> str:
    """How much of a thread of `total` messages, the request not counted, stands in the prompt.

    `newest`: those that stand one after the other before the request; `recalled`: older ones brought back beside them.
    """
    if not total:
        return "Nothing was said before the request."
    if newest + recalled >= total:
        return f"You see all {total:,} messages before the request."
    return _counts_in_words(newest, recalled, total)


def longest_view_line(total: int) -> str:
    """A line as long as any that `view_line` says of so many messages."""
    return _counts_in_words(total, total, total)


def _counts_in_words(newest: int, recalled: int, total: int) -> str:
    counts = f"the newest {newest:,}" + (f" and {recalled:,} recalled" if recalled else "")
    return f"You see {counts} of {total:,} messages before the request; the others are summarised or left out."


def situation_candidates(request: PromptRequest) -> SectionCandidates:
    """One block of fields, as long as it may be once it is known how much of the thread is in view."""
    return section_candidates("situation", [situation_item(request, longest_view_line(request.end_seq))], required=True)


def situation_item(request: PromptRequest, view: str) -> Item:
    """`view` is what `view_line` says. The time is the request's own: a preview and the run that follows read alike."""
    asker, at = request.message.author, timezone.localtime(request.message.sent_at)
    role = ASKER.first(request.rows)
    block = fence(
        "situation",
        " ".join(filter(None, (f"All times here are {at:%Z}.", view))),
        asked_at=f"{at:%A, %Y-%m-%d %H:%M %Z}",
        asked_by=asker.name if asker else None,
        handle=f"@{asker.handle}" if asker else None,
        role=_role_name(asker, role),
        trust="semi_trusted",
    )
    return make_item(
        request.counter, section="situation", key="situation", text=block, trust="semi_trusted", source="situation"
    )


def _role_name(asker: Participant | None, row: AskerRow | None) -> str | None:
    """The role of a member, else what kind of participant it is."""
    if row is not None:
        return row.role
    return str(asker.get_kind_display()).lower() if asker else None
