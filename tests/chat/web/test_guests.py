"""What a guest is told of whom she does not know: nothing, by whichever door and number she asks."""

from collections.abc import Callable

import pytest
from django.test import Client

from agents.models import Agent
from openvibe.chat.models import Channel, ChannelMembership, Mention, Thread
from openvibe.workspaces.models import Member
from tests import factories

SignedIn = Callable[[Member], Client]


@pytest.fixture
def lobby(ana: Member, ben: Member) -> Channel:
    """A private channel of Ana's, to which Ben was added."""
    lobby = factories.make_channel(ana, "lobby", private=True)
    ChannelMembership.objects.create(channel=lobby, participant=ben.participant)
    return lobby


@pytest.fixture
def own_thread(lobby: Channel, ben: Member) -> Thread:
    return factories.make_thread(lobby, ben, "Ben's own")


@pytest.fixture
def scout(ana: Member) -> Agent:
    """An agent that was added nowhere."""
    return factories.make_agent(ana, "scout")


def test_a_number_of_an_agent_unknown_to_a_guest_puts_nobody_on_the_list(
    ana: Member, ben: Member, own_thread: Thread, scout: Agent, lobby: Channel, home: str, signed_in: SignedIn
) -> None:
    visible_agent = factories.make_agent(ana, "vibe", channel=lobby)
    ids = [scout.participant_id, visible_agent.participant_id]
    ben_browser, page = signed_in(ben), f"{home}t/{own_thread.pk}/"
    ben_browser.post(f"{page}agents/", {"access": "agent_restricted", "allowed": ids, "following": ids})
    assert list(own_thread.allowed_agents.all()) == [visible_agent.participant]
    assert list(own_thread.following_agents.all()) == [visible_agent.participant]
    assert "scout" not in ben_browser.get(page).content.decode()


def test_the_forms_of_channels_are_for_who_may_send_them(
    ana: Member, dora: Member, ben: Member, channel: Channel, lobby: Channel, home: str, signed_in: SignedIn
) -> None:
    settings, new = f"{home}c/{lobby.pk}/edit/", f"{home}channels/new/"
    assert signed_in(ana).get(settings).status_code == signed_in(dora).get(new).status_code == 200
    for who, page in ((ben, settings), (ben, new), (dora, f"{home}c/{channel.pk}/edit/")):
        assert signed_in(who).get(page).status_code == 403
    assert signed_in(dora).get(settings).status_code == 404


def test_a_guest_who_tries_handles_is_not_told_which_there_are(
    dora: Member, ben: Member, own_thread: Thread, scout: Agent, home: str, signed_in: SignedIn
) -> None:
    message = factories.say(own_thread, ben, "Ask @scout, @dora, @nobody or @ana")
    page = signed_in(ben).get(f"{home}t/{own_thread.pk}/").content.decode()
    assert [each.participant.handle for each in Mention.objects.filter(message=message)] == ["ana"]
    assert "was not told" not in page
    assert f'<a class="mention" href="{home}people/ana/" data-card>@ana</a>' in page


def test_a_guest_who_edits_a_message_names_nobody_unknown_either(
    ben: Member, own_thread: Thread, scout: Agent, home: str, signed_in: SignedIn
) -> None:
    message = factories.say(own_thread, ben, "Ask @ana")
    signed_in(ben).post(f"{home}m/{message.pk}/edit/", {"body": "Ask @scout or @ana", "based_on": message.body})
    assert [each.participant.handle for each in Mention.objects.filter(message=message)] == ["ana"]


def test_a_guest_names_who_reads_along_and_whom_she_knows_from_elsewhere(
    ana: Member, dora: Member, ben: Member, channel: Channel, lobby: Channel, own_thread: Thread
) -> None:
    ChannelMembership.objects.create(channel=channel, participant=ben.participant)
    factories.make_agent(ana, "watch", level=3)  # reads every public channel
    factories.make_agent(ana, "vibe", channel=lobby)
    public = factories.say(factories.make_thread(channel, ben), ben, "@dora @watch @vibe")
    private = factories.say(own_thread, ben, "@dora @watch @vibe")
    named = {each.pk: {one.participant.handle for one in each.mentions.all()} for each in (public, private)}
    assert named == {public.pk: {"dora", "watch", "vibe"}, private.pk: {"vibe"}}


def test_a_preview_for_a_guest_knows_no_agent_that_she_does_not(
    ben: Member, own_thread: Thread, scout: Agent, home: str, signed_in: SignedIn
) -> None:
    browser = signed_in(ben)
    texts = [
        browser.get(f"{home}t/{own_thread.pk}/preview/", {"text": f"@{handle} hello"}, headers={"HX-Request": "true"})
        for handle in ("scout", "nobody")
    ]
    assert texts[0].content == texts[1].content
    statuses = [browser.get(f"{home}t/{own_thread.pk}/preview/{name}/").status_code for name in ("scout", "nobody")]
    assert statuses == [404, 404]
