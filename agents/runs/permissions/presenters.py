"""Calls that agents elsewhere ask leave for, as cards, messages and runs show them."""

from django.db.models import QuerySet

from agents.agent.call_patterns import COMMAND_KINDS, PATH_KINDS, is_outside
from agents.agent.models import Permission
from agents.agent.trust import CALL_LABELS, call_kind
from agents.runs.diffs import MAX_SHOWN_LINES, read_diff, split_lines
from agents.runs.permissions.answers import always_pattern
from memory.wiring import PermissionCall

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
