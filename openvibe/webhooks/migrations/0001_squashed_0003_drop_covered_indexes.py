from uuid import uuid4

from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models
from django.db.models import Q
from django.db.models.functions import Now

from openvibe.engines.database.fields import EncryptedTextField
from openvibe.engines.database.migration_operations import CreateModels, create_model, replaced

TABLES = (
    create_model(
        "Webhook",
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        updated_at=models.DateTimeField(auto_now=True),
        url=models.CharField(max_length=500),
        kinds=ArrayField(base_field=models.CharField(max_length=40), size=None),
        secret=EncryptedTextField(editable=False),
        previous_secret=EncryptedTextField(blank=True, default="", editable=False),
        rotated_at=models.DateTimeField(null=True, editable=False),
        state=models.CharField(
            max_length=8, default="active", choices=[("active", "active"), ("paused", "paused"), ("resting", "resting")]
        ),
        reason=models.CharField(max_length=300, blank=True, help_text="Why it rests, in words for people."),
        position=models.BigIntegerField(default=0, editable=False),
        failing_since=models.DateTimeField(null=True, editable=False),
        next_attempt_at=models.DateTimeField(db_default=Now(), editable=False),
        participant=models.ForeignKey("workspaces.participant", models.CASCADE, related_name="webhooks"),
        workspace=models.ForeignKey("workspaces.workspace", models.CASCADE, related_name="webhooks"),
        made_by=models.ForeignKey(
            "workspaces.participant",
            models.CASCADE,
            null=True,
            editable=False,
            help_text="Who said last where it sends. Empty: nobody knows, of one made before this was kept.",
            related_name="+",
        ),
        meta={
            "ordering": ["id"],
            "constraints": [
                models.CheckConstraint(
                    name="webhook_state_known", condition=Q(state__in=["active", "paused", "resting"])
                ),
                models.CheckConstraint(
                    name="webhook_kinds_known",
                    condition=Q(
                        kinds__contained_by=[
                            "mention",
                            "message_posted",
                            "message_changed",
                            "thread_changed",
                            "run_changed",
                            "work_changed",
                            "memory_changed",
                            "knowledge_changed",
                            "pins_changed",
                            "dive_changed",
                            "channel_changed",
                            "agent_changed",
                            "members_changed",
                            "workspace_changed",
                        ],
                        kinds__len__gt=0,
                    ),
                ),
                models.CheckConstraint(name="webhook_rest_has_reason", condition=~Q(state="resting") | ~Q(reason="")),
            ],
        },
    ),
    create_model(
        "Delivery",
        uid=models.UUIDField(unique=True, default=uuid4, editable=False),
        position=models.BigIntegerField(null=True, help_text="Of the event; empty for a test."),
        kind=models.CharField(max_length=40),
        channel_id=models.BigIntegerField(null=True),
        thread_id=models.BigIntegerField(null=True),
        message_id=models.BigIntegerField(null=True),
        state=models.CharField(
            max_length=9,
            default="pending",
            choices=[
                ("pending", "waiting"),
                ("delivered", "delivered"),
                ("given_up", "given up"),
                ("withheld", "withheld"),
            ],
        ),
        attempts=models.PositiveIntegerField(default=0),
        status=models.PositiveSmallIntegerField(null=True, help_text="Of the last answer; empty where none came."),
        response=models.CharField(max_length=500, blank=True, help_text="How the last answer begins, secrets masked."),
        error=models.CharField(max_length=300, blank=True, help_text="Why the last attempt failed."),
        milliseconds=models.PositiveIntegerField(null=True, help_text="How long the last attempt took."),
        attempted_at=models.DateTimeField(null=True),
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        webhook=models.ForeignKey("webhooks.webhook", models.CASCADE, related_name="deliveries", db_index=False),
        meta={
            "ordering": ["-id"],
            "indexes": [
                models.Index(
                    name="delivery_waiting", fields=["webhook", "position", "id"], condition=Q(state="pending")
                ),
                models.Index(name="delivery_recent", fields=["webhook", "-id"]),
                models.Index(name="delivery_of_message", fields=["message_id"], condition=~Q(response="")),
                models.Index(name="delivery_age", fields=["created_at"]),
            ],
            "constraints": [
                models.UniqueConstraint(name="delivery_once_per_event", fields=("webhook", "position")),
                models.CheckConstraint(
                    name="delivery_state_known", condition=Q(state__in=["pending", "delivered", "given_up", "withheld"])
                ),
            ],
        },
    ),
)


class Migration(migrations.Migration):
    initial = True

    dependencies = [("workspaces", "0001_squashed_0012_names_that_look_alike")]

    replaces = replaced("webhooks", "0001_initial 0002_webhook_maker 0003_drop_covered_indexes")

    operations = [CreateModels(*TABLES)]
