"""Near copies of one text are one hit; what says something else never is one of them."""

import time
from datetime import timedelta
from itertools import islice, product

import pytest
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.agent.access import visible_to
from knowledge.models import Entry
from knowledge.search import embed_pending_entries, find_entries, find_nearest_entries
from openvibe.engines.text.near_copies import CopiedText, group_near_copies, is_near_copy
from openvibe.workspaces.models import Member
from tests.examples import examples
from tests.factories import access, make_agent, make_entry

RULE = "Production deploys happen on Tuesday between 14:00 and 16:00, after the lead has signed them off."


def said(topic: str, content: str, tokens: int = 20) -> CopiedText:
    return CopiedText(topic, content, tokens, hash(content))


@pytest.mark.parametrize(
    ("topic", "content"),
    [
        ("Deploys", RULE),
        ("deploys", RULE.lower().rstrip(".") + "!"),
        ("Deploys 4", RULE),
        ("Deploys (copy)", RULE),
        ("Deploy", f"**{RULE}**"),
        ("Deploys", f"{RULE} (3)"),
        ("Deploys", f"{RULE} Note 7."),
        ("Deploys", f"Copy 2: {RULE}"),
        ("Deploys", f"{RULE} As agreed."),
        ("Deploys", RULE.replace("happen", "happens")),
    ],
)
def test_the_same_in_other_clothes_is_a_near_copy(topic: str, content: str) -> None:
    assert is_near_copy(said("Deploys", RULE), said(topic, content))
    assert is_near_copy(said(topic, content), said("Deploys", RULE))


@pytest.mark.parametrize(
    ("topic", "content"),
    [
        ("Deploys", RULE.replace("Tuesday", "Thursday")),
        ("Deploys", RULE.replace("14:00", "15:00")),
        ("Deploys", RULE.replace("Production", "Staging")),
        ("Deploys", RULE.replace("after", "before")),
        ("Deploys", RULE.replace("happen", "never happen")),
        ("Deploys", RULE.replace("deploys", "restores")),
        ("Deploys", f"{RULE} It takes 20 minutes."),
        ("Deploys", f"{RULE} Whoever breaks the build repairs it before anybody else merges, holidays included."),
    ],
)
def test_what_says_something_else_is_none(topic: str, content: str) -> None:
    assert not is_near_copy(said("Deploys", RULE), said(topic, content))
    assert not is_near_copy(said(topic, content), said("Deploys", RULE))


def test_short_contents_are_copies_only_under_one_topic() -> None:
    short = "Behind the house."
    texts = [said("Parking", short, 4), said("Bins", short, 4), said("Parking", short, 4), said("Parking 2", short, 4)]
    assert group_near_copies(texts) == [[0, 2], [1], [3]]


@settings(max_examples=examples(80), deadline=None)
@given(st.lists(st.builds(said, st.text(max_size=20), st.text(max_size=60), st.integers(1, 30)), max_size=8))
def test_every_text_is_in_one_group_and_near_to_the_first_of_it(texts: list[CopiedText]) -> None:
    groups = group_near_copies(texts)
    assert sorted(place for group in groups for place in group) == list(range(len(texts)))
    for first, *others in groups:
        for place in others:
            earlier = [texts[each] for each in (first, *others) if each < place]
            assert any(is_near_copy(each, texts[place]) or each.content == texts[place].content for each in earlier)


@pytest.mark.django_db
def test_twelve_copies_are_one_hit_that_names_the_others(ana: Member) -> None:
    copies = [make_entry(ana, f"Deploys {number}", f"{RULE} ({number})") for number in range(12)]
    for number in range(9):
        make_entry(ana, f"Deploys of team {'ABCDEFGHI'[number]}", f"Team {'ABCDEFGHI'[number]} deploys at {number}:30.")
    embed_pending_entries()
    hits = find_entries(access(ana), "When do deploys happen?", most=10).hits
    assert len(hits) == 10
    (folded,) = [hit for hit in hits if hit.copies]
    assert {folded.entry.pk, *(copy.pk for copy in folded.copies)} == {entry.pk for entry in copies}
    assert len(find_nearest_entries(access(ana), RULE, most=12)) == 12


@pytest.mark.django_db
def test_the_best_established_stands_for_the_others(ana: Member) -> None:
    names = ("old", "imported", "expired", "restricted", "kept")
    entries = {name: make_entry(ana, "Deploys", f"{RULE} As agreed ({number}).") for number, name in enumerate(names)}

    def change(name: str, **values: object) -> None:
        Entry.objects.filter(pk=entries[name].pk).update(**values)

    now = timezone.now()
    change("old", decided_at=now - timedelta(days=30))
    change("imported", source="import", decided_by=None)
    change("expired", expires_at=now, is_pinned=True)
    change("restricted", visibility="restricted", is_pinned=True)
    change("kept", is_pinned=True)

    def standing() -> int:
        (hit,) = find_entries(access(ana), "deploys on Tuesday", include_expired=True).hits
        assert len(hit.copies) == Entry.objects.filter(status="active").count() - 1
        return hit.entry.pk

    for name in ("kept", "old", "imported", "restricted"):
        assert standing() == entries[name].pk, name
        change(name, status="archived")
    assert standing() == entries["expired"].pk


@pytest.mark.django_db
def test_nobody_is_told_of_copies_she_may_not_read(ana: Member, dora: Member) -> None:
    hidden = make_entry(ana, "Deploys", RULE, visibility="restricted", is_pinned=True)
    visible_copy = make_entry(ana, "Deploys", f"{RULE} (2)")
    (of_ana,) = find_entries(access(ana), "deploys on Tuesday").hits
    assert (of_ana.entry.pk, [copy.pk for copy in of_ana.copies]) == (visible_copy.pk, [hidden.pk])
    for asker in (access(dora), visible_to(make_agent(ana, "sage", level=3))):
        (hit,) = find_entries(asker, "deploys on Tuesday").hits
        assert (hit.entry.pk, hit.copies) == (visible_copy.pk, ())


def test_many_long_texts_that_share_much_and_spell_the_rest_alike_are_told_apart_quickly() -> None:
    shared = " ".join(f"w{letter}{other}" for letter, other in islice(product("abcdefghijklmnop", repeat=2), 200))
    spellings = ("".join(letters) for letters in product("abc", repeat=8))
    texts = [said("Beds", f"{shared} {' '.join(f'q{each}' for each in islice(spellings, 110))}") for _ in range(40)]
    began = time.thread_time()
    assert len(group_near_copies(texts)) == len(texts)
    assert time.thread_time() - began < 1  # seconds of work
