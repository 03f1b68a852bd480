"""Broken rows are found and named. Rules that the database keeps by itself are broken here with its triggers off."""

from collections.abc import Callable

import pytest
from django.db import connection
from django.db.models import F

from memory.plugins.lcm.integrity import MAX_NAMED_ROWS, find_violations
from memory.plugins.lcm.models import Conversation, Item, Summary, SummaryEdge, SummaryMessage
from openvibe.chat.models import Message, Thread
from openvibe.chat.services import delete_message
from openvibe.workspaces.models import Member
from tests.factories import access, make_thread
from tests.memory.plugins.lcm.factories import condensed, leaf, taken_in, told


@pytest.fixture
def conversation(thread: Thread, ana: Member) -> Conversation:
    """Forty messages: two leaves in a container, a leaf, ten messages."""
    told(thread, ana.participant, *(f"Message {number}" for number in range(1, 41)))
    new_conversation = taken_in(thread)
    condensed(new_conversation, [leaf(new_conversation, 1, 10), leaf(new_conversation, 11, 20)])
    leaf(new_conversation, 21, 30)
    return new_conversation


def by_force(statement: str) -> None:
    """A change that the triggers would refuse."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(statement)
        cursor.execute("SET session_replication_role = origin")


def of(conversation: Conversation, depth: int, place: int = 0) -> Summary:
    return Summary.objects.filter(conversation=conversation, depth=depth).order_by("first_seq")[place]


def test_all_is_well(conversation: Conversation) -> None:
    assert find_violations(conversation.thread_id) == []


def test_a_thread_never_taken_in_is_well(thread: Thread, ana: Member) -> None:
    told(thread, ana.participant, "word")
    assert find_violations(thread.pk) == []


def test_a_deleted_message_leaves_all_well(conversation: Conversation, ana: Member) -> None:
    delete_message(message=Message.objects.get(thread=conversation.thread_id, seq=5), by=access(ana))
    assert of(conversation, 1).stale
    assert find_violations(conversation.thread_id) == []


def seen_too_far(conversation: Conversation) -> None:
    Conversation.objects.update(seen_seq=50)


def wrong_ordinal(conversation: Conversation) -> None:
    by_force("UPDATE lcm_item SET ordinal = 99 WHERE ordinal = 35")


def out_of_order(conversation: Conversation) -> None:
    by_force("UPDATE lcm_summary SET last_seq = 33 WHERE first_seq = 21")


def lost_item(conversation: Conversation) -> None:
    Item.objects.filter(ordinal=35).delete()


def lost_link(conversation: Conversation) -> None:
    SummaryMessage.objects.filter(message__seq=25).delete()


def emptied_leaf(conversation: Conversation) -> None:
    SummaryMessage.objects.filter(message__seq__range=(21, 30)).delete()


def kept_as_item(conversation: Conversation) -> None:
    message = Message.objects.get(thread=conversation.thread_id, seq=25)
    Item.objects.create(conversation=conversation, ordinal=25, message=message)


def kept_in_container_and_context(conversation: Conversation) -> None:
    Item.objects.create(conversation=conversation, ordinal=11, summary=of(conversation, 0, 1))


def out_of_all(conversation: Conversation) -> None:
    Item.objects.filter(summary=of(conversation, 0, 2)).delete()


def single_constituent(conversation: Conversation) -> None:
    SummaryEdge.objects.filter(constituent=of(conversation, 0, 1)).delete()


def wrong_depth(conversation: Conversation) -> None:
    by_force("UPDATE lcm_summary SET depth = 4 WHERE depth = 1")


def wrong_times(conversation: Conversation) -> None:
    Summary.objects.filter(first_seq=21).update(earliest_at=F("earliest_at") - F("latest_at") + F("earliest_at"))


def wrong_leaf_count(conversation: Conversation) -> None:
    Summary.objects.filter(first_seq=21).update(message_count=11)


def wrong_container_count(conversation: Conversation) -> None:
    Summary.objects.filter(depth=1).update(message_count=19)


def unmarked_container(conversation: Conversation) -> None:
    Message.objects.filter(thread=conversation.thread_id, seq=5).update(body="changed", token_count=1)
    Summary.objects.filter(depth=1).update(stale=False, content="What it said.", token_count=4)


def marked_with_words(conversation: Conversation) -> None:
    Summary.objects.filter(first_seq=21).update(stale=True)


def miscounted_summary(conversation: Conversation) -> None:
    Summary.objects.filter(first_seq=21).update(token_count=7_777)


def miscounted_message(conversation: Conversation) -> None:
    Message.objects.filter(thread=conversation.thread_id, seq=40).update(token_count=7_777)


def dive_result_inside(conversation: Conversation) -> None:
    Message.objects.filter(thread=conversation.thread_id, seq=25).update(kind="dive_result")


@pytest.mark.parametrize(
    ("spoil", "rule"),
    [
        (seen_too_far, "seen no further than the thread goes"),
        (wrong_ordinal, "an item stands at the number of its first message"),
        (out_of_order, "ordinals unique and chronological"),
        (lost_item, "coverage: every message taken in is reachable"),
        (lost_link, "coverage: every message taken in is reachable"),
        (emptied_leaf, "leaf of at least one message"),
        (kept_as_item, "no duplicate reference: messages"),
        (kept_in_container_and_context, "no duplicate reference: summaries"),
        (out_of_all, "every summary in the context or in one container"),
        (single_constituent, "condensed from at least two, of one conversation"),
        (wrong_depth, "depth one above the constituents', acyclic"),
        (wrong_times, "times and counts of leaves"),
        (wrong_leaf_count, "times and counts of leaves"),
        (wrong_container_count, "times and counts of containers"),
        (unmarked_container, "what stands on a changed message is marked"),
        (marked_with_words, "no marked summary with words of its own"),
        (miscounted_summary, "stored tokens equal the tokenizer's"),
        (miscounted_message, "stored tokens equal the tokenizer's"),
        (dive_result_inside, "messages of one conversation"),
        (lost_link, "a leaf holds one unbroken run"),
        (single_constituent, "a container holds one unbroken run"),
    ],
)
def test_what_is_broken_is_named(conversation: Conversation, spoil: Callable[[Conversation], None], rule: str) -> None:
    spoil(conversation)
    violations = find_violations(conversation.thread_id)
    assert any(rule in sentence for sentence in violations), violations
    assert all(sentence.startswith(f"Thread {conversation.thread_id}: ") for sentence in violations)


def test_what_was_not_taken_in_is_held_by_nothing(conversation: Conversation) -> None:
    Conversation.objects.update(seen_seq=35)
    assert any("further than what was taken in" in sentence for sentence in find_violations(conversation.thread_id))


def test_items_of_another_conversation_are_named(conversation: Conversation, thread: Thread, ana: Member) -> None:
    other = make_thread(thread.channel, ana, "Another")
    told(other, ana.participant, *["word"] * 40)
    foreign = Message.objects.get(thread=other, seq=35)
    Item.objects.filter(conversation=conversation, ordinal=35).update(message=foreign)
    assert any("its own conversation" in sentence for sentence in find_violations(thread.pk))


def test_the_sentence_names_the_row(conversation: Conversation) -> None:
    message = Message.objects.get(thread=conversation.thread_id, seq=35)
    lost_item(conversation)
    assert find_violations(conversation.thread_id) == [
        f"Thread {conversation.thread_id}: Message {message.pk} (number 35) was taken in, but neither an item nor a"
        " leaf holds it. (coverage: every message taken in is reachable)"
    ]


def test_many_broken_rows_are_named_up_to_a_number(thread: Thread, ana: Member) -> None:
    told(thread, ana.participant, *["word"] * (MAX_NAMED_ROWS + 15))
    taken_in(thread)
    Item.objects.all().delete()
    violations = find_violations(thread.pk)
    assert len(violations) == MAX_NAMED_ROWS + 1
    assert violations[-1].startswith(f"Thread {thread.pk}: 15 more rows")
