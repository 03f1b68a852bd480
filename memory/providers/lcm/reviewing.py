"""What an agent has not reviewed yet, and what it should read to review it.

The mark of a thread is a message number, taken before anything is loaded: nothing is reviewed twice or missed,
however many messages one second holds.
"""

from __future__ import annotations

from typing import Any

from django.db.models import BigIntegerField, Count, F, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce, Greatest, Least
from psycopg import sql

from memory.models import ReviewMark
from memory.providers.base import Entry, Session, Unreviewed
from memory.providers.lcm import reading
from openvibe.chat.models import Message, Thread
from openvibe.workspaces.access import Access

AT_ONCE = 200
"""New messages of one review."""

PRIOR = 4_000
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
    .format(summary=reading.SUMMARY, row=reading.ROW)
    .as_string()
)
NEW_MESSAGES = (
    sql.SQL("""
SELECT {row} FROM (
    SELECT {message} FROM chat_message m JOIN chat_thread t ON t.id = m.thread_id
    WHERE m.thread_id = %(thread)s AND t.workspace_id = %(workspace)s
      AND m.seq > %(since)s AND m.seq <= %(upto)s AND m.seq < %(before)s AND {shown}
    ORDER BY m.seq LIMIT %(rows)s
) AS found LEFT JOIN workspaces_participant who ON who.id = found.author_id ORDER BY found.ordinal
""")
    .format(message=reading.MESSAGE, shown=reading.SHOWN, row=reading.ROW)
    .as_string()
)


def list_unreviewed(access: Access) -> list[Unreviewed]:
    """The asker's threads with messages past its mark, the longest waiting first. One query.

    `upto` ends before a message that is still being written: it is reviewed when it says something.
    """
    threads = _with_marks(access).filter(last_seq__gt=F("since"))
    threads = threads.annotate(upto=Least(F("last_seq"), _before_unfinished()))
    counted = threads.annotate(new=_counted(access)).filter(new__gt=0).order_by("last_message_at", "pk")
    return [Unreviewed(*row) for row in counted.values_list("pk", "since", "upto", "new")]


def build_review_context(session: Session, since: int, upto: int) -> list[Entry]:
    """Summaries of what came before `since` as context, then the first 200 messages after it, up to `upto`.

    Where there are more than 200, `mark_reviewed` the last one that was shown; the next review goes on from there.
    """
    values = {**reading.scope_of(session), "since": since, "upto": upto}
    before = reading.rows_of(PRIOR_SUMMARIES, {**values, "rows": AT_ONCE, "tokens": PRIOR})
    new = reading.rows_of(NEW_MESSAGES, {**values, "rows": AT_ONCE})
    return [reading.entry_of(row) for row in (*before, *new)]


def mark_reviewed(session: Session, upto: int) -> None:
    """Remember that the asker reviewed the thread up to this message. A mark never goes back, nor past the end."""
    last = Thread.objects.filter(pk=session.thread_id, workspace=session.access.workspace_id).values("last_seq")
    reached = Least(Value(upto), Subquery(last))
    mark = {"agent_id": session.access.participant_id, "thread_id": session.thread_id}
    ReviewMark.objects.bulk_create([ReviewMark(**mark)], ignore_conflicts=True)
    ReviewMark.objects.filter(**mark).update(reviewed_seq=Greatest(F("reviewed_seq"), reached))


def _with_marks(access: Access) -> QuerySet[Any, Any]:
    mark = ReviewMark.objects.filter(agent=access.participant_id, thread=OuterRef("pk")).values("reviewed_seq")
    threads = Thread.objects.visible_to(access).exclude(access=Thread.Access.HUMAN_ONLY)
    return threads.annotate(since=Coalesce(Subquery(mark), Value(0)))


def _before_unfinished() -> Coalesce:
    """The number before the first message that is still being written; a number after all where there is none."""
    unfinished = Message.objects.filter(thread=OuterRef("pk"), seq__gt=OuterRef("since"), state=Message.State.WRITING)
    return Coalesce(Subquery(unfinished.order_by("seq").values(place=F("seq") - 1)[:1]), Value(reading.END))


def _counted(access: Access) -> Coalesce:
    """How many messages there are to review, of those a prompt may show."""
    new = Message.objects.filter(
        thread=OuterRef("pk"), seq__gt=OuterRef("since"), seq__lte=OuterRef("upto"), deleted_at=None,
        state__in=[Message.State.COMPLETE, Message.State.STOPPED],
    ).exclude(Q(kind=Message.Kind.SYSTEM) | Q(body=""))  # fmt: skip
    if not access.reads_dive_results:
        new = new.exclude(kind=Message.Kind.DIVE_RESULT)
    counted = new.order_by().values("thread").annotate(counted=Count("pk")).values("counted")
    return Coalesce(Subquery(counted, output_field=BigIntegerField()), Value(0))
