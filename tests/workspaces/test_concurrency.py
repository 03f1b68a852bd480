"""Joining, leaving and making workspaces at the same moment."""

import pytest

from openvibe.workspaces.models import Member, Workspace
from openvibe.workspaces.services import (
    accept_invitation,
    create_invitation,
    create_workspace,
    remove_member,
    update_member_role,
)
from tests.concurrency import at_once
from tests.factories import access, make_member, make_user

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("uses", [1, 3])
def test_who_joins_twice_at_once_is_in_and_takes_one_place(ana: Member, uses: int) -> None:
    invitation, token = create_invitation(workspace=ana.workspace, by=access(ana), role="member", uses=uses)
    finn = make_user("Finn")

    came = at_once(*[lambda: accept_invitation(token=token, user=finn)] * 3)

    invitation.refresh_from_db()
    assert (came, Member.objects.filter(user=finn).count(), invitation.uses_left) == (["done"] * 3, 1, uses - 1)


def test_of_two_who_take_the_last_place_at_once_one_joins(ana: Member) -> None:
    _, token = create_invitation(workspace=ana.workspace, by=access(ana), role="member")
    finn, gus = make_user("Finn"), make_user("Gus")

    came = at_once(*[lambda user=user: accept_invitation(token=token, user=user) for user in (finn, gus)])

    assert (came, Member.objects.filter(user__in=[finn, gus]).count()) == (["done", "not_found"], 1)


def test_of_two_owners_who_leave_or_step_back_at_once_one_stays(ana: Member) -> None:
    came = []
    for number in range(4):
        one = make_member(f"Emil {number}")
        other = make_member(f"Finn {number}", one.workspace, role="owner")
        came += at_once(*[lambda who=who: remove_member(member=who, by=access(who)) for who in (one, other)])
        one = make_member(f"Gus {number}")
        other = make_member(f"Hal {number}", one.workspace, role="owner")
        came += at_once(
            *[lambda who=who: update_member_role(member=who, role="admin", by=access(who)) for who in (one, other)]
        )

    assert came == ["done", "last_owner"] * 8


def test_workspaces_of_one_name_made_at_once_have_an_address_each() -> None:
    owners = [make_user(name) for name in ("Ana", "Cleo", "Finn")]

    came = at_once(*[lambda owner=owner: create_workspace(name="Garden", owner=owner) for owner in owners])

    addresses = Workspace.objects.order_by("slug").values_list("slug", flat=True)
    assert (came, list(addresses)) == (["done"] * 3, ["garden", "garden-2", "garden-3"])
