"""Every verb of knowledge: who may, what it does, and the revision it leaves."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from agents.agent.access import visible_to
from agents.models import Agent
from knowledge.maintenance import find_integrity_errors
from knowledge.models import Entry, Notice
from knowledge.queries import entries_to_review
from knowledge.services import (
    AlreadyPinned,
    accept_entry,
    archive_entry,
    change_owner,
    create_entry,
    erase_entry,
    flag_entry,
    mark_notices_seen,
    pin_result,
    reject_entry,
    renew_entry,
    restore_entry,
    settle_contradiction,
    suggest_entry,
    supersede_entry,
    undo_decision,
    update_entry,
)
from openvibe.base.problems import Conflict, Missing, Problem, Refused
from openvibe.chat.models import Message, Thread
from openvibe.chat.services import add_to_channel, delete_message, remove_from_channel
from openvibe.workspaces.models import Member
from openvibe.workspaces.services import remove_member
from tests.factories import access, make_agent, make_channel, make_entry, make_suggestion, make_thread, say
from tests.knowledge.factories import ContradictionFactory

LATER = timedelta(days=30)


def write_suggestions(by: Agent, count: int) -> None:
    """Topic 0 to Topic `count` - 1, past the services."""
    Entry.objects.bulk_create(
        Entry(
            workspace=by.workspace,
            topic=f"Topic {number}",
            content="Pro costs $99.",
            tokens=5,
            status=Entry.Status.PROPOSED,
            author=by.participant,
            owner=by.participant,
        )
        for number in range(count)
    )


def story(entry: Entry) -> list[tuple[int, str]]:
    """The entry's revisions, oldest first."""
    return list(entry.revisions.order_by("number").values_list("number", "action"))


def fresh(entry: Entry) -> Entry:
    return Entry.objects.get(pk=entry.pk)


def notices(member: Member) -> list[str]:
    rows = Notice.objects.filter(participant=member.participant, seen_at=None)
    return list(rows.order_by("pk").values_list("reason", flat=True))


def test_an_entry_by_hand_holds_at_once(ana: Member) -> None:
    entry = make_entry(ana, " Pricing\n of  plans ", "Starter costs $29.  \r\n", tags=["#Pricing", "pricing", "SaaS "])

    assert (entry.topic, entry.content, entry.tags) == ("Pricing of plans", "Starter costs $29.", ["pricing", "saas"])
    assert (entry.status, entry.source, entry.owner_id) == ("active", "manual", ana.participant_id)
    assert (entry.decided_by_id, entry.tokens > 3) == (ana.participant_id, True)
    assert Entry.objects.current().get() == entry
    assert story(entry) == [(1, "created")]
    assert entry.revisions.get().changes["topic"] == [None, "Pricing of plans"]


def test_the_same_key_is_the_same_entry(ana: Member, dora: Member) -> None:
    entry = make_entry(ana, client_id="k1")

    assert make_entry(ana, "Another", client_id="k1") == entry
    assert make_entry(dora, "Another", client_id="k1") != entry


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("topic", {"topic": " \u200b"}),
        ("topic", {"topic": "x" * 121}),
        ("topic", {"topic": "a\x00b"}),
        ("content", {"content": "\n "}),
        ("content", {"content": "a\x00b"}),
        ("content", {"content": "word " * 2_001}),
        ("kind", {"kind": "gossip"}),
        ("visibility", {"visibility": "secret"}),
        ("tags", {"tags": [f"t{n}" for n in range(11)]}),
        ("tags", {"tags": ["x" * 41]}),
        ("tags", {"tags": ["a\x00"]}),
        ("client_id", {"client_id": "x" * 101}),
        ("note", {"note": "x" * 2_001}),
    ],
)
def test_what_cannot_be_kept_is_refused_naming_the_field(ana: Member, field: str, values: dict[str, Any]) -> None:
    with pytest.raises(Problem) as error:
        create_entry(by=access(ana), **{"topic": "Pricing", "content": "x", **values})

    assert error.value.field == field
    assert not Entry.objects.exists()


def test_an_entry_of_fifty_thousand_characters_is_told_its_numbers(ana: Member) -> None:
    with pytest.raises(Problem, match=r"50,000 characters and needs 10,\d\d\d tokens; .* at most 2,000 tokens"):
        make_entry(ana, content=("word " * 10_000)[:-1] + ".")


def test_who_may_write(ana: Member, ben: Member, vibe: Agent) -> None:
    with pytest.raises(Refused):
        make_entry(ben)
    with pytest.raises(Refused):
        create_entry(by=visible_to(vibe), topic="a", content="b")


def test_changes_are_refused_for_who_may_not(ana: Member, ben: Member, dora: Member, cleo: Member) -> None:
    shared, restricted = make_entry(ana), make_entry(ana, visibility="restricted")

    with pytest.raises(Refused):
        update_entry(entry=shared, by=access(ben), content="No")
    with pytest.raises(Missing):
        update_entry(entry=restricted, by=access(dora), content="No")
    with pytest.raises(Missing):
        archive_entry(entry=shared, by=access(cleo))
    with pytest.raises(Refused):
        update_entry(entry=shared, by=access(dora), visibility="restricted")


def test_an_edit_is_a_revision_and_nothing_new_is_none(ana: Member, dora: Member) -> None:
    entry = make_entry(ana)

    edited = update_entry(entry=entry, by=access(dora), content="Starter costs $39.", note="Raised", based_on=1)
    same = update_entry(entry=entry, by=access(dora), content="Starter costs $39.", tags=[])

    assert (edited.version, same.version, story(entry)) == (2, 2, [(1, "created"), (2, "edited")])
    last = entry.revisions.first()
    assert last
    assert last.changes == {"content": ["Starter costs $29 a month.", "Starter costs $39."]}
    assert (last.by_id, last.note, last.how) == (dora.participant_id, "Raised", "page")


def test_two_edits_at_once_name_both_versions(ana: Member, dora: Member) -> None:
    entry = make_entry(ana)
    update_entry(entry=entry, by=access(ana), content="First", based_on=1)

    with pytest.raises(Conflict, match="began from version 1, it is at version 2") as stale:
        update_entry(entry=entry, by=access(dora), content="Second", based_on=1)

    assert (stale.value.code, fresh(entry).content) == ("stale", "First")


def test_pinning_a_message_restricts_what_is_private(ana: Member, thread: Thread) -> None:
    private = make_thread(make_channel(ana, "board", private=True), ana)
    open_one = say(thread, ana, "We ship on Friday.")

    public = pin_result(message=open_one, by=access(ana), topic="Shipping", content="Friday")
    hidden = pin_result(message=say(private, ana, "Psst"), by=access(ana), topic="Board", content="Psst")

    assert (public.visibility, public.source, public.source_thread_id) == ("shared", "message", thread.pk)
    assert (hidden.visibility, hidden.kind) == ("restricted", "decision")
    assert story(public) == [(1, "pinned")]


def test_what_was_deleted_with_its_history_is_not_brought_back(ana: Member) -> None:
    entry = make_entry(ana)
    erase_entry(entry=entry, by=access(ana))
    with pytest.raises(Conflict, match="nothing to bring back") as error:
        restore_entry(entry=entry, by=access(ana))
    assert error.value.code == "deleted"
    with pytest.raises(Conflict, match="nothing to bring back"):
        renew_entry(entry=entry, by=access(ana), expires_at=None)
    assert not Entry.objects.current().exists()


def test_what_was_superseded_comes_back_after_its_successor_was_deleted_with_its_history(ana: Member) -> None:
    old = make_entry(ana)
    new = supersede_entry(entry=old, by=access(ana), content="New")

    erase_entry(entry=new, by=access(ana))

    assert list(find_integrity_errors()) == []
    assert restore_entry(entry=old, by=access(ana)).status == "active"
    assert (fresh(new).supersedes_id, fresh(new).status) == (None, "archived")


def test_a_result_is_pinned_once_while_its_entry_lives(ana: Member, dora: Member, thread: Thread) -> None:
    message = result_in(thread, ana)
    entry = pin_result(message=message, by=access(ana), topic="Plan", content="B", visibility="restricted")

    with pytest.raises(AlreadyPinned, match="“Plan”") as told:
        pin_result(message=message, by=access(ana), topic="Plan", content="B")
    with pytest.raises(AlreadyPinned, match="may not read") as error:
        pin_result(message=message, by=access(dora), topic="Plan", content="B")

    assert (told.value.entry_id, error.value.entry_id) == (entry.pk, None)
    archive_entry(entry=entry, by=access(ana))
    again = pin_result(message=message, by=access(ana), topic="Plan", content="B")
    with pytest.raises(Conflict) as problem_error:
        restore_entry(entry=entry, by=access(ana))
    assert (again.pk != entry.pk, problem_error.value.code) == (True, "already_pinned")


def test_what_was_deleted_or_is_unseen_cannot_be_pinned(ana: Member, cleo: Member, thread: Thread) -> None:
    message = say(thread, ana, "Never mind")
    with pytest.raises(Missing):
        pin_result(message=message, by=access(cleo), topic="a", content="b")

    delete_message(message=message, by=access(ana))

    with pytest.raises(Missing):
        pin_result(message=message, by=access(ana), topic="a", content="b")


def test_a_suggestion_waits_until_a_person_accepts_it(ana: Member, dora: Member, vibe: Agent, thread: Thread) -> None:
    question = say(thread, dora, "What does Pro cost?")
    entry = make_suggestion(vibe, why="Asked twice", source_message=question)

    assert (entry.status, entry.owner_id, notices(dora)) == ("proposed", dora.participant_id, ["proposed"])
    assert not Entry.objects.current().exists()
    assert make_suggestion(vibe, source_message=question) == entry

    accepted = accept_entry(entry=entry, by=access(dora), content="Pro costs $99 a month.", note="Right")

    assert (accepted.status, accepted.content) == ("active", "Pro costs $99 a month.")
    assert (accepted.author, accepted.decided_by_id) == (vibe.participant, dora.participant_id)
    assert (story(entry), notices(dora)) == ([(1, "suggested"), (2, "accepted")], [])
    with pytest.raises(Conflict, match="decided already: active"):
        reject_entry(entry=entry, by=access(ana))


def read_by(entry: Entry, *members: Member) -> list[bool]:
    """Whether each may read it."""
    return [Entry.objects.visible_to(access(member)).filter(pk=entry.pk).exists() for member in members]


def test_a_suggestion_is_for_who_sees_the_conversation_until_it_is_accepted(
    ana: Member, ben: Member, dora: Member, vibe: Agent, thread: Thread
) -> None:
    """Ana owns the workspace and is not in the private channel; Ben, a guest, is in neither."""
    board = make_channel(dora, "board", private=True)
    add_to_channel(channel=board, participant=vibe.participant, by=access(dora))
    question = say(make_thread(board, dora), dora, "@vibe what does the merger cost?")
    secret = make_suggestion(vibe, "Merger", "It costs 4 million.", source_message=question, visibility="restricted")
    assert read_by(secret, ana, dora, ben) == [False, True, False]
    assert not entries_to_review(access(ana), timezone.now()).exists()
    reject_entry(entry=secret, by=access(dora))
    assert read_by(secret, ana, dora) == [False, True]
    restore_entry(entry=secret, by=access(dora))
    accept_entry(entry=secret, by=access(dora))
    assert read_by(secret, ana, dora, ben) == [True, True, False]

    public = make_suggestion(vibe, source_message=say(thread, ana, "@vibe what does Pro cost?"))
    assert read_by(public, ana, dora, ben) == [True, True, False]
    accept_entry(entry=public, by=access(ana))
    assert read_by(public, ana, dora, ben) == [True, True, True]


def test_what_a_guest_asked_among_few_is_decided_by_one_of_them(ben: Member, dora: Member, vibe: Agent) -> None:
    board = make_channel(ben, "board", private=True)
    for member in (vibe, dora):
        board.memberships.create(participant=member.participant)
    question = say(make_thread(board, ben), ben, "@vibe what does the merger cost?")
    assert make_suggestion(vibe, source_message=question).owner == dora.participant
    remove_from_channel(channel=board, participant=dora.participant, by=access(dora))
    with pytest.raises(Problem, match="Nobody who could decide") as error:
        make_suggestion(vibe, content="Another", source_message=question)
    assert error.value.code == "no_owner"


def test_a_rejected_suggestion_is_kept_and_may_wait_again(ana: Member, vibe: Agent) -> None:
    entry = make_suggestion(vibe)

    rejected = reject_entry(entry=entry, by=access(ana), note="Not so")
    assert rejected.status == "archived"

    assert restore_entry(entry=entry, by=access(ana)).status == "proposed"
    assert story(entry) == [(1, "suggested"), (2, "rejected"), (3, "restored")]


def test_agents_below_level_two_and_guests_suggest_nothing(ana: Member, ben: Member, vibe: Agent) -> None:
    vibe.level = 1
    with pytest.raises(Refused):
        make_suggestion(vibe)
    with pytest.raises(Refused):
        suggest_entry(by=access(ben), topic="a", content="b")


def test_a_level_two_agent_cannot_name_what_it_cannot_see(ana: Member, vibe: Agent) -> None:
    with pytest.raises(Missing):
        make_suggestion(vibe, supersedes=make_entry(ana))


def test_an_agent_has_fifty_suggestions_waiting_at_most(ana: Member, vibe: Agent) -> None:
    write_suggestions(vibe, 49)
    make_suggestion(vibe, "The fiftieth")

    with pytest.raises(Problem, match="50 of your suggestions wait"):
        make_suggestion(vibe, "One more")


def test_a_suggestion_whose_time_is_over_needs_another_expiry(ana: Member, vibe: Agent) -> None:
    entry = make_suggestion(vibe, expires_at=timezone.now() + LATER)
    Entry.objects.update(expires_at=timezone.now() - LATER)

    with pytest.raises(Problem, match="over already"):
        accept_entry(entry=entry, by=access(ana))
    assert accept_entry(entry=entry, by=access(ana), expires_at=None).expires_at is None


def test_superseding_is_one_story_in_both_entries(ana: Member) -> None:
    old = make_entry(ana, tags=["plans"], visibility="restricted")

    new = supersede_entry(entry=old, by=access(ana), content="Starter costs $39.", note="New year")

    assert (new.supersedes_id, new.topic, new.tags, new.visibility) == (old.pk, "Pricing", ["plans"], "restricted")
    assert (fresh(old).status, story(old), story(new)) == (
        "superseded",
        [(1, "created"), (2, "superseded")],
        [(1, "created")],
    )
    assert list(Entry.objects.current()) == [new]


def test_superseding_by_an_entry_that_stands(ana: Member) -> None:
    old, new = make_entry(ana), make_entry(ana, content="Starter costs $39.")

    assert supersede_entry(entry=old, by=access(ana), successor=new).supersedes_id == old.pk
    assert supersede_entry(entry=old, by=access(ana), successor=new).version == 2
    assert (story(new), fresh(old).status) == ([(1, "created"), (2, "edited")], "superseded")


def test_what_cannot_be_superseded(ana: Member, cleo: Member, vibe: Agent) -> None:
    old = make_entry(ana)
    new = supersede_entry(entry=old, by=access(ana), content="New")
    other, waits = make_entry(ana, "Other"), make_suggestion(vibe)
    refusals = [
        (other, other, "itself"),
        (new, fresh(old), "holds can supersede"),
        (old, other, "superseded by “Pricing” already"),
        (other, new, "supersedes another one already"),
        (waits, other, "only a suggestion"),
        (other, waits, "holds can supersede"),
        (archive_entry(entry=make_entry(ana), by=access(ana)), other, "archived"),
    ]
    for entry, successor, sentence in refusals:
        with pytest.raises(Conflict, match=sentence):
            supersede_entry(entry=entry, by=access(ana), successor=successor)
    with pytest.raises(Missing):
        supersede_entry(entry=other, by=access(ana), successor=make_entry(cleo))
    with pytest.raises(Missing):
        make_entry(ana, supersedes=make_entry(cleo, "Theirs"))


def test_a_circle_is_a_conflict(ana: Member) -> None:
    old = make_entry(ana)
    new = supersede_entry(entry=old, by=access(ana), content="New")
    Entry.objects.filter(pk=old.pk).update(status="active")

    with pytest.raises(Conflict) as circle:
        supersede_entry(entry=new, by=access(ana), successor=old)

    assert (circle.value.code, fresh(new).status, fresh(old).version) == ("circle", "active", 2)


def test_accepting_a_suggestion_supersedes_what_it_names(ana: Member, dora: Member, vibe: Agent) -> None:
    old = make_entry(ana)
    entry = suggest_entry(by=access(dora), topic="Pricing", content="Starter costs $39.", supersedes=old)
    assert fresh(old).status == "active"
    with pytest.raises(Conflict, match="waits already"):
        suggest_entry(by=access(dora), topic="Pricing", content="Starter costs $49.", supersedes=old)

    accept_entry(entry=entry, by=access(ana))

    assert (fresh(old).status, story(old)[-1]) == ("superseded", (2, "superseded"))


def test_a_suggestion_that_is_overtaken_loses_its_link(ana: Member, dora: Member) -> None:
    old = make_entry(ana)
    entry = suggest_entry(by=access(dora), topic="Pricing", content="Starter costs $39.", supersedes=old)

    new = supersede_entry(entry=old, by=access(ana), content="Starter costs $45.")

    assert (new.supersedes_id, fresh(entry).supersedes_id, fresh(entry).status) == (old.pk, None, "proposed")
    assert story(entry) == [(1, "suggested"), (2, "edited")]


def test_a_suggestion_is_accepted_although_what_it_was_to_supersede_was_archived(ana: Member) -> None:
    old = make_entry(ana)
    entry = make_suggestion(make_agent(ana, level=3), supersedes=old)
    archive_entry(entry=old, by=access(ana))

    accepted = accept_entry(entry=entry, by=access(ana))

    assert (accepted.status, accepted.supersedes_id, fresh(old).status) == ("active", None, "archived")
    undone = undo_decision(entry=accepted, by=access(ana))
    assert (undone.status, undone.supersedes_id) == ("proposed", old.pk)


def test_nobody_supersedes_by_accepting_what_they_may_not_read(ana: Member, dora: Member) -> None:
    secret = make_entry(ana, visibility="restricted")
    entry = suggest_entry(by=access(ana), topic="Pricing", content="New", supersedes=secret)

    with pytest.raises(Refused, match="may not read"):
        accept_entry(entry=entry, by=access(dora))


def test_a_superseded_entry_comes_back_once_its_successor_is_archived(ana: Member) -> None:
    old = make_entry(ana)
    new = supersede_entry(entry=old, by=access(ana), content="New")
    with pytest.raises(Conflict, match="Archive it first"):
        restore_entry(entry=old, by=access(ana))

    archive_entry(entry=new, by=access(ana))
    restored = restore_entry(entry=old, by=access(ana))

    assert (restored.status, fresh(new).supersedes_id) == ("active", None)
    assert story(new) == [(1, "created"), (2, "archived"), (3, "edited")]
    assert story(old)[-1] == (3, "restored")


def test_bringing_back_what_was_superseded_is_not_undone(ana: Member) -> None:
    old = make_entry(ana)
    new = supersede_entry(entry=old, by=access(ana), content="New")
    archive_entry(entry=new, by=access(ana))
    restore_entry(entry=old, by=access(ana))

    for entry in (old, new):  # the one would be superseded by nothing, the other supersede what holds
        with pytest.raises(Conflict) as error:
            undo_decision(entry=entry, by=access(ana))
        assert error.value.code == "not_undoable"

    assert (fresh(old).status, fresh(new).supersedes_id) == ("active", None)
    assert list(find_integrity_errors()) == []


def test_archiving_and_bringing_back(ana: Member, vibe: Agent) -> None:
    entry = make_entry(ana)

    assert archive_entry(entry=entry, by=access(ana)).status == "archived"
    assert archive_entry(entry=entry, by=access(ana)).version == 2
    with pytest.raises(Conflict, match="Bring it back"):
        update_entry(entry=entry, by=access(ana), content="No")
    assert restore_entry(entry=entry, by=access(ana)).status == "active"
    with pytest.raises(Conflict, match="not archived"):
        restore_entry(entry=entry, by=access(ana))
    with pytest.raises(Conflict, match="Reject it"):
        archive_entry(entry=make_suggestion(vibe), by=access(ana))


def test_what_expired_meanwhile_comes_back_for_review(ana: Member) -> None:
    entry = archive_entry(entry=make_entry(ana, expires_at=timezone.now() + LATER), by=access(ana))
    Entry.objects.update(expires_at=timezone.now())

    restored = restore_entry(entry=entry, by=access(ana))

    assert (restored.status, restored.reason) == ("needs_review", "expired")


def test_a_flagged_entry_leaves_prompts_until_somebody_says_it_anew(ana: Member, dora: Member) -> None:
    entry = make_entry(ana)

    flag_entry(entry=entry, by=access(dora), reason="wrong", note="It is $39")
    flag_entry(entry=entry, by=access(dora), reason="wrong", note="It is $39")

    assert (fresh(entry).status, fresh(entry).reason_note, notices(ana)) == ("needs_review", "It is $39", ["wrong"])
    assert story(entry) == [(1, "created"), (2, "flagged")]
    assert update_entry(entry=entry, by=access(ana), tags=["plans"]).status == "needs_review"
    edited = update_entry(entry=entry, by=access(ana), content="Starter costs $39.")
    assert (edited.status, edited.reason, notices(ana)) == ("active", "", [])


def test_a_reason_is_one_that_people_give(ana: Member) -> None:
    with pytest.raises(Problem, match="A reason is one of"):
        flag_entry(entry=make_entry(ana), by=access(ana), reason="expired")


def test_renewing_brings_back_what_waited_or_was_archived(ana: Member, vibe: Agent) -> None:
    flagged = flag_entry(entry=make_entry(ana), by=access(ana))
    archived = archive_entry(entry=make_entry(ana), by=access(ana))
    until = timezone.now() + LATER

    for entry in (flagged, archived):
        renewed = renew_entry(entry=entry, by=access(ana), expires_at=until)
        assert (renewed.status, renewed.expires_at, story(entry)[-1]) == ("active", until, (3, "renewed"))
    with pytest.raises(Conflict, match="only a suggestion"):
        renew_entry(entry=make_suggestion(vibe), by=access(ana), expires_at=None)


def test_owners_are_told_and_admins_where_the_owner_left(ana: Member, dora: Member, ben: Member) -> None:
    entry = make_entry(dora)
    change_owner(entry=entry, by=access(ana), owner=ana.participant)
    assert story(entry)[-1] == (2, "edited")
    change_owner(entry=entry, by=access(ana), owner=dora.participant)
    with pytest.raises(Problem, match="no guest"):
        change_owner(entry=entry, by=access(ana), owner=ben.participant)

    remove_member(member=dora, by=access(ana))
    eve = make_member_called_eve(ana)
    flag_entry(entry=entry, by=access(eve))

    assert (notices(ana), notices(dora)) == (["asked"], [])
    assert (mark_notices_seen(by=access(ana)), mark_notices_seen(by=access(ana))) == (1, 0)


def test_settling_says_that_both_hold(ana: Member, dora: Member) -> None:
    first, second = make_entry(ana), make_entry(dora, content="Starter costs $39 a month.", visibility="restricted")
    eve = make_member_called_eve(ana)
    pair = ContradictionFactory.create(
        workspace=ana.workspace, first=first, second=second, first_version=1, second_version=1, why="29 or 39"
    )
    with pytest.raises(Missing):
        settle_contradiction(contradiction=pair, by=access(eve))
    with pytest.raises(Problem, match="Say both_hold"):
        settle_contradiction(contradiction=pair, by=access(ana), how="edited")

    contradiction = settle_contradiction(contradiction=pair, by=access(ana))

    assert (contradiction.settled_how, contradiction.first_version, contradiction.second_version) == ("both_hold", 2, 2)
    assert story(first) == [(1, "created"), (2, "settled")]
    assert settle_contradiction(contradiction=pair, by=access(ana)).settled_at == contradiction.settled_at


def test_of_two_who_settle_otherwise_the_second_is_told(ana: Member, dora: Member) -> None:
    first, second = make_entry(ana), make_entry(ana, content="Starter costs $39 a month.")
    pair = ContradictionFactory.create(
        workspace=ana.workspace, first=first, second=second, first_version=1, second_version=1, why="29 or 39"
    )
    update_entry(entry=first, by=access(dora), content="Starter costs $35 a month.")
    with pytest.raises(Conflict, match="at version 2") as stale:
        settle_contradiction(contradiction=pair, by=access(ana), how="superseded", keep=second, based_on=(1, 1))
    assert stale.value.code == "stale"

    settle_contradiction(contradiction=pair, by=access(ana), how="superseded", keep=second, based_on=(2, 1))

    settle_contradiction(contradiction=pair, by=access(dora), how="superseded", keep=second, based_on=(2, 1))
    for how, keep in (("both_hold", None), ("superseded", first), ("archived", second)):
        with pytest.raises(Conflict) as error:
            settle_contradiction(contradiction=pair, by=access(dora), how=how, keep=keep)
        assert error.value.code == "settled"
    assert (fresh(first).status, fresh(second).status) == ("superseded", "active")


@pytest.mark.parametrize(("how", "status"), [("superseded", "superseded"), ("archived", "archived")])
def test_settling_keeps_one_of_the_two(ana: Member, how: str, status: str) -> None:
    first, second = make_entry(ana), make_entry(ana, content="Starter costs $39 a month.")
    pair = ContradictionFactory.create(
        workspace=ana.workspace, first=first, second=second, first_version=1, second_version=1, why="29 or 39"
    )

    contradiction = settle_contradiction(contradiction=pair, by=access(ana), how=how, keep=second)

    assert (contradiction.settled_how, fresh(first).status, fresh(second).status) == (how, status, "active")


def test_revisions_are_final(ana: Member) -> None:
    from django.db.utils import DatabaseError

    revision = make_entry(ana).revisions.get()
    with pytest.raises(DatabaseError):
        revision.delete()


def result_in(thread: Thread, by: Member) -> Message:
    return Message.objects.create(
        thread=thread, author=by.participant, kind=Message.Kind.DIVE_RESULT, body="**Option B**\n\n- 23 % more"
    )


def make_member_called_eve(ana: Member) -> Member:
    from tests.factories import make_member

    return make_member("Eve", ana.workspace)
