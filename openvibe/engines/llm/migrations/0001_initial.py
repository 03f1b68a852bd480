from decimal import Decimal

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import migrations, models
from django.db.models.functions import Now

import openvibe.engines.database.fields


class Migration(migrations.Migration):
    initial = True

    dependencies = [("workspaces", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="Endpoint",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("created_at", models.DateTimeField(db_default=Now(), editable=False)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("name", models.CharField(max_length=80)),
                (
                    "kind",
                    models.CharField(
                        choices=[("offline", "Offline (quotes, no network)"), ("openai", "OpenAI-compatible")],
                        default="openai",
                        max_length=20,
                    ),
                ),
                (
                    "base_url",
                    models.CharField(
                        blank=True,
                        help_text="For example https://models.example/v1",
                        max_length=500,
                        verbose_name="base URL",
                    ),
                ),
                (
                    "api_key",
                    openvibe.engines.database.fields.EncryptedTextField(blank=True, default="", verbose_name="key"),
                ),
                (
                    "model",
                    models.CharField(
                        blank=True, help_text="The model's name, as the endpoint knows it.", max_length=200
                    ),
                ),
                (
                    "context_window",
                    models.PositiveIntegerField(
                        default=32000,
                        help_text="Tokens, prompt and answer together.",
                        validators=[MinValueValidator(2000)],
                    ),
                ),
                (
                    "output_reserve",
                    models.PositiveIntegerField(
                        default=2000,
                        help_text="Tokens of the window kept for the answer.",
                        validators=[MinValueValidator(64)],
                    ),
                ),
                (
                    "price_in",
                    models.DecimalField(
                        blank=True,
                        decimal_places=4,
                        help_text="Per million prompt tokens.",
                        max_digits=10,
                        null=True,
                        validators=[MinValueValidator(Decimal("0"))],
                        verbose_name="price in",
                    ),
                ),
                (
                    "price_out",
                    models.DecimalField(
                        blank=True,
                        decimal_places=4,
                        help_text="Per million answer tokens.",
                        max_digits=10,
                        null=True,
                        validators=[MinValueValidator(Decimal("0"))],
                        verbose_name="price out",
                    ),
                ),
                (
                    "timeout_seconds",
                    models.PositiveIntegerField(
                        default=120,
                        help_text="How long one answer may take in all.",
                        validators=[MinValueValidator(1), MaxValueValidator(3600)],
                    ),
                ),
                (
                    "is_default",
                    models.BooleanField(default=False, help_text="Used by agents that name no endpoint of their own."),
                ),
                (
                    "workspace",
                    models.ForeignKey(on_delete=models.CASCADE, related_name="endpoints", to="workspaces.workspace"),
                ),
                (
                    "is_for_summaries",
                    models.BooleanField(
                        default=False, help_text="Writes summaries of conversations; without one, the default does."
                    ),
                ),
            ],
            options={
                "ordering": ["workspace_id", "name", "id"],
                "constraints": [
                    models.UniqueConstraint(fields=("workspace", "name"), name="llm_endpoint_name_once_per_workspace"),
                    models.UniqueConstraint(
                        condition=models.Q(("is_default", True)),
                        fields=("workspace",),
                        name="llm_endpoint_one_default_per_workspace",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("kind", "offline"),
                            models.Q(models.Q(("base_url", ""), _negated=True), models.Q(("model", ""), _negated=True)),
                            _connector="OR",
                        ),
                        name="llm_endpoint_has_address_and_model",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("output_reserve__lt", models.F("context_window"))),
                        name="llm_endpoint_reserve_fits_window",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("is_for_summaries", True)),
                        fields=("workspace",),
                        name="llm_endpoint_one_for_summaries_per_workspace",
                    ),
                ],
            },
        )
    ]
