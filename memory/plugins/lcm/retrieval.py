"""Retrieval from a conversation: search in messages and summaries, describe and expand a summary, what is to be
reviewed.

The scope comes first. A summary's id that is unknown, one of another thread or workspace and one that stands for
messages the session does not see yet are the same: Missing. Search looks through the newest messages character by
character, so that any term is found (a part of a word, a sign); what is older is asked of the text index, and so is
everything, for words in another form, where no newer message holds the terms as they are. So its cost is bounded,
however long the thread is. The review mark of a thread is a message number, taken before anything is loaded: nothing is
reviewed twice or missed."""

import re
import unicodedata
from collections.abc import Sequence
from datetime import datetime
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
from memory.plugins.models import ReviewMark
from memory.plugins.sessions import message_entries, messages_for_prompts, prompt_messages
from openvibe.base.problems import Missing
from openvibe.chat.models import Message, Thread
from openvibe.engines.llm.fences import clean_text
from openvibe.engines.llm.tokens import count_tokens
from openvibe.engines.search.expressions import words_tsquery
from openvibe.engines.search.lexemes import find_matches
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


MAX_SCANNED_MESSAGES = 20_000
"""Newest messages of a thread that are looked through letter by letter."""

MAX_SCANNED_SUMMARIES = 5_000
"""Newest summaries that are looked through."""

MAX_CANDIDATES = 1_000
"""Older messages with the words of a query that are looked at, the newest first."""

MAX_TERMS = 32
"""Terms of one query; further ones are not asked for."""

MAX_SNIPPET_CHARACTERS, MAX_HITS = 500, 100

_MATCHES_ALL_TERMS = sql.SQL(
    "(SELECT bool_and(strpos(lower({text}), lower(term)) > 0) FROM unnest(%(terms)s::text[]) AS term)"
)
MATCHING_MESSAGES = (
    sql.SQL("""
WITH place AS (
    SELECT t.id, least(%(before)s, t.last_seq + 1) - %(looked_through)s AS since
    FROM chat_thread t WHERE t.id = %(thread)s AND t.workspace_id = %(workspace)s
), words AS (
    SELECT %(words)s::tsquery AS asked
), near AS MATERIALIZED (
    SELECT m.id, m.seq FROM chat_message m
    WHERE m.thread_id = (SELECT id FROM place) AND m.seq >= (SELECT since FROM place) AND m.seq < %(before)s
      AND {shown} AND {holds}
    ORDER BY m.seq DESC LIMIT %(limit)s
), far AS MATERIALIZED (
    SELECT m.id, m.seq FROM (
        SELECT * FROM chat_message
        WHERE (SELECT count(*) FROM near) < %(limit)s AND thread_id = (SELECT id FROM place)
          AND (seq < (SELECT since FROM place) OR NOT EXISTS (SELECT FROM near)) AND seq < %(before)s
          AND search @@ (SELECT asked FROM words)
        ORDER BY seq DESC LIMIT %(candidates)s
    ) m WHERE {shown} AND ({holds} OR NOT EXISTS (SELECT FROM near))
    ORDER BY m.seq DESC LIMIT %(limit)s
), hits AS (
    SELECT * FROM near UNION ALL SELECT * FROM far ORDER BY seq DESC LIMIT %(limit)s
)
SELECT 'message', m.id, m.seq, who.label, m.created_at, m.body FROM hits JOIN chat_message m ON m.id = hits.id
JOIN workspaces_participant who ON who.id = m.author_id ORDER BY m.seq DESC
""")
    .format(shown=items.VISIBLE_FILTER, holds=_MATCHES_ALL_TERMS.format(text=sql.SQL("m.body")))
    .as_string()
)
MATCHING_SUMMARIES = (
    sql.SQL("""
SELECT 'summary', s.id, s.first_seq, '', s.earliest_at, s.content FROM (
    SELECT s.* FROM lcm_summary s JOIN lcm_conversation c ON c.id = s.conversation_id
    JOIN chat_thread t ON t.id = c.thread_id
    WHERE t.id = %(thread)s AND t.workspace_id = %(workspace)s AND s.last_seq < %(before)s AND NOT s.stale
    ORDER BY s.id DESC LIMIT %(summaries)s
) s WHERE {holds} ORDER BY s.last_seq DESC, s.depth LIMIT %(limit)s
""")
    .format(holds=_MATCHES_ALL_TERMS.format(text=sql.SQL("s.content")))
    .as_string()
)


def search_conversation(session: Session, query: str, limit: int = 20) -> list[MemoryHit]:
    """Messages and summaries that hold every term of the query, in any case; where none of the newer messages does,
    those that hold them in another form. The newest first, messages before summaries, at most `limit` (and MAX_HITS) in
    all. Terms are what blanks separate; every character means itself.

    Where there are many of both, a quarter of the hits are summaries.
    """
    terms = literal_terms(query)
    limit = min(limit, MAX_HITS)
    if not terms or limit < 1:
        return []
    values: dict[str, Any] = {
        **items.session_params(session),
        "terms": terms,
        "words": words_tsquery(query),
        "limit": limit,
        "looked_through": MAX_SCANNED_MESSAGES,
        "candidates": MAX_CANDIDATES,
        "summaries": MAX_SCANNED_SUMMARIES,
    }
    messages, summaries = items.fetch_rows(MATCHING_MESSAGES, values), items.fetch_rows(MATCHING_SUMMARIES, values)
    summaries = summaries[: max(limit // 4, limit - len(messages))]
    return [
        MemoryHit(kind, pk, ordinal, author, at.isoformat(), make_snippet(text, terms))
        for kind, pk, ordinal, author, at, text in (*messages[: limit - len(summaries)], *summaries)
    ]


def literal_terms(query: str) -> list[str]:
    """The terms as bodies hold them: composed characters, no control characters; each once."""
    words = unicodedata.normalize("NFC", clean_text(query.replace("\x00", " "))).split()
    return list(dict.fromkeys(words))[:MAX_TERMS]


def make_snippet(text: str, terms: Sequence[str]) -> str:
    """A snippet of at most MAX_SNIPPET_CHARACTERS around the first place where a term stands, the first that is
    found, letter by letter or in another form."""
    if len(text) <= MAX_SNIPPET_CHARACTERS:
        return text
    match = next(filter(None, (re.search(re.escape(term), text, re.IGNORECASE) for term in terms)), None)
    span = match.span() if match else next(iter(find_matches(text, " ".join(terms))), (0, 0))
    position, length = span[0], span[1] - span[0]
    start = max(0, min(position - max(1, (MAX_SNIPPET_CHARACTERS - length) // 3), len(text) - MAX_SNIPPET_CHARACTERS))
    before, after = "…" if start else "", "…" if start + MAX_SNIPPET_CHARACTERS < len(text) else ""
    return before + text[start + len(before) : start + MAX_SNIPPET_CHARACTERS - len(after)] + after


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
