"""Rules of agents about calls that they ask leave for: made and deleted by admins, chosen where a call comes in."""

from django.db import transaction
from django.db.models import Q, QuerySet

from agents.agent.audience import in_visible_place
from agents.agent.call_patterns import Call, PatternRefused, choose_rule, clean_pattern
from agents.agent.models import Agent, CallRule, Run
from agents.agent.trust import CALL_LABELS, call_kind
from openvibe.base.audit import AuditAction, record_audit
from openvibe.base.events import emit
from openvibe.base.problems import Conflict, Problem, Refused
from openvibe.workspaces.access import Access

MAX_RULES = 200
"""The most rules of one agent."""


def rules_of(agent: Agent, access: Access) -> QuerySet[CallRule]:
    """The agent's rules, but for those of places that the asker does not see."""
    return (
        agent.call_rules.filter(in_visible_place(access))
        .select_related("channel", "thread", "made_by")
        .order_by("kind", "id")
    )


def rule_for(run: Run, call: Call) -> tuple[CallRule, str] | None:
    """The rule that holds for a call in the run's thread, and its effect. One query."""
    is_here = Q(channel=None, thread=None) | Q(channel=run.thread.channel_id) | Q(thread=run.thread_id)
    return choose_rule(run.agent.call_rules.filter(is_here, kind=call.kind).order_by("id"), call)


@transaction.atomic
def create_call_rule(
    *,
    agent: Agent,
    by: Access,
    kind: str,
    effect: str,
    pattern: str = "",
    channel_id: int | None = None,
    thread_id: int | None = None,
) -> CallRule:
    """What becomes of such calls from now on, everywhere or in one place, which `by` sees; the same rule with another
    effect is changed.

    Raises Refused for non-admins, Problem for a kind, effect or pattern that cannot be used, Conflict `too_many_rules`.
    """
    _check_administers(by, agent)
    known_kind = call_kind(kind)
    if known_kind != kind:
        raise Problem(f"A kind is one of {', '.join(CALL_LABELS)}.", code="bad_kind", field="kind")
    if effect not in CallRule.Effect.values:
        raise Problem("A rule says allow, ask or deny.", code="bad_effect", field="effect")
    if channel_id is not None and thread_id is not None:
        raise Problem("A rule holds in a channel or in a thread, not in both.", code="bad_place", field="thread")
    try:
        pattern = clean_pattern(known_kind, pattern)
    except PatternRefused as refusal:
        raise Problem(str(refusal), code="bad_pattern", field="pattern") from None
    Agent.objects.select_for_update(no_key=True, of=("self",)).get(pk=agent.pk)
    facts = {"agent": agent, "kind": kind, "pattern": pattern, "channel_id": channel_id, "thread_id": thread_id}
    existing = CallRule.objects.filter(**facts).first()
    if existing is not None and existing.effect == effect:
        return existing
    if existing is None and agent.call_rules.count() >= MAX_RULES:
        raise Conflict(f"An agent has at most {MAX_RULES} rules. Delete some first.", code="too_many_rules")
    before = _words(existing) if existing else ""
    rule = existing or CallRule(**facts)
    rule.effect, rule.made_by_id = effect, by.participant_id
    rule.save()
    _audit(agent, by, before=before, after=_words(rule))
    return rule


@transaction.atomic
def delete_call_rule(*, rule: CallRule, by: Access) -> None:
    """What it said holds no more from the next call on. Raises Refused for non-admins."""
    agent = Agent.objects.select_related("participant").get(pk=rule.agent_id)
    _check_administers(by, agent)
    _audit(agent, by, before=_words(rule), after="")
    CallRule.objects.filter(pk=rule.pk).delete()


def _check_administers(by: Access, agent: Agent) -> None:
    if not by.administers or by.workspace_id != agent.workspace_id:
        raise Refused("Only owners and admins of the workspace may say what an agent does unasked.")


def _words(rule: CallRule) -> str:
    """The rule, with no name of a place: whoever reads the audit log may not know of it."""
    effect = CallRule.Effect(rule.effect).label.lower()
    what = f"{rule.kind} {rule.pattern}".strip()
    place = " in one channel" if rule.channel_id else " in one thread" if rule.thread_id else ""
    return f"{effect}: {what}{place}"


def _audit(agent: Agent, by: Access, *, before: str, after: str) -> None:
    subject = f"calls of @{agent.handle}"
    record_audit(AuditAction.TOOLS, workspace_id=agent.workspace_id, by=by, subject=subject, before=before, after=after)
    emit("agent_changed", workspace_id=agent.workspace_id)
