from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import migrations, models
from django.db.models.functions import Now
from pgtrigger.compiler import Trigger, UpsertTriggerSql

from openvibe.engines.database.migration_operations import CreateModels

# The conditions of these two are written as PostgreSQL wrote them anew when `state` became longer, so that a new database
# does not differ in a single letter from one that has grown.
INDEXES_AS_GROWN = """
CREATE INDEX run_waiting ON agents_run (agent_id, thread_id, id)
    WHERE state::text = ANY (ARRAY['queued'::varchar::text, 'reading'::varchar::text, 'writing'::varchar::text]);
CREATE UNIQUE INDEX run_one_at_a_time ON agents_run (agent_id, thread_id)
    WHERE state::text = ANY (ARRAY['reading'::varchar::text, 'writing'::varchar::text]);
"""


class Migration(migrations.Migration):
    initial = True

    dependencies = [("knowledge", "0001_initial"), ("memory", "0001_initial")]

    operations = [
        CreateModels(
            migrations.CreateModel(
                name="Agent",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("created_at", models.DateTimeField(db_default=Now(), editable=False)),
                    ("updated_at", models.DateTimeField(auto_now=True)),
                    (
                        "level",
                        models.PositiveSmallIntegerField(
                            choices=[(1, "L1 Observer"), (2, "L2 Advisor"), (3, "L3 Operator"), (4, "L4 Autonomous")],
                            default=1,
                            validators=[MinValueValidator(1), MaxValueValidator(4)],
                        ),
                    ),
                    (
                        "daily_token_budget",
                        models.PositiveIntegerField(default=500000, help_text="Tokens it may use in one UTC day."),
                    ),
                    (
                        "answers_itself",
                        models.BooleanField(
                            default=False,
                            help_text="It listens and answers through the API with a model of its own; no runs are started for it here.",
                        ),
                    ),
                    ("deactivated_at", models.DateTimeField(blank=True, null=True)),
                    (
                        "endpoint",
                        models.ForeignKey(
                            blank=True,
                            help_text="Empty: the workspace's default, or the offline model when there is none.",
                            null=True,
                            on_delete=models.SET_NULL,
                            related_name="agents",
                            to="llm.endpoint",
                        ),
                    ),
                    (
                        "participant",
                        models.OneToOneField(
                            on_delete=models.PROTECT, related_name="agent", to="workspaces.participant"
                        ),
                    ),
                    (
                        "workspace",
                        models.ForeignKey(on_delete=models.PROTECT, related_name="agents", to="workspaces.workspace"),
                    ),
                    (
                        "soul",
                        models.ForeignKey(
                            editable=False,
                            null=True,
                            on_delete=models.PROTECT,
                            related_name="+",
                            to="agents.soulversion",
                        ),
                    ),
                ],
                options={
                    "constraints": [
                        models.CheckConstraint(
                            condition=models.Q(("level__gte", 1), ("level__lte", 4)), name="agent_level_known"
                        )
                    ]
                },
            ),
            migrations.CreateModel(
                name="Run",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    (
                        "task",
                        models.CharField(
                            choices=[
                                ("mention", "Mention"),
                                ("thread", "Thread"),
                                ("dive", "Dive"),
                                ("publish", "Publish"),
                            ],
                            max_length=8,
                        ),
                    ),
                    (
                        "state",
                        models.CharField(
                            choices=[
                                ("queued", "waiting"),
                                ("reading", "reading"),
                                ("writing", "writing"),
                                ("waiting_approval", "waiting for an approval"),
                                ("done", "done"),
                                ("stopped", "stopped"),
                                ("failed", "failed"),
                            ],
                            default="queued",
                            max_length=16,
                        ),
                    ),
                    ("attempt", models.PositiveSmallIntegerField(default=0)),
                    ("stop_requested_at", models.DateTimeField(null=True)),
                    ("error_code", models.CharField(blank=True, max_length=40)),
                    (
                        "error",
                        models.TextField(blank=True, help_text="What went wrong and what to do, in words for people."),
                    ),
                    ("model", models.CharField(blank=True, max_length=120)),
                    ("input_tokens", models.PositiveIntegerField(default=0)),
                    ("output_tokens", models.PositiveIntegerField(default=0)),
                    ("cached_tokens", models.PositiveIntegerField(default=0)),
                    ("queued_at", models.DateTimeField(db_default=Now())),
                    (
                        "sent_at",
                        models.DateTimeField(
                            db_default=Now(), help_text="When a worker was last asked to carry it out."
                        ),
                    ),
                    ("started_at", models.DateTimeField(null=True)),
                    ("finished_at", models.DateTimeField(null=True)),
                    ("agent", models.ForeignKey(on_delete=models.PROTECT, related_name="runs", to="agents.agent")),
                    (
                        "regenerates",
                        models.ForeignKey(
                            null=True, on_delete=models.SET_NULL, related_name="regenerations", to="agents.run"
                        ),
                    ),
                    (
                        "reply",
                        models.OneToOneField(
                            null=True, on_delete=models.SET_NULL, related_name="run", to="chat.message"
                        ),
                    ),
                    (
                        "requested_by",
                        models.ForeignKey(on_delete=models.PROTECT, related_name="+", to="workspaces.participant"),
                    ),
                    ("thread", models.ForeignKey(on_delete=models.CASCADE, related_name="runs", to="chat.thread")),
                    (
                        "trigger",
                        models.ForeignKey(on_delete=models.CASCADE, related_name="runs_caused", to="chat.message"),
                    ),
                    (
                        "workspace",
                        models.ForeignKey(on_delete=models.PROTECT, related_name="runs", to="workspaces.workspace"),
                    ),
                    (
                        "approval",
                        models.ForeignKey(
                            help_text="What it waits for.",
                            null=True,
                            on_delete=models.SET_NULL,
                            related_name="runs",
                            to="memory.approval",
                        ),
                    ),
                ],
                options={
                    "ordering": [models.OrderBy(models.F("id"), descending=True)],
                    "indexes": [
                        models.Index(fields=["agent", "-queued_at"], name="run_recent"),
                        models.Index(fields=["workspace", "-queued_at"], name="run_spend"),
                        models.Index(fields=["agent", "thread", "-id"], name="run_in_thread"),
                    ],
                    "constraints": [
                        models.UniqueConstraint(
                            condition=models.Q(("regenerates", None)),
                            fields=("trigger", "agent"),
                            name="run_once_per_trigger",
                        ),
                        models.CheckConstraint(
                            condition=models.Q(("task__in", ["mention", "thread", "dive", "publish"])),
                            name="run_task_known",
                        ),
                        models.CheckConstraint(
                            condition=models.Q(
                                models.Q(("state", "failed"), _negated=True),
                                models.Q(("error", ""), _negated=True),
                                _connector="OR",
                            ),
                            name="run_failure_has_reason",
                        ),
                        models.CheckConstraint(
                            condition=models.Q(
                                (
                                    "state__in",
                                    ["queued", "reading", "writing", "waiting_approval", "done", "stopped", "failed"],
                                )
                            ),
                            name="run_state_known",
                        ),
                    ],
                    "triggers": [
                        Trigger(
                            name="tell_state",
                            sql=UpsertTriggerSql(
                                func="IF TG_OP = 'INSERT' OR OLD.state IS DISTINCT FROM NEW.state OR OLD.stop_requested_at IS DISTINCT FROM NEW.stop_requested_at THEN INSERT INTO base_event (kind, workspace_id, channel_id, thread_id, message_id, created_at) SELECT 'run_changed', workspace_id, channel_id, id, NEW.trigger_id, now() FROM chat_thread WHERE id = NEW.thread_id; END IF; RETURN NULL;",
                                hash="d510bf0da498a082c82208c1a04e76268e873db3",
                                operation="INSERT OR UPDATE",
                                pgid="pgtrigger_tell_state_226b0",
                                table="agents_run",
                                when="AFTER",
                            ),
                        )
                    ],
                },
            ),
            migrations.CreateModel(
                name="SoulVersion",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("number", models.PositiveIntegerField()),
                    ("content", models.JSONField(help_text="The SOUL as agents.agent.soul.soul_to_dict gives it.")),
                    ("source", models.TextField(help_text="The YAML as it was written.")),
                    (
                        "token_count",
                        models.PositiveIntegerField(help_text="Tokens of the fullest rendering (o200k_base)."),
                    ),
                    ("note", models.CharField(max_length=300)),
                    ("created_at", models.DateTimeField(db_default=Now(), editable=False)),
                    (
                        "agent",
                        models.ForeignKey(on_delete=models.PROTECT, related_name="soul_versions", to="agents.agent"),
                    ),
                    (
                        "author",
                        models.ForeignKey(
                            null=True, on_delete=models.PROTECT, related_name="+", to="workspaces.participant"
                        ),
                    ),
                ],
                options={
                    "ordering": ["-number"],
                    "constraints": [
                        models.UniqueConstraint(fields=("agent", "number"), name="soul_version_once"),
                        models.CheckConstraint(condition=models.Q(("number__gte", 1)), name="soul_version_from_one"),
                        models.CheckConstraint(
                            condition=models.Q(("token_count__lte", 2000)), name="soul_version_fits"
                        ),
                        models.CheckConstraint(
                            condition=models.Q(("note", ""), _negated=True), name="soul_version_has_note"
                        ),
                    ],
                    "triggers": [
                        Trigger(
                            name="soul_version_is_final",
                            sql=UpsertTriggerSql(
                                func="RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;",
                                hash="13d96449d7e95809182679e9c043ace27c20f7af",
                                operation="UPDATE OR DELETE",
                                pgid="pgtrigger_soul_version_is_final_2c9ad",
                                table="agents_soulversion",
                                when="BEFORE",
                            ),
                        )
                    ],
                },
            ),
            migrations.CreateModel(
                name="Snapshot",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("task", models.CharField(max_length=8)),
                    ("model", models.CharField(max_length=120)),
                    ("assembler_version", models.PositiveSmallIntegerField()),
                    ("budget", models.PositiveIntegerField(help_text="Ceiling, tokens.")),
                    ("tokens", models.PositiveIntegerField(help_text="Tokens of the whole prompt, by `counter`.")),
                    ("counter", models.CharField(max_length=40)),
                    ("layers", models.JSONField(default=dict, help_text="Tokens per layer.")),
                    (
                        "prefix_shared",
                        models.PositiveIntegerField(default=0, help_text="Tokens in common with the run before it."),
                    ),
                    ("included_count", models.PositiveIntegerField(default=0)),
                    ("dropped_count", models.PositiveIntegerField(default=0)),
                    ("content", models.BinaryField(null=True)),
                    ("created_at", models.DateTimeField(db_default=Now(), editable=False)),
                    ("run", models.OneToOneField(on_delete=models.CASCADE, related_name="snapshot", to="agents.run")),
                    (
                        "soul",
                        models.ForeignKey(
                            null=True, on_delete=models.PROTECT, related_name="+", to="agents.soulversion"
                        ),
                    ),
                    ("tool_names", models.JSONField(default=list, help_text="The tools the run was offered.")),
                ],
            ),
            migrations.CreateModel(
                name="TrustChange",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    (
                        "level_before",
                        models.PositiveSmallIntegerField(
                            choices=[(1, "L1 Observer"), (2, "L2 Advisor"), (3, "L3 Operator"), (4, "L4 Autonomous")]
                        ),
                    ),
                    (
                        "level_after",
                        models.PositiveSmallIntegerField(
                            choices=[(1, "L1 Observer"), (2, "L2 Advisor"), (3, "L3 Operator"), (4, "L4 Autonomous")]
                        ),
                    ),
                    ("note", models.CharField(max_length=300)),
                    ("by_name", models.CharField(max_length=80)),
                    ("created_at", models.DateTimeField(db_default=Now(), editable=False)),
                    (
                        "agent",
                        models.ForeignKey(on_delete=models.PROTECT, related_name="trust_changes", to="agents.agent"),
                    ),
                    (
                        "by",
                        models.ForeignKey(
                            null=True, on_delete=models.PROTECT, related_name="+", to="workspaces.participant"
                        ),
                    ),
                ],
                options={
                    "ordering": ["-created_at", "-id"],
                    "constraints": [
                        models.CheckConstraint(
                            condition=models.Q(("note", ""), _negated=True), name="trust_change_has_note"
                        )
                    ],
                    "triggers": [
                        Trigger(
                            name="trust_change_is_final",
                            sql=UpsertTriggerSql(
                                func="RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;",
                                hash="434dba55a21d857d9685aca234e8b528e9c45748",
                                operation="UPDATE OR DELETE",
                                pgid="pgtrigger_trust_change_is_final_38fbc",
                                table="agents_trustchange",
                                when="BEFORE",
                            ),
                        )
                    ],
                },
            ),
            migrations.CreateModel(
                name="LoadedSkill",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("name", models.CharField(max_length=80)),
                    ("loaded_at", models.DateTimeField(db_default=Now(), editable=False)),
                    (
                        "agent",
                        models.ForeignKey(on_delete=models.CASCADE, related_name="loaded_skills", to="agents.agent"),
                    ),
                    ("thread", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="chat.thread")),
                ],
                options={
                    "ordering": ["id"],
                    "constraints": [
                        models.UniqueConstraint(fields=("agent", "thread", "name"), name="skill_loaded_once")
                    ],
                },
            ),
            migrations.CreateModel(
                name="ToolCall",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("attempt", models.PositiveSmallIntegerField()),
                    ("round", models.PositiveSmallIntegerField(help_text="Counts from 1; at most 8.")),
                    ("call_id", models.CharField(max_length=100)),
                    ("name", models.CharField(max_length=100)),
                    ("arguments", models.TextField(help_text="JSON as the model wrote it; it may be invalid.")),
                    (
                        "decision",
                        models.CharField(
                            choices=[
                                ("allowed", "Allowed"),
                                ("refused", "Refused"),
                                ("waits", "Waits for an approval"),
                            ],
                            max_length=8,
                        ),
                    ),
                    (
                        "why",
                        models.CharField(
                            blank=True, help_text="Why it was refused, in words for people.", max_length=300
                        ),
                    ),
                    ("result", models.TextField(blank=True)),
                    ("result_tokens", models.PositiveIntegerField(default=0)),
                    ("milliseconds", models.PositiveIntegerField(default=0)),
                    ("created_at", models.DateTimeField(db_default=Now(), editable=False)),
                    ("run", models.ForeignKey(on_delete=models.CASCADE, related_name="tool_calls", to="agents.run")),
                ],
                options={
                    "ordering": ["id"],
                    "indexes": [
                        models.Index(
                            condition=models.Q(("result", ""), _negated=True),
                            fields=["created_at"],
                            name="tool_call_with_result",
                        )
                    ],
                    "constraints": [
                        models.UniqueConstraint(fields=("run", "attempt", "round", "call_id"), name="tool_call_once"),
                        models.CheckConstraint(
                            condition=models.Q(("round__gte", 1), ("round__lte", 8)), name="tool_call_round_bounded"
                        ),
                        models.CheckConstraint(
                            condition=models.Q(("decision__in", ["allowed", "refused", "waits"])),
                            name="tool_call_decided",
                        ),
                    ],
                },
            ),
            migrations.CreateModel(
                name="KnowledgeUse",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("how", models.CharField(default="prompt", help_text="prompt or tool", max_length=8)),
                    ("created_at", models.DateTimeField(db_default=Now(), editable=False)),
                    ("entry", models.ForeignKey(on_delete=models.CASCADE, related_name="uses", to="knowledge.entry")),
                    (
                        "run",
                        models.ForeignKey(on_delete=models.CASCADE, related_name="knowledge_uses", to="agents.run"),
                    ),
                ],
                options={
                    "ordering": ["-id"],
                    "indexes": [models.Index(fields=["entry", "-id"], name="knowledge_used_recently")],
                    "constraints": [
                        models.UniqueConstraint(fields=("run", "entry"), name="knowledge_used_once_per_run")
                    ],
                },
            ),
        ),
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(INDEXES_AS_GROWN, migrations.RunSQL.noop)],
            state_operations=[
                migrations.AddIndex(
                    "run",
                    models.Index(
                        condition=models.Q(("state__in", ["queued", "reading", "writing"])),
                        fields=["agent", "thread", "id"],
                        name="run_waiting",
                    ),
                ),
                migrations.AddConstraint(
                    "run",
                    models.UniqueConstraint(
                        condition=models.Q(("state__in", ["reading", "writing"])),
                        fields=("agent", "thread"),
                        name="run_one_at_a_time",
                    ),
                ),
            ],
        ),
    ]
