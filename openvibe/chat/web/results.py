"""Dives and their results as messages show them: chips on what was dived from, cards of what was published."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.safestring import SafeString, mark_safe

from openvibe.chat.markdown import render
from openvibe.chat.models import Dive, DiveResult, Message
from openvibe.llm.drafts import ResultDraft

NOTHING = SafeString("")


@dataclass(frozen=True)
class DiveChip:
    """One dive on the message it started from."""

    pk: int
    agent: str
    state: str
    words: str


@dataclass(frozen=True)
class ResultShown:
    """The card of a result. Its full text is fetched when somebody asks for it: it may have 100,000 characters.

    `full` is empty but in previews, `has_full` tells whether there is one, of `full_tokens` tokens.
    """

    headline: str
    bullets: tuple[SafeString, ...]
    deferred: tuple[SafeString, ...]
    questions: tuple[SafeString, ...]
    has_full: bool
    full_tokens: int = 0
    full: SafeString = NOTHING
    starter: str = ""
    agent: str = ""
    dive_id: int | None = None
    published_by: str = ""
    published_at: datetime | None = None


def dives_from(messages: Sequence[Message]) -> dict[int, tuple[DiveChip, ...]]:
    """The dives of each message, oldest first. One query; who sees a message sees its dives."""
    rows = Dive.objects.filter(source__in=[message.pk for message in messages]).order_by("id")
    found: dict[int, tuple[DiveChip, ...]] = {}
    for pk, source, state, agent in rows.values_list("pk", "source_id", "state", "agent__name"):
        chip = DiveChip(pk, agent, state, Dive.State(state).label.lower())
        found[source] = (*found.get(source, ()), chip)
    return found


def results_of(messages: Sequence[Message]) -> dict[int, ResultShown]:
    """The cards of those messages that are results and not deleted. One query, none without any."""
    ids = [m.pk for m in messages if m.kind == Message.Kind.DIVE_RESULT and not m.is_deleted]
    if not ids:
        return {}
    rows = DiveResult.objects.filter(message__in=ids).defer("full").select_related("agent", "published_by")
    return {row.message_id: _shown(row) for row in rows.select_related("dive__started_by")}


def _shown(row: DiveResult) -> ResultShown:
    return ResultShown(
        headline=row.headline,
        bullets=rendered(row.bullets),
        deferred=rendered(row.deferred),
        questions=rendered(row.questions),
        has_full=row.full_tokens > 0,
        full_tokens=row.full_tokens,
        starter=row.dive.started_by.name if row.dive else "",
        agent=row.agent.name,
        dive_id=row.dive_id,
        published_by=row.published_by.name,
        published_at=row.published_at,
    )


def preview_of(draft: ResultDraft) -> ResultShown:
    """The card as it would be published."""
    return ResultShown(
        headline=draft.headline,
        bullets=rendered(draft.bullets),
        deferred=rendered(draft.deferred),
        questions=rendered(draft.questions),
        has_full=bool(draft.full.strip()),
        full=safe_html(draft.full),
    )


def rendered(texts: Sequence[str]) -> tuple[SafeString, ...]:
    return tuple(safe_html(text) for text in texts)


def safe_html(text: str) -> SafeString:
    return mark_safe(render(text))  # render() gives sanitised HTML (openvibe.chat.markdown)
