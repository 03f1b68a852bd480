"""Contradictions are found, flagged once, shown to those who may read both, and settled by people."""

from __future__ import annotations

import json

import pytest

from knowledge.contradictions.detect import detect_contradictions
from knowledge.models import Contradiction, Entry, Notice
from knowledge.services import archive_entry, renew_entry, settle_contradiction, update_entry
from knowledge.wiring import inbox_notes
from openvibe.engines.llm.errors import ModelTimeout
from openvibe.workspaces.models import Member
from tests.engines.llm.scripted_client import ScriptedModel
from tests.factories import access, make_entry
from tests.knowledge.contradictions import team_pairs
from tests.knowledge.fault_injection import killed_at


def told() -> list[tuple[int, str]]:
    return list(Notice.objects.filter(seen_at=None).order_by("pk").values_list("participant", "reason"))


def open_pairs() -> list[tuple[int, int]]:
    return list(Contradiction.objects.filter(settled_at=None).values_list("first", "second"))


@pytest.fixture
def pair(ana: Member, dora: Member) -> tuple[Entry, Entry]:
    make_entry(ana, "Gardening", "Roses are pruned in March.")
    return make_entry(ana), make_entry(dora, "Plans", "Starter costs $39 a month, whatever the country.")


def test_a_pair_is_flagged_once_and_both_owners_are_told(ana: Member, dora: Member, pair: tuple[Entry, Entry]) -> None:
    assert (detect_contradictions(), detect_contradictions()) == (3, 0)

    contradiction = Contradiction.objects.get()
    assert (contradiction.first, contradiction.second, contradiction.found_by) == (*pair, "rule")
    assert contradiction.why == ("Different amounts: “Starter costs $29 a month” and “Starter costs $39 a month”.")
    assert sorted(told()) == sorted([(one.participant_id, "contradiction") for one in (ana, dora)])
    assert Entry.objects.current().count() == 3


def test_who_owns_both_is_told_once(ana: Member) -> None:
    """The inbox would say twice what one decision answers."""
    make_entry(ana)
    make_entry(ana, content="Starter costs $39 a month.")

    detect_contradictions()
    assert told() == [(ana.participant_id, "contradiction")]
    assert "may contradict" in inbox_notes(access(ana))[0].text


def test_what_people_settled_stays_settled_until_words_change(ana: Member, pair: tuple[Entry, Entry]) -> None:
    detect_contradictions()
    settle_contradiction(contradiction=Contradiction.objects.get(), by=access(ana))

    renew_entry(entry=pair[0], by=access(ana), expires_at=None)
    detect_contradictions()
    assert open_pairs() == []

    update_entry(entry=pair[0], by=access(ana), content="Starter costs $27 a month.")
    detect_contradictions()
    assert open_pairs() == [(pair[0].pk, pair[1].pk)]


def test_mended_words_settle_the_pair(ana: Member, pair: tuple[Entry, Entry]) -> None:
    detect_contradictions()

    update_entry(entry=pair[0], by=access(ana), content="Starter costs $39 a month.")
    detect_contradictions()

    assert Contradiction.objects.get().settled_how == "edited"


def test_what_is_settled_waits_in_nobodys_inbox(ana: Member, dora: Member, pair: tuple[Entry, Entry]) -> None:
    """The other owner, whoever settles it, is asked for nothing any more."""
    third = make_entry(dora, "Our plans", "Starter costs $49 a month.")
    detect_contradictions()
    assert len(open_pairs()) == 3
    assert sorted(set(told())) == [(one.participant_id, "contradiction") for one in (ana, dora)]

    settle_contradiction(contradiction=Contradiction.objects.get(first=pair[0], second=pair[1]), by=access(dora))
    assert {who for who, _ in told()} == {ana.participant_id, dora.participant_id}, (
        "the third still stands against both"
    )
    update_entry(entry=third, by=access(dora), content="Starter costs $39 a month.")
    detect_contradictions()
    settle_contradiction(contradiction=Contradiction.objects.get(settled_at=None), by=access(dora))
    assert told() == []


def test_archiving_one_takes_the_notice_of_the_other(ana: Member, dora: Member, pair: tuple[Entry, Entry]) -> None:
    detect_contradictions()
    archive_entry(entry=pair[1], by=access(dora))
    assert told() == []


def test_archiving_one_settles_the_pair(ana: Member, pair: tuple[Entry, Entry]) -> None:
    detect_contradictions()

    archive_entry(entry=pair[0], by=access(ana))

    assert Contradiction.objects.get().settled_how == "archived"
    assert detect_contradictions() == 0


def test_who_may_not_read_both_is_not_told(ana: Member, dora: Member) -> None:
    make_entry(dora)
    make_entry(ana, content="Starter costs $39 a month.", visibility="restricted")

    detect_contradictions()

    assert {participant for participant, _reason in told()} == {ana.participant_id}


def test_other_workspaces_are_never_compared(ana: Member, cleo: Member) -> None:
    make_entry(ana)
    make_entry(cleo, content="Starter costs $39 a month.")

    assert (detect_contradictions(), open_pairs()) == (2, [])


def test_a_model_may_judge(ana: Member, pair: tuple[Entry, Entry]) -> None:
    def judge(messages: object) -> str:
        asks_about_roses = "Roses" in str(messages).split('ref="new"')[1].split("</data>")[0]
        verdicts = [] if asks_about_roses else [{"entry": 1, "why": "Two prices for\n one plan."}, {"entry": 99}]
        return "```json\n" + json.dumps({"contradictions": verdicts}) + "\n```"

    detect_contradictions(client=ScriptedModel([judge]))

    assert ("model", "Two prices for one plan.") in Contradiction.objects.values_list("found_by", "why")


def test_a_model_overrules_the_rule(ana: Member, pair: tuple[Entry, Entry]) -> None:
    detect_contradictions(client=ScriptedModel(['{"contradictions": []}']))

    assert open_pairs() == []


@pytest.mark.parametrize("pair", team_pairs.CONTRADICT["words"])
def test_a_model_finds_what_differs_in_words_alone(ana: Member, pair: tuple[team_pairs.Text, team_pairs.Text]) -> None:
    """Owners, places, tools: the rule knows quantities, negation and replacement."""
    entries = [make_entry(ana, *text) for text in pair]
    assert (detect_contradictions(), open_pairs()) == (2, [])

    update_entry(entry=entries[1], by=access(ana), content=f"{pair[1][1]} Still so.")
    detect_contradictions(client=ScriptedModel(['{"contradictions": [{"entry": 1, "why": "Two answers."}]}']))
    assert open_pairs() == [(entries[0].pk, entries[1].pk)]


@pytest.mark.parametrize("reply", [ModelTimeout("too slow"), "I would say the second one.", '{"contradictions": 3}'])
def test_a_model_that_fails_leaves_it_to_the_rule(pair: tuple[Entry, Entry], reply: str | ModelTimeout) -> None:
    detect_contradictions(client=ScriptedModel([reply]))

    assert Contradiction.objects.get().found_by == "rule"


def test_a_killed_comparison_is_done_again_and_loses_nothing(pair: tuple[Entry, Entry]) -> None:
    statement = 1
    while killed_at(statement, detect_contradictions):
        assert not Contradiction.objects.exists()
        assert not told()
        statement += 1

    assert (statement > 10, open_pairs(), detect_contradictions()) == (True, [(pair[0].pk, pair[1].pk)], 0)
