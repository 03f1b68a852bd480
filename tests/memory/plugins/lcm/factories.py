"""Conversations and summaries written row by row, as compaction leaves them behind: for tests of what reads them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from django.utils import timezone

from memory.plugins.base import Session
from memory.plugins.lcm.models import Conversation, EndpointFailures, Item, Summary, SummaryEdge, SummaryMessage
from openvibe.chat.models import Message, Thread
from openvibe.engines.database.prepared_statements import fetch_prepared
from openvibe.engines.llm.models import Endpoint
from openvibe.engines.llm.tokens import count_tokens
from openvibe.workspaces.models import Participant
from tests.rows import insert, insert_all

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def session_of(thread: Thread, who: Participant, *, before: int | None = None, dives: bool = True) -> Session:
    """The thread as `who` sees it."""
    from openvibe.workspaces.access import Access

    access = Access(
        thread.workspace_id, who.pk, is_agent=who.kind == "agent", reads_public_channels=True, reads_dive_results=dives
    )
    return Session(thread.pk, access, before=before)


def told(thread: Thread, author: Participant, *bodies: str, **fields: object) -> list[Message]:
    """Messages stored at once, numbered on from the thread's last, a minute apart."""
    return told_all(thread, ({"author": author, "body": body, **fields} for body in bodies))


def told_in_turns(thread: Thread, first: Participant, second: Participant, *bodies: str) -> list[Message]:
    """The same, of two who speak in turn."""
    return told_all(thread, ({"author": second if at % 2 else first, "body": body} for at, body in enumerate(bodies)))


def told_all(thread: Thread, rows: Iterable[dict[str, object]]) -> list[Message]:
    """The same, each by its own fields: `author` and `body` at least."""
    messages = [
        Message(
            **{
                "thread": thread,
                "seq": seq,
                "token_count": count_tokens(str(row["body"])),
                "created_at": NOON + timedelta(minutes=seq),
                **row,
            }
        )
        for seq, row in enumerate(rows, thread.last_seq + 1)
    ]
    insert_all(messages)
    ended(thread)
    return messages


def ended(thread: Thread) -> None:
    """The thread knows its newest message."""
    ((thread.last_seq,),) = fetch_prepared(_SET_LAST_SEQ, [thread.pk])


_SET_LAST_SEQ = """
UPDATE chat_thread SET last_seq = coalesce((SELECT max(seq) FROM chat_message WHERE thread_id = chat_thread.id), 0)
WHERE id = %s RETURNING last_seq
"""


def taken_in(thread: Thread) -> Conversation:
    """All messages of the thread as items, one each."""
    conversation, _ = Conversation.objects.get_or_create(thread=thread)
    new = Message.objects.filter(thread=thread, seq__gt=conversation.seen_seq).order_by("seq").values_list("seq", "pk")
    insert_all([Item(conversation=conversation, ordinal=seq, message_id=pk) for seq, pk in new])
    conversation.seen_seq = thread.last_seq
    conversation.save()
    return conversation


def leaf(
    conversation: Conversation,
    first: int,
    last: int,
    text: str = "They spoke of this message.",
    *,
    source_from: int | None = None,
) -> Summary:
    """Messages `first` to `last` as one summary, in their place, made with earlier context from `source_from` on."""
    said = Message.objects.filter(thread=conversation.thread_id, seq__range=(first, last)).order_by("seq")
    messages = list(said.values_list("pk", "created_at", "token_count"))
    summary = _summary(
        conversation,
        text,
        depth=0,
        first=first,
        last=last,
        times=[at for _, at, _ in messages],
        messages=len(messages),
        source=sum(tokens for _, _, tokens in messages),
        source_from=source_from,
    )
    insert_all([SummaryMessage(summary=summary, message_id=pk) for pk, _, _ in messages])
    Item.objects.filter(conversation=conversation, ordinal__range=(first, last)).delete()
    insert(Item(conversation=conversation, ordinal=first, summary=summary))
    return summary


def condensed(conversation: Conversation, below: Sequence[Summary], text: str = "In short, they spoke.") -> Summary:
    """Neighbouring summaries of one depth as one, in their place."""
    summary = _summary(
        conversation,
        text,
        depth=below[0].depth + 1,
        first=below[0].first_seq,
        last=below[-1].last_seq,
        times=[at for one in below for at in (one.earliest_at, one.latest_at)],
        messages=sum(one.message_count for one in below),
        source=sum(one.token_count for one in below),
        source_from=min(one.source_from_seq for one in below),
    )
    insert_all([SummaryEdge(container=summary, constituent=one) for one in below])
    Item.objects.filter(conversation=conversation, summary__in=below).delete()
    insert(Item(conversation=conversation, ordinal=summary.first_seq, summary=summary))
    return summary


def _summary(
    conversation: Conversation,
    text: str,
    *,
    depth: int,
    first: int,
    last: int,
    times: Iterable[datetime],
    messages: int,
    source: int,
    source_from: int | None = None,
) -> Summary:
    in_order = sorted(times)
    return insert(
        Summary(
            conversation=conversation,
            kind="condensed" if depth else "leaf",
            depth=depth,
            content=text,
            token_count=count_tokens(text),
            first_seq=first,
            last_seq=last,
            source_from_seq=source_from or first,
            earliest_at=in_order[0],
            latest_at=in_order[-1],
            message_count=messages,
            source_tokens=source,
            level="normal",
            model="scripted",
        )
    )


def pause_endpoint(endpoint: Endpoint) -> None:
    """The endpoint failed five times at summaries, and pauses."""
    EndpointFailures.objects.create(
        workspace=endpoint.workspace,
        endpoint=endpoint,
        failures=5,
        paused_until=timezone.now() + timedelta(minutes=20),
        last_error="It is away.",
    )
