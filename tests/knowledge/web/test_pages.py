"""Knowledge in the browser: found, read, written, pinned, reviewed; guests read, strangers find nothing."""

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from knowledge.models import Entry
from knowledge.services import archive_entry, update_entry
from openvibe.chat.models import Thread
from openvibe.workspaces.models import Member, Participant
from openvibe.workspaces.services import remove_member
from tests.factories import access, make_entry, say, signed_in, write_members
from tests.knowledge.web.page_client import PANEL, at, filled, text


# --- reading ------------------------------------------------------------------------------------------------
def test_the_list_says_what_is_known_how_fresh_and_how_often_used(ana: Member) -> None:
    soon = make_entry(ana, "Office", "We sit in <Berlin>.", expires_at=timezone.now() + timedelta(days=6, hours=1))
    Entry.objects.filter(pk=soon.pk).update(use_count=4)
    page = text(signed_in(ana), at(ana))
    for said in ("Office", "We sit in &lt;Berlin&gt;.", "expires in 6 d", "used 4 times", "UTC"):
        assert said in page


def test_an_entry_looks_the_same_on_every_kind_of_page(ana: Member, dora: Member) -> None:
    soon = timezone.now() + timedelta(days=3, hours=1)
    make_entry(dora, "Office", "We sit in **Berlin**.", visibility="restricted", tags=["a&b", "日本"], expires_at=soon)
    Participant.objects.filter(member=dora).update(name="Dora <Renamed>")
    pages = [text(signed_in(ana), f"{at(ana)}{query}") for query in ("", "?page=1", "?q=Berlin", "?tag=a%26b")]
    [row] = {row for page in pages for row in re.findall(r'<li class="entry-row".*?</p>\s*</li>', page, re.DOTALL)}
    for shown in ("Restricted", "Dora &lt;Renamed&gt;", "expires in 3 d", "a&amp;b"):
        assert shown in row


def test_filters_narrow_and_chips_take_them_back(ana: Member, dora: Member) -> None:
    make_entry(ana, "Pricing", "Pro costs $99.", tags=["sales"])
    make_entry(dora, "Office", "We sit in Berlin.")
    gone = make_entry(ana, "Old office", "We sat in Bonn.")
    archive_entry(entry=gone, by=access(ana))
    client = signed_in(ana)
    for query, title, missing in (
        ("topic=pricing", "Pro costs", "Berlin"),
        ("tag=Sales", "Pro costs", "Berlin"),
        ("owner=dora", "Berlin", "Pro costs"),
        ("owner=%40Dora", "Berlin", "Pro costs"),
        ("status=archived", "Bonn", "Berlin"),
        ("freshness=archived", "Bonn", "Berlin"),
        ("freshness=fresh", "Berlin", "Bonn"),
        ("", "Berlin", "Bonn"),
        ("q=berlin", "Berlin", "Pro costs"),
        ("status=nonsense", "Nothing you may read", "Berlin"),
        ("owner=x&page=zz", "has the handle “x”", "Berlin"),
        ("page=zz", "Berlin", "Bonn"),
    ):
        page = text(client, f"{at(ana)}?{query}", headers=PANEL)
        assert title in page, query
        assert missing not in page, query
    assert 'href="?tag=b"' in text(client, f"{at(ana)}?topic=a&tag=b&page=2")


def test_a_search_shows_near_copies_once_and_says_when_nothing_bears_on_it(ana: Member) -> None:
    client = signed_in(ana)
    copies = [
        make_entry(ana, "Pricing", f"Starter costs $29 a month for as many seats as needed. ({n})") for n in "123"
    ]
    page = text(client, f"{at(ana)}?q=starter", headers=PANEL)
    assert page.count('class="entry-row"') == 1
    assert "and 2 near copies" in page
    assert all(at(ana, f"{entry.pk}/") in page for entry in copies)
    assert "Nothing you may read bears on this." in text(client, f"{at(ana)}?q=xqzv+blorp", headers=PANEL)


@pytest.mark.parametrize("asked", ["'\"", "a & | ! ( <->", "%", "_", "\x00", "x" * 10_000, "🌷", "price:*"])
def test_anything_can_be_asked(ana: Member, asked: str) -> None:
    make_entry(ana)
    assert signed_in(ana).get(at(ana), {"q": asked, "topic": asked, "tag": asked}).status_code == 200
    assert signed_in(ana).get(at(ana, "topics/"), {"q": asked}).status_code == 200


def test_the_list_asks_the_same_for_one_row_and_for_many(ana: Member) -> None:
    client = signed_in(ana)
    text(client, at(ana))
    counts = []
    for many in (1, 6):
        for number in range(many):
            make_entry(ana, f"Topic {many} {number}", "It holds.", tags=["a"])
        with CaptureQueriesContext(connection) as queries:
            text(client, at(ana))
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_an_entry_tells_all_there_is_about_it(ana: Member, thread: Thread) -> None:
    message = say(thread, ana, "Pro costs $99.")
    client = signed_in(ana)
    pin = f"/w/{ana.workspace.slug}/m/{message.pk}/pin/"
    client.post(pin, filled(content="Pro **costs** $99."))
    entry = Entry.objects.get()
    update_entry(entry=entry, by=access(ana), content="Pro costs $89.", note="The board lowered it")
    page = text(client, at(ana, f"{entry.pk}/"))
    for said in (
        "Pro costs $89.",
        "message in <bdi>Pruning</bdi>",
        "Ana",
        "The board lowered it",
        "<del>",
        "<ins>",
        "Version",
        "Where it was used",
        "version 2",
    ):
        assert said.lower() in page.lower(), said
    fragment = text(client, at(ana, f"{entry.pk}/"), headers=PANEL)
    assert "<html" not in fragment
    assert "data-panel-close" in fragment
    assert "Pinned as <bdi>Pricing</bdi>" in text(client, f"/w/{ana.workspace.slug}/t/{thread.pk}/")


def test_what_is_not_for_the_reader_does_not_exist(ana: Member, dora: Member, ben: Member, cleo: Member) -> None:
    secret = make_entry(ana, "Salaries", "Dora earns enough.", visibility="restricted")
    shared = make_entry(ana)
    for member in (dora, ben):
        assert "Salaries" not in text(signed_in(member), at(ana))
        assert "Salaries" not in str(signed_in(member).get(at(ana, "topics/")).json())
        text(signed_in(member), at(ana, f"{secret.pk}/"), 404)
        text(signed_in(member), at(ana, f"{shared.pk}/"))
    for rest in ("", "new/", "review/", "import/", f"{shared.pk}/", f"{shared.pk}/edit/", "99999999999999999999/"):
        text(signed_in(cleo), at(ana, rest), 404)


def test_a_guest_reads_and_changes_nothing(ana: Member, ben: Member) -> None:
    entry = make_entry(ana)
    client = signed_in(ben)
    page = text(client, at(ana, f"{entry.pk}/"))
    assert "Renew" not in page
    assert "New entry" not in text(client, at(ana))
    for rest in ("new/", "review/", f"{entry.pk}/edit/", f"{entry.pk}/supersede/"):
        assert "Guests read knowledge" in text(client, at(ana, rest), 403)
    assert client.post(at(ana, f"{entry.pk}/archive/")).status_code == 403
    assert client.post(at(ana, "new/"), filled()).status_code == 403
    assert Entry.objects.get().status == "active"


def test_owners_are_asked_for_as_one_types_and_stand_in_no_page(ana: Member, ben: Member) -> None:
    entry = make_entry(ana)
    client = signed_in(ana)

    def statements() -> int:
        with CaptureQueriesContext(connection) as queries:
            client.get(at(ana, "owners/?q=helper"))
        return len(queries)

    statements()
    few = statements()
    helpers = write_members(ana.workspace, 40)
    assert statements() == few
    by_name = sorted(helpers, key=lambda one: one.participant.name)
    for asked, members in (
        ("helper", by_name[:8]),
        (f" @{helpers[7].participant.handle}", [helpers[7]]),
        ("Helper 17", [helpers[17]]),
        ("ben", []),  # a guest owns nothing
        ("%", []),
        ("\x00\u202exyz", []),
        ("x" * 10_000, []),
    ):
        owners = client.get(at(ana, "owners/"), {"q": asked}).json()["owners"]
        assert [owner["handle"] for owner in owners] == [one.participant.handle for one in members], asked
    for address in ("", "new/", f"{entry.pk}/edit/", "?q=roses"):
        assert "Helper" not in text(client, at(ana, address)).partition("<main")[2], address


def test_an_entry_whose_owner_left_can_be_edited(ana: Member, dora: Member) -> None:
    entry = make_entry(dora)
    remove_member(member=dora, by=access(ana))
    Entry.objects.filter(pk=entry.pk).update(owner=dora.participant)
    client = signed_in(ana)
    assert 'name="owner" value="dora"' in text(client, at(ana, f"{entry.pk}/edit/"))
    client.post(at(ana, f"{entry.pk}/edit/"), filled(content="Anew.", owner="dora", based_on=1))
    entry.refresh_from_db()
    assert (entry.owner, entry.content) == (dora.participant, "Anew.")


# --- writing ------------------------------------------------------------------------------------------------
def test_an_entry_is_written_once_however_often_it_is_sent(ana: Member) -> None:
    client = signed_in(ana)
    said = filled(client_id="one", tags="Sales, #Prices\nsales", is_pinned="1", owner="@Ana")
    for _ in range(2):
        response = client.post(at(ana, "new/"), said)
    entry = Entry.objects.get()
    assert response.headers["Location"] == at(ana, f"{entry.pk}/")
    assert (entry.tags, entry.is_pinned, entry.owner) == (["sales", "prices"], True, ana.participant)
    assert timedelta(days=89) < (entry.expires_at or timezone.now()) - timezone.now() < timedelta(days=91)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({"topic": " "}, "needs a topic"),
        ({"topic": "x" * 121}, "at most 120"),
        ({"content": "word " * 10_000}, "at most 2,000 tokens"),
        ({"content": "a\x00b"}, ""),
        ({"expires": "on", "expires_on": "2001-01-01"}, "is past"),
        ({"expires": "on", "expires_on": ""}, "Say on which date"),
        ({"expires": "on", "expires_on": "2031-02-30"}, "no date that exists"),
        ({"kind": "rumour"}, "A kind is one of"),
        ({"owner": "77777"}, "has the handle “77777”"),
        ({"owner": "x" * 10_000}, "Name a member by their handle"),
        ({"tags": ",".join(f"t{n}" for n in range(11))}, "11 tags"),
    ],
)
def test_a_refusal_says_why_and_keeps_everything(ana: Member, typed: dict[str, str], said: str) -> None:
    response = signed_in(ana).post(at(ana, "new/"), filled(**{"content": "Kept: 4 µ", **typed}))
    page = response.content.decode()
    assert response.status_code == 400
    assert said in page
    assert ("Kept: 4 µ" if "content" not in typed else str(typed["content"])[:5].replace("\x00", "")) in page
    assert not Entry.objects.exists()


def test_a_date_typed_is_the_end_of_that_day_and_read_back_exactly(ana: Member) -> None:
    client = signed_in(ana)
    client.post(at(ana, "new/"), filled(expires="on", expires_on="2044-03-27"))
    entry = Entry.objects.get()
    assert entry.expires_at is not None
    assert entry.expires_at.isoformat() == "2044-03-28T00:00:00+00:00"
    page = text(client, at(ana, f"{entry.pk}/"))
    assert ("2044-03-27</time>, end of the day" in page, "2044-03-28 00:00" in page) == (True, False)
    assert 'type="date" name="expires_on" value="2044-03-27"' in text(client, at(ana, f"{entry.pk}/edit/"))
    client.post(at(ana, f"{entry.pk}/edit/"), filled(content="New", expires="on", expires_on="2044-03-27"))
    entry.refresh_from_db()
    assert entry.expires_at.isoformat() == "2044-03-28T00:00:00+00:00"
    assert entry.content == "New"


@pytest.mark.parametrize(
    ("typed", "widget"),
    [("2044-03-27T09:30", "datetime-local"), ("2044-02-31", "text"), ("next week", "text"), ("", "date")],
)
def test_a_date_is_picked_and_what_is_none_is_shown_again(ana: Member, typed: str, widget: str) -> None:
    form_data = filled(expires="on", expires_on=typed, content="")
    page = " ".join(signed_in(ana).post(at(ana, "new/"), form_data).content.decode().split())
    assert f'type="{widget}" name="expires_on" value="{typed}"' in page


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("2044-03-27T09:30", "It is used until that moment (UTC)."),
        ("2044-03-27", "It is used until the end of that day (UTC)."),
        ("", "It is used until the end of that day (UTC)."),
        ("next week", "Write a date as 2026-03-31. It is used until the end of that day (UTC)."),
    ],
)
def test_until_when_it_is_used_is_said_of_what_stands_there(ana: Member, typed: str, hint: str) -> None:
    form_data = filled(expires="on", expires_on=typed, content="")
    page = " ".join(signed_in(ana).post(at(ana, "new/"), form_data).content.decode().split())
    assert f'id="expires-hint">{hint}' in page


def test_what_is_over_can_still_be_mended(ana: Member) -> None:
    entry = make_entry(ana, expires_at=timezone.now() + timedelta(days=1))
    Entry.objects.filter(pk=entry.pk).update(expires_at="2020-01-01T00:00:00Z")
    said = filled(content="Better words.", expires="on", expires_on="2019-12-31")
    assert signed_in(ana).post(at(ana, f"{entry.pk}/edit/"), said).status_code == 302
    entry.refresh_from_db()
    assert entry.content == "Better words."


def test_two_edits_at_once_keep_both_texts(ana: Member, dora: Member) -> None:
    entry = make_entry(ana, content="It costs $29.")
    update_entry(entry=entry, by=access(dora), content="It costs $31.")
    client = signed_in(ana)
    response = client.post(at(ana, f"{entry.pk}/edit/"), filled(content="It costs $30.", based_on=1))
    page = response.content.decode()
    assert response.status_code == 409
    assert "It costs $31." in page
    assert "It costs $30." in page
    assert 'name="based_on" value="2"' in page
    client.post(at(ana, f"{entry.pk}/edit/"), filled(content="It costs $30.", based_on=2))
    entry.refresh_from_db()
    assert entry.content == "It costs $30."


def test_owner_and_words_change_together(ana: Member, dora: Member) -> None:
    entry = make_entry(ana)
    signed_in(ana).post(at(ana, f"{entry.pk}/edit/"), filled(content="Anew.", owner="dora", based_on=1))
    entry.refresh_from_db()
    assert (entry.owner, entry.content) == (dora.participant, "Anew.")


def test_superseding_by_a_new_text_and_by_ticking_a_similar_one(ana: Member) -> None:
    first = make_entry(ana, "Pricing", "Starter costs $29 a month.")
    client = signed_in(ana)
    assert "Starter costs $29 a month." in text(client, at(ana, f"{first.pk}/supersede/"))
    client.post(at(ana, f"{first.pk}/supersede/"), filled(content="Starter costs $31 a month.", based_on=1))
    second = Entry.objects.get(supersedes=first)
    similar = client.post(at(ana, "similar/"), filled(content="Starter costs $35 a month."), headers=PANEL)
    assert f'value="{second.pk}"' in similar.content.decode()
    assert f'value="{first.pk}"' not in similar.content.decode()
    client.post(at(ana, "new/"), filled(content="Starter costs $35 a month.", supersedes=second.pk))
    assert [e.status for e in Entry.objects.order_by("id")] == ["superseded", "superseded", "active"]
    assert "Superseded by" in text(client, at(ana, f"{first.pk}/"))
    second_response = client.post(at(ana, "new/"), filled(content="Starter costs $40 a month.", supersedes=first.pk))
    assert second_response.status_code == 409
    assert "Starter costs $40 a month." in second_response.content.decode()


def test_a_guest_is_not_told_who_else_is_here(ana: Member, dora: Member, ben: Member) -> None:
    make_entry(dora, "Office", "We sit in Berlin.")
    for who, names in ((dora, ["Dora"]), (ben, [])):
        owners = signed_in(who).get(at(who, "owners/"), {"q": "dora"}).json()["owners"]
        assert [owner["name"] for owner in owners] == names
        narrowed = text(signed_in(who), f"{at(who)}?owner=dora").partition("<main")[2]
        assert ("Berlin" in narrowed, "has the handle “dora”" in narrowed) == (bool(names), not names)
