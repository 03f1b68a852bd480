"""Integrity of what is stored of a conversation: the invariants, looked up in the rows themselves.

Each invariant is a statement that finds the rows which break it. Those of the rows look at one moment: the
conversation's row is locked meanwhile, as by a compaction. What the database promises by itself (unique ordinals, no
message in two leaves, no empty summary) is looked up all the same, where a row could still break it by another's
change."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from django.db import connection, transaction
from django.db.models import QuerySet

from memory.plugins.lcm.items import fetch_rows
from memory.plugins.lcm.models import STALE_CONTENT, STALE_TOKENS, Conversation, Summary
from memory.plugins.lcm.source_lines import strip_details
from memory.plugins.lcm.summary_sources import BUMP_VERSION, LOCK_CONVERSATION, read_source
from memory.plugins.lcm.summary_validation import SourceCheck, clean_answer, find_problem
from openvibe.chat.models import Message
from openvibe.engines.llm.answers.thoughts import read_kept
from openvibe.engines.llm.answers.written_calls import read_whole_answer
from openvibe.engines.llm.tokens import count_tokens

MAX_NAMED_ROWS = 20
"""Rows that each rule names; how many more there are is said in a number."""


class Invariant(NamedTuple):
    """`statement` selects the rows that break the rule, of `cte` where given; `sentence` takes a row's columns."""

    name: str
    sentence: str
    statement: str
    cte: str = ""


_ITEMS_CTE = """WITH items AS (
    SELECT i.id, i.ordinal, i.message_id, i.summary_id, coalesce(s.last_seq, m.seq) AS last,
        coalesce(s.first_seq, m.seq) AS first, coalesce(s.conversation_id, c.id) AS held_by, m.thread_id
    FROM lcm_item i JOIN lcm_conversation c ON c.id = i.conversation_id
    LEFT JOIN lcm_summary s ON s.id = i.summary_id LEFT JOIN chat_message m ON m.id = i.message_id
    WHERE c.id = %(conversation)s
) """
_LEAVES_CTE = """WITH held AS (
    SELECT s.id, s.first_seq, s.last_seq, s.earliest_at, s.latest_at, s.message_count, count(m.id) AS messages,
        count(m.id) AS numbers, min(m.seq) AS first, max(m.seq) AS last, min(m.created_at) AS earliest,
        max(m.created_at) AS latest
    FROM lcm_summary s LEFT JOIN lcm_summarymessage l ON l.summary_id = s.id
    LEFT JOIN chat_message m ON m.id = l.message_id
    WHERE s.conversation_id = %(conversation)s AND s.kind = 'leaf' GROUP BY s.id
) """
_CONDENSED_CTE = """WITH held AS (
    SELECT s.id, s.depth, s.first_seq, s.last_seq, s.earliest_at, s.latest_at, s.message_count, s.stale,
        count(d.id) AS constituents, min(d.first_seq) AS first, max(d.last_seq) AS last,
        min(d.earliest_at) AS earliest, max(d.latest_at) AS latest, sum(d.message_count) AS messages,
        sum(d.last_seq - d.first_seq + 1) AS numbers, min(d.depth) AS lowest, max(d.depth) AS highest,
        bool_or(d.stale) AS any_stale, bool_or(d.conversation_id <> s.conversation_id) AS is_mixed
    FROM lcm_summary s LEFT JOIN lcm_summaryedge e ON e.container_id = s.id
    LEFT JOIN lcm_summary d ON d.id = e.constituent_id
    WHERE s.conversation_id = %(conversation)s AND s.kind = 'condensed' GROUP BY s.id
) """

_BROKEN_RUNS = (
    "SELECT id, first_seq, last_seq, numbers, first, last FROM held"
    " WHERE first <> first_seq OR last <> last_seq OR numbers <> last_seq - first_seq + 1"
)
_WRONG_TIMES_AND_COUNTS = (
    "SELECT id, message_count, earliest_at, latest_at, messages, earliest, latest FROM held"
    " WHERE message_count <> messages OR earliest_at <> earliest OR latest_at <> latest"
)

INVARIANTS: tuple[Invariant, ...] = (
    Invariant(
        "seen no further than the thread goes",
        "Conversation {0} has taken in {1} messages, but its thread has {2}.",
        "SELECT c.id, c.seen_seq, t.last_seq FROM lcm_conversation c JOIN chat_thread t ON t.id = c.thread_id"
        " WHERE c.id = %(conversation)s AND c.seen_seq > t.last_seq",
    ),
    Invariant(
        "every item resolves, in its own conversation",
        "Item {0} at {1} holds nothing of its own conversation.",
        "SELECT id, ordinal FROM items WHERE first IS NULL OR held_by <> %(conversation)s OR thread_id <> %(thread)s",
        _ITEMS_CTE,
    ),
    Invariant(
        "an item stands at the number of its first message",
        "Item {0} stands at {1}, but what it holds begins at {2}.",
        "SELECT id, ordinal, first FROM items WHERE ordinal <> first",
        _ITEMS_CTE,
    ),
    Invariant(
        "ordinals unique and chronological",
        "Item {0} at {1} begins before item {2} ends, at {3}.",
        ", in_order AS (SELECT id, ordinal, lag(id) OVER w AS earlier, lag(last) OVER w AS ended"
        " FROM items WINDOW w AS (ORDER BY ordinal, id))"
        "SELECT id, ordinal, earlier, ended FROM in_order WHERE ended >= ordinal",
        _ITEMS_CTE,
    ),
    Invariant(
        "no duplicate reference: messages",
        "Message {0} (number {1}) is both item {2} and in leaf {3}.",
        "SELECT m.id, m.seq, i.id, l.summary_id FROM lcm_item i JOIN chat_message m ON m.id = i.message_id"
        " JOIN lcm_summarymessage l ON l.message_id = m.id WHERE i.conversation_id = %(conversation)s",
    ),
    Invariant(
        "no duplicate reference: summaries",
        "Summary {0} is both item {1} and in container {2}.",
        "SELECT s.id, i.id, e.container_id FROM lcm_summary s JOIN lcm_item i ON i.summary_id = s.id"
        " JOIN lcm_summaryedge e ON e.constituent_id = s.id WHERE s.conversation_id = %(conversation)s",
    ),
    Invariant(
        "every summary in the context or in one container",
        "Summary {0} ({1}–{2}) is neither in the context nor in a container.",
        "SELECT s.id, s.first_seq, s.last_seq FROM lcm_summary s LEFT JOIN lcm_item i ON i.summary_id = s.id"
        " LEFT JOIN lcm_summaryedge e ON e.constituent_id = s.id"
        " WHERE s.conversation_id = %(conversation)s AND i.id IS NULL AND e.id IS NULL",
    ),
    Invariant(
        "coverage: every message taken in is reachable",
        "Message {0} (number {1}) was taken in, but neither an item nor a leaf holds it.",
        "SELECT m.id, m.seq FROM chat_message m LEFT JOIN lcm_item i ON i.message_id = m.id"
        " LEFT JOIN lcm_summarymessage l ON l.message_id = m.id WHERE m.thread_id = %(thread)s"
        " AND m.seq <= (SELECT seen_seq FROM lcm_conversation WHERE id = %(conversation)s)"
        " AND i.id IS NULL AND l.id IS NULL",
    ),
    Invariant(
        "coverage: nothing is held that was not taken in",
        "Item {0} reaches to {1}, further than what was taken in.",
        "SELECT id, last FROM items WHERE last > (SELECT seen_seq FROM lcm_conversation WHERE id = %(conversation)s)",
        _ITEMS_CTE,
    ),
    Invariant(
        "leaf of at least one message",
        "Leaf {0} stands for no message.",
        "SELECT id FROM held WHERE messages = 0",
        _LEAVES_CTE,
    ),
    Invariant(
        "a leaf holds one unbroken run",
        "Leaf {0} stands for {1}–{2}, but holds {3} messages from {4} to {5}.",
        _BROKEN_RUNS,
        _LEAVES_CTE,
    ),
    Invariant(
        "times and counts of leaves",
        "Leaf {0} says {1} messages, {2} to {3}; its messages are {4}, {5} to {6}.",
        _WRONG_TIMES_AND_COUNTS,
        _LEAVES_CTE,
    ),
    Invariant(
        "messages of one conversation",
        "Leaf {0} holds message {1}, which is of another thread or a dive result.",
        "SELECT s.id, m.id FROM lcm_summary s JOIN lcm_summarymessage l ON l.summary_id = s.id"
        " JOIN chat_message m ON m.id = l.message_id WHERE s.conversation_id = %(conversation)s"
        " AND (m.thread_id <> %(thread)s OR m.kind = 'dive_result' OR s.kind <> 'leaf')",
    ),
    Invariant(
        "condensed from at least two, of one conversation",
        "Condensed summary {0} stands for {1} summaries of its conversation.",
        "SELECT id, constituents FROM held WHERE constituents < 2 OR is_mixed",
        _CONDENSED_CTE,
    ),
    Invariant(
        "depth one above the constituents', acyclic",
        "Condensed summary {0} has depth {1}, its constituents {2} to {3}.",
        "SELECT id, depth, lowest, highest FROM held WHERE depth <> lowest + 1 OR depth <> highest + 1",
        _CONDENSED_CTE,
    ),
    Invariant(
        "a container holds one unbroken run",
        "Condensed summary {0} stands for {1}–{2}, but holds {3} messages from {4} to {5}.",
        _BROKEN_RUNS,
        _CONDENSED_CTE,
    ),
    Invariant(
        "times and counts of containers",
        "Condensed summary {0} says {1} messages, {2} to {3}; its constituents {4}, {5} to {6}.",
        _WRONG_TIMES_AND_COUNTS,
        _CONDENSED_CTE,
    ),
    Invariant(
        "what stands on a changed message is marked",
        "Condensed summary {0} stands on a summary that is to be made anew, and is not marked itself.",
        "SELECT id FROM held WHERE any_stale AND NOT stale",
        _CONDENSED_CTE,
    ),
    Invariant(
        "what was made with a changed summary as earlier context is marked",
        "Summary {0} was made with what came before it from {1} on, where summary {2} is to be made anew, and is not"
        " marked itself.",
        "SELECT s.id, s.source_from_seq, min(t.id) FROM lcm_summary s JOIN lcm_summary t"
        " ON t.conversation_id = s.conversation_id AND t.stale AND t.last_seq >= s.source_from_seq"
        " AND t.first_seq < s.first_seq"
        " WHERE s.conversation_id = %(conversation)s AND NOT s.stale AND s.source_from_seq < s.first_seq GROUP BY s.id",
    ),
    Invariant(
        "a container goes back as far as its constituents",
        "Condensed summary {0} goes back to {1}, a summary below it to {2}.",
        "SELECT up.id, up.source_from_seq, min(down.source_from_seq) FROM lcm_summary up"
        " JOIN lcm_summaryedge e ON e.container_id = up.id JOIN lcm_summary down ON down.id = e.constituent_id"
        " WHERE up.conversation_id = %(conversation)s AND NOT up.stale GROUP BY up.id"
        " HAVING up.source_from_seq > min(down.source_from_seq)",
    ),
    Invariant(
        "no empty summary, no marked summary with words of its own",
        "Summary {0} is empty, or is marked and still holds what it said.",
        "SELECT id FROM lcm_summary WHERE conversation_id = %(conversation)s AND (content !~ '\\S'"
        " OR (stale AND content <> %(rewriting)s) OR (NOT stale AND content = %(rewriting)s))",
    ),
)


def find_violations(thread_id: int) -> list[str]:
    """Sentences that name the rows which break an invariant; none when all is well, or nothing was taken in yet."""
    messages = Message.objects.filter(thread=thread_id).exclude(state=Message.State.WRITING)  # counted when it is done
    summaries = Summary.objects.filter(conversation__thread=thread_id)
    violations = [
        *_row_violations(thread_id),
        *_format_violations(
            NO_SUMMARIES,
            [
                (summary.pk, summary.first_seq, summary.last_seq, problem, thread_id)
                for summary, problem in find_unusable_summaries(thread_id)
            ],
        ),
        *_miscounted_rows("Message", messages.order_by("seq").values_list("pk", "token_count", "body")),
        *_miscounted_rows("Summary", summaries.order_by("pk").values_list("pk", "token_count", "content")),
    ]
    return [f"Thread {thread_id}: {sentence}" for sentence in violations]


@transaction.atomic
def _row_violations(thread_id: int) -> list[str]:
    conversation = Conversation.objects.select_for_update().filter(thread=thread_id).first()
    if conversation is None:
        return []
    values = {"conversation": conversation.pk, "thread": thread_id, "rewriting": STALE_CONTENT}
    return [
        sentence
        for invariant in INVARIANTS
        for sentence in _format_violations(invariant, fetch_rows(invariant.cte + invariant.statement, values))
    ]


NO_SUMMARIES = Invariant(
    "what counts as a summary",
    "Summary {0} ({1}–{2}) is no summary: {3}. `manage.py memory rebuild --thread {4}` has it written anew",
    "",
)

FORGET_WITH_CONTAINERS = """
WITH RECURSIVE above AS (
    SELECT id FROM lcm_summary WHERE id = ANY(%(summaries)s)
    UNION
    SELECT e.container_id FROM lcm_summaryedge e JOIN above ON e.constituent_id = above.id
)
UPDATE lcm_summary SET stale = true, version = version + 1, content = %(content)s, token_count = %(tokens)s
WHERE id IN (SELECT id FROM above) AND conversation_id = %(conversation)s AND NOT stale
"""


def find_unusable_summaries(thread_id: int) -> list[tuple[Summary, str]]:
    """Summaries of models that are none (refusals, errors, thoughts, too few words, what nobody said), and why, as
    half a sentence. An earlier version stored such answers."""
    summaries = Summary.objects.filter(conversation__thread=thread_id, level__in=("normal", "aggressive"), stale=False)
    return [(one, problem) for one in summaries.order_by("first_seq", "depth") if (problem := _problem_of(one))]


def _problem_of(summary: Summary) -> str:
    source = read_source(summary)
    if not source.tokens:
        return ""
    text, answer = clean_answer(strip_details(summary.content)), read_kept(summary.content)
    if answer.reasoning or answer.is_broken_off:
        return "it holds a model's thoughts"
    if answer.calls or (not text and read_whole_answer(summary.content)):
        return "it holds a call of a tool"
    return find_problem(text, SourceCheck(source))


def forget_unusable_summaries(thread_id: int) -> int:
    """Takes the words from what is no summary, and from what was made of it, so that all of it is written anew; returns
    how many summaries were none."""
    unusable = find_unusable_summaries(thread_id)
    if unusable:
        forget_summaries(unusable[0][0].conversation_id, [summary.pk for summary, _ in unusable])
    return len(unusable)


def forget_summaries(conversation_id: int, summary_ids: Sequence[int]) -> None:
    """Marks these and everything above them, as a change of a message does."""
    values: dict[str, Any] = {
        "conversation": conversation_id,
        "summaries": list(summary_ids),
        "content": STALE_CONTENT,
        "tokens": STALE_TOKENS,
    }
    with transaction.atomic(), connection.cursor() as cursor:
        for statement in (LOCK_CONVERSATION, FORGET_WITH_CONTAINERS, BUMP_VERSION):
            cursor.execute(statement, values)


def _format_violations(invariant: Invariant, rows: list[tuple[Any, ...]]) -> Iterator[str]:
    for row in rows[:MAX_NAMED_ROWS]:
        yield f"{invariant.sentence.format(*row)} ({invariant.name})"
    if len(rows) > MAX_NAMED_ROWS:
        yield f"{len(rows) - MAX_NAMED_ROWS:,} more rows break the same rule. ({invariant.name})"


def _miscounted_rows(noun: str, rows: QuerySet[Any, tuple[int, int, str]]) -> Iterator[str]:
    """Sentences for rows of id, stored tokens and text, where the tokenizer counts other tokens."""
    sentence = noun + " {0} has {2} tokens, but {1} are stored."
    return _format_violations(
        Invariant("stored tokens equal the tokenizer's", sentence, ""),
        [(pk, stored, tokens) for pk, stored, text in rows.iterator() if stored != (tokens := count_tokens(text))],
    )
