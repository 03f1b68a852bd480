"""Services of agents: create, update, deactivate and reactivate; save and restore a SOUL; set a trust level."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Literal

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.text import slugify

from agents.agent.models import MAX_PERMISSION_MINUTES, MAX_RUN_MINUTES, Agent, Effort, SoulVersion, TrustChange
from agents.agent.soul import SOUL_TOKEN_LIMIT, Soul, SoulError, SoulProblem, soul_text, soul_to_dict, soul_tokens
from agents.agent.soul.parser import parse_soul
from agents.agent.soul.plain import PlainSoul, soul_to_yaml
from agents.agent.soul.rules import MAX_RULE_CHARACTERS, SoulRule, add_rule, rules_of
from memory.models import Episode
from memory.services import apply_to_soul, record_trust_check, reopen_applied_since
from openvibe.base.audit import AuditAction, record_audit
from openvibe.base.events import emit
from openvibe.base.problems import Conflict, Problem, Refused
from openvibe.chat.models import Channel
from openvibe.chat.services import add_to_channel, remove_from_channel
from openvibe.engines.llm.models import Endpoint
from openvibe.engines.llm.tokens import count_tokens
from openvibe.engines.registers import Register
from openvibe.engines.text.cleaning import MAX_HANDLE_CHARACTERS, has_visible_character
from openvibe.engines.text.includes import LOOKS_LIKE_INCLUDE
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant, Workspace
from openvibe.workspaces.services import check_handle, check_name

MAX_PURPOSE_CHARACTERS = 300
PROMPT_CHECK: Register[Callable[[Agent], None]] = Register("agents.agent.services.PROMPT_CHECK")
"""Raises Problem, with its numbers, for an agent that could not be given a prompt."""


@transaction.atomic
def create_agent(
    *,
    by: Access,
    workspace: Workspace,
    handle: str,
    name: str,
    soul: str,
    endpoint: Endpoint | None = None,
    channels: Iterable[Channel] = (),
) -> Agent:
    """A new agent at L1 with the first version of its SOUL, in these channels, answering through this endpoint.

    Without one the workspace's default answers.
    """
    _check_administers(by, workspace.pk, "make agents")
    cleaned = check_name(name, "Give the agent a name of 1 to 80 characters.")
    handle = check_handle(handle.strip().lstrip("@").lower())
    try:
        with transaction.atomic():
            participant = Participant.objects.create(
                workspace=workspace, kind=Participant.Kind.AGENT, handle=handle, name=cleaned
            )
    except IntegrityError:
        raise Conflict(f"@{handle} is taken in this workspace. Choose another handle.", field="handle") from None
    _check_endpoint(endpoint, workspace.pk)
    agent = Agent.objects.create(participant=participant, workspace=workspace, endpoint=endpoint)
    record_audit(AuditAction.AGENT, workspace_id=workspace.pk, by=by, subject=f"@{handle}", after="made, at L1")
    _create_soul_version(agent, by, soul, check_soul(soul), "First version", 1)
    for channel in channels:
        add_to_channel(channel=channel, participant=participant, by=by)
    return agent


@transaction.atomic
def create_connected_agent(
    *,
    by: Access,
    workspace: Workspace,
    name: str,
    purpose: str,
    handle: str = "",
    description: str = "",
    level: int = 1,
    channels: Iterable[Channel] = (),
    answers_itself: bool = True,
) -> Agent:
    """A new agent, which a program elsewhere answers for unless told otherwise, at this level, in these channels. Its
    handle is made from its name where none is said.

    Raises Problem and SoulError (nothing is made then), Refused for non-admins.
    """
    name = check_name(name, "Give the agent a name of 1 to 80 characters.")
    handle, purpose = handle or handle_from_name(name), _check_purpose(purpose)
    soul = soul_to_yaml(PlainSoul(name=name, purpose=purpose, description=description).to_soul())
    agent = create_agent(by=by, workspace=workspace, handle=handle, name=name, soul=soul, channels=channels)
    if answers_itself:
        agent.answers_itself = update_answering(agent=agent, by=by, answers_itself=True).answers_itself
    if level != agent.level:
        set_trust_level(agent=agent, by=by, level=level, note="Chosen as it was made")
    return agent


def handle_from_name(name: str) -> str:
    """A handle such as `roses-reed`. Raises Problem for a name without a letter a–z or a digit."""
    if handle := slugify(name).strip("-_")[:MAX_HANDLE_CHARACTERS]:
        return handle
    message = "The name has no letter a–z or digit to make a handle from. Write one here."
    raise Problem(message, code="bad_handle", field="handle")


def _check_purpose(purpose: str) -> str:
    cleaned = " ".join(purpose.split())
    if not has_visible_character(cleaned) or len(cleaned) > MAX_PURPOSE_CHARACTERS:
        message = f"Say in one line of at most {MAX_PURPOSE_CHARACTERS} characters what the agent is for."
        raise Problem(message, code="bad_purpose", field="purpose")
    return cleaned


@transaction.atomic
def update_agent(
    *,
    agent: Agent,
    by: Access,
    endpoint: Endpoint | None,
    daily_token_budget: int,
    answers_itself: bool,
    channels: Iterable[Channel],
    is_active: bool,
    fallback: Endpoint | Literal["unchanged"] | None = "unchanged",
    effort: str | None = None,
    proactive_cooldown: int | None = None,
    run_minutes: int | None = None,
    permission_minutes: int | None = None,
) -> Agent:
    """Changes the agent's settings: model (None: the workspace's default), fallback (None: the workspace's), budget,
    who writes its answers, where it is, whether it is active, how long its model may think, how many minutes lie
    between two messages that it posts unasked, how many one answer may take elsewhere, and how many a call that it asks
    leave for waits (None: as it is).

    Archived channels and those that `by` does not see stay as they are. Raises Problem when the window of either model
    is too small for the agent, or both are the same, and Refused for non-admins.
    """
    _check_administers(by, agent.workspace_id, "change an agent's settings")
    _check_endpoint(endpoint, agent.workspace_id)
    rows = Agent.objects.select_for_update(no_key=True, of=("self",)).select_related("participant", "workspace", "soul")
    current = rows.get(pk=agent.pk)
    if fallback == "unchanged":  # unless it becomes the model itself
        is_same = bool(current.fallback and endpoint and current.fallback.is_same_model(endpoint))
        fallback = None if is_same else current.fallback
    _check_endpoint(fallback, agent.workspace_id, field="fallback")
    has_other_models = (current.endpoint_id, current.fallback_id) != (_pk(endpoint), _pk(fallback))
    if has_other_models:
        check_fallback(current, endpoint, fallback)
    effort = current.effort if effort is None else check_effort(effort)
    _audit_settings(current, by, endpoint, daily_token_budget, answers_itself, effort)
    _audit_fallback(current, by, fallback)
    cooldown = current.proactive_cooldown if proactive_cooldown is None else proactive_cooldown
    _audit_cooldown(current, by, cooldown)
    current.proactive_cooldown = cooldown
    _set_run_minutes(current, by, run_minutes)
    _set_permission_minutes(current, by, permission_minutes)
    current.endpoint, current.fallback = endpoint, fallback
    current.daily_token_budget, current.answers_itself, current.effort = daily_token_budget, answers_itself, effort
    settings = ("endpoint", "fallback", "daily_token_budget", "answers_itself", "effort", "proactive_cooldown")
    current.save(update_fields=[*settings, "run_minutes", "permission_minutes", "updated_at"])
    if has_other_models:
        PROMPT_CHECK.only()(current)
    if is_active and not current.is_active:
        reactivate_agent(agent=current, by=by)
        current.participant.is_active = True
    if current.is_active:
        _set_channels(current.participant, set(channels), by)
    if current.is_active and not is_active:
        deactivate_agent(agent=current, by=by)
    emit("agent_changed", workspace_id=current.workspace_id)
    return current


@transaction.atomic
def update_answering(
    *,
    agent: Agent,
    by: Access,
    answers_itself: bool | None = None,
    daily_token_budget: int | None = None,
    effort: str | None = None,
    run_minutes: int | None = None,
    permission_minutes: int | None = None,
) -> Agent:
    """Changes who writes its answers, how many tokens it may use in a day, how long its model may think, how many
    minutes one answer may take elsewhere and how many a call that it asks leave for waits; None stays as it is. Raises
    Refused for non-admins."""
    _check_administers(by, agent.workspace_id, "change an agent's settings")
    rows = Agent.objects.select_for_update(no_key=True, of=("self",)).select_related("participant", "endpoint")
    current = rows.get(pk=agent.pk)
    itself = current.answers_itself if answers_itself is None else answers_itself
    budget = current.daily_token_budget if daily_token_budget is None else daily_token_budget
    effort = current.effort if effort is None else check_effort(effort)
    if (itself, budget, effort) != (current.answers_itself, current.daily_token_budget, current.effort):
        _audit_settings(current, by, current.endpoint, budget, itself, effort)
        current.answers_itself, current.daily_token_budget, current.effort = itself, budget, effort
        current.save(update_fields=["answers_itself", "daily_token_budget", "effort", "updated_at"])
        emit("agent_changed", workspace_id=current.workspace_id)
    minutes_before = (current.run_minutes, current.permission_minutes)
    _set_run_minutes(current, by, run_minutes)
    _set_permission_minutes(current, by, permission_minutes)
    if minutes_before != (current.run_minutes, current.permission_minutes):
        current.save(update_fields=["run_minutes", "permission_minutes", "updated_at"])
        emit("agent_changed", workspace_id=current.workspace_id)
    return current


def check_fallback(agent: Agent, endpoint: Endpoint | None, fallback: Endpoint | None) -> None:
    """Raises Problem where a fallback asks the same model at the same address as the agent's own, or as the default."""
    if endpoint is None:
        endpoint = Endpoint.objects.filter(workspace=agent.workspace_id, is_default=True).first()
    if endpoint is not None and fallback is not None and endpoint.is_same_model(fallback):
        raise Problem(
            f"{fallback} asks the same model at the same address as {endpoint}: it would fail with it. Choose another.",
            code="same_fallback",
            field="fallback",
        )


def _pk(endpoint: Endpoint | None) -> int | None:
    return endpoint.pk if endpoint is not None else None


def _audit_fallback(agent: Agent, by: Access, fallback: Endpoint | None) -> None:
    """Records the change in the audit log where the fallback is about to be another one."""
    before, after = (f"model {one.name}" if one else "the workspace's fallback" for one in (agent.fallback, fallback))
    if before != after:
        subject = f"fallback of @{agent.handle}"
        record_audit(
            AuditAction.ENDPOINT, workspace_id=agent.workspace_id, by=by, subject=subject, before=before, after=after
        )


def check_effort(effort: str) -> str:
    """The effort, where there is such a one; empty is the model's own. Raises Problem."""
    if effort and effort not in Effort.values:
        raise Problem(f"effort is one of {', '.join(Effort.values)}, or empty.", field="effort")
    return effort


def _audit_cooldown(agent: Agent, by: Access, minutes: int) -> None:
    """Records the change in the audit log where the pause between unasked messages is about to be another one."""
    if minutes != agent.proactive_cooldown:
        record_audit(
            AuditAction.AGENT,
            workspace_id=agent.workspace_id,
            by=by,
            subject=f"minutes between unasked messages of @{agent.handle}",
            before=str(agent.proactive_cooldown),
            after=str(minutes),
        )


def _set_run_minutes(agent: Agent, by: Access, minutes: int | None) -> None:
    """Sets how long one answer may take elsewhere, where it is about to be another time, and records that; the caller
    saves it. Raises Problem for what is no such time."""
    if minutes is None or minutes == agent.run_minutes:
        return
    if not 1 <= minutes <= MAX_RUN_MINUTES:
        raise Problem(f"Choose 1 to {MAX_RUN_MINUTES:,} minutes.", code="bad_minutes", field="run_minutes")
    _audit_minutes(agent, by, f"one answer of @{agent.handle} may take elsewhere", agent.run_minutes, minutes)
    agent.run_minutes = minutes


def _set_permission_minutes(agent: Agent, by: Access, minutes: int | None) -> None:
    """Sets how long a call that it asks leave for waits, as `_set_run_minutes` does."""
    if minutes is None or minutes == agent.permission_minutes:
        return
    if not 1 <= minutes <= MAX_PERMISSION_MINUTES:
        problem = f"Choose 1 to {MAX_PERMISSION_MINUTES:,} minutes."
        raise Problem(problem, code="bad_minutes", field="permission_minutes")
    _audit_minutes(agent, by, f"a call of @{agent.handle} waits for an answer", agent.permission_minutes, minutes)
    agent.permission_minutes = minutes


def _audit_minutes(agent: Agent, by: Access, what: str, before: int, after: int) -> None:
    record_audit(
        AuditAction.AGENT,
        workspace_id=agent.workspace_id,
        by=by,
        subject=f"minutes that {what}",
        before=str(before),
        after=str(after),
    )


def _audit_settings(
    agent: Agent, by: Access, endpoint: Endpoint | None, daily_token_budget: int, answers_itself: bool, effort: str
) -> None:
    """Records which of the settings are about to change."""
    models = [f"model {one.name}" if one else "the workspace's model" for one in (agent.endpoint, endpoint)]
    writers = ["answered elsewhere" if itself else "answered here" for itself in (agent.answers_itself, answers_itself)]
    caps = [f"{cap:,} tokens a day" for cap in (agent.daily_token_budget, daily_token_budget)]
    efforts = [f"thinks {Effort(one).label.lower() if one else 'as its model does'}" for one in (agent.effort, effort)]
    rows = (
        (AuditAction.ENDPOINT, models),
        (AuditAction.AGENT, writers),
        (AuditAction.BUDGET, caps),
        (AuditAction.AGENT, efforts),
    )
    for action, (before, after) in rows:
        if before != after:
            subject = f"@{agent.handle}"
            record_audit(action, workspace_id=agent.workspace_id, by=by, subject=subject, before=before, after=after)


def _set_channels(participant: Participant, channels: set[Channel], by: Access) -> None:
    before = set(Channel.objects.visible_to(by).filter(archived_at=None, memberships__participant=participant))
    for channel in channels - before:
        add_to_channel(channel=channel, participant=participant, by=by)
    for channel in before - channels:
        remove_from_channel(channel=channel, participant=participant, by=by)


@transaction.atomic
def deactivate_agent(*, agent: Agent, by: Access) -> Agent:
    """Deactivates the agent: it answers no more and its episodes are archived; what it said stays."""
    _lock_activity(agent, by)
    if agent.is_active:
        _audit_activity(agent, by, "active", "deactivated")
    agent.deactivated_at = agent.deactivated_at or timezone.now()
    agent.save(update_fields=["deactivated_at", "updated_at"])
    Participant.objects.filter(pk=agent.participant_id).update(is_active=False)
    Episode.objects.filter(agent_id=agent.participant_id, archived_at=None).update(archived_at=agent.deactivated_at)
    emit("agent_changed", workspace_id=agent.workspace_id)
    emit("access_changed", workspace_id=agent.workspace_id, participant_id=agent.participant_id)
    return agent


@transaction.atomic
def reactivate_agent(*, agent: Agent, by: Access) -> Agent:
    """Reactivates the agent: it answers again, with the episodes that were archived when it was deactivated."""
    _lock_activity(agent, by)
    Episode.objects.filter(agent_id=agent.participant_id, archived_at=agent.deactivated_at).update(archived_at=None)
    if not agent.is_active:
        _audit_activity(agent, by, "deactivated", "active")
    agent.deactivated_at = None
    agent.save(update_fields=["deactivated_at", "updated_at"])
    Participant.objects.filter(pk=agent.participant_id).update(is_active=True)
    emit("agent_changed", workspace_id=agent.workspace_id)
    return agent


def _lock_activity(agent: Agent, by: Access) -> None:
    """Locks the agent and takes over since when it is deactivated: somebody else may have done it at the same
    moment."""
    _check_administers(by, agent.workspace_id, "deactivate agents or bring them back")
    rows = Agent.objects.select_for_update(no_key=True).values_list("deactivated_at", flat=True)
    agent.deactivated_at = rows.get(pk=agent.pk)


def _audit_activity(agent: Agent, by: Access, before: str, after: str) -> None:
    subject, workspace_id = f"@{agent.handle}", agent.workspace_id
    record_audit(AuditAction.AGENT, workspace_id=workspace_id, by=by, subject=subject, before=before, after=after)


class StaleSoul(Conflict):
    """Somebody saved a newer version since this one was opened."""

    code = "stale"
    words = "was saved meanwhile"


def check_soul(text: str) -> tuple[Soul, int]:
    """The SOUL and its tokens in the fullest rendering. Raises SoulError naming line and field of every problem."""
    soul = parse_soul(text)
    if LOOKS_LIKE_INCLUDE.search(soul_text(soul, "dive")):
        no_includes = "Only instructions include snippets: “@include” would stand here as it is. Write the words."
        raise SoulError((SoulProblem(0, "", no_includes),))
    tokens = soul_tokens(soul, count_tokens)
    if tokens > SOUL_TOKEN_LIMIT:
        too_long = f"It takes {tokens:,} tokens, and the limit is {SOUL_TOKEN_LIMIT:,}. Shorten it."
        raise SoulError((SoulProblem(0, "", too_long),))
    return soul, tokens


@transaction.atomic
def save_soul(*, agent: Agent, by: Access, text: str, note: str, based_on: int) -> SoulVersion:
    """Saves `text` (YAML or JSON) as the next version. `based_on` is the version number it was edited from, 0 for none.

    A text that is the newest version's makes no other and returns that one. Raises SoulError (line, field), Problem (no
    note, too large for the agent's model), StaleSoul when a newer version exists, Refused for non-admins.
    """
    _check_administers(by, agent.workspace_id, "change a SOUL")
    checked = check_soul(text)
    note = _clean_note(note, "what you changed and why")
    current = Agent.objects.select_for_update(no_key=True, of=("self",)).select_related("soul").get(pk=agent.pk)
    newest = current.soul.number if current.soul else 0
    if newest != based_on:
        raise StaleSoul(
            f"Version {newest} {StaleSoul.words}; you began from version {based_on}. "
            "Your text is kept in the form: compare it with the newest version, then save again."
        )
    if current.soul and text.strip() == current.soul.source.strip():
        return current.soul
    agent.soul = _create_soul_version(current, by, text, checked, note, newest + 1)
    return agent.soul


def _create_soul_version(
    agent: Agent, by: Access, text: str, checked: tuple[Soul, int], note: str, number: int
) -> SoulVersion:
    soul, tokens = checked
    version = SoulVersion.objects.create(
        agent=agent,
        number=number,
        content=soul_to_dict(soul),
        source=text,
        token_count=tokens,
        note=note,
        author_id=by.participant_id,
    )
    agent.soul = version
    agent.save(update_fields=["soul", "updated_at"])
    record_audit(
        AuditAction.SOUL,
        workspace_id=agent.workspace_id,
        by=by,
        subject=f"@{agent.handle}",
        before=f"version {number - 1}" if number > 1 else "",
        after=f"version {number}",
        note=note,
    )
    PROMPT_CHECK.only()(agent)
    emit("agent_changed", workspace_id=agent.workspace_id)
    return version


@transaction.atomic
def restore_soul(*, version: SoulVersion, by: Access, based_on: int) -> SoulVersion:
    """Rolls back: the old text becomes a new version, so nothing in the history changes. Feedback that a later version
    applied is open again, since the SOUL does not say it any more."""
    restored = save_soul(
        agent=version.agent, by=by, text=version.source, note=f"Back to version {version.number}", based_on=based_on
    )
    reopen_applied_since(agent_id=version.agent.participant_id, soul_version=version.number)
    return restored


@transaction.atomic
def apply_feedback_always(
    *, agent: Agent, by: Access, feedback: Collection[int], rule: SoulRule, note: str, based_on: int
) -> SoulVersion:
    """The next version of the SOUL, with a rule made from feedback (ids of episodes), which that version applies.

    Raises what `save_soul` raises; Conflict `unchanged` when the SOUL has the rule already, `settled` when some of the
    feedback is settled; Missing for feedback that is not to this agent or not for `by` to read.
    """
    _check_administers(by, agent.workspace_id, "change a SOUL")
    current = Agent.objects.select_for_update(no_key=True, of=("self",)).select_related("soul").get(pk=agent.pk)
    version = save_soul(agent=agent, by=by, text=soul_with_rule(current, rule), note=note, based_on=based_on)
    apply_to_soul(agent_id=agent.participant_id, episode_ids=feedback, by=by, soul_version=version.number)
    return version


def soul_with_rule(agent: Agent, rule: SoulRule) -> str:
    """The text of its SOUL with the rule in it.

    Raises SoulError, Problem for a rule that is empty or too long, Conflict where there is no SOUL or it has the rule.
    """
    if not has_visible_character(rule.text) or len(rule.text) > MAX_RULE_CHARACTERS:
        raise Problem(f"Write a rule of 1 to {MAX_RULE_CHARACTERS:,} characters.", code="bad_rule", field="rule")
    if agent.soul is None:
        raise Conflict("It has no SOUL yet. Write one first.", code="no_soul")
    if rule.text.casefold() in map(str.casefold, rules_of(parse_soul(agent.soul.source), rule.place)):
        raise Conflict("Its SOUL says this already. Mark the feedback as applied instead.", code="unchanged")
    return add_rule(agent.soul.source, rule)


@transaction.atomic
def set_trust_level(*, agent: Agent, by: Access, level: int, note: str) -> TrustChange | None:
    """Sets the level (1 to 4), with a note, and records it in the audit trail. Holds from the very next prompt on.

    The level it has already changes nothing and returns None.
    """
    _check_administers(by, agent.workspace_id, "set a trust level")
    if level not in Agent.Level.values:
        raise Problem("A trust level is 1, 2, 3 or 4.", code="bad_level", field="level")
    note = _clean_note(note, "why")
    current = Agent.objects.select_for_update(no_key=True).get(pk=agent.pk)
    if current.level == level:
        return None
    before = current.level
    current.level = agent.level = level
    current.save(update_fields=["level", "updated_at"])
    who = Participant.objects.get(pk=by.participant_id)
    change = TrustChange.objects.create(
        agent=current, level_before=before, level_after=level, note=note, by=who, by_name=who.name
    )
    levels = [Agent.Level(number).label for number in (before, level)]
    record_audit(
        AuditAction.TRUST,
        workspace_id=agent.workspace_id,
        by=by,
        subject=f"@{agent.handle}",
        before=levels[0],
        after=levels[1],
        note=note,
    )
    record_trust_check(
        agent_id=agent.participant_id,
        thread=None,
        subject="level",
        summary=f"{who.name} changed the trust level from {' to '.join(levels)}.",
    )
    emit("agent_changed", workspace_id=agent.workspace_id)
    emit("access_changed", workspace_id=agent.workspace_id, participant_id=agent.participant_id)
    return change


def _check_administers(by: Access, workspace_id: int, action: str) -> None:
    if not by.administers or by.workspace_id != workspace_id:
        raise Refused(f"Only owners and admins may {action}.")


def _check_endpoint(endpoint: Endpoint | None, workspace_id: int, *, field: str = "endpoint") -> None:
    if endpoint is not None and endpoint.workspace_id != workspace_id:
        raise Problem("There is no such model in this workspace.", code="unknown_endpoint", field=field)


def _clean_note(note: str, question: str) -> str:
    cleaned = note.replace("\x00", "").strip()
    if not has_visible_character(cleaned) or len(cleaned) > 300:
        raise Problem(f"Say in a few words (at most 300 characters) {question}.", code="no_note", field="note")
    return cleaned


MAX_DAILY_TOKENS = 1_000_000_000
"""A larger daily budget is a slip of the keyboard, and does not fit the column."""


@transaction.atomic
def update_daily_budgets(*, workspace: Workspace, by: Access, tokens: int, agent_tokens: Mapping[int, int]) -> None:
    """How many tokens the whole workspace, and agents by id, may use in one UTC day; 0 lets them ask no model.

    Agents of other workspaces are left alone. Raises Problem for a number out of range, and Refused for non-admins.
    """
    _check_administers(by, workspace.pk, "change budgets")
    if not all(0 <= number <= MAX_DAILY_TOKENS for number in (tokens, *agent_tokens.values())):
        raise Problem(f"A budget is 0 to {MAX_DAILY_TOKENS:,} tokens a day.", code="bad_budget")
    home = Workspace.objects.select_for_update(no_key=True).get(pk=workspace.pk)
    rows = Agent.objects.select_for_update(no_key=True, of=("self",)).filter(workspace=home, pk__in=list(agent_tokens))
    agents = rows.select_related("participant").order_by("pk")
    budgets: list[tuple[Workspace | Agent, str, int]] = [(home, str(home), tokens)]
    budgets += [(agent, f"@{agent.handle}", agent_tokens[agent.pk]) for agent in agents]
    for row, subject, number in budgets:
        if (before := row.daily_token_budget) == number:
            continue
        row.daily_token_budget = number
        row.save(update_fields=["daily_token_budget", "updated_at"])
        words = {"before": f"{before:,} tokens a day", "after": f"{number:,} tokens a day"}
        record_audit(AuditAction.BUDGET, workspace_id=home.pk, by=by, subject=subject, **words)
