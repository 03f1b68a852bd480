"""Plans that agents elsewhere tell of their runs: one of an agent in a thread, shown with the thread's work."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db import transaction
from django.utils import timezone

from agents.agent.models import AgentPlan, Run
from agents.runs.store import lock_external_run
from agents.runs.thoughts import emit_step
from memory.services import emit_work_changed
from memory.wiring import AgentPlanView
from openvibe.engines.llm.transcripts import one_line
from openvibe.engines.text.invisible import reveal_invisible
from openvibe.engines.text.masking import mask_secrets

MAX_ENTRIES, MAX_ENTRY_CHARACTERS = 100, 500


@dataclass(frozen=True)
class PlanProgress:
    """How far a plan is. `now`: what is under way, in its words."""

    done: int
    total: int
    now: str = ""


@transaction.atomic
def replace_plan(*, run: Run, entries: Sequence[Mapping[str, str]]) -> AgentPlan | None:
    """The agent's plan in the run's thread, in place of the one before; none once it has no entries. Raises Conflict
    `run_over`."""
    current = lock_external_run(run)
    cleaned = [{**entry, "content": _clean(entry["content"])} for entry in entries]
    rows = AgentPlan.objects.select_for_update(of=("self",)).filter(agent=current.agent_id, thread=current.thread_id)
    plan = rows.first()
    current.heard_at = timezone.now()
    current.save(update_fields=["heard_at"])
    if not cleaned:
        if plan is not None:
            plan.delete()
    elif plan is None:
        plan = AgentPlan.objects.create(agent=current.agent, thread=current.thread, run=current, entries=cleaned)
    elif (plan.entries, plan.run_id) == (cleaned, current.pk):
        return plan
    else:
        plan.entries, plan.run = cleaned, current
        plan.save(update_fields=["entries", "run", "updated_at"])
    emit_work_changed(current.thread)
    emit_step(current)
    return plan if cleaned else None


def _clean(text: str) -> str:
    return mask_secrets(reveal_invisible(one_line(text)))[:MAX_ENTRY_CHARACTERS] or "…"


def agent_plans(thread_id: int) -> list[AgentPlanView]:
    """The plans of agents elsewhere in the thread. One query."""
    plans = AgentPlan.objects.filter(thread=thread_id).exclude(entries=[]).select_related("agent__participant")
    return [
        AgentPlanView(plan.agent.participant.name, plan.entries, _count_done(plan.entries), plan.updated_at)
        for plan in plans
    ]


def _count_done(entries: Sequence[Mapping[str, str]]) -> int:
    return sum(entry.get("status") == AgentPlan.Status.COMPLETED for entry in entries)


def plan_progress(entries: Sequence[Mapping[str, str]]) -> PlanProgress | None:
    """None where there is no plan."""
    if not entries:
        return None
    now = next((entry["content"] for entry in entries if entry.get("status") == AgentPlan.Status.IN_PROGRESS), "")
    return PlanProgress(_count_done(entries), len(entries), now)
