"""Pinning what was found out, and the review queue: every button decides, nobody sees what is not theirs."""

import re
from datetime import timedelta

import pgtrigger
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.models import Agent
from knowledge.maintenance import expire_entries
from knowledge.models import Contradiction, Entry, Notice, Revision
from knowledge.services import accept_entry, flag_entry, suggest_entry, update_entry
from openvibe.chat.models import Channel, Thread
from openvibe.chat.services import add_to_channel, delete_message
from openvibe.workspaces.models import Member
from tests.factories import access, make_channel, make_entry, make_suggestion, make_thread, say, signed_in
from tests.knowledge.factories import ContradictionFactory
from tests.knowledge.web.page_client import PANEL, at, filled, make_result, text


# --- pinning ------------------------------------------------------------------------------------------------
def test_pinning_a_result_takes_two_requests(ana: Member, thread: Thread) -> None:
    make_entry(ana, "Starter costs", "We measure what starter plans cost.")
    message = make_result(thread, ana)
    client = signed_in(ana)
    address = f"/w/{ana.workspace.slug}/m/{message.pk}/pin/"
    assert address in text(client, f"/w/{ana.workspace.slug}/t/{thread.pk}/")
    form = text(client, address, headers=PANEL)
    assert 'value="Starter costs"' in form
    assert "- One\n- Two\n- Three" in form
    assert "Supersede" in form
    response = client.post(address, filled(topic="Starter costs", content="It is $29."), headers=PANEL, follow=True)
    assert "Starter costs" in response.content.decode()
    entry = Entry.objects.get(source="result")
    assert entry.source_message == message
    assert "Pinned as <bdi>Starter costs</bdi>" in text(client, f"/w/{ana.workspace.slug}/t/{thread.pk}/")

    second = client.post(address, filled(topic="Other", content="Typed in vain?"), headers=PANEL).content.decode()
    assert f"knowledge/{entry.pk}/" in second
    assert "Typed in vain?" in second
    assert f"knowledge/{entry.pk}/" in text(client, address)
    assert Entry.objects.filter(source="result").count() == 1


def test_what_an_agent_suggested_is_no_pin_until_somebody_accepts_it(ana: Member, vibe: Agent, thread: Thread) -> None:
    entry = make_suggestion(vibe, source_message=say(thread, ana, "Prune in March, I think."))
    client, address = signed_in(ana), f"/w/{ana.workspace.slug}/t/{thread.pk}/"
    assert f"Proposed as <bdi>{entry.topic}</bdi>" in text(client, address)
    accept_entry(entry=entry, by=access(ana))
    assert f"Pinned as <bdi>{entry.topic}</bdi>" in text(client, address)


def test_what_is_private_begins_restricted_and_says_so(ana: Member, dora: Member, ben: Member) -> None:
    room = make_channel(ana, "board", private=True)
    message = say(make_thread(room, ana, "Money"), ana, "We have enough.")
    address = f"/w/{ana.workspace.slug}/m/{message.pk}/pin/"
    form = text(signed_in(ana), address)
    assert 'value="restricted" checked' in form
    assert "private channel" in form
    for member in (dora, ben):
        text(signed_in(member), address, 404)


def test_a_guest_sees_no_pin(ana: Member, ben: Member, channel: Channel, thread: Thread) -> None:
    add_to_channel(channel=channel, participant=ben.participant, by=access(ana))
    message = make_result(thread, ana)
    page = text(signed_in(ben), f"/w/{ana.workspace.slug}/t/{thread.pk}/")
    assert "/pin/" not in page
    text(signed_in(ben), f"/w/{ana.workspace.slug}/m/{message.pk}/pin/", 403)


def test_deleted_messages_are_not_pinned(ana: Member, thread: Thread) -> None:
    message = say(thread, ana, "Never mind.")
    delete_message(message=message, by=access(ana))
    page = f"/w/{ana.workspace.slug}/m/{message.pk}/pin/"
    assert "Never mind." not in text(signed_in(ana), page, 404)
    assert "ask them to add you" not in text(signed_in(ana), page, 404), "nobody can show her what is gone"
    form = {"topic": "Nothing", "content": "We mind, after all.", "expires": "never"}
    answer = signed_in(ana).post(page, form)
    assert answer.status_code == 404
    html = answer.content.decode()
    assert "This message was deleted, so it cannot be pinned." in html
    assert "What you wrote is kept here" in html
    assert "We mind, after all." in html
    note = signed_in(ana).post(page, form, headers=PANEL)
    assert (note.status_code, note.headers["HX-Retarget"]) == (404, "#toasts"), "her form stays open"
    assert "Write it as an entry of its own" in note.content.decode()
    assert not Entry.objects.exists()


# --- review -------------------------------------------------------------------------------------------------
def test_the_queue_holds_what_waits_and_every_button_decides(ana: Member, dora: Member, vibe: Agent) -> None:
    wrong = make_entry(ana, "Hours", "We open at 9.")
    flag_entry(entry=wrong, by=access(dora), reason="wrong", note="It is 10.")
    over = make_entry(ana, "Sale", "Half price.", expires_at=timezone.now() + timedelta(days=3))
    Entry.objects.filter(pk=over.pk).update(expires_at=timezone.now() - timedelta(minutes=1))
    unused = make_entry(ana, "Fax", "The fax is on floor 2.")
    Entry.objects.filter(pk=unused.pk).update(status="archived", reason="unused", status_since=timezone.now())
    proposal, bad = make_suggestion(vibe), make_suggestion(vibe, "Moon", "It is cheese.")
    client = signed_in(ana)

    page = text(client, at(ana, "review/"))
    places = [page.index(said) for said in ("The fax is", "We open at 9.", "Half price.", "Pro costs $99.")]
    assert places == sorted(places)
    assert "It is 10." in page
    assert "4 wait for a decision" in page
    assert "4<span" in text(client, at(ana))

    def decide(entry: Entry, verb: str, **more: object) -> None:
        response = client.post(at(ana, f"{entry.pk}/{verb}/"), {"from": "review", **more}, headers=PANEL)
        assert response.status_code == 200, response.content
        assert 'id="knowledge-review"' in response.content.decode()

    decide(wrong, "renew", expires="same")
    decide(over, "renew", expires="1y")
    decide(unused, "restore")
    decide(proposal, "accept", based_on=1)
    decide(bad, "reject")
    assert "Nothing waits" in text(client, at(ana, "review/"))
    states = dict(Entry.objects.values_list("topic", "status"))
    assert states == {"Hours": "active", "Sale": "active", "Fax": "active", "Pricing": "active", "Moon": "archived"}
    assert client.post(at(ana, f"{wrong.pk}/renew/")).status_code == 400
    assert client.post(at(ana, f"{wrong.pk}/explode/")).status_code == 404
    assert client.get(at(ana, f"{wrong.pk}/archive/")).status_code == 405


def test_the_last_decision_is_undone_with_all_it_did(ana: Member, dora: Member) -> None:
    wrong = make_entry(ana, "Hours", "We open at 9.")
    flag_entry(entry=wrong, by=access(dora), reason="wrong", note="It is 10.")
    over = make_entry(ana, "Sale", "Half price.", expires_at=timezone.now() + timedelta(days=3))
    Entry.objects.filter(pk=over.pk).update(expires_at=timezone.now() - timedelta(minutes=1))
    earlier = make_entry(ana, "Pricing", "Pro costs $79.")
    proposal = suggest_entry(by=access(dora), topic="Pricing", content="Pro costs $99.", supersedes=earlier)
    pair = contradicting(ana)
    client = signed_in(ana)
    state = ("status", "reason", "reason_note", "expires_at", "supersedes", "decided_by", "content")
    before = list(Entry.objects.order_by("pk").values_list(*state))

    def send(path: str, **fields: object) -> str:
        response = client.post(at(ana, path), {"from": "review", **fields}, headers=PANEL)
        again = client.get(response.headers["HX-Replace-Url"], headers=PANEL)
        status = re.compile(r'role="status">(.*?)</p>', re.DOTALL)
        assert status.findall(again.content.decode()) == status.findall(response.content.decode()) != []
        return " ".join(response.content.decode().split())

    deeds: list[tuple[str, dict[str, object], Entry]] = [
        (f"{wrong.pk}/archive/", {}, wrong),
        (f"{wrong.pk}/renew/", {"expires": "90d"}, wrong),
        (f"{over.pk}/renew/", {"expires": "same"}, over),
        (f"{proposal.pk}/accept/", {}, proposal),
        (f"{proposal.pk}/reject/", {}, proposal),
        (f"review/{pair.pk}/settle/", {"how": "both_hold"}, pair.first),
        (f"review/{pair.pk}/settle/", {"how": "superseded", "keep": pair.second_id}, pair.second),
    ]
    for path, fields, entry in deeds:
        page = send(path, of=4, **fields)
        assert "3 of 4 left" in page
        version = Entry.objects.get(pk=entry.pk).version
        assert "4 wait for a decision" in send(f"{entry.pk}/undo/", of=4, based_on=version)
        assert list(Entry.objects.order_by("pk").values_list(*state)) == before, path
        assert Contradiction.objects.get(pk=pair.pk).settled_at is None
    assert client.post(at(ana, f"{wrong.pk}/undo/")).status_code == 409  # undone already
    send(f"{wrong.pk}/archive/")
    assert signed_in(dora).post(at(ana, f"{wrong.pk}/undo/")).status_code == 409  # somebody else's


def test_decisions_about_several_entries_are_undone_one_after_the_other(ana: Member, dora: Member) -> None:
    entries = [make_entry(ana, topic, "It is so.") for topic in ("Hours", "Sale", "Fax")]
    for entry in entries:
        flag_entry(entry=entry, by=access(dora), reason="wrong", note="No.")
    client = signed_in(ana)
    states = Entry.objects.order_by("pk").values_list("status", "reason", "reason_note")
    before = list(states)

    def undo(entry: Entry, **fields: object) -> int:
        return int(client.post(at(ana, f"{entry.pk}/undo/"), {"from": "review", **fields}, headers=PANEL).status_code)

    for verb, entry in zip(("archive", "renew", "archive"), entries, strict=True):
        fields = {"from": "review", "of": 3, "expires": "90d"}
        assert client.post(at(ana, f"{entry.pk}/{verb}/"), fields, headers=PANEL).status_code == 200
    assert "Nothing waits" in text(client, at(ana, "review/"))
    for entry in reversed(entries):
        version = Entry.objects.get(pk=entry.pk).version
        assert undo(entry, of=3, based_on=version) == 200
        assert undo(entry, of=3, based_on=version) == 409  # sent twice: what was undone stays undone
        assert undo(entry, of=3) == 409
    assert list(states) == before
    assert "3 wait for a decision" in text(client, at(ana, "review/"))


def test_a_decision_on_the_second_page_stays_on_the_second_page(ana: Member) -> None:
    waiting = {"author": ana.participant, "owner": ana.participant, "status": "needs_review", "tokens": 1}
    entries = Entry.objects.bulk_create(
        Entry(workspace=ana.workspace, topic=f"Bed {n}", content="Roses.", **waiting) for n in range(53)
    )
    client = signed_in(ana)
    page = text(client, at(ana, "review/?page=2&of=60"))
    assert 'name="page" value="2"' in page
    assert "?of=60&amp;page=1" in page

    for entry in entries[50:52]:
        form = {"from": "review", "of": 60, "page": 2}
        answer = client.post(at(ana, f"{entry.pk}/archive/"), form, headers=PANEL)
        for shown in (answer.content.decode(), text(client, answer.headers["HX-Replace-Url"])):
            assert "Bed 52" in shown
            assert "Bed 1<" not in shown
    last = client.post(at(ana, f"{entries[52].pk}/archive/"), {**form, "of": 60}, headers=PANEL).content.decode()
    assert ("Bed 1<" in last, "50 of 60 left" in " ".join(last.split())) == (True, True)


def test_of_two_reviewers_the_second_is_told_and_changes_nothing(ana: Member, dora: Member) -> None:
    entry = make_entry(ana, "Hours", "We open at 9.")
    flag_entry(entry=entry, by=access(dora), reason="wrong", note="It is 10.")
    read = Entry.objects.get(pk=entry.pk).version  # both look at this
    ours, theirs = signed_in(ana), signed_in(dora)
    assert ours.post(at(ana, f"{entry.pk}/archive/"), {"from": "review", "based_on": read}).status_code == 302
    for verb, fields in (("renew", {"expires": "90d"}), ("archive", {}), ("restore", {}), ("undo", {})):
        form_data = {"from": "review", "based_on": read, **fields}
        answer = theirs.post(at(ana, f"{entry.pk}/{verb}/"), form_data, headers=PANEL)
        assert answer.status_code == 409, verb
    assert Entry.objects.get(pk=entry.pk).status == "archived"


def test_without_javascript_the_queue_leads_on_and_quotes_its_source(
    ana: Member, dora: Member, vibe: Agent, thread: Thread
) -> None:
    message = say(thread, dora, "From May on Pro costs $99.")
    make_suggestion(vibe, source_message=message)
    second = make_suggestion(vibe, "Moon", "It is cheese.")
    client = signed_in(ana)
    assert re.search(r"review-source.*From May on Pro costs \$99\..*Dora\s+in", text(client, at(ana, "review/")), re.S)
    response = client.post(at(ana, f"{second.pk}/reject/"), {"from": "review", "of": 2})
    page = text(client, response.headers["Location"])
    assert "1 of 2 left" in " ".join(page.split())
    assert f'action="{at(ana, f"{second.pk}/undo/")}"' in page


@pytest.mark.parametrize(("verb", "status"), [("archive", "archived"), ("renew", "active")])
def test_a_button_of_the_queue_decides_although_the_job_says_meanwhile_that_the_time_is_over(
    ana: Member, dora: Member, verb: str, status: str
) -> None:
    entry = make_entry(ana, expires_at=timezone.now() + timedelta(days=30))
    Entry.objects.filter(pk=entry.pk).update(expires_at=timezone.now() - timedelta(minutes=1))
    client, form = signed_in(ana), {"from": "review", "based_on": 1, "expires": "same"}
    assert entry.topic in text(client, at(ana, "review/"))
    expire_entries()
    flag_entry(entry=entry, by=access(dora), reason="wrong", note="It is 10.")
    assert client.post(at(ana, f"{entry.pk}/{verb}/"), form, headers=PANEL).status_code == 409
    assert client.post(at(ana, f"{entry.pk}/{verb}/"), {**form, "based_on": 9}, headers=PANEL).status_code == 409

    other = make_entry(ana, "Winter tariff", expires_at=timezone.now() + timedelta(days=30))
    Entry.objects.filter(pk=other.pk).update(expires_at=timezone.now() - timedelta(minutes=1))
    expire_entries()
    assert client.post(at(ana, f"{other.pk}/{verb}/"), form, headers=PANEL).status_code == 200
    other.refresh_from_db()
    assert (other.version, other.status) == (3, status)


def test_renewing_for_the_same_span_again(ana: Member) -> None:
    entry = make_entry(ana, expires_at=timezone.now() + timedelta(days=30))
    signed_in(ana).post(at(ana, f"{entry.pk}/renew/"), {"expires": "same"})
    entry.refresh_from_db()
    assert timedelta(days=29) < (entry.expires_at or timezone.now()) - timezone.now() < timedelta(days=31)


@pytest.mark.parametrize("days", [-60, 60])
def test_the_same_span_counts_from_when_the_expiry_was_given(ana: Member, days: int) -> None:
    """The entry's words may have been changed long after, its expiry alone long after a person last said that it
    holds."""
    entry = make_entry(ana, expires_at=timezone.now() + timedelta(days=400))
    update_entry(entry=entry, by=access(ana), expires_at=timezone.now() + timedelta(days=90))
    Entry.objects.filter(pk=entry.pk).update(decided_at=timezone.now() + timedelta(days=days))
    for _ in range(3):
        signed_in(ana).post(at(ana, f"{entry.pk}/renew/"), {"expires": "same"})
        entry.refresh_from_db()
        assert entry.expires_at is not None
        assert abs(entry.expires_at - timezone.now() - timedelta(days=90)) < timedelta(hours=1)


def test_an_expiry_that_was_taken_back_gives_no_span(ana: Member) -> None:
    entry = make_entry(ana, expires_at=timezone.now() + timedelta(days=90))
    client = signed_in(ana)
    with pgtrigger.ignore("knowledge.Revision:final"):
        Revision.objects.filter(entry=entry).update(created_at=timezone.now() - timedelta(days=30))
    client.post(at(ana, f"{entry.pk}/renew/"), {"expires": "1y"})
    client.post(at(ana, f"{entry.pk}/undo/"))
    client.post(at(ana, f"{entry.pk}/renew/"), {"expires": "same"})
    entry.refresh_from_db()
    assert entry.expires_at is not None
    assert abs(entry.expires_at - timezone.now() - timedelta(days=120)) < timedelta(hours=1)


def test_a_suggestion_is_accepted_in_better_words(ana: Member, vibe: Agent) -> None:
    entry = make_suggestion(vibe)
    said = filled(content="Pro costs $99 a month.", based_on=1, then="accept", expires="never", is_pinned="1")
    signed_in(ana).post(at(ana, f"{entry.pk}/edit/"), said)
    entry.refresh_from_db()
    assert (entry.status, entry.content, entry.decided_by) == ("active", "Pro costs $99 a month.", ana.participant)
    assert entry.is_pinned


def contradicting(ana: Member, **extra: str) -> Contradiction:
    first = make_entry(ana, "Pricing", "Starter costs $29.")
    second = make_entry(ana, "Pricing", "Starter costs $31.", **extra)
    return ContradictionFactory.create(
        workspace=ana.workspace,
        first=first,
        second=second,
        first_version=1,
        second_version=1,
        why="$29 or $31?",
        found_by="rule",
    )


def test_contradictions_stand_side_by_side_until_somebody_says_what_holds(ana: Member) -> None:
    pair = contradicting(ana)
    client = signed_in(ana)
    page = text(client, at(ana, "review/"))
    for said in ("$29 or $31?", "Starter costs $29.", "Starter costs $31.", "Keep both"):
        assert said in page
    assert "$29 or $31?" in text(client, at(ana, f"{pair.first_id}/"))
    settle = at(ana, f"review/{pair.pk}/settle/")
    assert client.post(settle, {"how": "nonsense"}).status_code == 400
    shown = dict(re.findall(r'name="(first|second)" value="(\d+)"', page))
    form = {"how": "superseded", "keep": pair.second_id, **shown}
    update_entry(entry=pair.second, by=access(ana), content="Starter costs $33.")
    assert client.post(settle, form, headers=PANEL).status_code == 409  # nobody read this on the page
    answer = client.post(settle, {**form, "second": 2}, headers=PANEL)
    assert "Nothing waits" in answer.content.decode()
    pair.first.refresh_from_db()
    assert pair.first.status == "superseded"


def test_a_pair_is_shown_to_those_who_may_read_both(ana: Member, dora: Member) -> None:
    pair = contradicting(ana, visibility="restricted")
    client = signed_in(dora)
    assert "$29 or $31?" not in text(client, at(ana, "review/"))
    assert "$29 or $31?" not in text(client, at(ana, f"{pair.first_id}/"))
    assert client.post(at(ana, f"review/{pair.pk}/settle/"), {"how": "both_hold"}).status_code == 404
    assert signed_in(ana).post(at(ana, f"review/{pair.pk}/settle/"), {"how": "both_hold"}).status_code == 302


def test_the_owner_finds_it_in_the_inbox_until_it_was_looked_at(ana: Member, dora: Member) -> None:
    entry = make_entry(dora, "Hours", "We open at 9.")
    flag_entry(entry=entry, by=access(ana), reason="wrong")
    client = signed_in(dora)
    inbox = f"/w/{dora.workspace.slug}/"
    assert "“Hours” was said to be wrong" in text(client, inbox)
    text(client, at(dora, f"{entry.pk}/?unasked=1"))
    assert "“Hours” was said to be wrong" in text(client, inbox), "a panel renewed itself"
    text(client, at(dora, f"{entry.pk}/"))
    assert "Hours" not in text(client, inbox)
    assert Notice.objects.get().seen_at is not None


def test_of_many_the_owner_finds_the_newest_among_all_there_is_to_review(ana: Member, dora: Member) -> None:
    for number in range(7):
        flag_entry(entry=make_entry(dora, f"Hours {number}", "We open at 9."), by=access(ana), reason="wrong")
    inbox = text(signed_in(dora), f"/w/{dora.workspace.slug}/")
    assert "All knowledge to review: 7<" in inbox
    assert [f"“Hours {number}”" in inbox for number in range(7)] == [False] * 2 + [True] * 5


@pytest.mark.parametrize(("count", "words"), [(100, "100"), (101, "100+")])
def test_more_than_are_counted_say_so(ana: Member, count: int, words: str) -> None:
    waiting = {"author": ana.participant, "owner": ana.participant, "status": "needs_review", "tokens": 1}
    Entry.objects.bulk_create(
        Entry(workspace=ana.workspace, topic=f"Bed {n}", content="Roses.", **waiting) for n in range(count)
    )
    inbox = text(signed_in(ana), f"/w/{ana.workspace.slug}/")
    assert f"All knowledge to review: {words}<" in inbox
    assert f'<span class="count">{words}<' in inbox


def test_the_queue_asks_the_same_for_one_row_and_for_many(ana: Member, vibe: Agent) -> None:
    client = signed_in(ana)
    text(client, at(ana))
    counts = []
    for many in (1, 4):
        for number in range(many):
            make_suggestion(vibe, f"Topic {many} {number}", "It may hold.")
            contradicting(ana)
        with CaptureQueriesContext(connection) as queries:
            text(client, at(ana, "review/"))
        counts.append(len(queries))
    assert counts[0] == counts[1]
