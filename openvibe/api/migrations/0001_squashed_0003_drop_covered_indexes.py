from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models
from django.db.models import Q
from django.db.models.functions import Now

from openvibe.engines.database.migration_operations import CreateModels, create_model, replaced

TABLES = (
    create_model(
        "CallCount",
        subject=models.CharField(primary_key=True, max_length=40, serialize=False),
        minute=models.BigIntegerField(help_text="Whole minutes since 1970."),
        calls=models.PositiveIntegerField(),
    ),
    create_model(
        "IdempotencyKey",
        key=models.CharField(max_length=200),
        fingerprint=models.CharField(max_length=64, help_text="SHA-256 of method, path and body."),
        status=models.PositiveSmallIntegerField(null=True, help_text="Empty while the first call is under way."),
        body=models.JSONField(null=True),
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        participant=models.ForeignKey("workspaces.participant", models.CASCADE, related_name="+", db_index=False),
        meta={
            "indexes": [models.Index(name="idempotency_key_age", fields=["created_at"])],
            "constraints": [models.UniqueConstraint(name="idempotency_key_once", fields=("participant", "key"))],
        },
    ),
    create_model(
        "Token",
        name=models.CharField(max_length=80),
        token_hash=models.CharField(max_length=64, unique=True, editable=False),
        hint=models.CharField(max_length=8, editable=False, help_text="The last four characters."),
        scopes=ArrayField(
            default=list,
            base_field=models.CharField(
                max_length=10,
                choices=[
                    ("read", "read"),
                    ("write", "write"),
                    ("memory", "memory"),
                    ("knowledge", "knowledge"),
                    ("admin", "admin"),
                ],
            ),
            size=None,
        ),
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        expires_at=models.DateTimeField(blank=True, null=True),
        revoked_at=models.DateTimeField(blank=True, null=True),
        last_used_at=models.DateTimeField(blank=True, null=True, editable=False),
        participant=models.ForeignKey("workspaces.participant", models.CASCADE, related_name="tokens"),
        made_by=models.ForeignKey(
            "workspaces.participant",
            models.SET_NULL,
            null=True,
            editable=False,
            help_text="Who holds its secret. Empty: whoever runs the server.",
            related_name="+",
        ),
        meta={
            "constraints": [
                models.CheckConstraint(
                    name="token_scopes_known",
                    condition=Q(scopes__contained_by=["read", "write", "memory", "knowledge", "admin"]),
                )
            ]
        },
    ),
)


class Migration(migrations.Migration):
    initial = True

    dependencies = [("workspaces", "0001_squashed_0012_names_that_look_alike")]

    replaces = replaced("api", "0001_initial 0002_token_maker 0003_drop_covered_indexes")

    operations = [CreateModels(*TABLES)]
