"""Any history, compacted in any way: the invariants hold, nothing grows, and at the end nothing is left to do."""

from __future__ import annotations

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.models import Agent
from memory.plugins.base import FRESH_TAIL
from memory.plugins.lcm.fresh_tail import fresh_tail_tokens, tail_index
from memory.plugins.lcm.integrity import find_violations
from memory.plugins.lcm.items import newest_items, total_cost
from memory.plugins.lcm.models import Conversation, Summary
from memory.plugins.lcm.provider import LcmProvider
from openvibe.chat.models import Message, Thread
from openvibe.chat.services import delete_message, update_message
from openvibe.workspaces.models import Member
from tests.engines.llm.scripted_client import ScriptedModel
from tests.examples import examples
from tests.factories import access
from tests.memory.plugins.lcm.factories import session_of, told, told_all

WORDS = (
    "ok",
    "Prune the roses in March, before the buds open.",
    "玫瑰在三月修剪。" * 6,
    "👩‍👧 😀 " * 9,
    "no. " * 700,
    "key sk-" + "a1" * 20,
)
KINDS = st.sampled_from(["ana"] * 4 + ["vibe"] * 3 + ["call", "result", "dive", "system", "writing"])
SAID = st.lists(st.tuples(KINDS, st.sampled_from(WORDS), st.sampled_from("abc")), max_size=50)
STEPS = st.lists(st.one_of(st.sampled_from(["compact", "full"]), st.integers(1, 60), SAID), min_size=1, max_size=6)


FIELDS: dict[str, dict[str, str]] = {
    "call": {"kind": "tool_call"},
    "result": {"kind": "tool_result"},
    "dive": {"kind": "dive_result"},
    "system": {"kind": "system"},
    "writing": {"state": "writing"},
}


def say_all(thread: Thread, ana: Member, vibe: Agent, said: list[tuple[str, str, str]]) -> None:
    told_all(
        thread,
        (
            {
                "author": ana.participant if who == "ana" else vibe.participant,
                "body": "" if who == "writing" else text,
                **FIELDS.get(who, {}),
                **({"call_id": call_id} if who in ("call", "result") else {}),
            }
            for who, text, call_id in said
        ),
    )


def change(thread: Thread, ana: Member, seq: int) -> None:
    message = Message.objects.filter(thread=thread, seq=seq, author=ana.participant, deleted_at=None).first()
    if message is None:
        return
    if seq % 2:
        delete_message(message=message, by=access(ana))
    else:
        update_message(message=message, by=access(ana), body=f"Changed {seq}.")


def compacted(thread: Thread, provider: LcmProvider, vibe: Agent, *, budget: int, full: bool) -> None:
    session = session_of(thread, vibe.participant)
    provider.bootstrap(session)
    provider.rebuild(session)
    conversation = Conversation.objects.filter(thread=thread).first()
    if conversation is None:
        return
    size = total_cost(conversation.pk, 10_000)
    places = newest_items(conversation.pk, 10_000)
    tail = places[tail_index(places, FRESH_TAIL, fresh_tail_tokens(budget, {})) :]
    done = provider.compact(session, budget, full=full)
    after = total_cost(conversation.pk, 10_000)
    assert (done.tokens_before, done.tokens_after) == (size, after)
    assert after < size if done.created else after == size
    assert not tail or newest_items(conversation.pk, 10_000)[-len(tail) :] == tail
    summaries = Summary.objects.filter(pk__in=done.created)
    assert all(one.content.strip() and one.token_count < one.source_tokens for one in summaries)


@pytest.mark.parametrize("writer", ["deterministic", "long", "short"])
@settings(deadline=None, max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, budget=st.sampled_from([600, 3_000]))
def test_whatever_is_said_changed_and_compacted_the_invariants_hold(
    thread: Thread, ana: Member, vibe: Agent, writer: str, steps: list[object], budget: int
) -> None:
    client = ScriptedModel(["They spoke of roses." if writer == "short" else "Roses and frost. " * 90])
    provider = LcmProvider({"summaries": "deterministic"} if writer == "deterministic" else {}, client=client)
    sid = transaction.savepoint()
    thread.last_seq = 0
    told(thread, ana.participant, *[WORDS[1]] * 25)
    try:
        for step in steps:
            if isinstance(step, list):
                say_all(thread, ana, vibe, step)
            elif isinstance(step, int):
                change(thread, ana, step)
            else:
                compacted(thread, provider, vibe, budget=budget, full=step == "full")
            assert find_violations(thread.pk) == []
        compacted(thread, provider, vibe, budget=budget, full=True)
        assert find_violations(thread.pk) == []
        assert Summary.objects.filter(conversation__thread=thread).exists() or budget > 600 or steps[0] != "full"
        calls = len(client.calls)
        again = provider.compact(session_of(thread, vibe.participant), budget, full=True)
        assert (again.created, len(client.calls)) == ((), calls)
    finally:
        transaction.savepoint_rollback(sid)
