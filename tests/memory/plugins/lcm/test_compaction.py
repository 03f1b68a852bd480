"""Compaction: when it is due, and what is folded."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memory.plugins.base import ENVELOPE_TOKENS, Session
from memory.plugins.lcm.compaction import needs_compaction
from memory.plugins.lcm.integrity import find_violations
from memory.plugins.lcm.items import summary_items, total_cost
from memory.plugins.lcm.models import Conversation, Item, Summary
from memory.plugins.lcm.provider import LcmProvider
from openvibe.base.problems import Missing
from openvibe.chat.models import Message, Thread
from openvibe.engines.llm.fences import parse_fences
from openvibe.workspaces.models import Member
from tests.engines.llm.factories import EndpointFactory
from tests.factories import say
from tests.memory.plugins.lcm.compactions import BUDGET, TEXT, depths, fold, items, model
from tests.memory.plugins.lcm.factories import told

# --- when ---------------------------------------------------------------------------------------------------------


def test_the_threshold_is_a_fraction_of_the_budget_and_not_a_number_of_tokens(
    thread: Thread, session: Session, ana: Member
) -> None:
    told(thread, ana.participant, *[TEXT] * 30)
    size = sum(message.token_count + ENVELOPE_TOKENS for message in Message.objects.filter(thread=thread))
    assert not needs_compaction(session, int(size / 0.75) + 2, {})
    assert needs_compaction(session, int(size / 0.75) - 2, {})


def test_a_short_conversation_needs_none_and_compacting_it_does_nothing(
    thread: Thread, session: Session, ana: Member
) -> None:
    told(thread, ana.participant, "Hello.", "How are you?")
    model_client = model()
    assert not needs_compaction(session, BUDGET, {})
    fold_result = fold(session, model_client)
    assert (fold_result.created, fold_result.tokens_before, model_client.calls) == ((), fold_result.tokens_after, [])


def test_compaction_that_can_shorten_nothing_does_not_fire_every_turn(
    thread: Thread, session: Session, ana: Member
) -> None:
    told(thread, ana.participant, *[TEXT * 30] * 9)
    assert not needs_compaction(session, BUDGET, {})
    conversation = Conversation.objects.get(thread=thread)
    assert conversation.exhausted_version == conversation.version
    with CaptureQueriesContext(connection) as queries:
        assert not needs_compaction(session, BUDGET, {})
    assert len(queries) <= 3
    told(thread, ana.participant, *[TEXT * 30] * 12)
    assert needs_compaction(session, BUDGET, {})


def test_a_condensed_summary_alone_does_not_fire_when_nothing_gets_shorter(long: Thread, session: Session) -> None:
    fold(session, full=True)
    model_client = model()
    assert fold(session, model_client, full=True).created == ()
    assert model_client.calls == []


# --- what ---------------------------------------------------------------------------------------------------------


def test_an_incremental_compaction_brings_the_context_down_to_half_of_the_budget(
    long: Thread, session: Session
) -> None:
    assert needs_compaction(session, BUDGET, {})
    fold_result = fold(session)
    assert fold_result.tokens_after <= BUDGET / 2 < BUDGET < fold_result.tokens_before
    assert fold_result.tokens_after == total_cost(Conversation.objects.get(thread=long).pk, 10_000)
    assert not needs_compaction(session, BUDGET, {})
    assert find_violations(long.pk) == []


def test_a_summary_stands_in_the_place_of_its_sources_which_leave_the_context(long: Thread, session: Session) -> None:
    (first, *_) = fold(session).created
    leaf = Summary.objects.get(pk=first)
    assert (leaf.kind, leaf.first_seq, leaf.message_count) == ("leaf", 1, leaf.last_seq)
    assert leaf.source_tokens == sum(leaf.messages.values_list("token_count", flat=True))
    assert not Item.objects.filter(message__in=leaf.messages.all()).exists()


def test_the_tail_and_the_newest_request_are_not_touched(long: Thread, session: Session, ana: Member) -> None:
    request = say(long, ana, "@vibe and now the apple trees?")
    before = [ordinal for ordinal, _ in items(long)]
    fold(session, full=True)
    assert (request.seq, None) in items(long)
    tail_ordinals = [ordinal for ordinal, depth in items(long) if depth is None]
    assert tail_ordinals == list(range(tail_ordinals[0], request.seq + 1))
    assert len(tail_ordinals) >= 5
    assert before == [] or set(tail_ordinals) <= set(before)


def test_neighbouring_leaves_are_condensed_once_another_would_not_fit(
    long: Thread, session: Session, ana: Member
) -> None:
    long_answer = model("Prune the roses in March, and burn what was ill. " * 8)
    stood, condensed = [], 0
    for _ in range(14):
        told(long, ana.participant, *[TEXT * 4] * 20)
        fold_result = fold(session, long_answer)
        stood.append(sum(place.cost for place in summary_items(Conversation.objects.get().pk, 100)))
        condensed += len(fold_result.created) - 1
    assert max(depths(long)) >= 1
    assert condensed <= 7  # every other time at most: what stands before the tail changes rarely
    assert max(stood) <= BUDGET / 5
    assert find_violations(long.pk) == []


def test_the_first_summaries_may_be_long(long: Thread, session: Session, ana: Member) -> None:
    answer = model("Prune the roses in March, and burn what was ill. " * 24)
    told(long, ana.participant, *[TEXT * 20] * 20)
    (first, *_) = fold(session, answer).created
    assert Summary.objects.get(pk=first).token_count > 250


def test_a_full_compaction_goes_on_until_nothing_can_be_folded(long: Thread, session: Session, ana: Member) -> None:
    told(long, ana.participant, *[TEXT * 34] * 100)
    seen: list[tuple[int, int]] = []
    fold_result = fold(session, full=True, progress=lambda so_far, of: seen.append((so_far, of)))
    assert fold_result.rounds >= 1
    assert len(depths(long)) == len(set(depths(long)))
    assert seen[-1][0] == seen[-1][1] == sum(1 for ordinal in range(1, 161) if (ordinal, None) not in items(long))
    assert find_violations(long.pk) == []


def test_dive_results_are_never_folded(thread: Thread, session: Session, ana: Member) -> None:
    told(thread, ana.participant, *[TEXT] * 15)
    told(thread, ana.participant, "The dive found mildew.", kind="dive_result")
    told(thread, ana.participant, *[TEXT] * 50)
    fold(session, full=True, budget=1_000)
    assert [depth for ordinal, depth in items(thread) if ordinal in (1, 16)] == [0, None]
    assert not any("mildew" in content for content in Summary.objects.values_list("content", flat=True))


def test_a_reply_being_written_is_not_folded_and_nothing_after_it(
    thread: Thread, session: Session, ana: Member
) -> None:
    told(thread, ana.participant, *[TEXT] * 12)
    told(thread, ana.participant, "", state="writing")
    told(thread, ana.participant, *[TEXT] * 40)
    fold(session, full=True, budget=1_000)
    assert [ordinal for ordinal, depth in items(thread) if depth is not None] == [1]
    assert Summary.objects.get().last_seq == 12


def test_the_same_goes_on_at_a_fixpoint_without_asking_the_model(long: Thread, session: Session) -> None:
    fold(session, full=True)
    version, model_client = Conversation.objects.get(thread=long).version, model()
    fold_result = fold(session, model_client, full=True)
    assert (fold_result.created, fold_result.tokens_before - fold_result.tokens_after, model_client.calls) == (
        (),
        0,
        [],
    )
    assert Conversation.objects.get(thread=long).version == version


def test_nothing_said_means_no_summary_without_words(long: Thread, session: Session) -> None:
    fold_result = fold(session, model(""), full=True)
    assert fold_result.created
    assert all(content.strip() for content in Summary.objects.values_list("content", flat=True))
    assert set(Summary.objects.values_list("level", flat=True)) == {"fallback"}


def test_without_a_model_the_workspace_still_gets_summaries(long: Thread, session: Session) -> None:
    compaction_result = LcmProvider({}).compact(session, BUDGET)
    assert compaction_result.created
    assert set(Summary.objects.values_list("model", flat=True)) == {"offline"}


def test_deterministic_summaries_ask_no_model(long: Thread, session: Session) -> None:
    model_client = model()
    compaction_result = LcmProvider({"summaries": "deterministic"}, client=model_client).compact(
        session, BUDGET, full=True
    )
    assert compaction_result.created
    assert model_client.calls == []


def test_the_endpoint_for_summaries_writes_them_and_else_the_default_one(
    long: Thread, session: Session, ana: Member
) -> None:
    unreachable = {"workspace": ana.workspace, "kind": "openai", "base_url": "http://127.0.0.1:9/v1", "model": "m"}
    EndpointFactory.create(name="Talk", is_default=True, **unreachable)
    EndpointFactory.create(name="Gist", is_for_summaries=True, kind="offline", workspace=ana.workspace)
    assert LcmProvider().compact(session, BUDGET).created
    assert set(Summary.objects.values_list("model", flat=True)) == {"offline"}


def test_a_leaf_is_given_the_two_summaries_before_it(long: Thread, session: Session, ana: Member) -> None:
    fold(session, model("The first gist: prune the roses."))
    first = Summary.objects.get()
    told(long, ana.participant, *[TEXT * 4] * 30)
    model_client = model()
    fold(session, model_client)
    tags = [each for each in parse_fences(model_client.calls[0].messages[-1].content) if each.tag == "earlier"]
    assert [each.text for each in tags] == [first.content]


def test_memory_of_people_only_threads_is_never_compacted(long: Thread, session: Session) -> None:
    Thread.objects.filter(pk=long.pk).update(access=Thread.Access.HUMAN_ONLY)
    assert not needs_compaction(session, BUDGET, {})
    with pytest.raises(Missing):
        fold(session)
