"""Calls that wait for people, as cards, messages and runs show them: of tools here, and of agents elsewhere."""

import json
from collections.abc import Collection
from contextlib import suppress

from django.db.models import Exists, OuterRef, QuerySet

from agents.agent.audience import visible_calls
from agents.agent.call_patterns import COMMAND_KINDS, PATH_KINDS, is_outside
from agents.agent.models import Permission, ToolCall
from agents.agent.trust import CALL_LABELS, call_kind
from agents.runs.diffs import MAX_SHOWN_LINES, read_diff, split_lines
from agents.runs.permissions.answers import always_pattern
from memory.wiring import ApprovalCall, PermissionCall
from openvibe.engines.llm.fences import clean_text
from openvibe.engines.text.invisible import reveal_invisible
from openvibe.workspaces.access import Access

TEXT_GONE = "What it would do went with a deleted message, or is no longer kept."


def permission_calls(permissions: QuerySet[Permission]) -> list[PermissionCall]:
    """The calls as people read them, the oldest first. Whoever asks sees their threads. One query."""
    related = ("run__agent__participant", "run__thread__channel")
    return [_permission_call(permission) for permission in permissions.select_related(*related).order_by("pk")]


def _permission_call(permission: Permission) -> PermissionCall:
    run, kind = permission.run, call_kind(permission.kind)
    has_text = permission.title or permission.command or permission.paths or permission.arguments or permission.diff
    return PermissionCall(
        approval_id=permission.approval_id or 0,
        run_id=run.pk,
        agent=run.agent.participant.name,
        kind=kind,
        words=CALL_LABELS[kind],
        title=permission.title,
        command=permission.command,
        paths=tuple(permission.paths),
        outside_paths=frozenset(path for path in permission.paths if is_outside(path)),
        arguments=permission.arguments,
        diff=permission.diff,
        diff_lines=read_diff(permission.diff),
        added=permission.added,
        removed=permission.removed,
        unkept_lines=permission.unkept_lines,
        unshown_lines=max(len(split_lines(permission.diff)) - MAX_SHOWN_LINES, 0),
        expires_at=permission.expires_at,
        channel=run.thread.channel.name,
        always_pattern=always_pattern(permission),
        has_pattern=kind in COMMAND_KINDS | PATH_KINDS,
        hidden="" if has_text else TEXT_GONE,
    )


def tool_calls(approval_ids: Collection[int], access: Access) -> dict[int, ApprovalCall]:
    """The calls of OpenVibe's tools that wait, or waited, for these approvals, by approval id; their arguments for
    whoever may see what they tell of. What an agent asks by itself is no call to make. One query."""
    rows = ToolCall.objects.filter(approval__in=approval_ids, decision=ToolCall.Decision.WAITS)
    rows = rows.exclude(name="request_approval")
    is_visible = Exists(visible_calls(access).filter(pk=OuterRef("pk")))
    columns = rows.annotate(is_visible=is_visible).values_list("approval_id", "name", "arguments", "is_visible")
    return {pk: _tool_call(name, arguments, is_visible) for pk, name, arguments, is_visible in columns}


def _tool_call(name: str, arguments: str, is_visible: bool) -> ApprovalCall:
    if not is_visible:
        return ApprovalCall(name, "", "Its arguments tell of something that you may not see.")
    if not arguments:
        return ApprovalCall(name, "", "Its arguments went with a deleted message. The call cannot be made any more.")
    with suppress(ValueError):
        arguments = json.dumps(json.loads(arguments), indent=2, ensure_ascii=False)
    return ApprovalCall(name, clean_text(reveal_invisible(arguments)))
