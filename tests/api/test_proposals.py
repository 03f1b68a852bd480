"""Proposed learnings through the API: admins decide, the agent reads its own."""

import pytest

from agents.models import Agent
from memory.episodes.models import Episode, Proposal
from openvibe.chat.models import Thread
from openvibe.workspaces.models import Member
from tests.api.client import is_problem
from tests.api.conftest import Enter


@pytest.fixture
def proposal(vibe: Agent, thread: Thread) -> Proposal:
    return Proposal.objects.create(
        agent=vibe.participant,
        thread=thread,
        kind="episode",
        text="Ana wants sources.",
        because="Message 1.",
        since_seq=0,
        upto_seq=1,
    )


def test_an_admin_accepts_and_takes_back(ana: Member, proposal: Proposal, by_token: Enter) -> None:
    api = by_token(ana.participant)
    assert [row["text"] for row in api.get("proposals/?state=proposed").json()["results"]] == ["Ana wants sources."]
    response = api.post(f"proposals/{proposal.pk}/accept/")
    assert (response.status_code, response.json()["state"]) == (200, "accepted")
    assert response.json()["decided_by"] == ana.participant.handle
    assert Episode.objects.get().summary == "Ana wants sources."
    assert is_problem(api.post(f"proposals/{proposal.pk}/reject/"), 409, "decided")
    assert api.post(f"proposals/{proposal.pk}/undo/").json()["state"] == "undone"
    assert not Episode.objects.exists()
    assert api.get("proposals/?state=proposed").json()["results"] == []


def test_an_agent_reads_its_own_and_decides_nothing(
    ana: Member, vibe: Agent, proposal: Proposal, by_token: Enter
) -> None:
    api = by_token(vibe.participant)
    (row,) = api.get("proposals/").json()["results"]
    assert (row["id"], row["agent"], row["person"]) == (proposal.pk, "vibe", None)
    for verb in ("accept", "reject", "undo"):
        assert is_problem(api.post(f"proposals/{proposal.pk}/{verb}/"), 403, "not_allowed")


def test_members_who_do_not_administer_are_shown_none(dora: Member, proposal: Proposal, by_token: Enter) -> None:
    api = by_token(dora.participant)
    assert api.get("proposals/").json()["results"] == []
    assert is_problem(api.post(f"proposals/{proposal.pk}/accept/"), 404, "not_found")
    assert Proposal.objects.get().state == "proposed"
