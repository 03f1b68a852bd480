"""Models of agents: who answers, their versioned SOULs and trust, their runs, tool calls and snapshots."""

from __future__ import annotations

from decimal import Decimal
from typing import ClassVar

import pgtrigger
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from knowledge.models import Entry
from openvibe.base.fields import EncryptedTextField, secret_hint
from openvibe.base.jobs import Job, JobKind
from openvibe.base.locks import LockKind
from openvibe.base.models import Timestamped
from openvibe.base.ssrf_guard import AddressRefused, check_url
from openvibe.chat.models import Channel, Message, Thread, visible_threads
from openvibe.llm.models import Endpoint
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant, Workspace


class Agent(Timestamped):
    """One-to-one with its participant. Deactivated, never deleted: what it said keeps its author."""

    class Level(models.IntegerChoices):
        OBSERVER = 1, "L1 Observer"
        ADVISOR = 2, "L2 Advisor"
        OPERATOR = 3, "L3 Operator"
        AUTONOMOUS = 4, "L4 Autonomous"

    participant = models.OneToOneField(Participant, on_delete=models.PROTECT, related_name="agent")
    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT, related_name="agents")
    level = models.PositiveSmallIntegerField(
        choices=Level.choices, default=Level.OBSERVER, validators=[MinValueValidator(1), MaxValueValidator(4)]
    )
    soul = models.ForeignKey(
        "agents.SoulVersion", null=True, on_delete=models.PROTECT, related_name="+", editable=False
    )
    endpoint = models.ForeignKey(
        Endpoint,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="agents",
        help_text="Empty: the workspace's default, or the offline model when there is none.",
    )
    daily_token_budget = models.PositiveIntegerField(default=500_000, help_text="Tokens it may use in one UTC day.")
    answers_itself = models.BooleanField(
        default=False,
        help_text="It listens and answers through the API with a model of its own; no runs are started for it here.",
    )
    proactive_cooldown = models.PositiveSmallIntegerField(
        default=10,
        validators=[MaxValueValidator(1_440)],
        help_text="Minutes between two messages that it posts unasked.",
    )
    deactivated_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(level__gte=1, level__lte=4), name="agent_level_known")]

    def __str__(self) -> str:
        return self.participant.name

    @property
    def is_active(self) -> bool:
        return self.deactivated_at is None

    @property
    def handle(self) -> str:
        return self.participant.handle


class SoulVersion(models.Model):
    """One saved SOUL. The database refuses to change or delete it."""

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="soul_versions")
    number = models.PositiveIntegerField()
    content = models.JSONField(help_text="The SOUL as agents.soul.soul_to_dict gives it.")
    source = models.TextField(help_text="The YAML as it was written.")
    token_count = models.PositiveIntegerField(help_text="Tokens of the fullest rendering (o200k_base).")
    note = models.CharField(max_length=300)
    author = models.ForeignKey(Participant, null=True, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["-number"]
        constraints = [
            models.UniqueConstraint(fields=["agent", "number"], name="soul_version_once"),
            models.CheckConstraint(condition=Q(number__gte=1), name="soul_version_from_one"),
            models.CheckConstraint(condition=Q(token_count__lte=2000), name="soul_version_fits"),
            models.CheckConstraint(condition=~Q(note=""), name="soul_version_has_note"),
        ]
        triggers = [pgtrigger.Protect(name="soul_version_is_final", operation=pgtrigger.Update | pgtrigger.Delete)]

    def __str__(self) -> str:
        return f"Version {self.number}"


class TrustChange(models.Model):
    """The audit trail of trust levels: who set what, and why. Never changed."""

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="trust_changes")
    level_before = models.PositiveSmallIntegerField(choices=Agent.Level.choices)
    level_after = models.PositiveSmallIntegerField(choices=Agent.Level.choices)
    note = models.CharField(max_length=300)
    by = models.ForeignKey(Participant, null=True, on_delete=models.PROTECT, related_name="+")
    by_name = models.CharField(max_length=80)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [models.CheckConstraint(condition=~Q(note=""), name="trust_change_has_note")]
        triggers = [pgtrigger.Protect(name="trust_change_is_final", operation=pgtrigger.Update | pgtrigger.Delete)]

    def __str__(self) -> str:
        return f"L{self.level_before} → L{self.level_after}"


class ScheduleQuerySet(models.QuerySet["Schedule"]):
    def visible_to(self, access: Access) -> ScheduleQuerySet:
        """Schedules that post where the asker reads."""
        in_threads = Q(thread__in=Thread.objects.visible_to(access))
        in_channels = Q(thread=None, channel__in=Channel.objects.visible_to(access))
        return self.filter(in_threads | in_channels, agent__workspace=access.workspace_id)


class Schedule(Timestamped):
    """When an agent speaks without being asked: a cron line in a time zone, and what it is told then.

    It posts in `thread`, or else in a new thread of `channel` each time. `next_due_at` is when it is due next;
    `note` says why it did not run the last time it was due, or was switched off.
    """

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="schedules")
    name = models.CharField(max_length=80)
    cron = models.CharField(max_length=100)
    time_zone = models.CharField(max_length=64)
    prompt = models.TextField(max_length=4_000)
    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="+")
    thread = models.ForeignKey(Thread, null=True, on_delete=models.CASCADE, related_name="+")
    is_active = models.BooleanField(default=True)
    next_due_at = models.DateTimeField(null=True)
    last_due_at = models.DateTimeField(null=True)
    note = models.CharField(max_length=300, blank=True)
    author = models.ForeignKey(Participant, on_delete=models.PROTECT, related_name="+")

    objects: ClassVar[models.Manager[Schedule]] = ScheduleQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(condition=Q(name__regex=r"\S", prompt__regex=r"\S"), name="schedule_not_empty"),
            models.CheckConstraint(
                condition=Q(is_active=False, next_due_at=None) | Q(is_active=True, next_due_at__isnull=False),
                name="schedule_active_is_due",
            ),
        ]
        indexes = [models.Index(fields=["next_due_at"], condition=Q(is_active=True), name="schedule_due")]

    def __str__(self) -> str:
        return self.name


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

    class State(models.TextChoices):
        QUEUED = "queued", "waiting"
        READING = "reading", "reading"
        WRITING = "writing", "writing"
        WAITING = "waiting_approval", "waiting for an approval"
        DONE = "done", "done"
        STOPPED = "stopped", "stopped"
        FAILED = "failed", "failed"

    ENDED: ClassVar[tuple[str, ...]] = ("done", "stopped", "failed")

    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT, related_name="runs")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="runs")
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
        help_text="When the agent that answers it through the API was last heard. Empty: a worker here carries it out.",
    )
    regenerates = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="regenerations")
    stop_requested_at = models.DateTimeField(null=True)
    error_code = models.CharField(max_length=40, blank=True)
    error = models.TextField(blank=True, help_text="What went wrong and what to do, in words for people.")
    steps = models.JSONField(default=list, db_default=[], help_text="What was done to it, and when: agents.runs.steps.")
    first_word_at = models.DateTimeField(null=True, help_text="Of its last attempt.")
    model = models.CharField(max_length=120, blank=True)
    price_in = models.DecimalField(
        max_digits=10, decimal_places=4, null=True, help_text="Per million prompt tokens as it began. Empty: unknown."
    )
    price_out = models.DecimalField(max_digits=10, decimal_places=4, null=True, help_text="Per million answer tokens.")
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
                condition=Q(task__in=["mention", "thread", "dive", "publish", "scheduled"]), name="run_task_known"
            ),
            models.UniqueConstraint(
                fields=["schedule", "due_at"], condition=Q(regenerates=None), name="run_once_per_due_time"
            ),
            models.CheckConstraint(condition=~Q(state="failed") | ~Q(error=""), name="run_failure_has_reason"),
            models.CheckConstraint(
                condition=Q(heard_at=None) | ~Q(state__in=["queued", "waiting_approval"]), name="run_external_is_begun"
            ),
        ]
        indexes = [
            models.Index(
                fields=["agent", "thread", "id"],
                condition=Q(state__in=["queued", "reading", "writing"]),
                name="run_waiting",
            ),
            models.Index(fields=["agent", "thread", "-id"], name="run_in_thread"),
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
        return self.state in self.ENDED

    @property
    def first_word_seconds(self) -> float | None:
        """Since it was last queued; None where it has said nothing."""
        return (self.first_word_at - self.queued_at).total_seconds() if self.first_word_at else None

    @property
    def total_seconds(self) -> float | None:
        """Since it was last queued; None while it is not over."""
        return (self.finished_at - self.queued_at).total_seconds() if self.finished_at else None

    @property
    def cost(self) -> Decimal | None:
        """By the prices of its endpoint, in whatever they are given in; None where they are unknown."""
        if self.price_in is None or self.price_out is None:
            return None
        return (self.input_tokens * self.price_in + self.output_tokens * self.price_out) / 1_000_000

    @property
    def is_external(self) -> bool:
        """Whether the agent writes the reply itself, through the API."""
        return self.heard_at is not None


RUNS = JobKind(Run, LockKind.RUN, active=(Run.State.READING, Run.State.WRITING), condition=Q(heard_at=None))
EXTERNAL_RUNS = JobKind(
    Run, LockKind.RUN, active=(Run.State.READING, Run.State.WRITING), condition=Q(heard_at__isnull=False)
)
"""Runs that an agent carries out elsewhere, through the API: no worker claims or recovers them."""


class ToolCall(models.Model):
    """A tool call of a run: what was asked, what was decided, what came of it. `result` is kept for 30 days."""

    class Decision(models.TextChoices):
        ALLOWED = "allowed", "Allowed"
        REFUSED = "refused", "Refused"
        WAITS = "waits", "Waits for an approval"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="tool_calls")
    attempt = models.PositiveSmallIntegerField()
    round = models.PositiveSmallIntegerField(help_text="Counts from 1; at most 8.")
    call_id = models.CharField(max_length=100)
    name = models.CharField(max_length=100)
    arguments = models.TextField(help_text="JSON as the model wrote it; it may be invalid.")
    effect = models.CharField(max_length=10, blank=True, help_text="agents.trust.Effect; empty: no such tool.")
    decision = models.CharField(max_length=8, choices=Decision.choices)
    why = models.CharField(max_length=300, blank=True, help_text="Why it was refused, in words for people.")
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


class ToolSource(models.Model):
    """Something that a tool call read or wrote. Who may not see all of its sources is not shown the call's arguments
    and result (`agents.audience`); a call without any is shown to nobody.

    `ref` is the id of what it was: a thread, an entry of knowledge, a context block; for notes, of the person they are
    about. No foreign key: where the row is gone, nobody sees it any more. `version` is the one that was read.
    """

    class Kind(models.TextChoices):
        THREAD = "thread", "A thread"
        NOTES = "notes", "Notes about a person"
        ENTRY = "entry", "An entry of knowledge"
        BLOCK = "block", "A context block"

    call = models.ForeignKey(ToolCall, on_delete=models.CASCADE, related_name="sources")
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


class ClientConversation(models.Model):
    """A conversation that a chat client leads with an agent through the OpenAI-compatible door, kept in a thread.

    `key`: what the client itself calls it; empty where it is known by its history. `instructions_digest`: SHA-256 of
    the client's instructions that were stored last.
    """

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="+")
    caller = models.ForeignKey(Participant, on_delete=models.CASCADE, related_name="+")
    thread = models.OneToOneField(Thread, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=80, blank=True)
    instructions_digest = models.CharField(max_length=64, blank=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["caller", "agent", "key"], condition=~Q(key=""), name="client_conversation_once"
            )
        ]

    def __str__(self) -> str:
        return self.key or f"Conversation {self.pk}"


class ClientTurn(models.Model):
    """A request of a chat client, and the run that answers it.

    `digest`: SHA-256 of the history it sent, this request included. `tools`: the client's own, which the client carries
    out; `continues`: the turn whose calls this one brought the results of.
    """

    conversation = models.ForeignKey(ClientConversation, on_delete=models.CASCADE, related_name="turns")
    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="client_turn")
    digest = models.CharField(max_length=64)
    tools = models.JSONField(default=list, help_text="Name, description and parameters of each.")
    max_output_tokens = models.PositiveIntegerField(null=True)
    continues = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="+")
    stop_reason = models.CharField(max_length=20, blank=True, help_text="The model's, of its last turn.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["id"]
        indexes = [models.Index(fields=["digest"], name="client_turn_digest")]

    def __str__(self) -> str:
        return f"Turn of run {self.run_id}"


class LoadedSkill(models.Model):
    """A skill an agent has taken up in a thread: its text stands in the agent's prompts there until it is put down."""

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="loaded_skills")
    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=80)
    loaded_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["agent", "thread", "name"], name="skill_loaded_once")]

    def __str__(self) -> str:
        return self.name


class Snapshot(models.Model):
    """What one run saw: every item in the prompt and every item left out, with reasons.

    `content` is compressed JSON (`agents.assembler.snapshots.store`), removed after 30 days; the counts stay.
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
    prefix_shared = models.PositiveIntegerField(
        null=True, help_text="Tokens in common with the start of the prompt before it. Empty where there was none."
    )
    included_count = models.PositiveIntegerField(default=0)
    dropped_count = models.PositiveIntegerField(default=0)
    tool_names = models.JSONField(default=list, help_text="The tools the run was offered.")
    content = models.BinaryField(null=True)
    recall = models.JSONField(default=list, help_text="Where recalled messages stood, by number: RecallBlock.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    def __str__(self) -> str:
        return f"{self.tokens} / {self.budget} tokens"


class KnowledgeUse(models.Model):
    """An entry stood in a run's prompt, or a tool of the run returned it. Counted once a run, however often."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="knowledge_uses")
    entry = models.ForeignKey(Entry, on_delete=models.CASCADE, related_name="uses")
    how = models.CharField(max_length=8, default="prompt", help_text="prompt or tool")
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["-id"]
        constraints = [models.UniqueConstraint(fields=["run", "entry"], name="knowledge_used_once_per_run")]
        indexes = [models.Index(fields=["entry", "-id"], name="knowledge_used_recently")]

    def __str__(self) -> str:
        return f"Entry {self.entry_id} in run {self.run_id}"


class McpServer(Timestamped):
    """Another program's MCP server (streamable HTTP), whose tools a workspace's agents may be allowed to call."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="mcp_servers")
    name = models.CharField(
        max_length=24,
        validators=[RegexValidator(r"^[a-z][a-z0-9-]*$", "Use a–z, 0–9 and -, beginning with a letter.")],
        help_text="Its tools are called name__tool.",
    )
    url = models.CharField("URL", max_length=500, help_text="For example https://tools.example/mcp")
    token = EncryptedTextField(blank=True, default="")
    header = models.CharField(
        max_length=80,
        default="Authorization",
        validators=[RegexValidator(r"^[A-Za-z0-9-]+$", "A header's name is letters, digits and -.")],
        help_text="Which carries the token: in Authorization as “Bearer …”, in any other as it stands.",
    )
    timeout_seconds = models.PositiveIntegerField(
        default=30,
        validators=[MinValueValidator(1), MaxValueValidator(300)],
        help_text="How long a whole call may take, with everything it streams.",
    )
    max_bytes = models.PositiveIntegerField(
        default=1_000_000,
        validators=[MinValueValidator(1_000), MaxValueValidator(20_000_000)],
        help_text="The most that is read of one answer.",
    )
    is_active = models.BooleanField(default=True, help_text="Off: none of its tools is offered or called.")
    fetched_at = models.DateTimeField(null=True, editable=False, help_text="When its tools were fetched last.")
    failures = models.PositiveIntegerField(default=0, editable=False, help_text="Of calls, in a row.")
    rests_until = models.DateTimeField(null=True, editable=False)

    class Meta:
        verbose_name = "MCP server"
        ordering = ["workspace_id", "name"]
        constraints = [models.UniqueConstraint(fields=["workspace", "name"], name="mcp_server_name_once")]

    def __str__(self) -> str:
        return self.name

    @property
    def token_hint(self) -> str:
        return secret_hint(self.token, "token")

    def clean(self) -> None:
        problems: dict[str, str] = {}
        try:
            check_url(self.url, allow_private=settings.ALLOW_PRIVATE_ENDPOINTS)
        except AddressRefused as refused:
            problems["url"] = str(refused)
        if self.token and not (self.token.isprintable() and self.token.isascii()):
            problems["token"] = "A token is plain letters, digits and signs in one line."
        if problems:
            raise ValidationError(problems)


class McpTool(models.Model):
    """A tool of a server as it was fetched. `fingerprint` is of all that the server said of it: a server that says
    something else when the tool is called is not called (`agents.mcp.tools`)."""

    class Effect(models.TextChoices):
        READS = "reads", "only reads"
        ACTS = "acts", "acts"
        EXTERNAL = "external", "acts outside the workspace"

    server = models.ForeignKey(McpServer, on_delete=models.CASCADE, related_name="tools")
    name = models.CharField(max_length=128)
    description = models.TextField(blank=True)
    input_schema = models.JSONField(default=dict)
    fingerprint = models.CharField(max_length=64, help_text="SHA-256 of its definition.")
    effect = models.CharField(
        max_length=8, choices=Effect.choices, default=Effect.EXTERNAL, help_text="agents.trust.GATES says who may what."
    )
    asks_first = models.BooleanField(default=False, help_text="Every call of it waits until a person approves.")
    is_listed = models.BooleanField(default=True, help_text="The server named it when its tools were fetched last.")
    fetched_at = models.DateTimeField()
    agents: models.ManyToManyField[Agent, models.Model] = models.ManyToManyField(
        Agent, blank=True, related_name="mcp_tools", help_text="Which may call it, as far as their level allows."
    )

    class Meta:
        verbose_name = "tool of an MCP server"
        verbose_name_plural = "tools of an MCP server"
        ordering = ["server_id", "name"]
        constraints = [
            models.UniqueConstraint(fields=["server", "name"], name="mcp_tool_once"),
            models.CheckConstraint(condition=Q(effect__in=["reads", "acts", "external"]), name="mcp_tool_effect_known"),
        ]

    def __str__(self) -> str:
        return self.name
