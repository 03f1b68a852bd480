"""Tool calls, their results and the newest request, where a prompt begins to leave things out."""

import pytest

from agents.models import Agent
from memory.plugins.base import Session
from memory.plugins.registry import provider_by_name
from openvibe.chat.models import Thread
from openvibe.engines.llm.tokens import count_tokens
from openvibe.workspaces.models import Member
from tests.factories import make_agent
from tests.memory.plugins.lcm.assemblies import pair, places, recalled
from tests.memory.plugins.lcm.factories import told


def test_a_pair_is_never_separated_by_the_tail(session: Session, thread: Thread, ana: Member, vibe: Agent) -> None:
    told(thread, ana.participant, *["word " * 90] * 10)
    pair(thread, vibe)
    told(thread, ana.participant, "thanks")
    assert places(recalled(session, budget=0, tail=2, fresh_tail_tokens="none")) == [11, 12, 13]


def test_a_pair_is_never_separated_by_the_budget(session: Session, thread: Thread, ana: Member, vibe: Agent) -> None:
    told(thread, ana.participant, *["word " * 50] * 8)
    told(thread, vibe.participant, "look " * 60, kind="tool_call", call_id="c1")
    told(thread, vibe.participant, "found", kind="tool_result", call_id="c1")
    told(thread, ana.participant, *["word " * 50] * 25)
    whole: set[int] = set()
    cut: set[int] = set()
    for budget in range(200, 4_000, 20):
        shown = set(places(recalled(session, budget=budget, tail=1)))
        (whole if 9 in shown else cut).add(budget)
        assert (9 in shown) == (10 in shown)
    assert whole
    assert cut


def test_a_call_far_before_its_result_comes_with_it(session: Session, thread: Thread, ana: Member, vibe: Agent) -> None:
    told(thread, vibe.participant, "look", kind="tool_call", call_id="c1")
    told(thread, ana.participant, *["word " * 20] * 120)
    told(thread, vibe.participant, "found", kind="tool_result", call_id="c1")
    told(thread, ana.participant, "thanks")
    assert places(recalled(session, budget=500, tail=2, fresh_tail_tokens="none")) == list(range(1, 124))
    without = recalled(session, budget=500, tail=1)
    assert places(without) == [123], "result and call do not fit together, so neither is there, nor what is older"


def test_the_newest_request_comes_however_much_was_answered_since(
    session: Session, thread: Thread, ana: Member, vibe: Agent
) -> None:
    told(thread, ana.participant, *["word"] * 40, "my request")
    told(thread, vibe.participant, *["word " * 100] * 60)
    assert "my request" in [entry.text for entry in recalled(session, budget=1_000)]


def test_halves_of_pairs_stay_out(session: Session, thread: Thread, ana: Member, vibe: Agent) -> None:
    told(thread, vibe.participant, "never answered", kind="tool_call", call_id="c1")
    told(thread, vibe.participant, "never asked", kind="tool_result", call_id="c2")
    told(thread, vibe.participant, "no id", kind="tool_result")
    told(thread, ana.participant, "so?")
    assert [entry.text for entry in recalled(session)] == ["so?"]


@pytest.mark.parametrize("plugin", ["lcm", "simple"])
def test_the_same_id_of_two_agents_is_two_calls(
    plugin: str, session: Session, thread: Thread, ana: Member, vibe: Agent
) -> None:
    """Some endpoints count their calls from 0 in every turn."""
    sage = make_agent(ana, "sage", channel=thread.channel)
    for kind, words in (("tool_call", "look up {}"), ("tool_result", "{} has sun")):
        told(thread, vibe.participant, words.format("Graz"), kind=kind, call_id="call_0")
        told(thread, sage.participant, words.format("Wien"), kind=kind, call_id="call_0")
    entries = provider_by_name(plugin, {}).assemble(session, 2_000, 20)
    assert [entry.text for entry in entries] == ["look up Graz", "look up Wien", "Graz has sun", "Wien has sun"]


def test_a_call_of_another_agent_with_the_same_id_answers_no_result(
    session: Session, thread: Thread, ana: Member, vibe: Agent
) -> None:
    sage = make_agent(ana, "sage", channel=thread.channel)
    told(thread, vibe.participant, "look up Graz", kind="tool_call", call_id="call_0")
    told(thread, sage.participant, "Wien has sun", kind="tool_result", call_id="call_0")
    told(thread, ana.participant, "so?")
    assert [entry.text for entry in recalled(session)] == ["so?"]


def test_many_halves_do_not_keep_out_what_fits(session: Session, thread: Thread, ana: Member, vibe: Agent) -> None:
    told(thread, ana.participant, "remember me")
    for _ in range(3):
        told(thread, vibe.participant, *["never answered " * 100] * 100, kind="tool_call")
    told(thread, ana.participant, "so?")
    assert [entry.text for entry in recalled(session, budget=2_000)] == ["remember me", "so?"]


def test_a_long_result_is_referred_to_once_a_person_spoke_after_it(
    session: Session, thread: Thread, ana: Member, vibe: Agent
) -> None:
    told(thread, ana.participant, "look it up")
    _, answer = pair(thread, vibe, result="fact " * 2_500)
    assert recalled(session)[-1].text == answer.body
    told(thread, ana.participant, "thanks")
    shown = recalled(session)[2]
    assert f"message {answer.seq}" in shown.text
    assert "search your memory for words in it to read what stands around them" in shown.text
    assert "read the message" not in shown.text, "no tool of an agent reads a message by its number"
    assert shown.tokens == count_tokens(shown.text) < 60
    assert recalled(Session(session.thread_id, session.access, before=4))[2] == shown, "the request comes after it, too"


def test_a_result_not_so_long_stays_as_it_is(session: Session, thread: Thread, ana: Member, vibe: Agent) -> None:
    pair(thread, vibe, result="fact " * 1_990)
    told(thread, ana.participant, "thanks")
    assert recalled(session)[1].text == "fact " * 1_990
