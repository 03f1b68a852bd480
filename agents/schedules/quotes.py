"""Schedules that repeat a message: what they tell their agents stands in prompts, and in threads, again and again."""

from collections.abc import Iterator, Mapping, Sequence

from django.urls import reverse

from agents.models import Schedule
from agents.schedules.services import delete_schedule
from openvibe.base.problems import Missing
from openvibe.base.quotation import Quotation, quotable_since
from openvibe.chat.models import Message
from openvibe.chat.wiring import QuoteKind, QuotePlace, QuotingText
from openvibe.workspaces.access import Access


def _quoting_schedules(message: Message, quotation: Quotation) -> Iterator[QuotingText]:
    since = quotable_since(message.created_at)
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


SCHEDULE_QUOTES = QuoteKind("schedule", "Schedule", _quoting_schedules, _schedule_places, _delete_quoting_schedule)
