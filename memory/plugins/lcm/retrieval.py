"""Retrieval from a conversation: search in messages and summaries, describe and expand a summary, what is to be
reviewed.

The scope comes first. A summary's id that is unknown, one of another thread or workspace and one that stands for
messages the session does not see yet are the same: Missing. The review mark of a thread is a message number, taken
before anything is loaded: nothing is reviewed twice or missed."""

from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from django.db.models import BigIntegerField, Count, Exists, F, OuterRef, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce, Greatest, Least
from psycopg import sql

from memory.plugins.base import (
    ContextEntry,
    MemoryHit,
    Session,
    SummaryDescription,
    SummaryExpansion,
    SummaryRevision,
    SummarySpan,
    UnreviewedSession,
)
from memory.plugins.lcm import items
from memory.plugins.lcm.models import Summary, SummaryCorrection, SummaryEdge
from memory.plugins.message_search import MAX_HITS, find_in_thread, make_snippet
from memory.plugins.models import ReviewMark
from memory.plugins.sessions import message_entries, messages_for_prompts, prompt_messages
from openvibe.base.problems import Missing
from openvibe.chat.models import Message, Thread
from openvibe.chat.queries import MessageQuery, day_start, parse_message_query
from openvibe.engines.llm.tokens import count_tokens
from openvibe.engines.search.expressions import parse_expression
from openvibe.engines.search.lexemes import BODY, make_tsvector
from openvibe.workspaces.access import Access

MAX_EXPANSION_TOKENS = 4_000
"""Tokens that one expansion gives, except where a single message is longer."""
MAX_EXPANSION_ENTRIES = 200

_FROM_LEAF = sql.SQL("""
SELECT {message} FROM lcm_summarymessage held JOIN chat_message m ON m.id = held.message_id
WHERE held.summary_id = %(summary)s AND m.thread_id = %(thread)s AND m.seq > %(cursor)s AND {shown}
ORDER BY m.seq LIMIT %(rows)s
""").format(message=items.MESSAGE_COLUMNS, shown=items.VISIBLE_FILTER)
_FROM_CONDENSED = sql.SQL("""
SELECT {summary} FROM lcm_summaryedge held JOIN lcm_summary s ON s.id = held.constituent_id
WHERE held.container_id = %(summary)s AND s.first_seq > %(cursor)s ORDER BY s.first_seq LIMIT %(rows)s
""").format(summary=items.SUMMARY_COLUMNS)
_STEP_DOWN = sql.SQL("""
WITH held AS ({held}), measured AS (SELECT *, sum(tokens) OVER (ORDER BY ordinal) AS together FROM held)
SELECT {row}, (SELECT count(*) FROM held)
FROM measured AS found LEFT JOIN workspaces_participant who ON who.id = found.author_id
WHERE found.together <= %(cap)s OR found.ordinal = (SELECT min(ordinal) FROM held) ORDER BY found.ordinal
""")
LEAF_MESSAGES = _STEP_DOWN.format(held=_FROM_LEAF, row=items.ENTRY_COLUMNS).as_string()
CONSTITUENTS = _STEP_DOWN.format(held=_FROM_CONDENSED, row=items.ENTRY_COLUMNS).as_string()


def summaries_at(session: Session, at: datetime) -> list[SummarySpan]:
    """The summaries that stood in the context at that time, oldest first: made by then, and in no container yet. One
    that was corrected since has the tokens of what it said before, as long as that is kept."""
    containers = SummaryEdge.objects.filter(constituent=OuterRef("pk"), container__created_at__lte=at)
    rows = Summary.objects.filter(conversation__thread=session.thread_id, created_at__lte=at).exclude(
        Exists(containers)
    )
    corrected_since = SummaryCorrection.objects.filter(summary=OuterRef("pk"), created_at__gt=at).order_by("pk")
    columns = rows.order_by("first_seq").values_list(
        "pk", "first_seq", "last_seq", "depth", "token_count", Subquery(corrected_since.values("previous")[:1])
    )
    return [
        SummarySpan(pk, first, last, depth, count_tokens(earlier) if earlier else tokens)
        for pk, first, last, depth, tokens, earlier in columns
    ]


def describe_summary(session: Session, summary_id: int) -> SummaryDescription:
    """The summary and where it stands. Raises Missing."""
    summary = access_summary(session, summary_id)
    return SummaryDescription(
        id=summary.pk,
        kind="leaf" if summary.kind == Summary.Kind.LEAF else "condensed",
        depth=summary.depth,
        content=summary.content,
        tokens=summary.token_count,
        source_tokens=summary.source_tokens,
        first=summary.first_seq,
        last=summary.last_seq,
        earliest=summary.earliest_at.isoformat(),
        latest=summary.latest_at.isoformat(),
        message_count=summary.message_count,
        container=summary.containers.values_list("pk", flat=True).first(),
        constituents=tuple(summary.constituents.order_by("first_seq").values_list("pk", flat=True)),
        level=summary.level,
        model=summary.model,
        is_stale=summary.stale,
        version=summary.version,
        corrections=tuple(
            SummaryRevision(
                one.author.label if one.author else "", one.created_at.isoformat(), one.previous, one.content
            )
            for one in summary.corrections.select_related("author")
        ),
    )


def expand_summary(session: Session, summary_id: int, cursor: int | None = None) -> SummaryExpansion:
    """One step down, oldest first: at most MAX_EXPANSION_TOKENS and MAX_EXPANSION_ENTRIES, but always one
    while there is one left.

    Messages as far as the session sees them, with all of their text. `cursor` is that of the answer before. Raises
    Missing.
    """
    summary = access_summary(session, summary_id)
    statement = LEAF_MESSAGES if summary.kind == Summary.Kind.LEAF else CONSTITUENTS
    values = {
        **items.session_params(session),
        "summary": summary.pk,
        "cursor": min(max(cursor or 0, 0), items.MAX_SEQ),
        "cap": MAX_EXPANSION_TOKENS,
        "rows": MAX_EXPANSION_ENTRIES + 1,
    }
    rows = items.fetch_rows(statement, values)
    entries = tuple(items.entry_from_row(row[:-1]) for row in rows[:MAX_EXPANSION_ENTRIES])
    total = rows[0][-1] if rows else 0
    return SummaryExpansion(entries, entries[-1].ordinal if len(entries) < total else None)


def access_summary(session: Session, summary_id: int) -> Summary:
    """The summary, if it is one of the session's own thread and of nothing the session does not see. Raises Missing."""
    summaries = Summary.objects.filter(pk=summary_id, conversation__thread=session.thread_id)
    summaries = summaries.filter(conversation__thread__workspace=session.access.workspace_id)
    if session.before is not None:
        summaries = summaries.filter(last_seq__lt=session.before)
    summary = summaries.first()
    if summary is None:
        raise Missing
    return summary


MAX_SEARCHED_SUMMARIES = 300
"""Newest summaries of a thread that are looked through."""

_SUMMARIES = sql.SQL("""
SELECT s.id, s.first_seq, s.earliest_at, s.content FROM lcm_summary s
JOIN lcm_conversation c ON c.id = s.conversation_id JOIN chat_thread t ON t.id = c.thread_id
WHERE t.id = %(thread)s AND t.workspace_id = %(workspace)s AND s.last_seq < %(before)s AND NOT s.stale
  AND s.latest_at >= %(since)s AND s.earliest_at < %(until)s
ORDER BY s.last_seq DESC, s.depth LIMIT %(summaries)s
""").as_string()
_MATCHING = "SELECT at FROM unnest(%s::text[]) WITH ORDINALITY AS v(words, at) WHERE words::tsvector @@ %s::tsquery"


def search_conversation(session: Session, query: str, limit: int = 20) -> list[MemoryHit]:
    """Messages as `message_search` finds them, the best first, then the newest summaries that hold all that is asked
    for; at most `limit` (and MAX_HITS) in all. Where there are many of both, a quarter of the hits are summaries."""
    limit = min(limit, MAX_HITS)
    asked = parse_message_query(query)
    messages = find_in_thread(session, asked, limit)
    summaries = _matching_summaries(session, asked)[: max(limit // 4, limit - len(messages), 0)]
    return [*messages[: limit - len(summaries)], *summaries] if limit > 0 else []


def _matching_summaries(session: Session, query: MessageQuery) -> list[MemoryHit]:
    """Summaries have no index of their own: their words are made when they are looked through."""
    tsquery = parse_expression(query.words).all_words
    if not tsquery or query.author:
        return []
    values = {
        **items.session_params(session),
        "since": day_start(query.since) if query.since else "-infinity",
        "until": day_start(query.until + timedelta(days=1)) if query.until else "infinity",
        "summaries": MAX_SEARCHED_SUMMARIES,
    }
    rows = items.fetch_rows(_SUMMARIES, values)
    if not rows:
        return []
    vectors = [_summary_lexemes(content) for *_, content in rows]
    matching = sorted(at for (at,) in items.fetch_rows(_MATCHING, [vectors, tsquery]))
    return [
        MemoryHit("summary", pk, first, "", earliest.isoformat(), make_snippet(content, query.words))
        for pk, first, earliest, content in (rows[at - 1] for at in matching)
    ]


@lru_cache(maxsize=1_024)
def _summary_lexemes(content: str) -> str:
    return make_tsvector((content, BODY))


MAX_REVIEW_MESSAGES = 200
MAX_PRIOR_TOKENS = 4_000
"""Tokens of the summaries that tell a review what came before, the newest first."""

PRIOR_SUMMARIES = (
    sql.SQL("""
WITH prior AS (
    SELECT {summary} FROM lcm_item i JOIN lcm_summary s ON s.id = i.summary_id
    JOIN lcm_conversation c ON c.id = i.conversation_id JOIN chat_thread t ON t.id = c.thread_id
    WHERE t.id = %(thread)s AND t.workspace_id = %(workspace)s AND s.last_seq <= %(since)s
      AND s.last_seq < %(before)s AND NOT s.stale
    ORDER BY i.ordinal DESC LIMIT %(rows)s
), measured AS (SELECT *, sum(tokens) OVER (ORDER BY ordinal DESC) AS together FROM prior)
SELECT {row} FROM measured AS found LEFT JOIN workspaces_participant who ON who.id = found.author_id
WHERE found.together <= %(tokens)s ORDER BY found.ordinal
""")
    .format(summary=items.SUMMARY_COLUMNS, row=items.ENTRY_COLUMNS)
    .as_string()
)


class ReviewMixin:
    """ReviewSource: what of its threads an agent has still to review, exact to the message."""

    def list_unreviewed(self, access: Access) -> list[UnreviewedSession]:
        """The asker's threads with messages past its mark, the longest waiting first. One query.

        `upto` ends before a message that is still being written: it is reviewed when it says something.
        """
        mark = ReviewMark.objects.filter(agent=access.participant_id, thread=OuterRef("pk")).values("reviewed_seq")
        writing = Message.objects.filter(thread=OuterRef("pk"), seq__gt=OuterRef("since"), state=Message.State.WRITING)
        last_finished = writing.order_by("seq").values(place=F("seq") - 1)[:1]
        stretch = {"thread": OuterRef("pk"), "seq__gt": OuterRef("since"), "seq__lte": OuterRef("upto")}
        new = messages_for_prompts(access, **stretch)
        message_counts = new.order_by().values("thread").annotate(counted=Count("pk")).values("counted")
        threads: QuerySet[Any, Any] = Thread.objects.visible_to(access).exclude(access=Thread.Access.HUMAN_ONLY)
        threads = threads.annotate(since=Coalesce(Subquery(mark), Value(0))).filter(last_seq__gt=F("since"))
        threads = threads.annotate(
            upto=Least(F("last_seq"), Coalesce(Subquery(last_finished), Value(items.MAX_SEQ))),
            new=Coalesce(Subquery(message_counts, output_field=BigIntegerField()), Value(0)),
        )
        rows = threads.filter(new__gt=0).order_by("last_message_at", "pk").values_list("pk", "since", "upto", "new")
        return [UnreviewedSession(*row) for row in rows]

    def build_review_context(self, session: Session, since: int, upto: int) -> list[ContextEntry]:
        """Summaries of what came before `since` as context, then the first 200 messages after it, up to `upto`.

        Where there are more than 200, `mark_reviewed` the last one that was shown; the next review goes on from there.
        """
        values = {"since": since, "rows": MAX_REVIEW_MESSAGES, "tokens": MAX_PRIOR_TOKENS}
        prior = items.fetch_rows(PRIOR_SUMMARIES, {**items.session_params(session), **values})
        new = prompt_messages(session).filter(seq__gt=since, seq__lte=upto).order_by("seq")[:MAX_REVIEW_MESSAGES]
        return [*map(items.entry_from_row, prior), *message_entries(new)]

    def mark_reviewed(self, session: Session, upto: int) -> None:
        """Marks that the asker reviewed the thread up to this message. A mark never goes back, nor past the end."""
        last = Thread.objects.filter(pk=session.thread_id, workspace=session.access.workspace_id).values("last_seq")
        last_seq = Least(Value(upto), Subquery(last))
        mark = {"agent_id": session.access.participant_id, "thread_id": session.thread_id}
        ReviewMark.objects.bulk_create([ReviewMark(**mark)], ignore_conflicts=True)
        ReviewMark.objects.filter(**mark).update(reviewed_seq=Greatest(F("reviewed_seq"), last_seq))
