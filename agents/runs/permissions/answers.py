"""Answers to permissions that agents elsewhere ask for: by people, by the end of the run, or for want of an answer.

Rows are locked in one order: thread, approval, permission. Only the run's own program locks its run before them."""

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from agents.agent.call_patterns import COMMAND_KINDS, PATH_KINDS, Call, covers, suggest_pattern
from agents.agent.call_rules import create_call_rule
from agents.agent.models import Permission, Run
from agents.agent.trust import CALL_LABELS, CallKind, call_kind
from agents.runs.thoughts import emit_step
from memory.services import decide_approval, lapse_approval, lock_approval, lock_thread
from openvibe.base.audit import Actor, AuditAction, record_audit
from openvibe.base.problems import Missing, Problem, Refused
from openvibe.chat.services import call_name
from openvibe.workspaces.access import Access

BATCH_SIZE = 500
MAX_WHY_CHARACTERS = 300
OVER_NOTE = "The answer is over, so nobody is asked any more."

State, Scope = Permission.State, Permission.Scope


def read_permission(*, run: Run, key: str) -> Permission:
    """The permission that the run asked for last under this key, denied if its time is over. Raises Missing."""
    permission = run.permissions.filter(key=key).order_by("-attempt").first()
    if permission is None:
        raise Missing("This run asked for no permission of this key.")
    return settled(permission)


def settled(permission: Permission) -> Permission:
    """The permission, denied from the moment its time is over or its run is, whoever looks first."""
    if permission.state == State.WAITING and (note := _lapse_note(permission)):
        _lapse(permission, note)
        permission.refresh_from_db()
    return permission


def lapse_overdue_permissions() -> int:
    """Denies what nobody answered in time, or whose run is over; returns how many were looked at."""
    is_due = Q(expires_at__lte=timezone.now()) | Q(run__state__in=Run.FINISHED_STATES)
    overdue = Permission.objects.filter(is_due, state=State.WAITING).select_related("run__agent", "approval")
    rows = list(overdue.order_by("pk")[:BATCH_SIZE])
    for permission in rows:
        settled(permission)
    return len(rows)


def lapse_run_permissions(run: Run, note: str = OVER_NOTE) -> None:
    """Nobody is asked about the run's calls any more, in the caller's transaction."""
    for permission in run.permissions.filter(state=State.WAITING).select_related("approval").order_by("pk"):
        _lapse(permission, note)


def lapse_quoting_permissions(thread_id: int) -> None:
    """A message of the thread was deleted: what waits may quote it, and people see no more what they would decide."""
    rows = Permission.objects.filter(run__thread=thread_id, state=State.WAITING).select_related("approval")
    for permission in rows.order_by("pk"):
        _lapse(permission, "A message was deleted that this call may quote. Ask for it anew.")


def _lapse_note(permission: Permission) -> str:
    if permission.run.is_over:
        return OVER_NOTE
    if permission.expires_at is not None and permission.expires_at <= timezone.now():
        minutes = max(1, round((permission.expires_at - permission.created_at).total_seconds() / 60))
        return f"Nobody answered within {minutes} min."  # as it was when it was asked, whatever is set by now
    return ""


@transaction.atomic
def _lapse(permission: Permission, note: str) -> None:
    """The decision of a card rings `approval_decided`, which settles the permission; without a card it is done here."""
    if permission.approval is None:
        _settle(permission.pk, State.DENIED, note, by="nobody")
    else:
        lapse_approval(approval=permission.approval, note=note)


def settle_permission(*, approval_id: int, is_granted: bool, by: Access | None, name: str, note: str) -> None:
    """The card was decided by somebody of this name, or lapsed (no `by`): so is the permission that waits for it, in
    the transaction of the decision. Raises Refused where the channel lets agents make no such call any more: the card
    waits on, to be denied.
    """
    waiting = Permission.objects.filter(approval=approval_id, state=State.WAITING)
    permission = waiting.select_related("run__thread__channel").first()
    if permission is None:
        return
    if by is None:
        _settle(permission.pk, State.DENIED, f"{note} So it is denied.", by="nobody")
        return
    if is_granted and (refusal := channel_refusal(permission.run, call_kind(permission.kind))):
        raise Refused(f"{refusal} It can only be denied.", code="tool_not_allowed_here")
    why = f"{name} {'allowed' if is_granted else 'denied'} this."
    _settle(permission.pk, State.ALLOWED if is_granted else State.DENIED, why, by=by, note=note)


def _settle(permission_id: int, state: str, why: str, *, by: Actor | str, note: str = "") -> None:
    rows = Permission.objects.select_for_update(no_key=True, of=("self",)).filter(pk=permission_id, state=State.WAITING)
    permission = rows.select_related("run__agent__participant", "run__thread__channel", "run__trigger").first()
    if permission is None:
        return
    permission.state, permission.decided_at = state, timezone.now()
    permission.why, permission.note = why[:MAX_WHY_CHARACTERS], note
    if state == State.DENIED:
        permission.scope = ""
    elif not permission.scope:
        permission.scope = Scope.ONCE
    permission.save(update_fields=["state", "scope", "why", "note", "decided_at"])
    audit_permission(permission, by)
    emit_step(permission.run)


def audit_permission(permission: Permission, by: Actor | str) -> None:
    """Records who or what decided. No words of the call: the log outlives whatever it might quote, and is read by
    people who may not see the thread."""
    run = permission.run
    scope = f" {permission.scope}" if permission.scope else ""
    record_audit(
        AuditAction.TOOLS,
        workspace_id=run.workspace_id,
        by=by,
        subject=f"a call of @{run.agent.handle}: {CALL_LABELS[call_kind(permission.kind)].lower()}",
        after=f"{permission.state}{scope}",
        note=f"run {run.pk}, permission {permission.pk}"
        + (f", rule {permission.rule_id}" if permission.rule_id else ""),
    )


def channel_refusal(run: Run, kind: CallKind) -> str:
    """The sentence that says why the run's channel refuses a call; empty where it does not."""
    channel = run.thread.channel
    if channel.allows_tool(call_name(kind)):
        return ""
    return f"In {channel} agents make no calls of this kind with tools of their own: “{CALL_LABELS[kind]}”."


def always_pattern(permission: Permission) -> str | None:
    """The pattern of the rule that *Always* would make, empty for kinds without any; None where it is not offered."""
    kind = call_kind(permission.kind)
    return None if kind == "switch_mode" else suggest_pattern(_call_of(permission))


def _call_of(permission: Permission) -> Call:
    return Call(call_kind(permission.kind), permission.command, tuple(permission.paths))


@transaction.atomic
def allow_always(*, approval_id: int, by: Access, pattern: str | None = None, note: str = "") -> Permission:
    """Allows the call that waits and, by a rule for this agent in this channel, those that the pattern is about (None:
    the narrowest one).

    Raises Refused for non-admins, Missing where no call waits for this approval, Problem `bad_pattern` for a pattern
    that is not about the call, and what deciding raises.
    """
    if not by.administers:
        raise Refused("Only owners and admins allow something for always. Allow it once.", code="admins_only")
    permissions = Permission.objects.select_related("run__agent__participant", "run__thread__channel")
    permission = permissions.filter(approval=approval_id).first()
    if permission is None:
        raise Missing("No call of an agent's own tools waits for this.")
    lock_thread(permission.run.thread, by, allow_ended=True)
    approval = lock_approval(approval_id)
    permission.refresh_from_db(fields=["state"])
    kind, suggested = call_kind(permission.kind), always_pattern(permission)
    if suggested is None and not (pattern and pattern.strip()):
        message = (
            "No pattern tells calls like this one from others. Allow it once, or make a rule on the agent's tools page."
        )
        raise Problem(message, code="bad_pattern", field="pattern")
    wanted = (suggested or "") if pattern is None else pattern.strip()
    if kind == "switch_mode":
        raise Problem("A change of mode is asked about each time. Allow it once.", code="bad_kind", field="pattern")
    if not wanted and kind in COMMAND_KINDS | PATH_KINDS:
        raise Problem("Say which commands or paths: the field is empty.", code="bad_pattern", field="pattern")
    if permission.state == State.WAITING:
        run = permission.run
        rule = create_call_rule(
            agent=run.agent, by=by, kind=kind, effect="allow", pattern=wanted, channel_id=run.thread.channel_id
        )
        if not covers(rule.pattern, _call_of(permission)):
            message = "This pattern is not about the call that waits. Write one that is."
            raise Problem(message, code="bad_pattern", field="pattern")
        Permission.objects.filter(pk=permission.pk).update(scope=Scope.ALWAYS, rule=rule)
    decide_approval(approval=approval, by=by, is_granted=True, note=note)
    permission.refresh_from_db()
    return permission
