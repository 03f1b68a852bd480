"""Tags as one line of text, in forms and in cells of a table: none is lost, whatever stands in it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.exchange.entry_export import export_entries
from knowledge.exchange.entry_import import import_entries
from knowledge.models import Entry
from knowledge.tags import join_tags, split_tags
from openvibe.workspaces.models import Member
from tests.factories import access, make_entry, signed_in
from tests.knowledge.web.page_client import at, filled, text

ODD = ["acme, inc.", "q3; q4", '5" pipe', '"quoted"', "plain"]


@given(st.lists(st.text(st.characters(blacklist_categories=["C", "Z"]) | st.sampled_from(' ,;"'), min_size=1)))
def test_what_is_joined_comes_apart_again(texts: list[str]) -> None:
    tags = [tag for tag in (" ".join(text.split()) for text in texts) if tag]
    assert split_tags(join_tags(tags)) == tags


@pytest.mark.parametrize(
    ("line", "tags"),
    [
        ("", []),
        (" plans,saas ; beds\nroses,, ", ["plans", "saas", "beds", "roses"]),
        ('"acme, inc.", plans', ["acme, inc.", "plans"]),
        ('"say ""hi"", twice"', ['say "hi", twice']),
        ('"never closed, plans', ['"never closed', "plans"]),
        ('"acme" inc, plans', ['"acme" inc', "plans"]),
        ('5" pipe, 6" pipe', ['5" pipe', '6" pipe']),
    ],
)
def test_a_line_is_read_as_people_write_it(line: str, tags: list[str]) -> None:
    assert split_tags(line) == tags


@pytest.mark.django_db
def test_a_tag_with_a_comma_outlives_another_edit(ana: Member) -> None:
    entry = make_entry(ana, "Pricing", "Starter costs $29.", tags=ODD)
    client = signed_in(ana)
    address = at(ana, f"{entry.pk}/edit/")
    assert "&quot;acme, inc.&quot;, &quot;q3; q4&quot;" in text(client, address)
    answer = client.post(address, filled(content="Starter costs $31.", tags=join_tags(ODD), based_on=1))
    assert answer.status_code == 302
    entry.refresh_from_db()
    assert (entry.content, entry.tags) == ("Starter costs $31.", ODD)
    assert "Pricing" in text(client, at(ana, "?tag=acme%2C+inc."))


@pytest.mark.django_db
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_tag_with_a_comma_comes_back_from_a_file(ana: Member, cleo: Member, form: str) -> None:
    make_entry(ana, "Pricing", "Starter costs $29.", tags=ODD)
    file = "".join(export_entries(access(ana), form))
    import_entries(by=access(cleo), raw=file.encode())
    assert Entry.objects.get(workspace=cleo.workspace).tags == ODD
