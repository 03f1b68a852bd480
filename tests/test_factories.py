"""A factory that is told nothing makes a row that stands in a whole small world."""

from typing import Any

import pytest
from factory.django import DjangoModelFactory

from openvibe.base.models import Event
from tests import factories
from tests.engines.llm.factories import EndpointFactory
from tests.memory.factories import CompactionFactory, MemoryPluginFactory, ProgressEntryFactory, WorkItemFactory

pytestmark = pytest.mark.django_db
WITHOUT_VALUES: list[type[DjangoModelFactory[Any]]] = [
    *(factories.UserFactory, factories.WorkspaceFactory, factories.MemberFactory, factories.ChannelFactory),
    *(factories.ThreadFactory, factories.AgentFactory, factories.SessionFactory, factories.MessageFactory),
    *(factories.EntryFactory, factories.SuggestionFactory),
    *(EndpointFactory, MemoryPluginFactory, CompactionFactory, WorkItemFactory, ProgressEntryFactory),
]


@pytest.mark.parametrize("factory", WITHOUT_VALUES)
def test_it_needs_no_values(factory: type[DjangoModelFactory[Any]]) -> None:
    row = factory.create()
    assert type(row).objects.filter(pk=row.pk).exists()


def test_whoever_makes_a_thread_is_in_its_channel_and_owns_the_workspace() -> None:
    thread = factories.ThreadFactory.create(title="Roses")
    assert [one.name for one in thread.channel.participants.all()] == ["Ana"]
    assert thread.workspace.members.get().role == "owner"
    assert Event.objects.filter(workspace_id=thread.workspace_id, kind="members_changed").exists()


def test_an_agent_has_its_first_soul() -> None:
    agent = factories.AgentFactory.create(handle="fern")
    agent.refresh_from_db()
    assert agent.soul is not None
    assert (agent.participant.name, agent.soul.number, agent.soul.agent) == ("Fern", 1, agent)
    assert "Fern" in agent.soul.source


def test_a_message_goes_through_the_service() -> None:
    agent = factories.AgentFactory.create()
    owner = agent.workspace.members.get()
    channel = factories.make_channel(owner)
    factories.ChannelMembershipFactory.create(channel=channel, participant=agent.participant)
    message = factories.MessageFactory.create(by=owner, thread__channel=channel, body="@vibe when do I prune?")
    assert [mention.participant for mention in message.mentions.all()] == [agent.participant]
    assert message.seq == 1
