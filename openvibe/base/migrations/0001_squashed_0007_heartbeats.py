from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models
from django.db.models import Q
from django.db.models.functions import Now

from openvibe.engines.database.fields import EncryptedTextField
from openvibe.engines.database.migration_operations import CreateModels, create_model, replaced, trigger

TABLES = (
    create_model(
        "Event",
        position=models.BigIntegerField(unique=True, null=True, editable=False),
        workspace_id=models.BigIntegerField(),
        kind=models.CharField(max_length=40),
        channel_id=models.BigIntegerField(null=True),
        thread_id=models.BigIntegerField(null=True),
        message_id=models.BigIntegerField(null=True),
        participant_id=models.BigIntegerField(null=True),
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        meta={
            "indexes": [
                models.Index(name="base_event_replay", fields=["workspace_id", "position"]),
                models.Index(name="base_event_age", fields=["created_at"]),
            ],
            "triggers": [
                trigger(
                    "pgtrigger_number_at_commit_38845",
                    "base_event",
                    "AFTER",
                    "INSERT",
                    declare="DECLARE place bigint;",
                    constraint="CONSTRAINT",
                    timing="DEFERRABLE INITIALLY DEFERRED",
                    func="PERFORM pg_advisory_xact_lock(7001, NEW.workspace_id::int); place := nextval('base_event_position'); UPDATE base_event SET position = place WHERE id = NEW.id; PERFORM pg_notify('openvibe_events', NEW.workspace_id || ':' || place); RETURN NULL;",
                )
            ],
        },
    ),
    create_model(
        "CacheEntry",
        cache_key=models.CharField(primary_key=True, max_length=255, serialize=False),
        value=models.TextField(),
        expires=models.DateTimeField(db_index=True),
    ),
    create_model(
        "AuditRecord",
        created_at=models.DateTimeField(verbose_name="when", db_default=Now(), editable=False),
        action=models.CharField(
            verbose_name="what",
            max_length=12,
            choices=[
                ("trust", "Trust level"),
                ("soul", "SOUL"),
                ("agent", "Agent"),
                ("tools", "Tools of an agent"),
                ("member", "Membership"),
                ("role", "Role"),
                ("invitation", "Invitation"),
                ("channel", "Who is in a channel"),
                ("endpoint", "Model endpoint"),
                ("mcp_server", "MCP server"),
                ("budget", "Budget"),
                ("plugin", "Memory plugin"),
                ("token", "API token"),
                ("webhook", "Webhook"),
                ("export", "Export"),
                ("settings", "Workspace settings"),
                ("account", "Account"),
            ],
        ),
        workspace_id=models.BigIntegerField(null=True),
        workspace_name=models.CharField(verbose_name="workspace", max_length=80, default=""),
        actor_id=models.BigIntegerField(null=True),
        actor=models.CharField(verbose_name="who", max_length=120),
        subject=models.CharField(max_length=200),
        before=models.CharField(max_length=1000, blank=True, default=""),
        after=models.CharField(max_length=1000, blank=True, default=""),
        note=models.CharField(max_length=300, blank=True, default=""),
        meta={
            "ordering": ["-id"],
            "indexes": [models.Index(name="audit_of_workspace", fields=["workspace_id", "-id"])],
            "triggers": [
                trigger(
                    "pgtrigger_audit_is_append_only_1de48",
                    "base_auditrecord",
                    "BEFORE",
                    "UPDATE OR DELETE",
                    func="RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;",
                ),
                trigger(
                    "pgtrigger_audit_names_9b1d8",
                    "base_auditrecord",
                    "BEFORE",
                    "INSERT",
                    func="NEW.actor := COALESCE((SELECT name || ' (@' || handle || ')' FROM workspaces_participant WHERE id = NEW.actor_id), NEW.actor); NEW.workspace_name := COALESCE((SELECT name FROM workspaces_workspace WHERE id = NEW.workspace_id), ''); RETURN NEW;",
                ),
            ],
        },
    ),
    create_model(
        "JobRun",
        task=models.CharField(max_length=80),
        task_id=models.CharField(max_length=64, help_text="Of the message that asked a worker for it."),
        started_at=models.DateTimeField(help_text="While it waits: when somebody asked for it."),
        milliseconds=models.PositiveIntegerField(verbose_name="duration (ms)", null=True),
        problem=models.CharField(max_length=500, blank=True, default="", help_text="Why it failed."),
        counts=models.JSONField(default=dict, help_text="What it did, in numbers."),
        state=models.CharField(
            max_length=8,
            default="done",
            db_default="done",
            choices=[("waiting", "waits for a worker"), ("running", "running"), ("done", "OK"), ("failed", "failed")],
        ),
        worker=models.CharField(
            max_length=120, blank=True, default="", db_default="", help_text="Who runs it, or did."
        ),
        meta={
            "ordering": ["-id"],
            "indexes": [
                models.Index(name="job_run_of_task", fields=["task", "-id"]),
                models.Index(name="job_run_of_message", fields=["task_id"]),
            ],
            "constraints": [
                models.UniqueConstraint(name="job_waits_once", fields=("task",), condition=Q(state="waiting")),
                models.CheckConstraint(
                    name="job_run_failed_says_why",
                    condition=Q(problem="", state__in=["waiting", "running", "done"])
                    | Q(state="failed") & ~Q(problem=""),
                ),
            ],
        },
    ),
    create_model(
        "OutgoingMail",
        recipient=models.EmailField(max_length=254),
        subject=models.CharField(max_length=255),
        body=EncryptedTextField(),
        created_at=models.DateTimeField(db_default=Now()),
        due_at=models.DateTimeField(db_index=True, db_default=Now()),
        attempts=models.PositiveSmallIntegerField(default=0),
        error=models.CharField(max_length=500, blank=True, help_text="Why the server did not take it."),
    ),
    create_model(
        "QueueProbe",
        queue=models.CharField(primary_key=True, max_length=80, serialize=False),
        sent_at=models.DateTimeField(null=True),
        attempted_at=models.DateTimeField(db_default=Now()),
    ),
    create_model(
        "Heartbeat",
        name=models.CharField(primary_key=True, max_length=200, serialize=False),
        kind=models.CharField(max_length=9, choices=[("worker", "worker"), ("scheduler", "scheduler")]),
        queues=ArrayField(help_text="A worker's.", base_field=models.CharField(max_length=80), size=None),
        started_at=models.DateTimeField(db_default=Now()),
        seen_at=models.DateTimeField(db_default=Now()),
        meta={
            "constraints": [
                models.CheckConstraint(name="heartbeat_kind_known", condition=Q(kind__in=["worker", "scheduler"]))
            ]
        },
    ),
)


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    replaces = replaced(
        "base",
        "0001_initial 0002_cache_entry 0003_audit_records 0004_job_runs 0005_job_run_states 0006_outgoing_mail "
        "0007_heartbeats",
    )

    operations = [
        migrations.RunSQL("CREATE SEQUENCE base_event_position AS bigint", "DROP SEQUENCE base_event_position"),
        CreateModels(*TABLES),
    ]
