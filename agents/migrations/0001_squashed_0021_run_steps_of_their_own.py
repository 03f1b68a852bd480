from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import migrations, models
from django.db.models import F, Q
from django.db.models.functions import Now

from openvibe.engines.database.fields import EncryptedTextField
from openvibe.engines.database.migration_operations import CreateModels, create_model, replaced, trigger

# These two stand as PostgreSQL wrote them anew when `state` once became longer, so that a new database does not differ in a
# single letter from one that has grown.
INDEXES_AS_GROWN = """
CREATE INDEX run_waiting ON agents_run (agent_id, thread_id, id)
    WHERE state::text = ANY (ARRAY['queued'::varchar::text, 'reading'::varchar::text, 'writing'::varchar::text]);
CREATE UNIQUE INDEX run_one_at_a_time ON agents_run (agent_id, thread_id)
    WHERE state::text = ANY (ARRAY['reading'::varchar::text, 'writing'::varchar::text]);
"""


TABLES = (
    create_model(
        "Agent",
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        updated_at=models.DateTimeField(auto_now=True),
        level=models.PositiveSmallIntegerField(
            default=1,
            choices=[(1, "L1 Observer"), (2, "L2 Advisor"), (3, "L3 Operator"), (4, "L4 Autonomous")],
            validators=[MinValueValidator(1), MaxValueValidator(4)],
        ),
        daily_token_budget=models.PositiveIntegerField(default=500000, help_text="Tokens it may use in one UTC day."),
        answers_itself=models.BooleanField(
            default=False,
            help_text="It listens and answers through the API with a model of its own; no runs are started for it here.",
        ),
        deactivated_at=models.DateTimeField(blank=True, null=True),
        endpoint=models.ForeignKey(
            "llm.endpoint",
            models.SET_NULL,
            blank=True,
            null=True,
            help_text="Empty: the workspace's default, or the offline model when there is none.",
            related_name="agents",
        ),
        participant=models.OneToOneField("workspaces.participant", models.PROTECT, related_name="agent"),
        workspace=models.ForeignKey("workspaces.workspace", models.PROTECT, related_name="agents"),
        soul=models.ForeignKey("agents.soulversion", models.PROTECT, null=True, editable=False, related_name="+"),
        proactive_cooldown=models.PositiveSmallIntegerField(
            default=10,
            help_text="Minutes between two messages that it posts unasked.",
            validators=[MaxValueValidator(1440)],
        ),
        fallback=models.ForeignKey(
            "llm.endpoint",
            models.SET_NULL,
            verbose_name="fallback model",
            blank=True,
            null=True,
            help_text="Answers where the model itself fails twice. Empty: the workspace's fallback, where it has one.",
            related_name="fallback_agents",
        ),
        effort=models.CharField(
            max_length=6,
            blank=True,
            default="",
            db_default="",
            choices=[("off", "Not at all"), ("low", "Briefly"), ("medium", "For a while"), ("high", "At length")],
            help_text="How long its model may think before it answers, where it can be told. Empty: as the model does.",
        ),
        meta={
            "constraints": [
                models.CheckConstraint(name="agent_level_known", condition=Q(level__gte=1, level__lte=4)),
                models.CheckConstraint(
                    name="agent_fallback_is_another",
                    condition=Q(endpoint=None) | Q(fallback=None) | ~Q(fallback=F("endpoint")),
                ),
                models.CheckConstraint(
                    name="agent_effort_known", condition=Q(effort__in=["", "off", "low", "medium", "high"])
                ),
            ]
        },
    ),
    create_model(
        "Run",
        task=models.CharField(
            max_length=9,
            choices=[
                ("mention", "Mention"),
                ("thread", "Thread"),
                ("dive", "Dive"),
                ("publish", "Publish"),
                ("scheduled", "Scheduled"),
            ],
        ),
        state=models.CharField(
            max_length=16,
            default="queued",
            choices=[
                ("queued", "waiting"),
                ("reading", "reading"),
                ("writing", "writing"),
                ("waiting_approval", "waiting for an approval"),
                ("done", "done"),
                ("stopped", "stopped"),
                ("failed", "failed"),
            ],
        ),
        attempt=models.PositiveSmallIntegerField(default=0),
        stop_requested_at=models.DateTimeField(null=True),
        error_code=models.CharField(max_length=40, blank=True),
        error=models.TextField(blank=True, help_text="What went wrong and what to do, in words for people."),
        model=models.CharField(max_length=120, blank=True),
        input_tokens=models.PositiveIntegerField(default=0),
        output_tokens=models.PositiveIntegerField(default=0),
        cached_tokens=models.PositiveIntegerField(
            null=True, help_text="Of the input, read from the provider's cache. Empty where the provider did not say."
        ),
        queued_at=models.DateTimeField(db_default=Now()),
        sent_at=models.DateTimeField(db_default=Now(), help_text="When a worker was last asked to carry it out."),
        started_at=models.DateTimeField(null=True),
        finished_at=models.DateTimeField(null=True),
        agent=models.ForeignKey("agents.agent", models.PROTECT, related_name="runs", db_index=False),
        regenerates=models.ForeignKey("agents.run", models.SET_NULL, null=True, related_name="regenerations"),
        reply=models.OneToOneField("chat.message", models.SET_NULL, null=True, related_name="run"),
        requested_by=models.ForeignKey("workspaces.participant", models.PROTECT, related_name="+"),
        thread=models.ForeignKey("chat.thread", models.CASCADE, related_name="runs"),
        trigger=models.ForeignKey("chat.message", models.CASCADE, related_name="runs_caused"),
        workspace=models.ForeignKey("workspaces.workspace", models.PROTECT, related_name="runs", db_index=False),
        approval=models.ForeignKey(
            "memory.approval", models.SET_NULL, null=True, help_text="What it waits for.", related_name="runs"
        ),
        is_free=models.BooleanField(default=False, help_text="Its tokens cost nothing and use no budget."),
        first_word_at=models.DateTimeField(null=True, help_text="Of its last attempt."),
        price_in=models.DecimalField(
            null=True,
            help_text="Per million prompt tokens as it began. Empty: unknown.",
            max_digits=10,
            decimal_places=4,
        ),
        price_out=models.DecimalField(
            null=True, help_text="Per million answer tokens.", max_digits=10, decimal_places=4
        ),
        steps=models.JSONField(
            default=list, db_default=[], help_text="What was done to it, and when: agents.runs.steps."
        ),
        due_at=models.DateTimeField(null=True, help_text="Of a scheduled run: the time it was due."),
        schedule=models.ForeignKey("agents.schedule", models.SET_NULL, null=True, related_name="runs"),
        heard_at=models.DateTimeField(
            null=True,
            help_text="When the agent that answers it through the API was last heard, or asked while it is queued. Empty: a worker here carries it out.",
        ),
        cost_correction=models.DecimalField(
            default=0,
            db_default=0,
            help_text="Added to the cost by the prices above: what other models read and wrote before was paid at theirs.",
            max_digits=16,
            decimal_places=6,
        ),
        first_error=models.CharField(
            max_length=500, blank=True, default="", db_default="", help_text="Why it did not."
        ),
        first_model=models.CharField(
            max_length=120,
            blank=True,
            default="",
            db_default="",
            help_text="Asked first, where its fallback wrote the answer.",
        ),
        meta={
            "ordering": [models.OrderBy(F("id"), descending=True)],
            "indexes": [
                models.Index(name="run_recent", fields=["agent", "-queued_at"]),
                models.Index(name="run_spend", fields=["workspace", "-queued_at"]),
                models.Index(name="run_in_thread", fields=["agent", "thread", "-id"]),
            ],
            "constraints": [
                models.UniqueConstraint(
                    name="run_once_per_trigger", fields=("trigger", "agent"), condition=Q(regenerates=None)
                ),
                models.CheckConstraint(name="run_failure_has_reason", condition=~Q(state="failed") | ~Q(error="")),
                models.CheckConstraint(
                    name="run_state_known",
                    condition=Q(
                        state__in=["queued", "reading", "writing", "waiting_approval", "done", "stopped", "failed"]
                    ),
                ),
                models.CheckConstraint(
                    name="run_task_known", condition=Q(task__in=["mention", "thread", "dive", "publish", "scheduled"])
                ),
                models.UniqueConstraint(
                    name="run_once_per_due_time", fields=("schedule", "due_at"), condition=Q(regenerates=None)
                ),
                models.CheckConstraint(
                    name="run_external_asks_nobody", condition=Q(heard_at=None) | ~Q(state="waiting_approval")
                ),
            ],
            "triggers": [
                trigger(
                    "pgtrigger_tell_state_226b0",
                    "agents_run",
                    "AFTER",
                    "INSERT OR UPDATE",
                    func="IF TG_OP = 'INSERT' OR OLD.state IS DISTINCT FROM NEW.state OR OLD.stop_requested_at IS DISTINCT FROM NEW.stop_requested_at THEN INSERT INTO base_event (kind, workspace_id, channel_id, thread_id, message_id, created_at) SELECT 'run_changed', workspace_id, channel_id, id, NEW.trigger_id, now() FROM chat_thread WHERE id = NEW.thread_id; END IF; RETURN NULL;",
                )
            ],
        },
    ),
    create_model(
        "SoulVersion",
        number=models.PositiveIntegerField(),
        content=models.JSONField(help_text="The SOUL as agents.agent.soul.soul_to_dict gives it."),
        source=models.TextField(help_text="The YAML as it was written."),
        token_count=models.PositiveIntegerField(help_text="Tokens of the fullest rendering (o200k_base)."),
        note=models.CharField(max_length=300),
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        agent=models.ForeignKey("agents.agent", models.PROTECT, related_name="soul_versions", db_index=False),
        author=models.ForeignKey("workspaces.participant", models.PROTECT, null=True, related_name="+"),
        meta={
            "ordering": ["-number"],
            "constraints": [
                models.UniqueConstraint(name="soul_version_once", fields=("agent", "number")),
                models.CheckConstraint(name="soul_version_from_one", condition=Q(number__gte=1)),
                models.CheckConstraint(name="soul_version_fits", condition=Q(token_count__lte=2000)),
                models.CheckConstraint(name="soul_version_has_note", condition=~Q(note="")),
            ],
            "triggers": [
                trigger(
                    "pgtrigger_soul_version_is_final_2c9ad",
                    "agents_soulversion",
                    "BEFORE",
                    "UPDATE OR DELETE",
                    func="RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;",
                )
            ],
        },
    ),
    create_model(
        "Snapshot",
        task=models.CharField(max_length=9),
        model=models.CharField(max_length=120),
        assembler_version=models.PositiveSmallIntegerField(),
        budget=models.PositiveIntegerField(help_text="Ceiling, tokens."),
        tokens=models.PositiveIntegerField(help_text="Tokens of the whole prompt, by `counter`."),
        counter=models.CharField(max_length=40),
        layers=models.JSONField(default=dict, help_text="Tokens per layer."),
        prefix_shared=models.PositiveIntegerField(
            null=True, help_text="Tokens in common with the start of the prompt before it. Empty where there was none."
        ),
        included_count=models.PositiveIntegerField(default=0),
        dropped_count=models.PositiveIntegerField(default=0),
        content=models.BinaryField(null=True),
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        run=models.OneToOneField("agents.run", models.CASCADE, related_name="snapshot"),
        soul=models.ForeignKey("agents.soulversion", models.PROTECT, null=True, related_name="+"),
        tool_names=models.JSONField(default=list, help_text="The tools the run was offered."),
        recall=models.JSONField(default=list, help_text="Where recalled messages stood, by number: RecallBlock."),
        sections=models.JSONField(default=dict, db_default={}, help_text="Tokens per section."),
    ),
    create_model(
        "TrustChange",
        level_before=models.PositiveSmallIntegerField(
            choices=[(1, "L1 Observer"), (2, "L2 Advisor"), (3, "L3 Operator"), (4, "L4 Autonomous")]
        ),
        level_after=models.PositiveSmallIntegerField(
            choices=[(1, "L1 Observer"), (2, "L2 Advisor"), (3, "L3 Operator"), (4, "L4 Autonomous")]
        ),
        note=models.CharField(max_length=300),
        by_name=models.CharField(max_length=80),
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        agent=models.ForeignKey("agents.agent", models.PROTECT, related_name="trust_changes"),
        by=models.ForeignKey("workspaces.participant", models.PROTECT, null=True, related_name="+"),
        meta={
            "ordering": ["-created_at", "-id"],
            "constraints": [models.CheckConstraint(name="trust_change_has_note", condition=~Q(note=""))],
            "triggers": [
                trigger(
                    "pgtrigger_trust_change_is_final_38fbc",
                    "agents_trustchange",
                    "BEFORE",
                    "UPDATE OR DELETE",
                    func="RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;",
                )
            ],
        },
    ),
    create_model(
        "LoadedSkill",
        name=models.CharField(max_length=80),
        loaded_at=models.DateTimeField(db_default=Now(), editable=False),
        agent=models.ForeignKey("agents.agent", models.CASCADE, related_name="loaded_skills", db_index=False),
        thread=models.ForeignKey("chat.thread", models.CASCADE, related_name="+"),
        meta={
            "ordering": ["id"],
            "constraints": [models.UniqueConstraint(name="skill_loaded_once", fields=("agent", "thread", "name"))],
        },
    ),
    create_model(
        "ToolCall",
        attempt=models.PositiveSmallIntegerField(),
        round=models.PositiveSmallIntegerField(help_text="Counts from 1; at most 8."),
        call_id=models.CharField(max_length=100),
        name=models.CharField(max_length=100),
        arguments=models.TextField(help_text="JSON as the model wrote it; it may be invalid."),
        decision=models.CharField(
            max_length=8, choices=[("allowed", "Allowed"), ("refused", "Refused"), ("waits", "Waits for an approval")]
        ),
        why=models.CharField(max_length=300, blank=True, help_text="Why it was refused, in words for people."),
        result=models.TextField(blank=True),
        result_tokens=models.PositiveIntegerField(default=0),
        milliseconds=models.PositiveIntegerField(default=0),
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        run=models.ForeignKey("agents.run", models.CASCADE, related_name="tool_calls", db_index=False),
        approval=models.ForeignKey(
            "memory.approval",
            models.SET_NULL,
            null=True,
            help_text="Which decides about this very call: the row that waits for it, and the one of what came of it.",
            related_name="tool_calls",
        ),
        effect=models.CharField(max_length=10, blank=True, help_text="agents.agent.trust.Effect; empty: no such tool."),
        finished_at=models.DateTimeField(
            null=True,
            db_default=Now(),
            help_text="Empty while a remote tool is called, and for ever if its worker died.",
        ),
        provider_fields=models.TextField(
            blank=True,
            default="",
            db_default="",
            help_text="What the model's provider wants back with the call, and with its message, as JSON.",
        ),
        meta={
            "ordering": ["id"],
            "indexes": [models.Index(name="tool_call_with_result", fields=["created_at"], condition=~Q(result=""))],
            "constraints": [
                models.UniqueConstraint(name="tool_call_once", fields=("run", "attempt", "round", "call_id")),
                models.CheckConstraint(name="tool_call_round_bounded", condition=Q(round__gte=1, round__lte=8)),
                models.CheckConstraint(
                    name="tool_call_decided", condition=Q(decision__in=["allowed", "refused", "waits"])
                ),
                models.UniqueConstraint(
                    name="tool_call_approved_once", fields=("run", "approval"), condition=~Q(decision="waits")
                ),
            ],
        },
    ),
    create_model(
        "KnowledgeUse",
        how=models.CharField(max_length=8, default="prompt", help_text="prompt or tool"),
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        entry=models.ForeignKey("knowledge.entry", models.CASCADE, related_name="uses", db_index=False),
        run=models.ForeignKey("agents.run", models.CASCADE, related_name="knowledge_uses", db_index=False),
        meta={
            "ordering": ["-id"],
            "indexes": [models.Index(name="knowledge_used_recently", fields=["entry", "-id"])],
            "constraints": [models.UniqueConstraint(name="knowledge_used_once_per_run", fields=("run", "entry"))],
        },
    ),
    create_model(
        "ToolSource",
        kind=models.CharField(
            max_length=6,
            choices=[
                ("thread", "A thread"),
                ("notes", "Notes about a person"),
                ("entry", "An entry of knowledge"),
                ("block", "A context block"),
            ],
        ),
        ref=models.PositiveBigIntegerField(),
        version=models.PositiveIntegerField(default=0),
        call=models.ForeignKey("agents.toolcall", models.CASCADE, related_name="sources", db_index=False),
        meta={
            "ordering": ["id"],
            "indexes": [models.Index(name="tool_source_of", fields=["kind", "ref"])],
            "constraints": [
                models.UniqueConstraint(name="tool_source_once", fields=("call", "kind", "ref")),
                models.CheckConstraint(
                    name="tool_source_known", condition=Q(kind__in=["thread", "notes", "entry", "block"])
                ),
            ],
        },
    ),
    create_model(
        "Schedule",
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        updated_at=models.DateTimeField(auto_now=True),
        name=models.CharField(max_length=80),
        cron=models.CharField(max_length=100),
        time_zone=models.CharField(max_length=64),
        prompt=models.TextField(max_length=4000),
        is_active=models.BooleanField(default=True),
        next_due_at=models.DateTimeField(null=True),
        last_due_at=models.DateTimeField(null=True),
        note=models.CharField(max_length=300, blank=True),
        agent=models.ForeignKey("agents.agent", models.PROTECT, related_name="schedules"),
        author=models.ForeignKey("workspaces.participant", models.PROTECT, related_name="+"),
        channel=models.ForeignKey("chat.channel", models.CASCADE, related_name="+"),
        thread=models.ForeignKey("chat.thread", models.CASCADE, null=True, related_name="+"),
        meta={
            "ordering": ["id"],
            "indexes": [models.Index(name="schedule_due", fields=["next_due_at"], condition=Q(is_active=True))],
            "constraints": [
                models.CheckConstraint(name="schedule_not_empty", condition=Q(name__regex="\\S", prompt__regex="\\S")),
                models.CheckConstraint(
                    name="schedule_active_is_due",
                    condition=Q(is_active=False, next_due_at=None) | Q(is_active=True, next_due_at__isnull=False),
                ),
            ],
        },
    ),
    create_model(
        "McpServer",
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        updated_at=models.DateTimeField(auto_now=True),
        name=models.CharField(
            max_length=24,
            help_text="Its tools are called name__tool.",
            validators=[RegexValidator("^[a-z][a-z0-9-]*$", "Use a–z, 0–9 and -, beginning with a letter.")],
        ),
        url=models.CharField(verbose_name="URL", max_length=500, help_text="For example https://tools.example/mcp"),
        token=EncryptedTextField(blank=True, default=""),
        header=models.CharField(
            max_length=80,
            default="Authorization",
            help_text="Which carries the token: in Authorization as “Bearer …”, in any other as it stands.",
            validators=[RegexValidator("^[A-Za-z0-9-]+$", "A header's name is letters, digits and -.")],
        ),
        timeout_seconds=models.PositiveIntegerField(
            default=30,
            help_text="How long a whole call may take, with everything it streams.",
            validators=[MinValueValidator(1), MaxValueValidator(300)],
        ),
        max_bytes=models.PositiveIntegerField(
            default=1000000,
            help_text="The most that is read of one answer.",
            validators=[MinValueValidator(1000), MaxValueValidator(20000000)],
        ),
        is_active=models.BooleanField(default=True, help_text="Off: none of its tools is offered or called."),
        fetched_at=models.DateTimeField(null=True, editable=False, help_text="When its tools were fetched last."),
        failures=models.PositiveIntegerField(default=0, editable=False, help_text="Of calls, in a row."),
        rests_until=models.DateTimeField(null=True, editable=False),
        workspace=models.ForeignKey("workspaces.workspace", models.CASCADE, related_name="mcp_servers", db_index=False),
        meta={
            "verbose_name": "MCP server",
            "ordering": ["workspace_id", "name"],
            "constraints": [models.UniqueConstraint(name="mcp_server_name_once", fields=("workspace", "name"))],
        },
    ),
    create_model(
        "McpTool",
        name=models.CharField(max_length=128),
        description=models.TextField(blank=True),
        input_schema=models.JSONField(default=dict),
        fingerprint=models.CharField(max_length=64, help_text="SHA-256 of its definition."),
        effect=models.CharField(
            max_length=8,
            default="external",
            choices=[("reads", "only reads"), ("acts", "acts"), ("external", "acts outside the workspace")],
            help_text="agents.agent.trust.GATES says who may what.",
        ),
        asks_first=models.BooleanField(default=False, help_text="Every call of it waits until a person approves."),
        is_listed=models.BooleanField(default=True, help_text="The server named it when its tools were fetched last."),
        fetched_at=models.DateTimeField(),
        server=models.ForeignKey("agents.mcpserver", models.CASCADE, related_name="tools", db_index=False),
        agents=models.ManyToManyField(
            "agents.agent",
            blank=True,
            help_text="Which may call it, as far as their level allows.",
            related_name="mcp_tools",
        ),
        meta={
            "verbose_name": "tool of an MCP server",
            "verbose_name_plural": "tools of an MCP server",
            "ordering": ["server_id", "name"],
            "constraints": [
                models.UniqueConstraint(name="mcp_tool_once", fields=("server", "name")),
                models.CheckConstraint(
                    name="mcp_tool_effect_known", condition=Q(effect__in=["reads", "acts", "external"])
                ),
            ],
        },
    ),
    create_model(
        "ClientConversation",
        key=models.CharField(max_length=80, blank=True),
        instructions_digest=models.CharField(max_length=64, blank=True),
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        agent=models.ForeignKey("agents.agent", models.CASCADE, related_name="+"),
        caller=models.ForeignKey("workspaces.participant", models.CASCADE, related_name="+"),
        thread=models.OneToOneField("chat.thread", models.CASCADE, related_name="+"),
        meta={
            "ordering": ["id"],
            "constraints": [
                models.UniqueConstraint(
                    name="client_conversation_once", fields=("caller", "agent", "key"), condition=~Q(key="")
                )
            ],
        },
    ),
    create_model(
        "ClientTurn",
        digest=models.CharField(max_length=64),
        tools=models.JSONField(default=list, help_text="Name, description and parameters of each."),
        max_output_tokens=models.PositiveIntegerField(null=True),
        stop_reason=models.CharField(max_length=20, blank=True, help_text="The model's, of its last turn."),
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        continues=models.ForeignKey("agents.clientturn", models.SET_NULL, null=True, related_name="+"),
        conversation=models.ForeignKey("agents.clientconversation", models.CASCADE, related_name="turns"),
        run=models.OneToOneField("agents.run", models.CASCADE, related_name="client_turn"),
        awaited=models.PositiveIntegerField(default=1, db_default=1),
        options=models.JSONField(
            default=dict, db_default={}, help_text="How it is to be answered: agents.openai_api.options."
        ),
        meta={"ordering": ["id"], "indexes": [models.Index(name="client_turn_digest", fields=["digest"])]},
    ),
    create_model(
        "WorkspaceExport",
        attempt=models.PositiveSmallIntegerField(default=0),
        error=models.TextField(blank=True),
        queued_at=models.DateTimeField(db_default=Now()),
        sent_at=models.DateTimeField(db_default=Now(), help_text="When a worker was last asked to carry it out."),
        started_at=models.DateTimeField(null=True),
        finished_at=models.DateTimeField(null=True),
        state=models.CharField(
            max_length=7,
            default="queued",
            choices=[("queued", "waiting"), ("running", "being written"), ("done", "ready"), ("failed", "failed")],
        ),
        rows=models.PositiveIntegerField(default=0, help_text="Written so far."),
        size=models.PositiveBigIntegerField(default=0, help_text="Bytes of the file."),
        sha256=models.CharField(max_length=64, blank=True, default=""),
        expires_at=models.DateTimeField(null=True),
        requested_by=models.ForeignKey("workspaces.participant", models.CASCADE, related_name="+"),
        workspace=models.ForeignKey("workspaces.workspace", models.CASCADE, related_name="exports"),
        meta={
            "ordering": ["-id"],
            "constraints": [
                models.UniqueConstraint(
                    name="export_one_at_a_time", fields=("workspace",), condition=Q(state__in=["queued", "running"])
                ),
                models.CheckConstraint(
                    name="export_state_known", condition=Q(state__in=["queued", "running", "done", "failed"])
                ),
                models.CheckConstraint(
                    name="export_done_expires", condition=~Q(state="done") | Q(expires_at__isnull=False)
                ),
            ],
        },
    ),
    create_model(
        "EntryErasure",
        topics=EncryptedTextField(),
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        entry=models.OneToOneField("knowledge.entry", models.CASCADE, related_name="+"),
        meta={"ordering": ["id"]},
    ),
    create_model(
        "RunStep",
        key=models.CharField(max_length=100, help_text="Names the step within its run: who says it again changes it."),
        attempt=models.PositiveSmallIntegerField(),
        kind=models.CharField(max_length=7, choices=[("thought", "A thought"), ("tool", "A tool"), ("note", "A note")]),
        state=models.CharField(
            max_length=7,
            default="running",
            choices=[("running", "Under way"), ("done", "Done"), ("failed", "Failed"), ("refused", "Refused")],
        ),
        text=models.TextField(blank=True),
        tool=models.CharField(max_length=100, blank=True),
        arguments=models.TextField(blank=True),
        result=models.TextField(blank=True),
        tokens=models.PositiveIntegerField(null=True, help_text="Of a thought. Empty while it goes on."),
        milliseconds=models.PositiveIntegerField(default=0),
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        run=models.ForeignKey("agents.run", models.CASCADE, related_name="own_steps", db_index=False),
        meta={
            "ordering": ["id"],
            "indexes": [
                models.Index(
                    name="run_step_with_text",
                    fields=["created_at"],
                    condition=~Q(text="") | ~Q(arguments="") | ~Q(result=""),
                )
            ],
            "constraints": [
                models.UniqueConstraint(name="run_step_once", fields=("run", "key")),
                models.CheckConstraint(name="run_step_kind_known", condition=Q(kind__in=["thought", "tool", "note"])),
                models.CheckConstraint(
                    name="run_step_state_known", condition=Q(state__in=["running", "done", "failed", "refused"])
                ),
            ],
        },
    ),
)


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("knowledge", "0001_squashed_0005_drop_covered_indexes"),
        ("memory", "0001_squashed_0008_archive_endpoint_failures"),
    ]

    replaces = replaced(
        "agents",
        "0001_initial 0002_tool_sources 0003_cache_rates 0004_recall_blocks 0005_free_runs 0006_tool_gates 0007_run_steps "
        "0008_schedules 0009_mcp_servers 0010_external_runs 0011_client_turns 0012_snapshot_sections "
        "0013_workspace_exports 0014_client_turn_awaited 0015_entry_erasure 0016_external_requests "
        "0017_drop_covered_indexes 0018_provider_fields 0019_fallback_models 0020_effort_and_client_options "
        "0021_run_steps_of_their_own",
    )

    operations = [
        CreateModels(*TABLES),
        migrations.SeparateDatabaseAndState(
            [migrations.RunSQL(INDEXES_AS_GROWN, migrations.RunSQL.noop)],
            [
                migrations.AddIndex(
                    "run",
                    models.Index(
                        name="run_waiting",
                        fields=["agent", "thread", "id"],
                        condition=Q(state__in=["queued", "reading", "writing"]),
                    ),
                ),
                migrations.AddConstraint(
                    "run",
                    models.UniqueConstraint(
                        name="run_one_at_a_time",
                        fields=("agent", "thread"),
                        condition=Q(state__in=["reading", "writing"]),
                    ),
                ),
            ],
        ),
    ]
