"""The situation (P1): when the request was made, who made it and in which role, which message of the thread it is, and
how much of the thread is in view.

Fields, not prose, so that no name can pass for one. It ends the dynamic block, right
before the question: nothing before it changes with it."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.db.models import QuerySet

from agents.prompts.assembler.items import (
    FitResult,
    Item,
    SectionCandidates,
    format_minute,
    make_item,
    section_candidates,
)
from agents.prompts.assembler.sections.request import PromptRequest, read_once
from openvibe.engines.database.compiled_queries import CompiledQuery, row_columns
from openvibe.engines.database.time_zones import time_zone_or_utc
from openvibe.engines.llm.fences import fence
from openvibe.workspaces.models import Member, Participant


class AskingMember(NamedTuple):
    """A member who asks: the role, and the name of the time zone, empty where none was chosen."""

    role: str
    time_zone: str


@read_once
def asking_member(request: PromptRequest) -> AskingMember | None:
    """The member who asks; None where anybody else does."""
    asker = request.message.author
    if asker is None or asker.kind != Participant.Kind.MEMBER:
        return None
    return next(map(AskingMember._make, _asking_member.rows(asker.pk, request.access.workspace_id)), None)


@CompiledQuery
def _asking_member(participant_id: int, workspace_id: int) -> QuerySet[Any, Any]:
    members = Member.objects.filter(participant=participant_id, workspace=workspace_id).order_by()
    return members.values_list(*row_columns(AskingMember, time_zone="user__time_zone"))


def local_asking_time(request: PromptRequest) -> datetime:
    """The time of the request in the zone of whoever asks: from there "yesterday" counts. UTC where none is known."""
    member = asking_member(request)
    return request.message.sent_at.astimezone(time_zone_or_utc(member.time_zone if member else ""))


def view_line(newest_count: int, recalled_count: int, total: int) -> str:
    """How much of a thread of `total` messages, the request not counted, stands in the prompt.

    `newest_count`: those of the running history; `recalled_count`: older ones brought back beside it.
    """
    if not total:
        return "Nothing was said before the request."
    if newest_count + recalled_count >= total:
        whole = "the only message" if total == 1 else f"all {total:,} messages"
        return f"You see {whole} before the request."
    if not newest_count + recalled_count and total == 1:
        return "You do not see the only message before the request; it is summarised or left out."
    if not newest_count + recalled_count:
        return f"You see none of the {total:,} messages before the request; they are summarised or left out."
    return _partial_view(newest_count, recalled_count, total)


def _partial_view(newest_count: int, recalled_count: int, total: int) -> str:
    shown = (("the newest {:,}", newest_count), ("{:,} recalled", recalled_count))
    counts = " and ".join(words.format(count) for words, count in shown if count)
    others = "the other is" if total - newest_count - recalled_count == 1 else "the others are"
    return f"You see {counts} of {total:,} messages before the request; {others} summarised or left out."


def situation_candidates(request: PromptRequest) -> SectionCandidates:
    """One block of fields, with room for the longest line about what is in view: `with_view` writes the true one."""
    total = request.end_seq - 1
    return section_candidates(
        "situation", [_situation_item(request, _partial_view(total, total, total))], required=True
    )


def with_view(
    request: PromptRequest, fit_result: FitResult, newest_count: int, recalled_count: int, total: int
) -> FitResult:
    """What was fitted, with the line that says how much of the thread it shows."""
    item = _situation_item(request, view_line(newest_count, recalled_count, total))
    reserved = sum(each.tokens for each in fit_result.included if each.section == "situation")
    items = tuple(item if each.section == "situation" else each for each in fit_result.included)
    return replace(fit_result, included=items, tokens=fit_result.tokens - reserved + item.tokens)


SESSION_VIEW = (
    "This goes on where your session stands: what you read there holds, unless it stands here again in other words."
)


def with_session(request: PromptRequest, fit_result: FitResult) -> FitResult:
    """The prompt for a session that goes on: how much of the thread it shows says nothing of what the session knows."""
    item = _situation_item(request, SESSION_VIEW)
    items = tuple(item if each.section == "situation" else each for each in fit_result.included)
    return replace(fit_result, included=items)


def _situation_item(request: PromptRequest, view: str) -> Item:
    """The time is the request's own, in UTC as all times of a prompt, and the number the one that the message has or
    would have: a preview and the run that follows read alike, whatever the time zone of the page."""
    asker, at = request.message.author, request.message.sent_at.astimezone(UTC)
    block = fence(
        "situation",
        " ".join(filter(None, (f"All times here are {at:%Z}.", view, _place_line(request)))),
        asked_at=format_minute(at),
        weekday=f"{at:%A}",
        asked_by=asker.name if asker else None,
        handle=f"@{asker.handle}" if asker else None,
        role=_role_name(asker, asking_member(request)),
        message=request.end_seq,
        trust="semi_trusted",
    )
    return make_item(
        request.counter, section="situation", key="situation", text=block, trust="semi_trusted", source="situation"
    )


def _place_line(request: PromptRequest) -> str:
    """What a model would take for granted otherwise: that a dive shows its thread, that a person asks."""
    if request.thread.dive_source_id is not None:
        return "This is a dive: of the thread it started in you see no more than the message it started from."
    if request.task == "scheduled":
        return "A schedule of yours asks, no person: write for the people of this thread."
    if request.task == "proactive":
        return "No person asks: you watch this channel and speak up by yourself. Write for the people of this thread."
    return ""


def _role_name(asker: Participant | None, member: AskingMember | None) -> str | None:
    """The role of a member, the former one of somebody who left, else what kind of participant it is."""
    if asker is None:
        return None
    role = member.role if member else str(asker.get_kind_display()).lower()
    return role if asker.is_active else f"former {role}"
