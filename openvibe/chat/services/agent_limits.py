"""Limits of a channel for agents: who answers there, what they may use there, and how many tokens a day.

A channel only narrows: none of this gives an agent what its level, its SOUL and admins do not."""

from collections.abc import Iterable, Sequence
from typing import Final

from django.db import transaction

from openvibe.base.audit import AuditAction, record_audit
from openvibe.base.events import emit
from openvibe.base.problems import Problem, Refused
from openvibe.chat.models import Channel
from openvibe.chat.services.permissions import check_manages_channel
from openvibe.chat.wiring import TOOL_CHOICES, ToolChoice
from openvibe.workspaces.access import Access

MAX_DAILY_TOKENS = 1_000_000_000
"""A larger budget is a slip of the keyboard, and does not fit the column."""


class Keep:
    """Stands for a limit that stays as it is, where None means that there is none."""


KEEP: Final = Keep()


@transaction.atomic
def set_agent_limits(
    *,
    channel: Channel,
    by: Access,
    added_agents_only: bool | None = None,
    tools: Sequence[str] | Keep | None = KEEP,
    daily_token_budget: int | Keep | None = KEEP,
) -> Channel:
    """Says what holds for agents in the channel from their next answer, call and round of tools on.

    `added_agents_only` is for whoever may add agents there; `tools` (names of `TOOL_CHOICES`, None: all) and the budget
    (None: no limit of its own) are for owners and admins. Raises Refused, Problem `unknown_tool` and `bad_budget`.
    """
    row = Channel.objects.select_for_update(no_key=True).get(pk=channel.pk)
    before = (row.added_agents_only, row.agent_tools, row.daily_token_budget)
    if added_agents_only is not None:
        check_manages_channel(row, by)
        row.added_agents_only = added_agents_only
    if not isinstance(tools, Keep):
        _check_administers(row, by)
        row.agent_tools = None if tools is None else _known_names(tools, row)
    if not isinstance(daily_token_budget, Keep):
        _check_administers(row, by)
        if daily_token_budget is not None and not 0 <= daily_token_budget <= MAX_DAILY_TOKENS:
            message = f"A budget is 0 to {MAX_DAILY_TOKENS:,} tokens a day."
            raise Problem(message, code="bad_budget", field="daily_token_budget")
        row.daily_token_budget = daily_token_budget
    if before == (row.added_agents_only, row.agent_tools, row.daily_token_budget):
        return channel
    row.save(update_fields=["added_agents_only", "agent_tools", "daily_token_budget", "updated_at"])
    _audit(row, by, before)
    emit("channel_changed", workspace_id=row.workspace_id, channel_id=row.pk)
    for name in ("added_agents_only", "agent_tools", "daily_token_budget", "updated_at"):
        setattr(channel, name, getattr(row, name))
    return channel


def tool_choices(workspace_id: int) -> list[ToolChoice]:
    """All that a channel of the workspace may name."""
    return list(TOOL_CHOICES.only()(workspace_id))


def _check_administers(channel: Channel, by: Access) -> None:
    if not by.administers or by.workspace_id != channel.workspace_id:
        raise Refused("Only owners and admins say what agents may use and spend in a channel. Ask one of them.")


def _known_names(names: Sequence[str], channel: Channel) -> list[str]:
    """Each once, in the order of the choices; what the channel names already may stay."""
    choices = [choice.name for choice in tool_choices(channel.workspace_id)]
    known = dict.fromkeys([*choices, *(channel.agent_tools or ())])
    if unknown := next((name for name in names if name not in known), None):
        message = f"There is nothing that agents use under the name “{unknown[:80]}”. Known: {', '.join(choices[:60])}."
        raise Problem(message, code="unknown_tool", field="agent_tools")
    wanted = set(names)
    return [name for name in known if name in wanted]


def _audit(channel: Channel, by: Access, before: tuple[bool, list[str] | None, int | None]) -> None:
    """A line for each that changed. A private channel's name is for those in it."""
    place = "a private channel" if channel.is_private else f"#{channel.name}"
    added_only, tools, budget = before
    changes = (
        (AuditAction.CHANNEL, f"agents that answer in {place}", _who(added_only), _who(channel.added_agents_only)),
        (AuditAction.TOOLS, f"agents in {place}", _names(tools), _names(channel.agent_tools)),
        (AuditAction.BUDGET, place, _tokens(budget), _tokens(channel.daily_token_budget)),
    )
    for action, subject, old, new in changes:
        if old != new:
            record_audit(action, workspace_id=channel.workspace_id, by=by, subject=subject, before=old, after=new)


def _who(added_agents_only: bool) -> str:
    return "only those that were added" if added_agents_only else "all that read it"


def _names(tools: Iterable[str] | None) -> str:
    return "all tools" if tools is None else ", ".join(tools) or "no tools"


def _tokens(budget: int | None) -> str:
    return "no budget of its own" if budget is None else f"{budget:,} tokens a day"
