"""Runs as messages show them.

A message shows the run that wrote it, and the runs it caused that have not answered yet."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Exists, F, Func, JSONField, OuterRef, Q, QuerySet, Subquery, Window
from django.db.models.functions import Coalesce, JSONObject, Left, RowNumber
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.text import Truncator

from agents.agent.audience import visible_calls
from agents.agent.models import (
    RUNS,
    AgentPlan,
    HeardMessage,
    Permission,
    Run,
    RunStep,
    ToolCall,
    ToolSource,
    TrustChange,
    WatchLook,
)
from agents.runs.external.plans import PlanProgress, plan_progress
from agents.runs.permissions.presenters import permission_calls, tool_calls
from agents.runs.step_words import call_words, reported_words, seconds_words, thought_words
from memory.wiring import ApprovalCall, PermissionCall
from openvibe.chat.models import Message
from openvibe.engines.database.compiled_queries import CompiledQuery, array_literal
from openvibe.engines.text.cleaning import join_words, pluralize
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member

VERSION_STATES = (Message.State.COMPLETE, Message.State.STOPPED, Message.State.REPLACED)
"""States of replies that are versions of an answer: one that is being written is none yet, one that failed never."""

MAX_QUESTION_CHARACTERS = 60
"""Characters of the question that a run shows."""

MAX_STEPS_NOW = 3
"""Steps that the line of a run under way names: the newest."""

MAX_OWN_STEPS = 250
"""Steps of one run that are looked at beside its tool calls."""


@dataclass(frozen=True)
class ThoughtLine:
    """The line that folds what a run's model thought. `seconds`: so far, while it thinks."""

    words: str
    seconds: int
    is_thinking: bool
    tokens: int = 0


@dataclass(frozen=True)
class StepsLine:
    """The line that folds a run's steps. `now`: the newest of them in words, while the run is under way."""

    words: str
    now: str = ""


@dataclass(frozen=True)
class WaitingApproval:
    """`what` it would do, in a sentence, and the `reason` it gave; `call` has the tool and its arguments, where it is
    about a call."""

    pk: int
    what: str
    reason: str
    call: ApprovalCall | None


@dataclass(frozen=True)
class RunCard:
    """One run as its message shows it. `label` is its state as a sentence.

    `tokens_read`: of its prompt, of which `budget` was the ceiling (0 where none was assembled here), as the context
    viewer counts; `tokens_written`: of all answers of the model.

    `question`: the beginning of the message it answers, `trigger_id`. `versions`: the ids of all replies that the agent
    gave to it, in order, this one's among them once it is written.
    """

    pk: int
    name: str
    state: str
    label: str
    model: str
    first_model: str
    """The model that was asked first, where its fallback wrote the answer."""
    tokens_read: int
    budget: int
    tokens_written: int
    error: str
    has_context: bool
    question: str
    trigger_id: int
    reply_id: int | None
    versions: tuple[int, ...]
    may_stop: bool
    may_interrupt: bool
    may_retry: bool
    may_regenerate: bool
    may_ask_again: bool
    thread_id: int
    approval: WaitingApproval | None
    """What it waits for now."""
    is_scheduled: bool
    stoppable_schedule_id: int | None
    """The schedule that had it, while the asker may stop it."""
    because: str = ""
    """The trigger of its SOUL that it spoke up for, where nobody asked it."""
    stoppable_watch_id: int | None = None
    """The watch that had it speak up, while the asker may stop it."""
    thought: ThoughtLine | None = None
    steps: StepsLine | None = None
    heard_people: tuple[str, ...] = ()
    """The names of those whom it heard while it was under way."""
    asked: tuple[PermissionCall, ...] = ()
    """Calls of its own tools that an agent elsewhere waits to be allowed now."""
    changed_files: int = 0
    plan: PlanProgress | None = None
    may_decide: bool = False
    may_rule: bool = False

    @property
    def heard_words(self) -> str:
        return f"Heard {join_words(self.heard_people)} meanwhile" if self.heard_people else ""

    @property
    def fallback_words(self) -> str:
        """What is said where the first model failed; empty where it did not."""
        if not self.first_model:
            return ""
        if self.is_under_way:
            return f"{self.model} answers, because {self.first_model} did not."
        if self.state == Run.State.FAILED:
            return f"{self.model} was asked, too, because {self.first_model} did not answer."
        return f"Answered by {self.model}, because {self.first_model} did not answer."

    @property
    def is_under_way(self) -> bool:
        """Whether the run is not over; one that waits for an approval is not."""
        return self.state not in Run.FINISHED_STATES

    @property
    def version(self) -> int:
        """The number of the version it is, from 1; 0 where it is the only one, or none yet."""
        has_others = len(self.versions) > 1 and self.reply_id in self.versions
        return self.versions.index(self.reply_id) + 1 if has_others and self.reply_id is not None else 0

    @property
    def earlier_version(self) -> int | None:
        """The reply before it, by id."""
        return self.versions[self.version - 2] if self.version > 1 else None

    @property
    def newest_version(self) -> int | None:
        """The reply that stands for all of them, by id."""
        return self.versions[-1] if self.version else None

    @property
    def later_version(self) -> int | None:
        """The reply after it, by id."""
        return self.versions[self.version] if 0 < self.version < len(self.versions) else None


def runs_by_message(messages: Sequence[Message], access: Access) -> dict[int, dict[str, Any]]:
    """`run` for replies, `waiting` for messages whose runs have no reply yet, `ask_again` for those that were edited
    since they were answered, `level` the author's at that time.

    One query, two where agents wrote without a run, one more where runs under way have called tools, and one for each
    way in which they wait to be allowed something.
    """
    runs: list[Run] = _runs_at.objects(array_literal(message.id for message in messages)) if messages else []
    words_now, asked_now, calls = _words_now(runs, access), _asked_now(runs), _waiting_calls(runs, access)
    decorations: dict[int, dict[str, Any]] = defaultdict(dict)
    for run in runs:
        card = _run_card(run, access, words_now.get(run.pk, ()), asked_now.get(run.pk, ()), calls)
        extras = decorations[run.trigger_id]
        if run.reply_id is None:
            extras["waiting"] = (*extras.get("waiting", ()), card)
            continue
        if getattr(run, "is_outdated", False) and card.may_ask_again:
            extras["ask_again"] = (*extras.get("ask_again", ()), card)
        decorations[run.reply_id] |= {"run": card, "level": getattr(run, "level_then", None)}
    page = {message.pk for message in messages}
    decorations = defaultdict(dict, {pk: extras for pk, extras in decorations.items() if pk in page and extras})
    for message_id, level in _levels_then([m for m in messages if m.author.is_agent and m.pk not in decorations]):
        decorations[message_id]["level"] = level
    return decorations


def read_run_card(run_id: int, access: Access) -> RunCard:
    """The card of a run that the asker sees."""
    run = _runs_by_id.objects(run_id)[0]
    return _run_card(run, access, asked=_asked_now([run]).get(run.pk, ()), waiting_calls=_waiting_calls([run], access))


def _waiting_calls(runs: Sequence[Run], access: Access) -> Mapping[int, ApprovalCall]:
    """The calls of tools that the runs wait to make, by approval. One query; none unless one of them waits."""
    ids = [run.approval_id for run in runs if run.approval_id is not None and run.state == Run.State.WAITING]
    return tool_calls(ids, access) if ids else {}


def _asked_now(runs: Sequence[Run]) -> dict[int, list[PermissionCall]]:
    """What the runs wait to be allowed, by run. One query; none unless one of them waits."""
    ids = [pk for run in runs for pk in getattr(run, "asked_ids", ()) if not run.is_over]
    by_run: dict[int, list[PermissionCall]] = defaultdict(list)
    for call in permission_calls(Permission.objects.filter(pk__in=ids)) if ids else ():
        by_run[call.run_id].append(call)
    return by_run


def _words_now(runs: Sequence[Run], access: Access) -> dict[int, list[tuple[str, str]]]:
    """The newest calls of the runs that are under way, by run: when they began (ISO 8601), and what they are called.

    What a call was asked and answered is told to whoever may see all of its sources; of the run's own thread that is
    whoever sees the run. One query; none unless such a run has called something.
    """
    under_way = [run.pk for run in runs if not run.is_over and getattr(run, "call_times", None)]
    if not under_way:
        return {}
    sources = ToolSource.objects.filter(call=OuterRef("pk")).order_by()
    in_thread = Q(kind=ToolSource.Kind.THREAD, ref=OuterRef("run__thread"))
    is_of_thread = Exists(sources) & ~Exists(sources.exclude(in_thread))
    calls = ToolCall.objects.filter(run__in=under_way).annotate(
        asked=Left("arguments", 2_000),
        answered=Left("result", 16_000),
        is_visible=Q(is_of_thread) | Q(Exists(visible_calls(access).filter(pk=OuterRef("pk")))),
        rank=Window(RowNumber(), partition_by="run_id", order_by=F("id").desc()),
    )
    newest = calls.filter(rank__lte=MAX_STEPS_NOW).order_by("id")
    columns = ("run_id", "created_at", "name", "asked", "answered", "decision", "why", "finished_at", "is_visible")
    words: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for run_id, at, name, asked, answered, decision, why, ended_at, is_visible in newest.values_list(*columns):
        texts = (asked, answered) if is_visible else ("", "")
        reason = why if is_visible else ""
        line = call_words(name, *texts, decision=decision, why=reason, is_under_way=ended_at is None)
        words[run_id].append((at.isoformat(), line))
    return words


def _levels_then(messages: Sequence[Message]) -> Iterator[tuple[int, int]]:
    """Ids of agents' messages, and the author's trust level when they were written, where it is another now.

    One query; none without messages.
    """
    if not messages:
        return
    changes = TrustChange.objects.filter(agent__participant__in={message.author_id for message in messages})
    rows = list(changes.order_by("id").values_list("agent__participant_id", "created_at", "level_before"))
    for message in messages:
        later = (level for author, at, level in rows if author == message.author_id and at > message.created_at)
        if level := next(later, None):
            yield message.pk, level


RUN_CARD_FIELDS = (
    *("state", "model", "first_model", "input_tokens", "output_tokens", "error", "stop_requested_at", "heard_at"),
    *("reply", "trigger", "agent__deactivated_at", "agent__participant__name", "approval__what", "approval__reason"),
    *("thread", "task", "schedule__is_active"),
)


@CompiledQuery
def _runs_at(ids: int) -> QuerySet[Run]:
    is_unanswered = Q(trigger__id__any_of=ids, reply=None) & ~Q(state=Run.State.DONE)
    is_edited = Q(trigger__id__any_of=ids, trigger__edited_at__gt=F("queued_at"), reply__isnull=False)
    return _card_rows(Run.objects.filter(Q(reply__id__any_of=ids) | is_unanswered | is_edited))


@CompiledQuery
def _runs_by_id(pk: int) -> QuerySet[Run]:
    return _card_rows(Run.objects.filter(pk=pk))


_PATHS = Func(F("files"), template="jsonb_path_query_array(%(expressions)s, '$[*].path')", output_field=JSONField())
"""Names of the files that a step changed."""

_DECIDING_ROLES = (Member.Role.OWNER, Member.Role.ADMIN, Member.Role.MEMBER)


def _card_rows(runs: QuerySet[Run]) -> QuerySet[Run]:
    """The runs with what a card needs; `versions` are the replies that stand, `is_outdated` says that the question was
    edited since and not asked again, `asker_…` who had it begun, and `level_then` is the agent's level when it
    replied."""
    same = Run.objects.filter(trigger=OuterRef("trigger"), agent=OuterRef("agent"))
    versions = same.filter(reply__deleted_at=None, reply__state__in=VERSION_STATES).order_by("id").values("reply")
    is_edited = Q(trigger__edited_at__gt=F("queued_at"), trigger__deleted_at=None)
    later_changes = TrustChange.objects.filter(agent=OuterRef("agent"), created_at__gt=OuterRef("reply__created_at"))
    runs = runs.select_related("agent__participant", "approval", "schedule").only(*RUN_CARD_FIELDS)
    calls = ToolCall.objects.filter(run=OuterRef("pk")).order_by()
    heard = HeardMessage.objects.filter(run=OuterRef("pk")).order_by("id")
    own_steps = RunStep.objects.filter(run=OuterRef("pk")).order_by("-id")
    facts: dict[str, Any] = {"text": Left("text", 200), **{name: name for name in ("kind", "state", "tool", "tokens")}}
    facts |= {"at": "created_at", "ms": "milliseconds", "paths": _PATHS}
    asked = Permission.objects.filter(run=OuterRef("pk"), state=Permission.State.WAITING).order_by("pk")
    plans = AgentPlan.objects.filter(run=OuterRef("pk")).order_by()
    looks = WatchLook.objects.filter(line=OuterRef("trigger")).order_by()
    watch = JSONObject(because="trigger", watch="watch", is_active="watch__is_active")
    return runs.annotate(
        call_times=ArraySubquery(calls.values("milliseconds")),
        step_rows=ArraySubquery(own_steps.values(row=JSONObject(**facts))[:MAX_OWN_STEPS]),
        heard_names=ArraySubquery(heard.values("message__author__name")),
        asked_ids=ArraySubquery(asked.values("pk")),
        plan_entries=Subquery(plans.values("entries")[:1]),
        look=Subquery(looks.values(row=watch)[:1]),
        prompt_tokens=F("snapshot__tokens"),
        prompt_budget=F("snapshot__budget"),
        question=Left("trigger__body", 2 * MAX_QUESTION_CHARACTERS),
        asker_name=F("requested_by__name"),
        asker_decides=Q(requested_by__member__removed_at=None, requested_by__member__role__in=_DECIDING_ROLES),
        is_direct=Q(thread__channel__first_participant__isnull=False),
        versions=ArraySubquery(versions),
        is_outdated=Q(is_edited) & ~Exists(same.filter(pk__gt=OuterRef("pk"))),
        level_then=Coalesce(Subquery(later_changes.order_by("id").values("level_before")[:1]), F("agent__level")),
    ).order_by("id")


def _thought_line(run: Run, thoughts: Sequence[dict[str, Any]]) -> ThoughtLine | None:
    if not thoughts:
        return None
    thinking = [row for row in thoughts if row["state"] == RunStep.State.RUNNING and run.state in RUNS.active]
    seconds = sum(row["ms"] for row in thoughts if row not in thinking) / 1000
    began = [at for row in thinking if (at := parse_datetime(row["at"])) is not None]
    seconds += sum(max((timezone.now() - at).total_seconds(), 0.0) for at in began)
    tokens = sum(row["tokens"] or 0 for row in thoughts)
    return ThoughtLine(thought_words(seconds, tokens, is_thinking=bool(thinking)), int(seconds), bool(thinking), tokens)


def _steps_line(run: Run, reported: Sequence[dict[str, Any]], calls_now: Sequence[tuple[str, str]]) -> StepsLine | None:
    """`reported` are the steps that an agent elsewhere told of, newest first; `calls_now` as of `_words_now`."""
    times = [*getattr(run, "call_times", ()), *(row["ms"] for row in reported)]
    if not times:
        return None
    words = f"{pluralize(len(times), 'step')}, {seconds_words(sum(times) / 1000)}"
    if run.is_over:
        return StepsLine(words)
    newest = [
        (row["at"], reported_words(row["kind"], row["state"], row["text"], row["tool"]))
        for row in reported[:MAX_STEPS_NOW]
    ]
    lines = [line for _, line in sorted((*calls_now, *newest))][-MAX_STEPS_NOW:]
    return StepsLine(words, " · ".join(lines))


def _run_card(
    run: Run,
    access: Access,
    calls_now: Sequence[tuple[str, str]] = (),
    asked: Sequence[PermissionCall] = (),
    waiting_calls: Mapping[int, ApprovalCall] = MappingProxyType({}),
) -> RunCard:
    """The run for this asker. Expects `agent__participant` and `approval` loaded, and what `_card_rows` adds."""
    is_person = not access.is_agent
    rows: Sequence[dict[str, Any]] = getattr(run, "step_rows", ())
    versions = tuple(getattr(run, "versions", ()))
    look: dict[str, Any] = getattr(run, "look", None) or {}
    has_later = run.reply_id in versions and run.reply_id != versions[-1]
    is_at_work = run.state in RUNS.active
    is_retriable = run.state in (Run.State.FAILED, Run.State.STOPPED)
    return RunCard(
        pk=run.pk,
        name=run.agent.participant.name,
        state=run.state,
        label=_run_state_label(run, asked),
        model=run.model,
        first_model=run.first_model,
        tokens_read=getattr(run, "prompt_tokens", None) or run.input_tokens,
        budget=getattr(run, "prompt_budget", None) or 0,
        tokens_written=run.output_tokens,
        error=run.error,
        has_context=getattr(run, "prompt_budget", None) is not None,
        trigger_id=run.trigger_id,
        reply_id=run.reply_id,
        versions=versions,
        question=Truncator(" ".join(getattr(run, "question", "").split())).chars(MAX_QUESTION_CHARACTERS),
        may_stop=is_person and not run.is_over and run.stop_requested_at is None,
        may_interrupt=is_person and is_at_work and run.stop_requested_at is None and run.task != Run.Task.PUBLISH,
        may_retry=is_person and is_retriable and run.agent.is_active and not has_later,
        may_regenerate=is_person and run.state == Run.State.DONE and run.agent.is_active,
        may_ask_again=is_person and run.is_over and run.agent.is_active,
        thread_id=run.thread_id,
        approval=_waiting_approval(run, waiting_calls),
        is_scheduled=run.task == Run.Task.SCHEDULED,
        stoppable_schedule_id=(
            run.schedule_id if is_person and not access.is_guest and run.schedule and run.schedule.is_active else None
        ),
        because=" ".join(look.get("because", "").split()),
        stoppable_watch_id=look["watch"] if is_person and not access.is_guest and look.get("is_active") else None,
        thought=_thought_line(run, [row for row in rows if row["kind"] == RunStep.Kind.THOUGHT]),
        steps=_steps_line(run, [row for row in rows if row["kind"] != RunStep.Kind.THOUGHT], calls_now),
        heard_people=tuple(dict.fromkeys(getattr(run, "heard_names", ()))),
        asked=tuple(asked),
        changed_files=len({path for row in rows for path in row["paths"]}),
        plan=plan_progress(getattr(run, "plan_entries", None) or ()),
        may_decide=is_person and not access.is_guest,
        may_rule=access.administers,
    )


def _waiting_approval(run: Run, calls: Mapping[int, ApprovalCall]) -> WaitingApproval | None:
    if run.approval is None or run.state != Run.State.WAITING:
        return None
    return WaitingApproval(run.approval.pk, run.approval.what, run.approval.reason, calls.get(run.approval.pk))


def _deciders(run: Run) -> str:
    """The people whom a run waits for that asked about something: who had it begun first of all, if they may decide."""
    if not getattr(run, "asker_decides", False):
        return "a member"
    asker = str(getattr(run, "asker_name", ""))
    return asker if getattr(run, "is_direct", False) else f"{asker} or another member"


def _run_state_label(run: Run, asked: Sequence[PermissionCall] = ()) -> str:
    """The state as a short sentence with the agent's name. `asked`: what it waits to be allowed, while it goes on."""
    name, what = run.agent.participant.name, f": {run.approval.what}" if run.approval else ""
    if not run.is_over and run.stop_requested_at is not None:
        return f"{name} is stopping…"
    if asked and not run.is_over:
        return f"{name} is waiting for {_deciders(run)} to decide: {asked[0].words.lower()}"
    if run.state == Run.State.QUEUED and run.is_external:
        return f"{name} runs elsewhere: the question waits for its program"
    return {
        "queued": f"{name} will answer as soon as it can…",
        "reading": f"{name} is reading…",
        "writing": f"{name} is writing…",
        "waiting_approval": f"{name} is waiting for {_deciders(run)} to decide{what}",
        "done": f"{name} replied",
        "stopped": f"{name} was stopped; what it wrote so far is kept"
        if run.reply_id
        else f"{name} was stopped before it answered",
        "failed": f"{name} could not answer",
    }[run.state]
