"""Runs of agents: one answer each, with its tool calls, its prompt, and the knowledge it used."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import ClassVar

import pgtrigger
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from agents.agent.models.agent import Agent, SoulVersion
from agents.agent.models.schedule import Schedule
from knowledge.models import Entry
from openvibe.chat.models import Message, Thread, visible_threads
from openvibe.engines.database.locks import LockKind
from openvibe.engines.jobs.jobs import Job, JobKind
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant, Workspace


class RunQuerySet(models.QuerySet["Run"]):
    def visible_to(self, access: Access) -> RunQuerySet:
        """Runs in threads the asker sees."""
        return self.filter(visible_threads(access, "thread__"))


class Run(Job):
    """`queued → reading → writing → done | stopped | failed`, with `waiting_approval` while a person has to decide.

    Written with the message that caused it. At most one per agent and thread is active; the others wait in order.
    """

    class Task(models.TextChoices):
        MENTION = "mention", "Mention"
        THREAD = "thread", "Thread"
        DIVE = "dive", "Dive"
        PUBLISH = "publish", "Publish"
        SCHEDULED = "scheduled", "Scheduled"
        PROACTIVE = "proactive", "Unasked"

    class State(models.TextChoices):
        QUEUED = "queued", "waiting"
        READING = "reading", "reading"
        WRITING = "writing", "writing"
        WAITING = "waiting_approval", "waiting for an approval"
        DONE = "done", "done"
        STOPPED = "stopped", "stopped"
        FAILED = "failed", "failed"

    FINISHED_STATES: ClassVar[tuple[str, ...]] = ("done", "stopped", "failed")

    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT, related_name="runs", db_index=False)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="runs", db_index=False)
    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="runs")
    trigger = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="runs_caused")
    requested_by = models.ForeignKey(Participant, on_delete=models.PROTECT, related_name="+")
    task = models.CharField(max_length=9, choices=Task.choices)
    schedule = models.ForeignKey(Schedule, null=True, on_delete=models.SET_NULL, related_name="runs")
    due_at = models.DateTimeField(null=True, help_text="Of a scheduled run: the time it was due.")
    state = models.CharField(max_length=16, choices=State.choices, default=State.QUEUED)
    approval = models.ForeignKey(
        "memory.Approval", null=True, on_delete=models.SET_NULL, related_name="runs", help_text="What it waits for."
    )
    reply = models.OneToOneField(Message, null=True, on_delete=models.SET_NULL, related_name="run")
    heard_at = models.DateTimeField(
        null=True,
        help_text="When the agent that answers it through the API was last heard, or asked while it is queued."
        " Empty: a worker here carries it out.",
    )
    regenerates = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="regenerations")
    stop_requested_at = models.DateTimeField(null=True)
    interrupt_requested_at = models.DateTimeField(
        null=True, help_text="Somebody wants it to go on with what was said since; empty again once it has heard that."
    )
    heard_seq = models.PositiveBigIntegerField(
        null=True, help_text="Number of the newest message of the thread that it was shown, or could have been."
    )
    error_code = models.CharField(max_length=40, blank=True)
    error = models.TextField(blank=True, help_text="What went wrong and what to do, in words for people.")
    steps = models.JSONField(default=list, db_default=[], help_text="What was done to it, and when: agents.runs.steps.")
    first_word_at = models.DateTimeField(null=True, help_text="Of its last attempt.")
    model = models.CharField(max_length=120, blank=True)
    price_in = models.DecimalField(
        max_digits=10, decimal_places=4, null=True, help_text="Per million prompt tokens as it began. Empty: unknown."
    )
    price_out = models.DecimalField(max_digits=10, decimal_places=4, null=True, help_text="Per million answer tokens.")
    first_model = models.CharField(
        max_length=120,
        blank=True,
        default="",
        db_default="",
        help_text="Asked first, where its fallback wrote the answer.",
    )
    first_error = models.CharField(max_length=500, blank=True, default="", db_default="", help_text="Why it did not.")
    cost_correction = models.DecimalField(
        max_digits=16,
        decimal_places=6,
        default=0,
        db_default=0,
        help_text="Added to the cost by the prices above: what other models read and wrote before was paid at theirs.",
    )
    is_free = models.BooleanField(default=False, help_text="Its tokens cost nothing and use no budget.")
    input_tokens = models.PositiveIntegerField(default=0)
    output_tokens = models.PositiveIntegerField(default=0)
    cached_tokens = models.PositiveIntegerField(
        null=True, help_text="Of the input, read from the provider's cache. Empty where the provider did not say."
    )

    objects: ClassVar[models.Manager[Run]] = RunQuerySet.as_manager()

    class Meta:
        ordering = [F("id").desc()]
        constraints = [
            models.UniqueConstraint(
                fields=["trigger", "agent"], condition=Q(regenerates=None), name="run_once_per_trigger"
            ),
            models.UniqueConstraint(
                fields=["agent", "thread"], condition=Q(state__in=["reading", "writing"]), name="run_one_at_a_time"
            ),
            models.CheckConstraint(
                condition=Q(
                    state__in=["queued", "reading", "writing", "waiting_approval", "done", "stopped", "failed"]
                ),
                name="run_state_known",
            ),
            models.CheckConstraint(
                condition=Q(task__in=["mention", "thread", "dive", "publish", "scheduled", "proactive"]),
                name="run_task_known",
            ),
            models.UniqueConstraint(
                fields=["schedule", "due_at"], condition=Q(regenerates=None), name="run_once_per_due_time"
            ),
            models.CheckConstraint(condition=~Q(state="failed") | ~Q(error=""), name="run_failure_has_reason"),
            models.CheckConstraint(
                condition=Q(heard_at=None) | ~Q(state="waiting_approval"), name="run_external_asks_nobody"
            ),
        ]
        indexes = [
            models.Index(
                fields=["agent", "thread", "id"],
                condition=Q(state__in=["queued", "reading", "writing"]),
                name="run_waiting",
            ),
            models.Index(fields=["agent", "thread", "-id"], name="run_in_thread"),
            models.Index(fields=["agent", "-id"], condition=Q(task__in=["scheduled", "proactive"]), name="run_unasked"),
            models.Index(fields=["agent", "-queued_at"], name="run_recent"),
            models.Index(fields=["workspace", "-queued_at"], name="run_spend"),
        ]
        triggers = [
            pgtrigger.Trigger(
                name="tell_state",
                operation=pgtrigger.Insert | pgtrigger.Update,
                when=pgtrigger.After,
                func=(
                    "IF TG_OP = 'INSERT' OR OLD.state IS DISTINCT FROM NEW.state"
                    " OR OLD.stop_requested_at IS DISTINCT FROM NEW.stop_requested_at THEN"
                    " INSERT INTO base_event (kind, workspace_id, channel_id, thread_id, message_id, created_at)"
                    " SELECT 'run_changed', workspace_id, channel_id, id, NEW.trigger_id, now()"
                    " FROM chat_thread WHERE id = NEW.thread_id;"
                    " END IF; RETURN NULL;"
                ),
            )
        ]

    def __str__(self) -> str:
        return f"Run {self.pk} ({self.state})"

    @property
    def is_over(self) -> bool:
        return self.state in self.FINISHED_STATES

    @property
    def first_word_seconds(self) -> float | None:
        """Seconds until its first word since it was last queued; None where it has said nothing."""
        return (self.first_word_at - self.queued_at).total_seconds() if self.first_word_at else None

    @property
    def total_seconds(self) -> float | None:
        """Seconds until its end since it was last queued; None while it is not over."""
        return (self.finished_at - self.queued_at).total_seconds() if self.finished_at else None

    @property
    def cost(self) -> Decimal | None:
        """The price, by the prices of its endpoint, in whatever they are given in; None where they are unknown."""
        if self.price_in is None or self.price_out is None:
            return None
        tokens = self.input_tokens * self.price_in + self.output_tokens * self.price_out
        return tokens / 1_000_000 + self.cost_correction

    @property
    def is_external(self) -> bool:
        """Whether the agent writes the reply itself, through the API."""
        return self.heard_at is not None


RUNS = JobKind(Run, LockKind.RUN, active=(Run.State.READING, Run.State.WRITING), condition=Q(heard_at=None))
EXTERNAL_RUNS = JobKind(
    Run, LockKind.RUN, active=(Run.State.READING, Run.State.WRITING), condition=Q(heard_at__isnull=False)
)
"""Runs that an agent carries out elsewhere, through the API: no worker claims or recovers them."""


ERASED_FIELDS = "{}"
"""`ToolCall.provider_fields` where there was something that is not kept any more."""


class ToolCallQuerySet(models.QuerySet["ToolCall"]):
    def erase_provider_fields(self) -> int:
        """Erases what may tell, unreadably, of what was read; returns how many rows. The calls are told as text from
        then on."""
        return self.exclude(provider_fields__in=("", ERASED_FIELDS)).update(provider_fields=ERASED_FIELDS)


class ToolCall(models.Model):
    """A tool call of a run: what was asked, what was decided, what came of it.

    `result` is kept for PROMPT_RETENTION_DAYS.
    """

    class Decision(models.TextChoices):
        ALLOWED = "allowed", "Allowed"
        REFUSED = "refused", "Refused"
        WAITS = "waits", "Waits for an approval"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="tool_calls", db_index=False)
    attempt = models.PositiveSmallIntegerField()
    round = models.PositiveSmallIntegerField(help_text="Counts from 1; at most 8.")
    call_id = models.CharField(max_length=100)
    name = models.CharField(max_length=100)
    arguments = models.TextField(help_text="JSON as the model wrote it; it may be invalid.")
    effect = models.CharField(max_length=10, blank=True, help_text="agents.agent.trust.Effect; empty: no such tool.")
    decision = models.CharField(max_length=8, choices=Decision.choices)
    why = models.CharField(max_length=300, blank=True, help_text="Why it was refused, in words for people.")
    provider_fields = models.TextField(
        blank=True,
        default="",
        db_default="",
        help_text="What the model's provider wants back with the call, and with its message, as JSON.",
    )
    approval = models.ForeignKey(
        "memory.Approval",
        null=True,
        on_delete=models.SET_NULL,
        related_name="tool_calls",
        help_text="Which decides about this very call: the row that waits for it, and the one of what came of it.",
    )
    result = models.TextField(blank=True)
    result_tokens = models.PositiveIntegerField(default=0)
    milliseconds = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    finished_at = models.DateTimeField(
        null=True, db_default=Now(), help_text="Empty while a remote tool is called, and for ever if its worker died."
    )

    objects: ClassVar[models.Manager[ToolCall]] = ToolCallQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["run", "attempt", "round", "call_id"], name="tool_call_once"),
            models.UniqueConstraint(
                fields=["run", "approval"], condition=~Q(decision="waits"), name="tool_call_approved_once"
            ),
            models.CheckConstraint(condition=Q(round__gte=1, round__lte=8), name="tool_call_round_bounded"),
            models.CheckConstraint(condition=Q(decision__in=["allowed", "refused", "waits"]), name="tool_call_decided"),
        ]
        indexes = [models.Index(fields=["created_at"], condition=~Q(result=""), name="tool_call_with_result")]

    def __str__(self) -> str:
        return f"{self.name} ({self.decision})"


class RunStepQuerySet(models.QuerySet["RunStep"]):
    def with_text(self) -> RunStepQuerySet:
        return self.exclude(text="", arguments="", result="", files=[])

    def forget(self) -> int:
        """Empty their texts; how many. That there were some, and their figures, stays."""
        return self.with_text().update(text="", arguments="", result="", files=[])


class RunStep(models.Model):
    """What a run's model thought in one turn, or what an agent elsewhere says that it does: a step of a run that is no
    tool call of ours. It is for whoever sees the reply, stands in no prompt, and is no part of what was said.

    The texts leave with a deleted message of the thread, and after PROMPT_RETENTION_DAYS; the figures stay.
    """

    class Kind(models.TextChoices):
        THOUGHT = "thought", "A thought"
        TOOL = "tool", "A tool"
        NOTE = "note", "A note"

    class State(models.TextChoices):
        RUNNING = "running", "Under way"
        DONE = "done", "Done"
        FAILED = "failed", "Failed"
        REFUSED = "refused", "Refused"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="own_steps", db_index=False)
    key = models.CharField(max_length=100, help_text="Names the step within its run: who says it again changes it.")
    attempt = models.PositiveSmallIntegerField()
    kind = models.CharField(max_length=7, choices=Kind.choices)
    state = models.CharField(max_length=7, choices=State.choices, default=State.RUNNING)
    text = models.TextField(blank=True)
    tool = models.CharField(max_length=100, blank=True)
    arguments = models.TextField(blank=True)
    result = models.TextField(blank=True)
    tool_kind = models.CharField(
        max_length=12, blank=True, default="", db_default="", help_text="agents.agent.trust.CallKind"
    )
    files = models.JSONField(
        default=list, db_default=[], help_text="What it changed: path, diff, added, removed, is_cut of each."
    )
    tokens = models.PositiveIntegerField(null=True, help_text="Of a thought. Empty while it goes on.")
    milliseconds = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    objects: ClassVar[models.Manager[RunStep]] = RunStepQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["run", "key"], name="run_step_once"),
            models.CheckConstraint(condition=Q(kind__in=["thought", "tool", "note"]), name="run_step_kind_known"),
            models.CheckConstraint(
                condition=Q(state__in=["running", "done", "failed", "refused"]), name="run_step_state_known"
            ),
        ]
        indexes = [
            models.Index(
                fields=["created_at"],
                condition=~Q(text="", arguments="", result="", files=[]),
                name="run_step_with_text",
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} ({self.state})"


class HeardMessage(models.Model):
    """A message that people posted while a run was under way, and that the run was shown before it was done. Where the
    message asks the run's own agent, the run answers it too, and no other does."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="heard_messages", db_index=False)
    message = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="+")
    reply_length = models.PositiveIntegerField(help_text="Characters that the reply had by then.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["run", "message"], name="message_heard_once_per_run")]

    def __str__(self) -> str:
        return f"Message {self.message_id} in run {self.run_id}"


class ToolSource(models.Model):
    """Something that a tool call read or wrote. Who may not see all of its sources is not shown the call's arguments
    and result (`agents.agent.audience`); a call without any is shown to nobody.

    `ref` is the id of what it was: a thread, an entry of knowledge, a context block; for notes, of the person they are
    about. No foreign key: where the row is gone, nobody sees it any more. `version` is the one that was read.
    """

    class Kind(models.TextChoices):
        THREAD = "thread", "A thread"
        NOTES = "notes", "Notes about a person"
        ENTRY = "entry", "An entry of knowledge"
        BLOCK = "block", "A context block"

    call = models.ForeignKey(ToolCall, on_delete=models.CASCADE, related_name="sources", db_index=False)
    kind = models.CharField(max_length=6, choices=Kind.choices)
    ref = models.PositiveBigIntegerField()
    version = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["call", "kind", "ref"], name="tool_source_once"),
            models.CheckConstraint(
                condition=Q(kind__in=["thread", "notes", "entry", "block"]), name="tool_source_known"
            ),
        ]
        indexes = [models.Index(fields=["kind", "ref"], name="tool_source_of")]

    def __str__(self) -> str:
        return f"{self.kind}:{self.ref}"


class SnapshotQuerySet(models.QuerySet["Snapshot"]):
    def written_since(self, moment: datetime) -> SnapshotQuerySet:
        """Those that may hold what was said after that."""
        return self.filter(Q(created_at__gte=moment) | Q(told_at__gte=moment))


class Snapshot(models.Model):
    """What one run saw: every item in the prompt and every item left out, with reasons.

    `content` is compressed JSON (`agents.prompts.snapshots.store`), removed after
    PROMPT_RETENTION_DAYS; the counts stay.
    """

    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="snapshot")
    task = models.CharField(max_length=9)
    model = models.CharField(max_length=120)
    assembler_version = models.PositiveSmallIntegerField()
    soul = models.ForeignKey(SoulVersion, null=True, on_delete=models.PROTECT, related_name="+")
    budget = models.PositiveIntegerField(help_text="Ceiling, tokens.")
    tokens = models.PositiveIntegerField(help_text="Tokens of the whole prompt, by `counter`.")
    counter = models.CharField(max_length=40)
    layers = models.JSONField(default=dict, help_text="Tokens per layer.")
    sections = models.JSONField(default=dict, db_default={}, help_text="Tokens per section.")
    prefix_shared = models.PositiveIntegerField(
        null=True, help_text="Tokens in common with the start of the prompt before it. Empty where there was none."
    )
    included_count = models.PositiveIntegerField(default=0)
    dropped_count = models.PositiveIntegerField(default=0)
    tool_names = models.JSONField(default=list, help_text="The tools the run was offered.")
    content = models.BinaryField(null=True)
    recall = models.JSONField(default=list, help_text="Where recalled messages stood, by number: RecallBlock.")
    history_start = models.PositiveBigIntegerField(
        null=True, help_text="Number of the first of the messages that ran up to the request."
    )
    continues = models.ForeignKey(
        Run,
        null=True,
        on_delete=models.CASCADE,
        related_name="+",
        help_text="The run whose session it goes on with: it holds what is new since then alone. Empty: it is whole.",
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    told_at = models.DateTimeField(
        null=True, help_text="When it was made anew, or something was added that the run was told in its course."
    )

    objects: ClassVar[models.Manager[Snapshot]] = SnapshotQuerySet.as_manager()

    def __str__(self) -> str:
        return f"{self.tokens} / {self.budget} tokens"


class KnowledgeUse(models.Model):
    """An entry stood in a run's prompt, or a tool of the run returned it. Counted once a run, however often."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="knowledge_uses", db_index=False)
    entry = models.ForeignKey(Entry, on_delete=models.CASCADE, related_name="uses", db_index=False)
    how = models.CharField(max_length=8, default="prompt", help_text="prompt or tool")
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["-id"]
        constraints = [models.UniqueConstraint(fields=["run", "entry"], name="knowledge_used_once_per_run")]
        indexes = [models.Index(fields=["entry", "-id"], name="knowledge_used_recently")]

    def __str__(self) -> str:
        return f"Entry {self.entry_id} in run {self.run_id}"
