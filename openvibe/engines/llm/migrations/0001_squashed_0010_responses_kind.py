from decimal import Decimal

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import migrations, models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils.timezone import now

from openvibe.engines.database.fields import EncryptedTextField
from openvibe.engines.database.migration_operations import CreateModels, create_model, replaced

TABLES = (
    create_model(
        "Endpoint",
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        updated_at=models.DateTimeField(auto_now=True),
        name=models.CharField(max_length=80),
        kind=models.CharField(
            max_length=20,
            default="openai",
            choices=[
                ("offline", "Offline (quotes, no network)"),
                ("openai", "OpenAI-compatible"),
                ("anthropic", "Anthropic"),
                ("responses", "OpenAI Responses"),
            ],
        ),
        base_url=models.CharField(
            verbose_name="base URL", max_length=500, blank=True, help_text="For example https://models.example/v1"
        ),
        api_key=EncryptedTextField(verbose_name="key", blank=True, default=""),
        model=models.CharField(max_length=200, blank=True, help_text="The model's name, as the endpoint knows it."),
        context_window=models.PositiveIntegerField(
            default=32000,
            help_text="Tokens, prompt and answer together.",
            validators=[
                MinValueValidator(
                    2000,
                    "Agents need a context window of at least 2,000 tokens. Start the model with a larger one, or take another.",
                )
            ],
        ),
        output_reserve=models.PositiveIntegerField(
            default=2000, help_text="Tokens of the window kept for the answer.", validators=[MinValueValidator(64)]
        ),
        price_in=models.DecimalField(
            verbose_name="price in",
            blank=True,
            null=True,
            help_text="Per million prompt tokens.",
            validators=[MinValueValidator(Decimal("0"))],
            max_digits=10,
            decimal_places=4,
        ),
        price_out=models.DecimalField(
            verbose_name="price out",
            blank=True,
            null=True,
            help_text="Per million answer tokens.",
            validators=[MinValueValidator(Decimal("0"))],
            max_digits=10,
            decimal_places=4,
        ),
        timeout_seconds=models.PositiveIntegerField(
            default=120,
            help_text="How long one answer may take in all.",
            validators=[MinValueValidator(1), MaxValueValidator(3600)],
        ),
        is_default=models.BooleanField(default=False, help_text="Used by agents that name no endpoint of their own."),
        workspace=models.ForeignKey("workspaces.workspace", models.CASCADE, related_name="endpoints", db_index=False),
        is_for_summaries=models.BooleanField(
            default=False, help_text="Writes summaries of conversations; without one, the default does."
        ),
        failures=models.PositiveIntegerField(default=0, editable=False, help_text="Of answers, in a row."),
        query_failures=models.PositiveIntegerField(default=0, editable=False, help_text="Of vectors of questions."),
        query_rests_until=models.DateTimeField(null=True, editable=False),
        rests_until=models.DateTimeField(null=True, editable=False),
        allowed_address=models.CharField(
            max_length=500,
            blank=True,
            default="",
            db_default="",
            editable=False,
            help_text="A base URL on this server's own machine that a superuser allowed to call. It allows no other.",
        ),
        test_problem=models.CharField(max_length=500, blank=True, default="", db_default="", editable=False),
        tested_at=models.DateTimeField(null=True, editable=False, help_text="When a person last tried it out."),
        is_fallback=models.BooleanField(
            default=False,
            db_default=False,
            help_text="Answers where another model of this workspace fails twice, for agents that name no fallback.",
        ),
        learned_window=models.PositiveIntegerField(
            null=True,
            editable=False,
            help_text="Tokens that a refusal of a longer prompt named, or that were left after it.",
        ),
        learned_window_at=models.DateTimeField(null=True, editable=False),
        learned_window_by=models.CharField(max_length=300, blank=True, default="", db_default="", editable=False),
        told_window=models.PositiveIntegerField(
            null=True,
            editable=False,
            help_text="Tokens that the server says the model takes, prompt and answer together.",
        ),
        told_window_at=models.DateTimeField(null=True, editable=False),
        told_window_by=models.CharField(max_length=200, blank=True, default="", db_default="", editable=False),
        unread_at=models.DateTimeField(null=True, editable=False),
        unread_read=models.PositiveIntegerField(null=True, editable=False, help_text="Tokens of it that were read."),
        unread_sent=models.PositiveIntegerField(
            null=True, editable=False, help_text="Tokens of a prompt of which the server read fewer without a word."
        ),
        window_source=models.CharField(
            max_length=6,
            default="",
            db_default="",
            editable=False,
            choices=[
                ("", "Assumed"),
                ("person", "Set by a person"),
                ("server", "Told by the server"),
                ("known", "Known of the model"),
            ],
            help_text="Who set the context window.",
        ),
        sees_images=models.BooleanField(
            blank=True,
            null=True,
            choices=[(None, "As its name says"), (True, "Yes"), (False, "No")],
            help_text="Whether the model is sent images. Where its name does not say, it is tried.",
        ),
        meta={
            "ordering": ["workspace_id", "name", "id"],
            "constraints": [
                models.UniqueConstraint(name="llm_endpoint_name_once_per_workspace", fields=("workspace", "name")),
                models.UniqueConstraint(
                    name="llm_endpoint_one_default_per_workspace", fields=("workspace",), condition=Q(is_default=True)
                ),
                models.CheckConstraint(
                    name="llm_endpoint_has_address_and_model",
                    condition=Q(kind="offline") | ~Q(base_url="") & ~Q(model=""),
                ),
                models.CheckConstraint(
                    name="llm_endpoint_reserve_fits_window", condition=Q(output_reserve__lt=F("context_window"))
                ),
                models.UniqueConstraint(
                    name="llm_endpoint_one_for_summaries_per_workspace",
                    fields=("workspace",),
                    condition=Q(is_for_summaries=True),
                ),
                models.UniqueConstraint(
                    name="llm_endpoint_one_fallback_per_workspace", fields=("workspace",), condition=Q(is_fallback=True)
                ),
                models.CheckConstraint(
                    name="llm_endpoint_fallback_is_another", condition=Q(is_default=False) | Q(is_fallback=False)
                ),
            ],
        },
    ),
    create_model(
        "EndpointAdaptation",
        model=models.CharField(max_length=200),
        kind=models.CharField(max_length=40),
        value=models.CharField(max_length=100, blank=True, default=""),
        words=models.CharField(
            max_length=300, blank=True, default="", help_text="What the endpoint said, without keys."
        ),
        learned_at=models.DateTimeField(default=now),
        endpoint=models.ForeignKey("llm.endpoint", models.CASCADE, related_name="adaptations", db_index=False),
        meta={
            "ordering": ["kind"],
            "constraints": [
                models.UniqueConstraint(name="llm_adaptation_once_per_model", fields=("endpoint", "model", "kind"))
            ],
        },
    ),
)


class Migration(migrations.Migration):
    initial = True

    dependencies = [("workspaces", "0001_squashed_0012_names_that_look_alike")]

    replaces = replaced(
        "llm",
        "0001_initial 0002_shared_breaker 0003_anthropic_kind 0004_allowed_address 0005_last_test "
        "0006_drop_covered_indexes 0007_adaptations 0008_windows_and_fallback 0009_sees_images 0010_responses_kind",
    )

    operations = [CreateModels(*TABLES)]
