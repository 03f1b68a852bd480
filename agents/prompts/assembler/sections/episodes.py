"""Episodes: open feedback (P2) and older episodes (P6), and which of them this audience may not see."""

from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from django.db.models import Case, Exists, F, OuterRef, Q, QuerySet, Value, When
from django.db.models.functions import Coalesce

from agents.agent.audience import learned_unseen, unseen_channels
from agents.agent.models import Run
from agents.prompts.assembler.items import (
    DroppedItem,
    Item,
    SectionCandidates,
    data_block,
    format_minute,
    make_dropped_item,
    make_item,
    relative_time,
    section_candidates,
)
from agents.prompts.assembler.sections.request import PromptRequest
from agents.prompts.assembler.sections.work import approval_key, latest_approvals
from agents.prompts.assembler.stack import SectionName
from memory.models import Episode
from openvibe.chat.queries import AccessQuery
from openvibe.engines.database.compiled_queries import row_columns
from openvibe.engines.llm.tokens import TokenCounter, truncate_middle
from openvibe.engines.llm.transcripts import clean_name, one_line
from openvibe.engines.text.masking import mask_secrets
from openvibe.workspaces.access import Access

MAX_EPISODES = 40
"""The most open episodes looked at beside the feedback, the newest first."""

MAX_FEEDBACK_ITEMS = 5
"""The most open feedback that this audience may know, the newest first, however many other episodes are newer."""

MAX_OLDER_EPISODES = 10


class EpisodeRow(NamedTuple):
    """An episode as prompts read it. `is_usable`: it may stand here; `is_unseen`: it may not, since somebody who reads
    the answer does not read the open place where it was learned. `subject`: the key of what it tells of, or empty."""

    pk: int
    kind: str
    subject: str
    text: str
    feedback_author: str
    from_feedback: bool
    created_at: datetime
    is_usable: bool
    is_unseen: bool
    channel_id: int | None


def _bears_on_task(thread_id: int, *, is_draft: bool) -> Q:
    """Feedback on an answer is for answers, feedback on a draft for drafts; for a draft also what was said in its dive.

    What is no feedback bears on everything.
    """
    on_draft = Q(feedback__message__run__task=Run.Task.PUBLISH)
    if is_draft:
        return Q(feedback=None) | on_draft | Q(feedback__message__thread=thread_id)
    return ~on_draft


def _newest_first(request: PromptRequest) -> list[EpisodeRow]:
    """The newest open episodes, and beyond them the newest feedback that this audience may know."""
    rows = _open_episodes.rows(
        request.access, request.thread.thread_id, request.thread.channel_id, is_draft=request.task == "publish"
    )
    return sorted(map(EpisodeRow._make, rows), key=lambda row: (row.created_at, row.pk), reverse=True)


@AccessQuery
def _open_episodes(access: Access, thread_id: int, channel_id: int, *, is_draft: bool) -> QuerySet[Any, Any]:
    bearing = _bears_on_task(thread_id, is_draft=is_draft)
    own = Episode.objects.of(access.participant_id).without_praise().filter(bearing, applied_at=None)
    usable = Episode.objects.usable_in(channel_id, access).filter(pk=OuterRef("pk"))
    unseen = learned_unseen(access, thread_id, channel_id)
    episodes = own.order_by("-created_at", "-id").annotate(
        text=Case(When(learning="", then=F("summary")), default=F("learning")),
        feedback_author=Coalesce("feedback__participant__label", Value("")),
        from_feedback=Q(feedback__isnull=False),
        is_unseen=Case(When(unseen, then=Value(True)), default=Value(False)),
        is_usable=Case(When(Exists(usable), then=~F("is_unseen")), default=Value(False)),
    )
    feedback = episodes.filter(kind=Episode.Kind.FEEDBACK_RECEIVED, is_usable=True)
    columns = row_columns(EpisodeRow)
    return episodes.values_list(*columns)[:MAX_EPISODES].union(feedback.values_list(*columns)[:MAX_FEEDBACK_ITEMS])


def episode_candidates(request: PromptRequest) -> tuple[SectionCandidates, SectionCandidates, list[DroppedItem]]:
    """Candidates: open feedback (the last five), older episodes, and what of them stays out: what was learned where
    this audience was not, what says the same as a newer one, and decisions that stand among the thread's work."""
    older: list[Item] = []
    dropped_items: list[DroppedItem] = []
    older_texts: set[str] = set()
    counter, sent_at = request.counter, request.message.sent_at
    max_tokens = max(40, (request.budget.caps["P2"] or 500) // MAX_FEEDBACK_ITEMS - 45)  # so that five fit into P2
    rows = _newest_first(request)
    usable_feedback = (row for row in rows if row.kind == Episode.Kind.FEEDBACK_RECEIVED and row.is_usable)
    feedback_rows = list(islice(usable_feedback, MAX_FEEDBACK_ITEMS))
    feedback = [
        _episode_item(counter, "feedback", row, relative_time(row.created_at, sent_at), max_tokens)
        for row in feedback_rows
    ]  # as "2 days ago": how fresh a wish is counts; everything else in a prompt has its day
    feedback_ids = {row.pk for row in feedback_rows}
    approval_keys = {approval_key(row) for row in latest_approvals(request)}
    unseen_ids = _unseen_places(request, rows)
    for row in rows:
        if row.pk in feedback_ids:
            continue
        is_hidden_feedback = row.kind == Episode.Kind.FEEDBACK_RECEIVED and not row.is_usable
        section: SectionName = "feedback" if is_hidden_feedback else "episodes"
        item = _episode_item(counter, section, row, format_minute(row.created_at), max_tokens)
        if not row.is_usable:
            is_unseen = row.is_unseen or row.channel_id in unseen_ids
            dropped_items.append(make_dropped_item(item, "not for everybody here" if is_unseen else "private"))
        elif row.text in older_texts or row.subject in approval_keys:
            dropped_items.append(make_dropped_item(item, "superseded"))
        elif len(older) < MAX_OLDER_EPISODES:
            older.append(item)
            older_texts.add(row.text)
    return section_candidates("feedback", feedback), section_candidates("episodes", older), dropped_items


def _unseen_places(request: PromptRequest, rows: Iterable[EpisodeRow]) -> set[int]:
    """The private channels in which some of these were learned, and which not everybody reads who reads the answer."""
    elsewhere = {row.channel_id for row in rows if row.channel_id is not None and not row.is_usable}
    return unseen_channels(sorted(elsewhere - {request.thread.channel_id}), request.thread.thread_id)


@lru_cache(maxsize=2_048)
def _episode_item(counter: TokenCounter, section: SectionName, episode: EpisodeRow, time: str, max_tokens: int) -> Item:
    """`[RECENT FEEDBACK] User Ana (2 days ago): …`, or an older episode in the same manner: one item, one line."""
    giver, ref, is_feedback = episode.feedback_author, f"episode:{episode.pk}", section == "feedback"
    text = truncate_middle(one_line(mask_secrets(episode.text)), max_tokens, counter, " … ")
    label = "RECENT FEEDBACK" if is_feedback else str(Episode.Kind(episode.kind).label).upper()
    line = f"[{label}] User {clean_name(giver)} ({time}): {text}" if giver else f"[{label}] ({time}): {text}"
    source = "feedback" if is_feedback else "episode"
    block = data_block(line, source=source, ref=ref, author=giver or "you", trust="semi_trusted")
    return make_item(
        counter,
        section=section,
        key=ref,
        text=block,
        trust="semi_trusted",
        source="feedback" if episode.from_feedback else "own episode",
        author=giver,
        ref=ref,
        order=-episode.pk,
    )
