"""Deciding on what an agent proposed: accepted it takes effect, undone it is as before, and admins alone decide."""

import pytest

from agents.agent.access import visible_to
from agents.models import Agent
from memory.blocks.queries import read_notes
from memory.blocks.services import store_notes
from memory.episodes.models import Episode, Proposal
from memory.episodes.proposals import accept_proposal, reject_proposal, undo_proposal
from openvibe.base.problems import Conflict, Missing, Refused
from openvibe.chat.models import Message, Thread
from openvibe.chat.services import delete_message, update_message
from openvibe.workspaces.models import Member
from tests.factories import access, say
from tests.memory.episodes.sample_reviews import LEARNING, NOTES, review, suggesting


@pytest.fixture
def told(ana: Member, vibe: Agent, thread: Thread) -> Message:
    return say(thread, ana, "@vibe please always name the source. Roses like sun.")


def test_accepting_a_learning_makes_an_episode_for_90_days_and_undo_removes_it(
    ana: Member, vibe: Agent, thread: Thread, told: Message
) -> None:
    (proposal,) = review(vibe, thread)
    accepted = accept_proposal(proposal=proposal, by=access(ana))
    episode = Episode.objects.get()
    assert (accepted.episode, episode.kind, episode.thread) == (episode, "learning_acquired", thread)
    assert episode.expires_at is not None
    assert (episode.expires_at - episode.created_at).days == 90
    with pytest.raises(Conflict):
        accept_proposal(proposal=proposal, by=access(ana))
    assert undo_proposal(proposal=proposal, by=access(ana)).state == "undone"
    assert not Episode.objects.exists()


def test_accepting_notes_replaces_them_and_undo_brings_them_back(
    ana: Member, vibe: Agent, thread: Thread, told: Message
) -> None:
    pair = {"agent_id": vibe.participant_id, "person_id": ana.participant_id}
    store_notes(**pair, text="Grows roses.", by_id=None, how="agent")
    model = suggesting(NOTES)
    (proposal,) = review(vibe, thread, model)
    assert "Grows roses." in model.calls[0].messages[1].content
    accept_proposal(proposal=proposal, by=access(ana))
    assert read_notes(**pair) == "Likes short answers."
    undo_proposal(proposal=proposal, by=access(ana))
    assert read_notes(**pair) == "Grows roses."


def test_notes_changed_meanwhile_are_never_overwritten(ana: Member, vibe: Agent, thread: Thread, told: Message) -> None:
    pair = {"agent_id": vibe.participant_id, "person_id": ana.participant_id}
    first, second = review(vibe, thread, suggesting(NOTES, {**NOTES, "text": "Other notes."}))
    accept_proposal(proposal=first, by=access(ana))
    with pytest.raises(Conflict, match="changed after this was proposed"):
        accept_proposal(proposal=second, by=access(ana))
    store_notes(**pair, text="Written by hand.", by_id=ana.participant_id, how="page")
    with pytest.raises(Conflict, match="changed after this was accepted"):
        undo_proposal(proposal=first, by=access(ana))
    assert read_notes(**pair) == "Written by hand."
    assert Proposal.objects.get(pk=first.pk).state == "accepted"


def test_only_admins_who_see_the_thread_decide(
    ana: Member, dora: Member, ben: Member, cleo: Member, vibe: Agent, thread: Thread, told: Message
) -> None:
    (proposal,) = review(vibe, thread)
    for verb in (accept_proposal, reject_proposal, undo_proposal):
        for by, error in (
            (access(dora), Refused),
            (visible_to(vibe), Refused),
            (access(ben), Missing),
            (access(cleo), Missing),
        ):
            with pytest.raises(error):
                verb(proposal=proposal, by=by)
    assert Proposal.objects.get().state == "proposed"


def test_rejected_is_not_proposed_again_in_the_same_words(
    ana: Member, vibe: Agent, thread: Thread, told: Message
) -> None:
    (proposal,) = review(vibe, thread)
    reject_proposal(proposal=proposal, by=access(ana))
    say(thread, ana, "@vibe please always name the source.")
    assert review(vibe, thread) == []
    assert not Episode.objects.exists()


def test_what_was_learned_from_a_deleted_message_goes_with_it(
    ana: Member, vibe: Agent, thread: Thread, told: Message
) -> None:
    say(thread, ana, "Quinces are hard.")
    notes, other_learning = {**NOTES, "messages": [1, 2]}, {**LEARNING, "text": "Quinces.", "messages": [2]}
    for proposal in review(vibe, thread, suggesting(LEARNING, notes, other_learning)):
        accept_proposal(proposal=proposal, by=access(ana))
    update_message(message=told, by=access(ana), body="Never mind.")
    assert Episode.objects.count() == 2
    delete_message(message=told, by=access(ana))
    assert [each.text for each in Proposal.objects.all()] == ["Quinces."]
    assert [each.summary for each in Episode.objects.all()] == ["Quinces."]
    assert read_notes(vibe.participant_id, ana.participant_id) == ""
