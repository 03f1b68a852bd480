from django.contrib.postgres.fields import ArrayField
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import migrations, models
from django.db.models.functions import MD5, Now
from pgtrigger.compiler import Trigger, UpsertTriggerSql

from openvibe.engines.database.migration_operations import CreateModels


class Migration(migrations.Migration):
    initial = True

    dependencies = [("chat", "0001_initial")]

    operations = [
        CreateModels(
            migrations.CreateModel(
                name="Feedback",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("created_at", models.DateTimeField(db_default=Now(), editable=False)),
                    ("updated_at", models.DateTimeField(auto_now=True)),
                    ("verdict", models.CharField(choices=[("up", "Helpful"), ("down", "Not helpful")], max_length=4)),
                    (
                        "tags",
                        ArrayField(
                            base_field=models.CharField(
                                choices=[
                                    ("inaccurate", "Inaccurate"),
                                    ("wrong_format", "Wrong format"),
                                    ("not_useful", "Not useful"),
                                ],
                                max_length=16,
                            ),
                            blank=True,
                            default=list,
                            size=None,
                        ),
                    ),
                    ("text", models.TextField(blank=True, max_length=2000)),
                    (
                        "message",
                        models.ForeignKey(on_delete=models.CASCADE, related_name="feedback", to="chat.message"),
                    ),
                    (
                        "participant",
                        models.ForeignKey(
                            on_delete=models.CASCADE, related_name="feedback_given", to="workspaces.participant"
                        ),
                    ),
                ],
                options={
                    "constraints": [
                        models.UniqueConstraint(fields=("message", "participant"), name="feedback_once_per_person"),
                        models.CheckConstraint(
                            condition=models.Q(("verdict__in", ["up", "down"])), name="feedback_verdict_known"
                        ),
                    ]
                },
            ),
            migrations.CreateModel(
                name="Episode",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    (
                        "kind",
                        models.CharField(
                            choices=[
                                ("feedback_received", "Feedback received"),
                                ("learning_acquired", "Learning acquired"),
                                ("task_completed", "Task completed"),
                                ("task_failed", "Task failed"),
                                ("trust_check", "Trust check"),
                            ],
                            max_length=20,
                        ),
                    ),
                    ("summary", models.TextField(max_length=2000)),
                    ("learning", models.TextField(blank=True, max_length=2000)),
                    ("created_at", models.DateTimeField(db_default=Now())),
                    ("expires_at", models.DateTimeField(blank=True, null=True)),
                    (
                        "prompt_count",
                        models.PositiveIntegerField(default=0, help_text="How many runs had it in their prompt."),
                    ),
                    ("applied_at", models.DateTimeField(blank=True, null=True)),
                    (
                        "applied_how",
                        models.CharField(
                            blank=True,
                            choices=[
                                ("person", "By a person"),
                                ("soul", "By a SOUL change"),
                                ("withdrawn", "Withdrawn"),
                            ],
                            max_length=9,
                        ),
                    ),
                    ("archived_at", models.DateTimeField(blank=True, null=True)),
                    (
                        "agent",
                        models.ForeignKey(
                            on_delete=models.CASCADE, related_name="episodes", to="workspaces.participant"
                        ),
                    ),
                    (
                        "applied_by",
                        models.ForeignKey(
                            blank=True,
                            null=True,
                            on_delete=models.SET_NULL,
                            related_name="+",
                            to="workspaces.participant",
                        ),
                    ),
                    (
                        "channel",
                        models.ForeignKey(
                            blank=True, null=True, on_delete=models.CASCADE, related_name="+", to="chat.channel"
                        ),
                    ),
                    (
                        "thread",
                        models.ForeignKey(
                            blank=True, null=True, on_delete=models.CASCADE, related_name="+", to="chat.thread"
                        ),
                    ),
                    (
                        "feedback",
                        models.OneToOneField(
                            blank=True,
                            null=True,
                            on_delete=models.SET_NULL,
                            related_name="episode",
                            to="memory.feedback",
                        ),
                    ),
                ],
                options={
                    "indexes": [
                        models.Index(
                            condition=models.Q(("applied_at", None), ("kind", "feedback_received")),
                            fields=["agent", "-created_at"],
                            name="episode_open_feedback",
                        ),
                        models.Index(fields=["agent", "-created_at"], name="episode_recent"),
                    ],
                    "constraints": [
                        models.CheckConstraint(
                            condition=models.Q(
                                (
                                    "kind__in",
                                    [
                                        "feedback_received",
                                        "learning_acquired",
                                        "task_completed",
                                        "task_failed",
                                        "trust_check",
                                    ],
                                )
                            ),
                            name="episode_kind_known",
                        ),
                        models.CheckConstraint(
                            condition=models.Q(
                                models.Q(("kind", "feedback_received"), _negated=True),
                                ("expires_at", None),
                                _connector="OR",
                            ),
                            name="episode_feedback_is_permanent",
                        ),
                    ],
                },
            ),
            migrations.CreateModel(
                name="Block",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("created_at", models.DateTimeField(db_default=Now(), editable=False)),
                    ("updated_at", models.DateTimeField(auto_now=True)),
                    ("label", models.CharField(max_length=40)),
                    ("description", models.CharField(blank=True, max_length=300)),
                    ("content", models.TextField(blank=True)),
                    ("tokens", models.PositiveIntegerField(default=0, help_text="Tokens of the content (o200k_base).")),
                    (
                        "max_tokens",
                        models.PositiveIntegerField(
                            default=300, validators=[MinValueValidator(1), MaxValueValidator(2000)]
                        ),
                    ),
                    (
                        "readonly",
                        models.BooleanField(
                            default=False, help_text="Nobody changes it until an admin takes this back."
                        ),
                    ),
                    ("version", models.PositiveIntegerField(default=1)),
                    (
                        "agent",
                        models.ForeignKey(on_delete=models.CASCADE, related_name="blocks", to="workspaces.participant"),
                    ),
                    (
                        "changed_by",
                        models.ForeignKey(
                            null=True, on_delete=models.SET_NULL, related_name="+", to="workspaces.participant"
                        ),
                    ),
                ],
                options={
                    "ordering": ["label"],
                    "constraints": [
                        models.UniqueConstraint(fields=("agent", "label"), name="block_label_once"),
                        models.CheckConstraint(
                            condition=models.Q(("label__regex", "^[a-z][a-z0-9_-]{0,39}$")), name="block_label_form"
                        ),
                        models.CheckConstraint(
                            condition=models.Q(("tokens__lte", models.F("max_tokens"))), name="block_fits"
                        ),
                        models.CheckConstraint(
                            condition=models.Q(("max_tokens__gte", 1), ("max_tokens__lte", 2000)),
                            name="block_limit_sensible",
                        ),
                    ],
                },
            ),
            migrations.CreateModel(
                name="Compaction",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("plugin", models.CharField(max_length=80)),
                    (
                        "trigger",
                        models.CharField(
                            choices=[
                                ("threshold", "The conversation grew past its threshold"),
                                ("tool_result", "A tool answered at great length"),
                                ("milestone", "A milestone was reached"),
                                ("approval", "The work waits for an approval"),
                                ("resume", "Long work was taken up again"),
                                ("changed", "A message was edited or deleted"),
                                ("hand", "Somebody asked for it"),
                            ],
                            max_length=11,
                        ),
                    ),
                    ("full", models.BooleanField(default=False)),
                    (
                        "state",
                        models.CharField(
                            choices=[
                                ("queued", "waiting"),
                                ("running", "running"),
                                ("done", "done"),
                                ("nothing", "nothing to do"),
                                ("failed", "failed"),
                            ],
                            default="queued",
                            max_length=7,
                        ),
                    ),
                    ("tokens_before", models.PositiveIntegerField(null=True)),
                    ("tokens_after", models.PositiveIntegerField(null=True)),
                    ("created_count", models.PositiveIntegerField(default=0, help_text="Summaries made.")),
                    ("summary_ids", models.JSONField(default=list)),
                    (
                        "at_seq",
                        models.PositiveBigIntegerField(
                            default=0, help_text="The thread's newest message when it ended."
                        ),
                    ),
                    ("done_messages", models.PositiveIntegerField(default=0)),
                    ("of_messages", models.PositiveIntegerField(default=0)),
                    ("error", models.TextField(blank=True)),
                    ("attempt", models.PositiveSmallIntegerField(default=0)),
                    ("queued_at", models.DateTimeField(db_default=Now())),
                    (
                        "sent_at",
                        models.DateTimeField(
                            db_default=Now(), help_text="When a worker was last asked to carry it out."
                        ),
                    ),
                    ("started_at", models.DateTimeField(null=True)),
                    ("finished_at", models.DateTimeField(null=True)),
                    (
                        "requested_by",
                        models.ForeignKey(
                            null=True, on_delete=models.SET_NULL, related_name="+", to="workspaces.participant"
                        ),
                    ),
                    (
                        "thread",
                        models.ForeignKey(on_delete=models.CASCADE, related_name="compactions", to="chat.thread"),
                    ),
                    ("note", models.TextField(blank=True, help_text="What people should know of how it was done.")),
                ],
                options={
                    "ordering": ["-id"],
                    "indexes": [
                        models.Index(fields=["thread", "-id"], name="compaction_of_thread"),
                        models.Index(
                            condition=models.Q(("state__in", ["queued", "running"])),
                            fields=["sent_at"],
                            name="compaction_waiting",
                        ),
                    ],
                    "constraints": [
                        models.UniqueConstraint(
                            condition=models.Q(("state__in", ["queued", "running"])),
                            fields=("thread",),
                            name="compaction_one_at_a_time",
                        ),
                        models.CheckConstraint(
                            condition=models.Q(("state__in", ["queued", "running", "done", "nothing", "failed"])),
                            name="compaction_state_known",
                        ),
                        models.CheckConstraint(
                            condition=models.Q(
                                models.Q(("state", "failed"), _negated=True),
                                models.Q(("error", ""), _negated=True),
                                _connector="OR",
                            ),
                            name="compaction_failure_has_reason",
                        ),
                    ],
                    "triggers": [
                        Trigger(
                            name="tell_progress",
                            sql=UpsertTriggerSql(
                                func="INSERT INTO base_event (kind, workspace_id, channel_id, thread_id, created_at) SELECT 'memory_changed', workspace_id, channel_id, id, now() FROM chat_thread WHERE id = NEW.thread_id; RETURN NULL;",
                                hash="300a1d087db73f2de97bb083ab0dea4bf87a6b47",
                                operation="INSERT OR UPDATE",
                                pgid="pgtrigger_tell_progress_e38d5",
                                table="memory_compaction",
                                when="AFTER",
                            ),
                        )
                    ],
                },
            ),
            migrations.CreateModel(
                name="Handoff",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    (
                        "trigger",
                        models.CharField(
                            choices=[
                                ("threshold", "The conversation grew past its threshold"),
                                ("tool_result", "A tool answered at great length"),
                                ("milestone", "A milestone was reached"),
                                ("approval", "The work waits for an approval"),
                                ("resume", "Long work was taken up again"),
                                ("changed", "A message was edited or deleted"),
                                ("hand", "Somebody asked for it"),
                            ],
                            max_length=11,
                        ),
                    ),
                    ("at_seq", models.PositiveBigIntegerField()),
                    ("sections", models.JSONField()),
                    ("created_at", models.DateTimeField(db_default=Now(), editable=False)),
                    (
                        "compaction",
                        models.OneToOneField(
                            null=True, on_delete=models.SET_NULL, related_name="handoff", to="memory.compaction"
                        ),
                    ),
                    ("thread", models.ForeignKey(on_delete=models.CASCADE, related_name="handoffs", to="chat.thread")),
                ],
                options={
                    "ordering": ["-id"],
                    "indexes": [models.Index(fields=["thread", "-id"], name="handoff_of_thread")],
                    "triggers": [
                        Trigger(
                            name="handoff_is_final",
                            sql=UpsertTriggerSql(
                                condition="WHEN (OLD.sections IS DISTINCT FROM NEW.sections)",
                                func="RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;",
                                hash="63d58bbd9b6eb21d0fa78cb8fe9f3e8c6e290ff4",
                                operation="UPDATE",
                                pgid="pgtrigger_handoff_is_final_1dd4b",
                                table="memory_handoff",
                                when="BEFORE",
                            ),
                        )
                    ],
                },
            ),
            migrations.CreateModel(
                name="MemoryPlugin",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("created_at", models.DateTimeField(db_default=Now(), editable=False)),
                    ("updated_at", models.DateTimeField(auto_now=True)),
                    ("name", models.CharField(help_text="For example memory/lcm.", max_length=80)),
                    ("enabled", models.BooleanField(default=False)),
                    ("config", models.JSONField(blank=True, default=dict)),
                    (
                        "changed_by",
                        models.ForeignKey(
                            blank=True,
                            null=True,
                            on_delete=models.SET_NULL,
                            related_name="+",
                            to="workspaces.participant",
                        ),
                    ),
                    (
                        "workspace",
                        models.ForeignKey(
                            on_delete=models.CASCADE, related_name="memory_plugins", to="workspaces.workspace"
                        ),
                    ),
                ],
                options={
                    "constraints": [
                        models.UniqueConstraint(fields=("workspace", "name"), name="memory_plugin_once"),
                        models.UniqueConstraint(
                            condition=models.Q(("enabled", True)),
                            fields=("workspace",),
                            name="memory_plugin_one_enabled_per_workspace",
                        ),
                    ]
                },
            ),
            migrations.CreateModel(
                name="ProfileNote",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("created_at", models.DateTimeField(db_default=Now(), editable=False)),
                    ("updated_at", models.DateTimeField(auto_now=True)),
                    ("content", models.TextField(blank=True)),
                    ("tokens", models.PositiveIntegerField(default=0)),
                    ("version", models.PositiveIntegerField(default=1)),
                    (
                        "agent",
                        models.ForeignKey(
                            on_delete=models.CASCADE, related_name="profile_notes", to="workspaces.participant"
                        ),
                    ),
                    (
                        "changed_by",
                        models.ForeignKey(
                            null=True, on_delete=models.SET_NULL, related_name="+", to="workspaces.participant"
                        ),
                    ),
                    (
                        "person",
                        models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="workspaces.participant"),
                    ),
                ],
                options={
                    "ordering": ["person__name", "id"],
                    "constraints": [
                        models.UniqueConstraint(fields=("agent", "person"), name="profile_note_once"),
                        models.CheckConstraint(condition=models.Q(("tokens__lte", 500)), name="profile_note_fits"),
                    ],
                },
            ),
            migrations.CreateModel(
                name="CarriedVersion",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("number", models.PositiveIntegerField()),
                    ("content", models.TextField(blank=True)),
                    (
                        "how",
                        models.CharField(
                            help_text="What changed it: page, api, admin, agent, review, import, default.",
                            max_length=40,
                        ),
                    ),
                    ("created_at", models.DateTimeField(db_default=Now(), editable=False)),
                    (
                        "author",
                        models.ForeignKey(
                            null=True, on_delete=models.SET_NULL, related_name="+", to="workspaces.participant"
                        ),
                    ),
                    (
                        "block",
                        models.ForeignKey(
                            null=True, on_delete=models.CASCADE, related_name="versions", to="memory.block"
                        ),
                    ),
                    (
                        "note",
                        models.ForeignKey(
                            null=True, on_delete=models.CASCADE, related_name="versions", to="memory.profilenote"
                        ),
                    ),
                ],
                options={
                    "ordering": ["-number"],
                    "constraints": [
                        models.UniqueConstraint(fields=("block", "number"), name="block_version_once"),
                        models.UniqueConstraint(fields=("note", "number"), name="note_version_once"),
                        models.CheckConstraint(
                            condition=models.Q(
                                models.Q(("block", None), ("note__isnull", False)),
                                models.Q(("block__isnull", False), ("note", None)),
                                _connector="OR",
                            ),
                            name="version_of_block_or_note",
                        ),
                    ],
                    "triggers": [
                        Trigger(
                            name="text_is_final",
                            sql=UpsertTriggerSql(
                                condition="WHEN (OLD.content <> NEW.content OR OLD.number <> NEW.number)",
                                func="RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;",
                                hash="4d150fa9a0898b0d3f86bba8e20ee5e47de2b2f4",
                                operation="UPDATE",
                                pgid="pgtrigger_text_is_final_2083a",
                                table="memory_carriedversion",
                                when="BEFORE",
                            ),
                        )
                    ],
                },
            ),
            migrations.CreateModel(
                name="ProgressEntry",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("checkpoint", models.CharField(max_length=200)),
                    ("changed", models.TextField(blank=True, help_text="What changed.", max_length=2000)),
                    ("evidence", models.TextField(blank=True, max_length=2000)),
                    ("open_issues", models.TextField(blank=True, max_length=2000)),
                    ("next_action", models.TextField(blank=True, max_length=2000)),
                    ("created_at", models.DateTimeField(db_default=Now(), editable=False)),
                    (
                        "author",
                        models.ForeignKey(on_delete=models.PROTECT, related_name="+", to="workspaces.participant"),
                    ),
                    ("thread", models.ForeignKey(on_delete=models.CASCADE, related_name="progress", to="chat.thread")),
                ],
                options={
                    "ordering": ["id"],
                    "indexes": [models.Index(fields=["thread", "-id"], name="progress_of_thread")],
                    "triggers": [
                        Trigger(
                            name="only_added_to",
                            sql=UpsertTriggerSql(
                                func="RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;",
                                hash="5d9152ecb21e154f0053fda51113bb43ef8f7c3c",
                                operation="UPDATE",
                                pgid="pgtrigger_only_added_to_362cf",
                                table="memory_progressentry",
                                when="BEFORE",
                            ),
                        )
                    ],
                },
            ),
            migrations.CreateModel(
                name="Proposal",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    (
                        "kind",
                        models.CharField(choices=[("episode", "Learning"), ("profile", "Profile notes")], max_length=7),
                    ),
                    ("text", models.TextField(max_length=2000)),
                    ("before", models.TextField(blank=True)),
                    (
                        "because",
                        models.TextField(blank=True, help_text="Which messages it was learned from, in words."),
                    ),
                    ("since_seq", models.PositiveBigIntegerField()),
                    ("upto_seq", models.PositiveBigIntegerField()),
                    (
                        "state",
                        models.CharField(
                            choices=[
                                ("proposed", "Proposed"),
                                ("accepted", "Accepted"),
                                ("rejected", "Rejected"),
                                ("undone", "Undone"),
                            ],
                            default="proposed",
                            max_length=8,
                        ),
                    ),
                    ("decided_at", models.DateTimeField(null=True)),
                    ("created_at", models.DateTimeField(db_default=Now(), editable=False)),
                    (
                        "agent",
                        models.ForeignKey(
                            on_delete=models.CASCADE, related_name="proposals", to="workspaces.participant"
                        ),
                    ),
                    (
                        "decided_by",
                        models.ForeignKey(
                            null=True, on_delete=models.SET_NULL, related_name="+", to="workspaces.participant"
                        ),
                    ),
                    (
                        "episode",
                        models.OneToOneField(
                            null=True, on_delete=models.SET_NULL, related_name="proposal", to="memory.episode"
                        ),
                    ),
                    (
                        "person",
                        models.ForeignKey(
                            null=True, on_delete=models.CASCADE, related_name="+", to="workspaces.participant"
                        ),
                    ),
                    ("thread", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="chat.thread")),
                ],
                options={
                    "ordering": ["-id"],
                    "indexes": [models.Index(fields=["agent", "-id"], name="proposal_of_agent")],
                    "constraints": [
                        models.CheckConstraint(
                            condition=models.Q(("kind__in", ["episode", "profile"])), name="proposal_kind_known"
                        ),
                        models.CheckConstraint(condition=models.Q(("text__regex", "\\S")), name="proposal_not_empty"),
                        models.UniqueConstraint(
                            models.F("agent"),
                            models.F("thread"),
                            models.F("kind"),
                            models.F("person"),
                            models.F("upto_seq"),
                            MD5("text"),
                            name="proposal_once",
                            nulls_distinct=False,
                        ),
                    ],
                },
            ),
            migrations.CreateModel(
                name="ReviewMark",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("reviewed_seq", models.PositiveBigIntegerField(default=0)),
                    ("reviewed_at", models.DateTimeField(auto_now=True)),
                    (
                        "agent",
                        models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="workspaces.participant"),
                    ),
                    ("thread", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="chat.thread")),
                ],
                options={"constraints": [models.UniqueConstraint(fields=("agent", "thread"), name="review_mark_once")]},
            ),
            migrations.CreateModel(
                name="SessionInfo",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("created_at", models.DateTimeField(db_default=Now(), editable=False)),
                    ("updated_at", models.DateTimeField(auto_now=True)),
                    ("external_id", models.CharField(blank=True, max_length=80)),
                    ("info", models.JSONField(blank=True, default=dict)),
                    (
                        "agent",
                        models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="workspaces.participant"),
                    ),
                    ("thread", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="chat.thread")),
                ],
                options={
                    "constraints": [
                        models.UniqueConstraint(fields=("agent", "thread"), name="session_info_once"),
                        models.UniqueConstraint(
                            condition=models.Q(("external_id", ""), _negated=True),
                            fields=("agent", "external_id"),
                            name="session_external_id_once",
                        ),
                    ]
                },
            ),
            migrations.CreateModel(
                name="WorkItem",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("created_at", models.DateTimeField(db_default=Now(), editable=False)),
                    ("updated_at", models.DateTimeField(auto_now=True)),
                    (
                        "kind",
                        models.CharField(
                            choices=[
                                ("objective", "Objective"),
                                ("constraint", "Constraint"),
                                ("plan", "Plan"),
                                ("goal", "Goal"),
                                ("todo", "To do"),
                                ("artifact", "Artifact"),
                                ("error_tried", "Error and what was tried"),
                                ("open_question", "Open question"),
                                ("do_not_redo", "Do not redo"),
                            ],
                            max_length=14,
                        ),
                    ),
                    ("text", models.TextField()),
                    ("tokens", models.PositiveIntegerField(default=0)),
                    ("data", models.JSONField(blank=True, default=dict)),
                    (
                        "state",
                        models.CharField(
                            choices=[("open", "Open"), ("done", "Done"), ("dropped", "Dropped")],
                            default="open",
                            max_length=7,
                        ),
                    ),
                    ("version", models.PositiveIntegerField(default=1)),
                    ("closed_at", models.DateTimeField(null=True)),
                    (
                        "author",
                        models.ForeignKey(on_delete=models.PROTECT, related_name="+", to="workspaces.participant"),
                    ),
                    (
                        "closed_by",
                        models.ForeignKey(
                            null=True, on_delete=models.SET_NULL, related_name="+", to="workspaces.participant"
                        ),
                    ),
                    (
                        "message",
                        models.ForeignKey(
                            blank=True, null=True, on_delete=models.SET_NULL, related_name="+", to="chat.message"
                        ),
                    ),
                    ("thread", models.ForeignKey(on_delete=models.CASCADE, related_name="work", to="chat.thread")),
                ],
                options={
                    "ordering": ["id"],
                    "indexes": [models.Index(fields=["thread", "kind", "id"], name="work_of_thread")],
                    "constraints": [
                        models.CheckConstraint(
                            condition=models.Q(
                                (
                                    "kind__in",
                                    [
                                        "objective",
                                        "constraint",
                                        "plan",
                                        "goal",
                                        "todo",
                                        "artifact",
                                        "error_tried",
                                        "open_question",
                                        "do_not_redo",
                                    ],
                                )
                            ),
                            name="work_kind_known",
                        ),
                        models.CheckConstraint(
                            condition=models.Q(("state__in", ["open", "done", "dropped"])), name="work_state_known"
                        ),
                        models.CheckConstraint(condition=models.Q(("text__regex", "\\S")), name="work_not_empty"),
                        models.CheckConstraint(
                            condition=models.Q(
                                models.Q(("closed_at", None), ("state", "open")),
                                models.Q(("state", "open"), _negated=True),
                                _connector="OR",
                            ),
                            name="work_open_is_not_closed",
                        ),
                        models.UniqueConstraint(
                            condition=models.Q(("kind", "objective"), ("state", "open")),
                            fields=("thread",),
                            name="work_one_objective",
                        ),
                        models.UniqueConstraint(
                            condition=models.Q(("kind", "plan"), ("state", "open")),
                            fields=("thread",),
                            name="work_one_plan",
                        ),
                    ],
                },
            ),
            migrations.CreateModel(
                name="Approval",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("created_at", models.DateTimeField(db_default=Now(), editable=False)),
                    ("updated_at", models.DateTimeField(auto_now=True)),
                    ("what", models.CharField(help_text="What would be done.", max_length=300)),
                    ("reason", models.TextField(blank=True, max_length=2000)),
                    (
                        "state",
                        models.CharField(
                            choices=[("requested", "Requested"), ("granted", "Granted"), ("denied", "Denied")],
                            default="requested",
                            max_length=9,
                        ),
                    ),
                    ("decided_at", models.DateTimeField(null=True)),
                    ("note", models.CharField(blank=True, max_length=300)),
                    (
                        "decided_by",
                        models.ForeignKey(
                            null=True, on_delete=models.PROTECT, related_name="+", to="workspaces.participant"
                        ),
                    ),
                    (
                        "requested_by",
                        models.ForeignKey(on_delete=models.PROTECT, related_name="+", to="workspaces.participant"),
                    ),
                    ("thread", models.ForeignKey(on_delete=models.CASCADE, related_name="approvals", to="chat.thread")),
                ],
                options={
                    "ordering": ["id"],
                    "indexes": [models.Index(fields=["thread", "id"], name="approval_of_thread")],
                    "constraints": [
                        models.CheckConstraint(
                            condition=models.Q(
                                models.Q(("decided_at", None), ("decided_by", None), ("state", "requested")),
                                models.Q(
                                    ("decided_at__isnull", False),
                                    ("decided_by__isnull", False),
                                    ("state__in", ["granted", "denied"]),
                                ),
                                _connector="OR",
                            ),
                            name="approval_decided_by_somebody",
                        )
                    ],
                    "triggers": [
                        Trigger(
                            name="decision_is_final",
                            sql=UpsertTriggerSql(
                                condition="WHEN (OLD.state <> 'requested' AND OLD.* IS DISTINCT FROM NEW.*)",
                                func="RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;",
                                hash="411286620d67b362acc9398c0e7f1191e8d2c302",
                                operation="UPDATE",
                                pgid="pgtrigger_decision_is_final_66e0e",
                                table="memory_approval",
                                when="BEFORE",
                            ),
                        )
                    ],
                },
            ),
        )
    ]
