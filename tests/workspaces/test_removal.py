"""A removal: whoever was removed stays out, whatever they kept: links they made or hold, tokens, rooms of before."""

import pytest

from openvibe.api.auth import authenticate_token
from openvibe.api.services import issue_token
from openvibe.base.problems import Missing
from openvibe.chat.models import Channel
from openvibe.chat.services import add_to_channel
from openvibe.workspaces.models import Invitation, Member
from openvibe.workspaces.services import accept_invitation, create_invitation, remove_member, update_member_role
from tests.factories import access, make_channel, make_member, make_user


@pytest.fixture
def eve(ana: Member) -> Member:
    """An admin, for now."""
    return make_member("Eve", ana.workspace, role="admin")


def test_a_link_made_by_somebody_removed_lets_nobody_in(ana: Member, eve: Member) -> None:
    _, token = create_invitation(workspace=ana.workspace, by=access(eve), role="admin", uses=100, days=30)
    remove_member(member=eve, by=access(ana))
    for user in (eve.user, make_user("Finn")):
        with pytest.raises(Missing):
            accept_invitation(token=token, user=user)


def test_a_link_from_before_does_not_bring_somebody_removed_back(ana: Member, dora: Member) -> None:
    _, old = create_invitation(workspace=ana.workspace, by=access(ana), role="member", uses=5)
    remove_member(member=dora, by=access(ana))
    with pytest.raises(Missing, match="was ended after this invitation"):
        accept_invitation(token=old, user=dora.user)
    assert accept_invitation(token=old, user=make_user("Finn")).role == "member"
    _, new = create_invitation(workspace=ana.workspace, by=access(ana), role="guest")
    back = accept_invitation(token=new, user=dora.user)
    assert (back.pk, back.role) == (dora.pk, "guest")


def test_links_of_an_admin_end_with_the_role(ana: Member, eve: Member) -> None:
    create_invitation(workspace=ana.workspace, by=access(eve), role="admin")
    update_member_role(member=eve, role="member", by=access(ana))
    assert not Invitation.objects.get().is_open


def test_coming_back_opens_no_room_of_before(ana: Member, dora: Member) -> None:
    private = make_channel(ana, "plans", private=True)
    add_to_channel(channel=private, participant=dora.participant, by=access(ana))
    remove_member(member=dora, by=access(ana))
    _, token = create_invitation(workspace=ana.workspace, by=access(ana), role="guest")
    back = accept_invitation(token=token, user=dora.user)
    assert not Channel.objects.visible_to(access(back)).exists()


def test_tokens_of_before_stay_revoked_after_coming_back(ana: Member, dora: Member) -> None:
    _, secret = issue_token(participant=dora.participant, name="Script", scopes=["read"])
    assert authenticate_token(secret)
    remove_member(member=dora, by=access(ana))
    _, token = create_invitation(workspace=ana.workspace, by=access(ana), role="member")
    accept_invitation(token=token, user=dora.user)
    assert authenticate_token(secret) is None
