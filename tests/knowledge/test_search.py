"""Knowledge is found by words and by meaning, by those who may read it, while it holds."""

from datetime import timedelta

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.agent.access import visible_to
from agents.models import Agent
from knowledge.models import Entry
from knowledge.search import embed_pending_entries, find_entries
from knowledge.similarity import find_similar_entries
from openvibe.chat.models import Channel
from openvibe.engines.search.embedder_choice import use_embedder
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member
from tests.examples import examples
from tests.factories import access, make_agent, make_entry

pytestmark = pytest.mark.django_db


def topics(by: Access, question: str, **asked: object) -> list[str]:
    return [hit.entry.topic for hit in find_entries(by, question, **asked).hits]  # type: ignore[arg-type]  # any criterion


def test_any_of_the_words_will_do_and_the_best_comes_first(ana: Member) -> None:
    make_entry(ana, "Opening hours", "We open at nine; the price list hangs in the hall.")
    make_entry(ana, "Pricing", "The starter plan costs $29 a month.")
    make_entry(ana, "Parking", "Behind the house.")
    assert topics(access(ana), "what is our pricing?")[0] == "Pricing"
    assert topics(access(ana), "zebra") == []


def test_meaning_finds_what_no_word_names(ana: Member) -> None:
    make_entry(ana, "Invoices", "Pay by bank transfer within thirty days.")
    make_entry(ana, "Pets", "Dogs and cats may stay in the office.")
    embed_pending_entries()
    result = find_entries(access(ana), "animals puppy kitten", most=1)
    assert result.by_vectors
    assert [hit.entry.topic for hit in result.hits] == ["Pets"]


def test_what_expired_is_out_at_that_very_instant(ana: Member) -> None:
    at = timezone.now() + timedelta(hours=1)
    make_entry(ana, expires_at=at)
    assert topics(access(ana), "pricing", now=at - timedelta(microseconds=1)) == ["Pricing"]
    assert topics(access(ana), "pricing", now=at) == []
    assert topics(access(ana), "pricing", now=at, include_expired=True) == ["Pricing"]


def test_only_what_holds_unless_another_status_is_asked_for(ana: Member) -> None:
    for status in Entry.Status.values:
        entry = make_entry(ana, f"Pricing {status}", f"Costs, {status}.")
        Entry.objects.filter(pk=entry.pk).update(status=status)
    assert topics(access(ana), "pricing") == ["Pricing active"]
    assert topics(access(ana), "pricing", status="superseded") == ["Pricing superseded"]
    assert topics(access(ana), "pricing", freshness="proposed") == ["Pricing proposed"]


def test_restricted_entries_only_for_those_who_may_read_them(ana: Member, dora: Member, channel: Channel) -> None:
    make_entry(ana, "Salaries", "Nobody earns less than the pricing of a starter plan.", visibility="restricted")
    make_entry(ana, "Pricing", "Starter costs $29.")
    assert topics(access(ana), "salaries pricing") == ["Salaries", "Pricing"]
    assert topics(access(dora), "salaries pricing") == ["Pricing"]
    for level, read in ((1, []), (2, []), (3, ["Pricing"]), (4, ["Salaries", "Pricing"])):
        agent: Agent = make_agent(ana, f"level{level}", level=level, channel=channel)
        assert topics(visible_to(agent), "salaries pricing") == read, level


def test_many_entries_one_may_not_read_do_not_crowd_out_the_one_she_may(ana: Member, dora: Member) -> None:
    Entry.objects.bulk_create(
        Entry(
            workspace=ana.workspace,
            topic=f"Pricing {number}",
            content=f"Pricing, pricing, draft {number}.",
            tokens=10,
            visibility=Entry.Visibility.RESTRICTED,
            author=ana.participant,
            owner=ana.participant,
        )
        for number in range(90)
    )
    make_entry(ana, "Offer", "Our pricing is public.")
    assert topics(access(dora), "pricing") == ["Offer"]


def test_a_workspace_finds_its_own_alone(ana: Member, cleo: Member) -> None:
    make_entry(ana)
    embed_pending_entries()
    assert topics(access(cleo), "pricing") == []


def test_filters_narrow_what_is_found(ana: Member, dora: Member) -> None:
    make_entry(ana, "Pricing", "Starter costs $29.", tags=["sales"])
    make_entry(dora, "Rules", "Pricing is decided in March.", kind="policy")
    by = access(ana)
    assert topics(by, "pricing", tag="sales") == ["Pricing"]
    assert topics(by, "pricing", topic="rules") == ["Rules"]
    assert topics(by, "pricing", owner_id=dora.participant_id) == ["Rules"]
    assert topics(by, "pricing", kind="policy") == ["Rules"]
    assert topics(by, "pricing", tag="50%'") == []


def test_a_budget_and_a_number_bound_what_is_found(ana: Member) -> None:
    for number in range(6):
        make_entry(ana, f"Pricing {number}", f"Plan {number} costs ${number}0 a month.")
    by = access(ana)
    every = find_entries(by, "pricing")
    assert len(every.hits) == 6
    assert find_entries(by, "pricing", budget=every.tokens // 2).tokens <= every.tokens // 2
    assert len(find_entries(by, "pricing", most=2).hits) == 2


def test_similar_entries_leave_out_the_one_at_hand(ana: Member) -> None:
    one = make_entry(ana, "Pricing", "The starter plan costs $29 a month.")
    make_entry(ana, "Prices", "The starter plan costs $39 a month.")
    make_entry(ana, "Parking", "Behind the house.")
    similar = find_similar_entries(access(ana), "Pricing\nThe starter plan costs $29 a month.", exclude_id=one.pk)
    assert [hit.entry.topic for hit in similar][:1] == ["Prices"]
    assert one.pk not in [hit.entry.pk for hit in similar]


def test_scripts_without_blanks_are_searched_inside_their_runs(ana: Member) -> None:
    make_entry(ana, "玫瑰", "请在三月修剪玫瑰然后浇水")
    make_entry(ana, "预算", "我们下周讨论预算")
    assert topics(access(ana), "修剪玫瑰") == ["玫瑰"]


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(question=st.text(max_size=60) | st.sampled_from(["%s", "{0}", "'", "a:*", "!a & b", "\x00", "x" * 10_000, "🌹"]))
def test_whatever_is_typed_searches(ana: Member, question: str) -> None:
    if not Entry.objects.exists():
        make_entry(ana)
    assert len(find_entries(access(ana), question).hits) <= 1


KNOWN = {
    "Pricing": "Starter costs $29 a month.",
    "Roses": "Climbing roses are pruned in March, before the buds open.",
    "On call": "Whoever is on call answers pages within 15 minutes.",
    "Rechnungen": "Kunden zahlen ihre Rechnungen innerhalb von 30 Tagen.",
    "Sicherung": "Die Datenbank wird in jeder Nacht um zwei Uhr gesichert.",
    "玫瑰": "请在三月修剪玫瑰然后浇水",
}


@pytest.mark.parametrize("kind", ["static", "none"])
@pytest.mark.parametrize(
    ("text", "similar"),
    [
        ("Prices\nThe starter plan goes up to $39 a month.", ["Pricing"]),
        ("Garden\nAll roses are watered in the evening.", ["Roses"]),
        ("Mahnungen\nWer Rechnungen nicht zahlt, wird nach zwei Wochen daran erinnert.", ["Rechnungen"]),
        ("Datenbank\nDie Sicherung der Datenbank ist in einer Stunde fertig.", ["Sicherung"]),
        ("花园\n玫瑰要在春天修剪", ["玫瑰"]),
        ("Logo\nIt is never placed on a photograph, and it is not to be turned.", []),
        ("Küche\nDie Kaffeemaschine wird in jedem Monat um einen Tag früher entkalkt.", []),
        ("29\n30 15", []),
    ],
)
def test_similar_is_what_is_about_it_and_not_whatever_is_there(
    ana: Member, kind: str, text: str, similar: list[str]
) -> None:
    if kind == "none":
        use_embedder(workspace=ana.workspace, kind="none", by=access(ana))
    for topic, content in KNOWN.items():
        make_entry(ana, topic, content)
    embed_pending_entries()
    assert [hit.entry.topic for hit in find_similar_entries(access(ana), text)] == similar


def test_a_word_that_tells_nothing_in_another_language_is_compared_by_its_meaning(ana: Member) -> None:
    make_entry(ana, "Hats", "Every hat has to go into the box.")
    make_entry(ana, "Pricing", "Starter costs $29 a month.")
    embed_pending_entries()
    assert [hit.entry.topic for hit in find_similar_entries(access(ana), "Hat")] == ["Hats"]
    assert find_similar_entries(access(ana), "hat und der") == []


def test_filters_that_nothing_fulfils_find_nothing(ana: Member) -> None:
    make_entry(ana)
    assert topics(access(ana), "Starter", freshness="fresh") == ["Pricing"]
    assert topics(access(ana), "Starter", freshness="rotten") == []
    assert topics(access(ana), "Starter", tag="100 %") == []
