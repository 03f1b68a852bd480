"""Schedules and SOULs that repeat a message: what agents add to the places where its words may still stand. Both stand
in prompts again and again."""

from collections.abc import Iterator, Mapping, Sequence

from django.urls import reverse

from agents.agent.models import Schedule, SoulVersion
from agents.schedules.services import delete_schedule
from openvibe.base.problems import Missing
from openvibe.base.quotation import Quotation
from openvibe.chat.models import Message
from openvibe.chat.wiring import QuoteKind, QuotePlace, QuotingText
from openvibe.workspaces.access import Access


def _quoting_schedules(message: Message, quotation: Quotation) -> Iterator[QuotingText]:
    since = quotation.since(message.created_at)
    rows = Schedule.objects.filter(agent__workspace=message.thread.workspace_id, updated_at__gte=since)
    columns = rows.values_list("pk", "name", "prompt", "author_id")
    return (QuotingText(pk, f"{name}\n\n{prompt}", author) for pk, name, prompt, author in columns.iterator(500))


def _schedule_places(access: Access, refs: Sequence[int], slug: str) -> Mapping[int, QuotePlace]:
    rows = Schedule.objects.visible_to(access).filter(pk__in=refs).select_related("agent__participant")
    return {
        row.pk: QuotePlace(
            title=f"Schedule “{row.name}” of @{row.agent.handle}",
            href=reverse("agent-schedules", args=[slug, row.agent.handle]),
            may_delete=access.administers,
            advice="" if access.administers else "An admin can change or delete it.",
        )
        for row in rows
    }


def _delete_quoting_schedule(ref: int, by: Access) -> None:
    schedule = Schedule.objects.visible_to(by).filter(pk=ref).first()
    if schedule is None:
        raise Missing
    delete_schedule(schedule=schedule, by=by)


def _quoting_souls(message: Message, quotation: Quotation) -> Iterator[QuotingText]:
    """Earlier versions too: all are kept."""
    since = quotation.since(message.created_at)
    versions = SoulVersion.objects.filter(agent__workspace=message.thread.workspace_id, created_at__gte=since)
    rows = versions.order_by().values_list("pk", "source", "note", "author_id")
    return (QuotingText(pk, f"{source}\n\n{note}", author) for pk, source, note, author in rows.iterator(500))


VERSIONS_STAY = "It is an earlier version: no prompt holds it, and versions are kept as they were."


def _soul_places(access: Access, refs: Sequence[int], slug: str) -> Mapping[int, QuotePlace]:
    if access.is_guest:
        return {}
    rows = SoulVersion.objects.filter(pk__in=refs, agent__workspace=access.workspace_id)
    if access.is_agent:
        rows = rows.filter(agent__participant=access.participant_id)
    return {row.pk: _describe_soul(row, access, slug) for row in rows.select_related("agent__participant")}


def _describe_soul(row: SoulVersion, access: Access, slug: str) -> QuotePlace:
    is_current = row.pk == row.agent.soul_id
    page = "agent-soul" if is_current and access.administers else "agent"
    advice = "Change it." if access.administers else "An admin can change it."
    return QuotePlace(
        title=f"The SOUL of @{row.agent.handle}, version {row.number}",
        href=reverse(page, args=[slug, row.agent.handle]),
        may_delete=False,
        advice=advice if is_current else VERSIONS_STAY,
    )


def _refuse_soul(ref: int, by: Access) -> None:
    raise Missing("A SOUL is not deleted: write its next version without it.")


AGENT_QUOTES = (
    QuoteKind("schedule", "Schedule", _quoting_schedules, _schedule_places, _delete_quoting_schedule),
    QuoteKind("soul", "SOUL", _quoting_souls, _soul_places, _refuse_soul),
)
