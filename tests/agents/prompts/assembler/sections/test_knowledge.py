"""Knowledge in prompts: for the request, by trust, while it holds; what stays out is named with its reason."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.models import Agent
from agents.prompts.assembler.assemble import Prompt, assemble
from knowledge.models import Entry
from knowledge.search import embed_pending_entries
from knowledge.services import pin_result, supersede_entry
from memory.work.services import create_work_item
from openvibe.chat.models import Channel, Thread
from openvibe.chat.services import set_thread_access
from openvibe.workspaces.models import Member
from tests.factories import access, make_agent, make_channel, make_entry, make_thread, say

QUESTION = "@fern what does the Starter plan cost?"


@pytest.fixture
def fern(ana: Member, channel: Channel) -> Agent:
    """An L3 agent."""
    return make_agent(ana, "fern", level=3, channel=channel)


def asked(agent: Agent, thread: Thread, by: Member, question: str = QUESTION, **extra: object) -> Prompt:
    request = say(thread, by, question)
    return assemble(agent=agent, thread=thread, task="mention", request=request, **extra)  # type: ignore[arg-type]


def known(prompt: Prompt) -> str:
    return "\n".join(entry.text for entry in prompt.included if entry.section == "knowledge")


def left_out(prompt: Prompt) -> dict[str, str]:
    return {entry.source: entry.reason for entry in prompt.dropped if entry.section == "knowledge"}


def at_level(agent: Agent, level: int) -> Agent:
    Agent.objects.filter(pk=agent.pk).update(level=level)
    return Agent.objects.select_related("participant", "workspace", "soul", "endpoint").get(pk=agent.pk)


def test_it_says_topic_content_who_decided_when_and_how_fresh(ana: Member, fern: Agent, thread: Thread) -> None:
    entry = make_entry(ana, expires_at=timezone.now() + timedelta(days=6, hours=1))
    said = known(asked(fern, thread, ana))
    assert "Pricing\n\nStarter costs $29 a month." in said
    assert f'ref="knowledge:{entry.pk}"' in said
    assert 'decided_by="Ana"' in said
    assert f'decided="{entry.created_at:%Y-%m-%d}' in said
    assert f'freshness="expires {entry.expires_at:%Y-%m-%d}"' in said


def test_trust_decides_level_by_level(ana: Member, fern: Agent, thread: Thread) -> None:
    make_entry(ana, "Pricing", "Starter costs $29 a month.")
    make_entry(ana, "Starter discount", "The Starter plan may cost $20 for friends.", visibility="restricted")
    for level, sees in ((1, ()), (2, ()), (3, ("$29",)), (4, ("$29", "$20"))):
        prompt = asked(at_level(fern, level), thread, ana)
        assert [price for price in ("$29", "$20") if price in known(prompt)] == list(sees), level
        others = left_out(prompt)
        assert (others.get("knowledge: Pricing") == f"trust L{level}") == ("$29" not in sees)
        assert (others.get("knowledge: Starter discount") == f"trust L{level}") == ("$20" not in sees)
        whole = "\n".join(message.content for message in prompt.messages)
        assert ("$20" in whole) == ("$20" in sees)


def test_a_restricted_twin_does_not_stand_in_for_a_shared_entry(ana: Member, fern: Agent, thread: Thread) -> None:
    said = "Starter costs $29 a month, paid in advance, for as many people as there are in the company."
    make_entry(ana, "Pricing", said, visibility="restricted")
    shared = make_entry(ana, "Pricing", said)
    assert f'ref="knowledge:{shared.pk}"' in known(asked(fern, thread, ana))


def test_knowledge_is_searched_once_whatever_may_not_stand(ana: Member, fern: Agent, thread: Thread) -> None:
    many = [make_entry(ana, f"Pricing {number}", f"Starter costs ${number} a month.") for number in range(3)]
    request = say(thread, ana, QUESTION)

    def statements() -> int:
        with CaptureQueriesContext(connection) as caught:
            assemble(agent=fern, thread=thread, task="mention", request=request)
        return len(caught)

    statements()
    of_three = statements()
    make_entry(ana, "Starter discount", "The Starter plan may cost $20 for friends.", visibility="restricted")
    assert statements() == of_three
    Entry.objects.exclude(pk=many[0].pk).update(status="archived")
    assert statements() == of_three


def test_it_is_gone_at_the_very_instant_it_expires(ana: Member, fern: Agent, thread: Thread) -> None:
    entry = make_entry(ana)
    Entry.objects.filter(pk=entry.pk).update(expires_at=timezone.now())
    prompt = asked(fern, thread, ana)
    assert "$29" not in "\n".join(message.content for message in prompt.messages)
    assert left_out(prompt) == {"knowledge: Pricing": "expired"}


def test_a_superseded_entry_never_stands_beside_its_successor(ana: Member, fern: Agent, thread: Thread) -> None:
    old = make_entry(ana)
    supersede_entry(entry=old, by=access(ana), topic="Pricing", content="Starter costs $39 a month.")
    said = known(asked(fern, thread, ana))
    assert "$39" in said
    assert "$29" not in said


def test_what_comes_from_a_thread_for_people_only_stays_there(ana: Member, fern: Agent, thread: Thread) -> None:
    secret = make_thread(make_channel(ana, "board"), ana)
    message = say(secret, ana, "Starter costs $29 a month.")
    pin_result(message=message, by=access(ana), topic="Pricing", content=message.body, visibility="shared")
    assert "$29" in known(asked(fern, thread, ana))
    set_thread_access(thread=secret, by=access(ana), access="human_only")
    prompt = asked(fern, thread, ana)
    assert "$29" not in "\n".join(m.content for m in prompt.messages)
    assert left_out(prompt) == {"knowledge: Pricing": "private"}


def test_the_index_names_topics_by_kind(ana: Member, fern: Agent, thread: Thread) -> None:
    make_entry(ana, "Travel", "Book trains, not planes.", kind="policy")
    make_entry(ana, "Pricing", "Starter costs $29 a month.", kind="decision")
    prompt = asked(fern, thread, ana, "@fern hello")
    (index,) = [entry for entry in prompt.included if entry.section == "topics"]
    assert "Decision: Pricing\nPolicy: Travel" in index.text
    assert index.slot == "reference"


def test_a_long_entry_keeps_head_and_tail_within_the_layer(ana: Member, fern: Agent, thread: Thread) -> None:
    make_entry(ana, "Pricing", "Starter costs $29. " + "Every plan has its price and its reason. " * 190 + "Fin.")
    prompt = asked(fern, thread, ana)
    assert "knowledge_search gives the whole entry" in known(prompt)
    assert prompt.layers["P3"] <= 1_000
    assert prompt.tokens <= prompt.ceiling


def test_another_workspace_knows_other_things(ana: Member, cleo: Member, fern: Agent, thread: Thread) -> None:
    make_entry(cleo)
    prompt = asked(fern, thread, ana)
    assert known(prompt) == ""
    assert left_out(prompt) == {}


RULE = "Production deploys happen on Tuesday between 14:00 and 16:00, after the lead has signed them off."


def test_near_copies_stand_once_and_the_others_are_named_as_left_out(ana: Member, fern: Agent, thread: Thread) -> None:
    for number in range(12):
        make_entry(ana, f"Deploys {number}", f"{RULE} ({number})")
    make_entry(ana, "Deploy freeze", "No deploys happen in the last week of December.")
    embed_pending_entries()
    prompt = asked(fern, thread, ana, "@fern when do deploys happen?")
    assert known(prompt).count("signed them off") == 1
    assert "last week of December" in known(prompt)
    assert sorted(left_out(prompt).values()) == ["near copy"] * 11


def test_nonsense_brings_nothing_and_the_threads_subject_helps_a_short_request(
    ana: Member, fern: Agent, channel: Channel
) -> None:
    for name in ("Maple", "Cedar", "Willow", "Hazel"):
        make_entry(ana, f"{name} contract: deadline", f"The {name} contract has to be signed in week {len(name)}.")
    embed_pending_entries()
    of_willow = make_thread(channel, ana, "Contract with Willow")
    said = known(asked(fern, of_willow, ana, "@fern and what about the deadline?"))
    assert said.index("Willow") < min(said.find(name) % 10_000 for name in ("Maple", "Cedar", "Hazel"))
    untitled = make_thread(channel, ana, "Questions")
    create_work_item(thread=untitled, by=access(ana), kind="objective", text="Close the contract with Willow")
    say(untitled, ana, "Hazel is another matter.")
    said = known(asked(fern, untitled, ana, "@fern and what about the deadline?"))
    assert "Willow" in said
    for nonsense in ("@fern xqzv blorp", "@fern the of and", "@fern 🌹", "@fern thanks!"):
        assert known(asked(fern, of_willow, ana, nonsense)) == "", nonsense


def test_the_cap_yields_where_nothing_else_wants_the_room(ana: Member, fern: Agent, thread: Thread) -> None:
    terms = ("discount", "refund", "invoice", "renewal", "upgrade", "trial")
    for term in terms:
        make_entry(ana, f"Starter plan: {term}", f"The Starter plan's {term} costs what Ana agreed. " * 30)
    prompt = asked(fern, thread, ana)
    assert sum(term in known(prompt) for term in terms) == len(terms)
    assert prompt.layers["P3"] > (prompt.budget.caps["P3"] or 0)
    assert prompt.tokens <= prompt.ceiling
    say(thread, ana, "Roses want water and mulch. " * 20)
    for _ in range(30):
        say(thread, ana, "Roses want water and mulch in spring, and the Starter plan costs little. " * 20)
    crowded = asked(fern, thread, ana)
    assert crowded.layers["P3"] <= (crowded.budget.caps["P3"] or 0) + 10
