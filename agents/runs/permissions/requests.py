"""Permissions that agents elsewhere ask for before they act with tools of their own: decided by the trust table and the
agent's rules, or put before people.

What an agent says of a call, its kind above all, is its own word: OpenVibe decides about that, on a machine it does not
own."""

from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256

from django.db import transaction
from django.utils import timezone

from agents.agent.access import visible_to
from agents.agent.call_patterns import Call, relative_path
from agents.agent.call_rules import rule_for
from agents.agent.models import Agent, CallRule, Permission, Run
from agents.agent.trust import CALL_CLASSES, CALL_LABELS, call_gate, call_kind, call_refusal, trust_level
from agents.runs.diffs import cut_diff
from agents.runs.permissions.answers import MAX_WHY_CHARACTERS, audit_permission, channel_refusal, settled
from agents.runs.store import lock_external_run
from agents.runs.thoughts import bounded_thought, emit_step
from memory.services import lock_thread, record_trust_check, request_approval
from openvibe.base.problems import Conflict, Problem
from openvibe.engines.text.invisible import reveal_invisible
from openvibe.engines.text.masking import mask_secrets

MAX_PERMISSIONS = 1_000
"""The most permissions that one run asks for."""

MAX_COMMAND_CHARACTERS = 20_000
MAX_ARGUMENTS_CHARACTERS = 20_000
MAX_KEPT_DIFF_CHARACTERS = 200_000
"""Characters of a diff that are kept: of a longer one the beginning, and how many lines are not."""

MAX_PATHS, MAX_PATH_CHARACTERS = 50, 1_000
SAME_CALL_DENIED = "People denied this very call in this answer. Go on without it."

State, Scope = Permission.State, Permission.Scope


@dataclass(frozen=True)
class PermissionRequest:
    """A call as the agent tells of it. `kind`: any word; one that nobody knows is `other`. `folder`: the agent's own,
    absolute; paths within it are read relative to it."""

    key: str
    kind: str
    title: str
    command: str = ""
    paths: tuple[str, ...] = ()
    arguments: str = ""
    diff: str = ""
    folder: str = ""

    @property
    def call(self) -> Call:
        paths = tuple(relative_path(path, self.folder) for path in self.paths)
        return Call(call_kind(self.kind), self.command, paths)

    @property
    def digest(self) -> str:
        parts = (self.call.kind, self.command, *self.call.paths, self.arguments, self.diff)
        return sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class _Decision:
    """`state` waiting: people are asked. `is_by_place`: the channel lets no agent make such calls."""

    state: str
    why: str
    scope: str = ""
    rule: CallRule | None = None
    is_by_level: bool = False
    is_by_place: bool = False


def request_permission(*, run: Run, request: PermissionRequest) -> tuple[Permission, bool]:
    """The permission as it stands, and whether it is new: under one key a run's attempt asks once.

    Raises Conflict `run_over`, and `too_many_permissions` after MAX_PERMISSIONS.
    """
    if existing := _find(run, request.key):
        return settled(existing), False
    with transaction.atomic():
        decision = _decide(run, request)
        if decision.state == State.WAITING:
            decision = _lock_askable(run, decision)
        current = lock_external_run(run)
        if existing := _find(run, request.key):  # another process of the agent's asked meanwhile
            return existing, False
        if current.permissions.count() >= MAX_PERMISSIONS:
            raise Conflict(
                f"A run asks for at most {MAX_PERMISSIONS:,} permissions. This was not taken: do not make the call.",
                code="too_many_permissions",
            )
        return _create(current, request, decision), True


def _lock_askable(run: Run, decision: _Decision) -> _Decision:
    """The decision to ask, with the thread locked ahead of the run, as whoever ends a dive has it; a denial where
    nobody can be asked in the thread."""
    try:
        lock_thread(run.thread, visible_to(run.agent))
    except Problem as problem:
        return _unaskable(problem)
    return decision


def _unaskable(problem: Problem) -> _Decision:
    return _Decision(State.DENIED, f"People could not be asked. {problem.message}")


def _find(run: Run, key: str) -> Permission | None:
    rows = Permission.objects.filter(run=run.pk, attempt=run.attempt, key=key)
    return rows.select_related("run__agent", "approval").first()


def _decide(run: Run, request: PermissionRequest) -> _Decision:
    """What the channel, the level and the rules say of the call. Two queries at most, and one of the channel where it
    was not loaded."""
    agent, call = run.agent, request.call
    if refusal := channel_refusal(run, call.kind):
        return _Decision(State.DENIED, refusal, is_by_place=True)
    found = rule_for(run, call)
    rule, effect = found if found else (None, None)
    gate = call_gate(agent.level, call.kind, effect)  # type: ignore[arg-type]  # an effect of a rule is one
    label = trust_level(agent.level).label
    if gate == "refused" and effect == "deny":
        return _Decision(State.DENIED, f"A rule of the agent denies this: {rule}.", rule=rule)
    if gate == "refused":
        return _Decision(State.DENIED, call_refusal(agent.level, call.kind), is_by_level=True)
    if gate == "allowed" and effect == "allow":
        return _Decision(State.ALLOWED, f"A rule of the agent allows this: {rule}.", Scope.ALWAYS, rule)
    if gate == "allowed":
        return _Decision(State.ALLOWED, f"{label} agents do this without asking.", Scope.ONCE)
    denied = run.permissions.filter(attempt=run.attempt, digest=request.digest, approval__state="denied")
    if denied.exists():
        return _Decision(State.DENIED, SAME_CALL_DENIED)
    return _Decision(State.WAITING, "People are asked.", rule=rule)


def _create(run: Run, request: PermissionRequest, decision: _Decision) -> Permission:
    """The row, with the card where people are asked; one that cannot be put before them is denied, saying why."""
    now, agent, kind = timezone.now(), run.agent, request.call.kind
    permission = Permission(
        run=run, attempt=run.attempt, key=request.key, digest=request.digest, **_readable(request), decided_at=now
    )
    if decision.state == State.WAITING:
        try:
            with transaction.atomic():
                permission.approval = request_approval(
                    thread=run.thread, by=visible_to(agent), what=CALL_LABELS[kind], reuse_pending=False
                )
            permission.decided_at, permission.expires_at = None, now + timedelta(minutes=agent.permission_minutes)
        except Problem as problem:
            decision = _unaskable(problem)
    permission.state, permission.scope, permission.rule = decision.state, decision.scope, decision.rule
    permission.why = decision.why[:MAX_WHY_CHARACTERS]
    permission.save(force_insert=True)
    run.heard_at = now
    run.save(update_fields=["heard_at"])
    is_plain_look = CALL_CLASSES[kind] == "looks" and decision.state == State.ALLOWED and decision.rule is None
    if decision.state != State.WAITING and not is_plain_look:
        audit_permission(permission, _decided_by(agent, decision))
    if decision.is_by_level:
        _remember_refusal(agent, run, decision.why)
    emit_step(run)
    return permission


def _decided_by(agent: Agent, decision: _Decision) -> str:
    if decision.is_by_place:
        return "the settings of the channel"
    return f"a rule of @{agent.handle}" if decision.rule else f"the trust level of @{agent.handle}"


def _readable(request: PermissionRequest) -> dict[str, object]:
    """The call as rows and cards hold it: secrets masked, invisible characters as escapes, bounded."""
    call, diff = request.call, cut_diff(request.diff.replace("\r\n", "\n"), MAX_KEPT_DIFF_CHARACTERS)
    return {
        "kind": call.kind,
        "title": _shown(" ".join(request.title.split()))[:300],
        "command": _shown(request.command),
        "paths": [_shown(path) for path in call.paths],
        "arguments": bounded_thought(_shown(request.arguments), MAX_ARGUMENTS_CHARACTERS),
        "diff": _shown(diff.text),
        "added": diff.added,
        "removed": diff.removed,
        "unkept_lines": diff.unkept_lines,
    }


def _shown(text: str) -> str:
    return mask_secrets(reveal_invisible(text))


def _remember_refusal(agent: Agent, run: Run, why: str) -> None:
    record_trust_check(
        agent_id=agent.participant_id,
        thread=run.thread,
        subject=f"run:{run.pk}",
        summary=f"Refused in “{run.thread.title}”: {why}",
    )
