"""The event stream over the API: what a token may know, for as long as it holds."""

import asyncio
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection
from django.test import AsyncClient

from openvibe.api.services import issue_token, revoke_token
from openvibe.chat.live import hub
from openvibe.chat.live.viewers import Viewer, refresh_viewers
from openvibe.workspaces.models import Member
from openvibe.workspaces.services import remove_member, update_member_role
from tests import factories

PATIENCE = 30  # seconds; nothing waits for them when all is well


def test_who_may_listen_is_asked_anew(ana: Member, dora: Member) -> None:
    token, _ = issue_token(participant=ana.participant, name="listener", scopes=["read"])
    viewer = Viewer(dora.workspace_id, dora.participant_id)
    listener = Viewer(ana.workspace_id, ana.participant_id, token_id=token.pk)
    seen = []
    for change in (
        lambda: None,
        lambda: update_member_role(member=dora, role="guest", by=factories.access(ana)),
        lambda: remove_member(member=dora, by=factories.access(ana)),
        lambda: revoke_token(token=token),
    ):
        change()
        refresh_viewers([viewer, listener])
        seen.append((viewer.access and viewer.access.role, listener.access is not None))

    assert seen == [("member", True), ("guest", True), (None, True), (None, False)]


@pytest.mark.django_db(transaction=True)
def test_the_stream_replays_and_ends_with_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "REFRESH_SECONDS", 0.1)
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
