"""Services that let an agent watch a channel, change that, stop it, and forget what people said of what it posted."""

from collections.abc import Iterable, Sequence
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from agents.agent.access import online_endpoint, visible_to
from agents.agent.models import MAX_REST_MINUTES, Agent, Watch, WatchedThread
from agents.agent.permissions import unasked_denied_reasons
from agents.agent.trust import may_respond
from agents.prompts.assembler.watch import proactive_triggers
from openvibe.base.events import emit
from openvibe.base.problems import Missing, Problem, Refused
from openvibe.chat.models import Channel, Thread
from openvibe.workspaces.access import Access

DEFAULT_REST_MINUTES = 5
MAX_WATCHES = 50
"""Channels that one agent watches."""


@transaction.atomic
def create_watch(
    *, agent: Agent, by: Access, channel: Channel, rest_minutes: int = DEFAULT_REST_MINUTES, is_active: bool = True
) -> Watch:
    """Lets the agent watch a channel. Raises Refused (not an admin; the agent may not speak there, has no triggers or
    no model), Problem (it watches the channel already; the minutes)."""
    _check_administers(by, agent)
    locked = Agent.objects.select_for_update(of=("self",), no_key=True).get(pk=agent.pk)  # two at once count each other
    if Watch.objects.filter(agent=locked).count() >= MAX_WATCHES:
        raise Problem(f"@{agent.handle} watches {MAX_WATCHES} channels, the most there may be.", code="too_many")
    watch = Watch(agent=agent, channel=channel, rest_minutes=_clean_minutes(rest_minutes), is_active=is_active)
    watch.author_id = by.participant_id
    if is_active:
        _check_may_watch(watch)
    try:
        with transaction.atomic():
            watch.save(force_insert=True)
    except IntegrityError:
        words = f"@{agent.handle} watches #{channel.name} already. Change that in place of adding it again."
        raise Problem(words, code="watched", field="channel") from None
    emit("agent_changed", workspace_id=agent.workspace_id)
    return watch


@transaction.atomic
def update_watch(
    *,
    watch: Watch,
    by: Access,
    rest_minutes: int | None = None,
    is_active: bool | None = None,
    resets_threshold: bool = False,
) -> Watch:
    """Changes what is given. `resets_threshold`: what people said until now of what it posted there counts no more.
    What is switched on again begins with what is said from then on. Raises as `create_watch`."""
    current = _lock(watch)
    _check_administers(by, current.agent)
    if rest_minutes is not None:
        current.rest_minutes = _clean_minutes(rest_minutes)
    if resets_threshold:
        current.judged_from = timezone.now()
    if is_active is not None and is_active != current.is_active:
        current.is_active, current.note, current.author_id = is_active, "", by.participant_id
        WatchedThread.objects.filter(watch=current).delete()
        if is_active:
            _check_may_watch(current)
    current.save()
    emit("agent_changed", workspace_id=current.agent.workspace_id)
    return current


@transaction.atomic
def stop_watches(*, watches: Iterable[Watch], by: Access) -> list[Watch]:
    """Switches them off: any member who sees them may, guests excepted; admins switch them on again. Returns those that
    were on until now."""
    if by.is_agent or by.is_guest:
        raise Refused("Only members of the workspace stop what an agent posts unasked.", code="people_only")
    stopped = []
    for watch in sorted(watches, key=lambda watch: watch.pk):
        current = _lock(watch)
        if current.is_active:
            who = current.agent.workspace.participants.get(pk=by.participant_id)
            current.is_active, current.note = False, f"{who.name} stopped it."
            current.save(update_fields=["is_active", "note", "updated_at"])
            WatchedThread.objects.filter(watch=current).delete()
            emit("agent_changed", workspace_id=current.agent.workspace_id)
            stopped.append(current)
    return stopped


def free_channels(agent: Agent, access: Access) -> list[Channel]:
    """The channels that an admin may add, by name: those that both see, and that it does not watch yet."""
    if not access.administers:
        return []
    own = Channel.objects.visible_to(visible_to(agent)).values("pk")
    channels = Channel.objects.visible_to(access).filter(pk__in=own, archived_at=None, first_participant=None)
    watched = Watch.objects.filter(agent=agent).values("channel")
    return list(channels.exclude(pk__in=watched).order_by("name"))


def watch_denied_reasons(agent: Agent, places: Sequence[Channel | Thread]) -> list[str | None]:
    """The reasons why the agent does not watch these channels, or look at these threads, as things are now; None where
    it does. As many queries for many as for one."""
    threads = [
        Thread(workspace_id=agent.workspace_id, channel=place) if isinstance(place, Channel) else place
        for place in places
    ]
    if everywhere := agent_denied_reason(agent):
        return [everywhere for _ in threads]
    denials = unasked_denied_reasons(agent, threads, "proactive")
    return [_closed_reason(agent, thread) or denial for thread, denial in zip(threads, denials, strict=True)]


def agent_denied_reason(agent: Agent) -> str | None:
    """What keeps the agent from watching anything, as a sentence; None where nothing does."""
    name = f"@{agent.participant.handle}"
    if agent.answers_itself:
        return (
            f"{name} does not run here: its program hears through the API what is said in its channels, and decides by"
            " itself when to speak."
        )
    if not may_respond(agent.level, "proactive"):
        return f"{name} watches nothing: at L{agent.level} it does not speak up by itself; agents do from L3 on."
    if not proactive_triggers(agent):
        return (
            f"{name} has nothing to watch for: its SOUL names no proactive triggers. Say there when it is to speak up"
            " without being asked (behavior, proactive_triggers)."
        )
    if online_endpoint(agent) is None:
        return f"{name} answers with the offline model, which cannot judge when to speak up. Give it a model first."
    return None


def _closed_reason(agent: Agent, thread: Thread) -> str | None:
    name, channel = f"@{agent.participant.handle}", thread.channel
    if channel.is_direct:
        return f"{name} does not watch direct messages: what is said there is said to it."
    if channel.archived_at is not None:
        return f"{name} does not watch there: the channel is archived."
    if thread.parent_id is not None:
        return f"{name} does not watch dives."
    return f"{name} does not watch there: the thread is archived." if thread.archived_at is not None else None


def _check_may_watch(watch: Watch) -> None:
    agents = Agent.objects.select_related("participant", "workspace", "soul", "endpoint")
    (reason,) = watch_denied_reasons(agents.get(pk=watch.agent_id), [watch.channel])
    if reason:
        raise Refused(reason, code="agent_silent")


def _check_administers(by: Access, agent: Agent) -> None:
    if not by.administers or by.workspace_id != agent.workspace_id:
        raise Refused("Only owners and admins may set what an agent watches.")


def _clean_minutes(minutes: Any) -> int:
    if isinstance(minutes, bool) or not isinstance(minutes, int) or not 1 <= minutes <= MAX_REST_MINUTES:
        words = f"It looks 1 to {MAX_REST_MINUTES} minutes after people have said something."
        raise Problem(words, code="bad_minutes", field="rest_minutes")
    return minutes


def _lock(watch: Watch) -> Watch:
    """Raises Missing once it was deleted."""
    rows = Watch.objects.select_for_update(of=("self",), no_key=True)
    current = rows.select_related("agent__participant", "agent__workspace", "channel").filter(pk=watch.pk).first()
    if current is None:
        raise Missing
    return current
