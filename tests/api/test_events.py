"""The event stream over the API: what a token may know, for as long as it holds."""

import json
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from openvibe.api.models import Token
from openvibe.api.services import issue_token, note_tokens_used, revoke_token
from openvibe.base.models import Event
from openvibe.chat.live import hub, subscriber
from openvibe.chat.live.viewers import Viewer, refresh_viewers
from openvibe.workspaces.models import Member
from openvibe.workspaces.services import remove_member, update_member_role
from tests import factories
from tests.chat.web.event_stream_reader import Reader
from tests.operations.processes import wait_until


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

    with Reader(Client(), "/api/v1/events/", query="after=0", token=secret) as reader:
        frames = [reader.next()]
        while frames[-1].data.find(f'"message": {message.pk}') < 0:
            frames.append(reader.next())
        revoke_token(token=token)
        while frames[-1].event != "gone":
            frames.append(reader.next())
        assert reader.ended()

    assert {frame.event for frame in frames[:-1]} == {""}
    assert "Nobody streams" not in "".join(frame.data for frame in frames)


@pytest.mark.django_db(transaction=True)
def test_filters_the_message_itself_and_who_is_meant() -> None:
    ana = factories.make_member("Ana")
    thread, other = (factories.make_thread(ana_channel, ana) for ana_channel in [factories.make_channel(ana)] * 2)
    _, secret = issue_token(participant=ana.participant, name="listener", scopes=["read"])

    def heard(query: str, until: int) -> list[tuple[str, str, int | None]]:
        frames: list[tuple[str, str, int | None]] = []
        with Reader(Client(), "/api/v1/events/", query=f"after=0&{query}", token=secret) as reader:
            while not frames or frames[-1][2] != until:
                frame = reader.next()
                data = json.loads(frame.data)
                frames.append((frame.event, (data.get("data") or {}).get("body", ""), data["message"]))
        return [each for each in frames if each[2] is not None]

    first = factories.say(thread, ana, "Hello")
    elsewhere = factories.say(other, ana, "Elsewhere")
    named = factories.say(thread, ana, "@ana and herself")

    assert heard(f"thread={thread.pk}&include=data", named.pk) == [
        ("message_posted", "Hello", first.pk),
        ("mention", "@ana and herself", named.pk),
    ]
    assert heard("kind=mention", named.pk) == [("mention", "", named.pk)]
    assert heard("kind=message_posted", named.pk) == [
        ("message_posted", "", pk) for pk in (first.pk, elsewhere.pk, named.pk)
    ]
    answer = Client().get("/api/v1/events/?include=all", headers={"Authorization": f"Bearer {secret}"})
    assert answer.status_code == 400


@pytest.mark.django_db(transaction=True)
def test_a_listener_learns_how_far_it_was_told_though_all_that_was_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriber, "HEARTBEAT_SECONDS", 0.05)
    ana = factories.make_member("Ana")
    thread = factories.make_thread(factories.make_channel(ana), ana)
    _, secret = issue_token(participant=ana.participant, name="listener", scopes=["read"])

    with Reader(Client(), "/api/v1/events/", query="kind=mention", token=secret) as reader:
        positions = [reader.opened_at()]
        factories.say(thread, ana, "This names nobody")
        newest = str(Event.objects.latest("position").position)
        while positions[-1] != newest:
            positions.append(reader.opened_at())

    assert positions[0] != newest


def test_programs_that_listen_are_noted_once_a_minute(ana: Member) -> None:
    tokens = [
        issue_token(participant=ana.participant, name=name, scopes=["read"])[0] for name in ("new", "recent", "old")
    ]
    now = timezone.now()
    for token, seconds in zip(tokens, (None, 30, 90), strict=True):
        at = now - timedelta(seconds=seconds) if seconds else None
        Token.objects.filter(pk=token.pk).update(last_used_at=at)

    def noted() -> list[bool]:
        return [bool(at and at >= now) for at in Token.objects.order_by("pk").values_list("last_used_at", flat=True)]

    ids = [token.pk for token in tokens]
    note_tokens_used(ids)
    assert noted() == [True, False, True]
    note_tokens_used(ids, at_once=ids[1:2])
    assert noted() == [True, True, True]


@pytest.mark.django_db(transaction=True)
def test_a_program_that_is_told_of_a_mention_was_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program is noted at once, whenever it was noted before; what else it is told changes nothing."""
    monkeypatch.setattr(hub, "REFRESH_SECONDS", 0.1)
    ana = factories.make_member("Ana")
    channel = factories.make_channel(ana)
    reed = factories.make_agent(ana, "reed", channel=channel)
    thread = factories.make_thread(channel, ana)
    _, secret = issue_token(participant=reed.participant, name="listener", scopes=["read"])

    with Reader(Client(), "/api/v1/events/", query="kind=mention&kind=message_posted", token=secret) as reader:
        factories.say(thread, ana, "Nobody is named")
        assert reader.next().event == "message_posted"
        Token.objects.update(last_used_at=timezone.now() - timedelta(seconds=30))
        said_at = factories.say(thread, ana, "@reed are you there?").created_at
        assert reader.next().event == "mention"
        wait_until(lambda: Token.objects.filter(last_used_at__gte=said_at).exists(), "it was heard")
