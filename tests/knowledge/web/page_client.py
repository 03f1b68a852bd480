"""Visits to the pages of knowledge."""

from django.test import Client

from openvibe.chat.models import DiveResult, Message, Thread
from openvibe.workspaces.models import Member
from tests.factories import say

PANEL = {"HX-Request": "true"}


def at(member: Member, rest: str = "") -> str:
    return f"/w/{member.workspace.slug}/knowledge/{rest}"


def text(client: Client, address: str, status: int = 200, **more: object) -> str:
    response = client.get(address, **more)  # type: ignore[arg-type]  # any option of the client
    assert response.status_code == status, (address, response.status_code)
    page = response.content.decode()
    assert "style=" not in page
    return page


def filled(**typed: object) -> dict[str, object]:
    said = {"topic": "Pricing", "content": "Pro costs $99.", "kind": "fact", "visibility": "shared", "expires": "90d"}
    return {**said, **typed}


def make_result(thread: Thread, by: Member) -> Message:
    """A published result, without the dive it came from."""
    message = say(thread, by, "**Starter costs $29**")
    Message.objects.filter(pk=message.pk).update(kind=Message.Kind.DIVE_RESULT)
    DiveResult.objects.create(
        message=message,
        headline="Starter costs $29: a month, without VAT",
        bullets=["One", "Two", "Three"],
        full="Everything.",
        agent=by.participant,
        published_by=by.participant,
    )
    message.refresh_from_db()
    return message
