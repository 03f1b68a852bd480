"""The event stream over the API: what a token may know, for as long as it holds."""

import asyncio
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection
from django.test import AsyncClient

from openvibe.api.auth import authenticate_token
from openvibe.api.services import issue_token, revoke_token
from openvibe.chat import event_stream
from openvibe.chat.api.views import caller_current_access
from openvibe.workspaces.models import Member
from openvibe.workspaces.services import remove_member, update_member_role
from tests import factories

PATIENCE = 30  # seconds; nothing waits for them when all is well


def test_access_is_asked_anew(ana: Member, dora: Member) -> None:
    _, secret = issue_token(participant=dora.participant, name="listener", scopes=["read"])
    caller = authenticate_token(secret)
    assert caller is not None
    access_now = caller_current_access(caller)

    before = access_now()
    update_member_role(member=dora, role="guest", by=factories.access(ana))
    lowered = access_now()
    remove_member(member=dora, by=factories.access(ana))

    assert before is not None
    assert before.reads_public_channels
    assert lowered is not None
    assert not lowered.reads_public_channels
    assert access_now() is None


def test_a_revoked_token_listens_no_more(ana: Member) -> None:
    token, secret = issue_token(participant=ana.participant, name="listener", scopes=["read"])
    caller = authenticate_token(secret)
    assert caller is not None
    revoke_token(token=token)

    assert caller_current_access(caller)() is None


@pytest.mark.django_db(transaction=True)
def test_the_stream_replays_and_ends_with_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "POLL_SECONDS", 0.1)
    ana = factories.make_member("Ana")
    thread = factories.make_thread(factories.make_channel(ana), ana)
    message = factories.say(thread, ana, "Nobody streams this text")
    token, secret = issue_token(participant=ana.participant, name="listener", scopes=["read"])

    async def listen() -> str:
        answer: Any = await AsyncClient().get("/api/v1/events/?after=0", headers={"Authorization": f"Bearer {secret}"})
        assert answer["Content-Type"] == "text/event-stream"
        assert await sync_to_async(lambda: connection.connection is None)(), "a waiting stream holds a connection"
        heard = ""
        async for part in answer.streaming_content:
            heard += part.decode()
            if f'"message": {message.pk}' in heard:
                await sync_to_async(revoke_token)(token=token)
        await sync_to_async(lambda: connection.close())()
        return heard

    heard = asyncio.run(asyncio.wait_for(listen(), PATIENCE))

    assert "message_posted" in heard
    assert heard.endswith("event: gone\ndata: {}\n\n")
    assert "Nobody streams" not in heard
