"""Agents that watch, as these tests tell of them: what they watch for, what time it is, and what their model says."""

import json
from datetime import datetime, timedelta

from agents.agent.services import save_soul
from agents.models import Agent, Run, Watch, WatchedThread, WatchLook
from agents.watching.looks import due_threads, look
from agents.watching.services import create_watch
from openvibe.chat.models import Channel
from openvibe.workspaces.models import Member
from tests.engines.llm.factories import EndpointFactory
from tests.engines.llm.scripted_client import ScriptedModel, ScriptedReply
from tests.factories import access, make_agent

FROST = "Somebody plans to plant out before the last frost"
PRICE = "A price is named that the price list does not have"
SOUL = f"""\
identity:
  name: Sage
  role: Head gardener
behavior:
  proactive_triggers:
    - {FROST}
    - {PRICE}
"""
SILENT = '{"speak": false}'


def speaks(trigger: str = FROST, sure: int | None = 80, why: str = "Frost is forecast for Friday.") -> str:
    return json.dumps({"speak": True, "trigger": trigger, "sure": sure, "why": why})


def make_watcher(by: Member, channel: Channel, handle: str = "sage", *, level: int = 3) -> Agent:
    """An agent in the channel with a model of its own, at a price, and with triggers."""
    agent = make_agent(by, handle, level=level, channel=channel)
    agent.endpoint = EndpointFactory.create(workspace=by.workspace, name=f"Model of {handle}", price_in=1, price_out=1)
    agent.save()
    save_soul(agent=agent, by=access(by), text=SOUL, note="What it watches for", based_on=1)
    return agent


def watching(by: Member, agent: Agent, channel: Channel) -> Watch:
    return create_watch(agent=agent, by=access(by), channel=channel)


def rested(minutes: float = 6) -> datetime:
    """The time at which the newest of what people said is so old."""
    return WatchedThread.objects.latest("talked_at").talked_at + timedelta(minutes=minutes)


def look_at_all(*replies: ScriptedReply, now: datetime | None = None) -> tuple[ScriptedModel, list[Run]]:
    """Every look that is due then, by a model that answers this; and the runs that speak up."""
    now = now or rested()
    model = ScriptedModel(replies or (SILENT,))
    run_ids = [look(pk, now, client=model) for pk in due_threads(now)]
    return model, list(Run.objects.filter(pk__in=[pk for pk in run_ids if pk]))


def outcomes() -> list[str]:
    return list(WatchLook.objects.order_by("pk").values_list("outcome", flat=True))
