from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models
from django.db.models.functions import Now

from openvibe.engines.database.migration_operations import CreateModels


class Migration(migrations.Migration):
    initial = True

    dependencies = [("workspaces", "0001_initial")]

    operations = [
        CreateModels(
            migrations.CreateModel(
                name="CallCount",
                fields=[
                    ("subject", models.CharField(max_length=40, primary_key=True, serialize=False)),
                    ("minute", models.BigIntegerField(help_text="Whole minutes since 1970.")),
                    ("calls", models.PositiveIntegerField()),
                ],
            ),
            migrations.CreateModel(
                name="IdempotencyKey",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("key", models.CharField(max_length=200)),
                    ("fingerprint", models.CharField(help_text="SHA-256 of method, path and body.", max_length=64)),
                    (
                        "status",
                        models.PositiveSmallIntegerField(
                            help_text="Empty while the first call is under way.", null=True
                        ),
                    ),
                    ("body", models.JSONField(null=True)),
                    ("created_at", models.DateTimeField(db_default=Now(), editable=False)),
                    (
                        "participant",
                        models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="workspaces.participant"),
                    ),
                ],
                options={
                    "indexes": [models.Index(fields=["created_at"], name="idempotency_key_age")],
                    "constraints": [
                        models.UniqueConstraint(fields=("participant", "key"), name="idempotency_key_once")
                    ],
                },
            ),
            migrations.CreateModel(
                name="Token",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("name", models.CharField(max_length=80)),
                    ("token_hash", models.CharField(editable=False, max_length=64, unique=True)),
                    ("hint", models.CharField(editable=False, help_text="The last four characters.", max_length=8)),
                    (
                        "scopes",
                        ArrayField(
                            base_field=models.CharField(
                                choices=[
                                    ("read", "read"),
                                    ("write", "write"),
                                    ("memory", "memory"),
                                    ("knowledge", "knowledge"),
                                    ("admin", "admin"),
                                ],
                                max_length=10,
                            ),
                            default=list,
                            size=None,
                        ),
                    ),
                    ("created_at", models.DateTimeField(db_default=Now(), editable=False)),
                    ("expires_at", models.DateTimeField(blank=True, null=True)),
                    ("revoked_at", models.DateTimeField(blank=True, null=True)),
                    ("last_used_at", models.DateTimeField(blank=True, editable=False, null=True)),
                    (
                        "participant",
                        models.ForeignKey(on_delete=models.CASCADE, related_name="tokens", to="workspaces.participant"),
                    ),
                ],
                options={
                    "constraints": [
                        models.CheckConstraint(
                            condition=models.Q(
                                ("scopes__contained_by", ["read", "write", "memory", "knowledge", "admin"])
                            ),
                            name="token_scopes_known",
                        )
                    ]
                },
            ),
        )
    ]
