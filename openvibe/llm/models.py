"""Model endpoints: where a workspace's agents get their answers from."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, ClassVar

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models, transaction
from django.db.models import Q
from django.utils import timezone

from openvibe.base.fields import EncryptedTextField, secret_hint
from openvibe.base.models import TimestampedModel
from openvibe.base.ssrf_guard import AddressRefused, check_url
from openvibe.llm.adaptations import KINDS


class Endpoint(TimestampedModel):
    """A model that admins of a workspace set up. The key is stored encrypted and never shown again."""

    class Kind(models.TextChoices):
        OFFLINE = "offline", "Offline (quotes, no network)"
        OPENAI = "openai", "OpenAI-compatible"
        ANTHROPIC = "anthropic", "Anthropic"
        RESPONSES = "responses", "OpenAI Responses"

    workspace = models.ForeignKey(
        "workspaces.Workspace", on_delete=models.CASCADE, related_name="endpoints", db_index=False
    )
    name = models.CharField(max_length=80)
    kind = models.CharField(max_length=20, choices=Kind.choices, default=Kind.OPENAI)
    base_url = models.CharField(
        "base URL", max_length=500, blank=True, help_text="For example https://models.example/v1"
    )
    api_key = EncryptedTextField("key", blank=True, default="")
    allowed_address = models.CharField(
        max_length=500,
        blank=True,
        default="",
        db_default="",
        editable=False,
        help_text="A base URL on this server's own machine that a superuser allowed to call. It allows no other.",
    )
    model = models.CharField(max_length=200, blank=True, help_text="The model's name, as the endpoint knows it.")
    context_window = models.PositiveIntegerField(
        default=32_000, validators=[MinValueValidator(2_000)], help_text="Tokens, prompt and answer together."
    )
    output_reserve = models.PositiveIntegerField(
        default=2_000, validators=[MinValueValidator(64)], help_text="Tokens of the window kept for the answer."
    )
    price_in = models.DecimalField(
        "price in",
        max_digits=10,
        decimal_places=4,
        null=True,
        blank=True,
        validators=[MinValueValidator(Decimal(0))],
        help_text="Per million prompt tokens.",
    )
    price_out = models.DecimalField(
        "price out",
        max_digits=10,
        decimal_places=4,
        null=True,
        blank=True,
        validators=[MinValueValidator(Decimal(0))],
        help_text="Per million answer tokens.",
    )
    timeout_seconds = models.PositiveIntegerField(
        default=120,
        validators=[MinValueValidator(1), MaxValueValidator(3_600)],
        help_text="How long one answer may take in all.",
    )
    is_default = models.BooleanField(default=False, help_text="Used by agents that name no endpoint of their own.")
    is_for_summaries = models.BooleanField(
        default=False, help_text="Writes summaries of conversations; without one, the default does."
    )

    failures = models.PositiveIntegerField(default=0, editable=False, help_text="Of answers, in a row.")
    rests_until = models.DateTimeField(null=True, editable=False)
    query_failures = models.PositiveIntegerField(default=0, editable=False, help_text="Of vectors of questions.")
    query_rests_until = models.DateTimeField(null=True, editable=False)

    tested_at = models.DateTimeField(null=True, editable=False, help_text="When a person last tried it out.")
    test_problem = models.CharField(max_length=500, blank=True, default="", db_default="", editable=False)

    class Meta:
        ordering: ClassVar = ["workspace_id", "name", "id"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["workspace", "name"], name="llm_endpoint_name_once_per_workspace"),
            models.UniqueConstraint(
                fields=["workspace"], condition=Q(is_default=True), name="llm_endpoint_one_default_per_workspace"
            ),
            models.UniqueConstraint(
                fields=["workspace"],
                condition=Q(is_for_summaries=True),
                name="llm_endpoint_one_for_summaries_per_workspace",
            ),
            models.CheckConstraint(
                condition=Q(kind="offline") | (~Q(base_url="") & ~Q(model="")),
                name="llm_endpoint_has_address_and_model",
            ),
            models.CheckConstraint(
                condition=Q(output_reserve__lt=models.F("context_window")), name="llm_endpoint_reserve_fits_window"
            ),
        ]

    @property
    def is_free(self) -> bool:
        """Whether asking it costs nothing. Where no price is known it is metered."""
        return self.kind == self.Kind.OFFLINE or self.price_in == self.price_out == 0

    @property
    def has_embeddings(self) -> bool:
        """Whether its protocol's provider makes vectors, too."""
        return self.kind in (self.Kind.OPENAI, self.Kind.RESPONSES)

    @property
    def allows_private(self) -> bool:
        """Whether its address may lie inside this server's own network."""
        return settings.ALLOW_PRIVATE_ENDPOINTS or (
            self.allowed_address != "" and self.allowed_address == self.base_url
        )

    def __str__(self) -> str:
        return self.name

    def save(self, **options: Any) -> None:
        """What was changed begins without failures, and untested; with another address, model or kind it forgets what
        the one before wanted of requests."""
        self.failures = self.query_failures = 0
        self.rests_until = self.query_rests_until = self.tested_at = None
        self.test_problem = ""
        with transaction.atomic():
            as_before = {"kind": self.kind, "base_url": self.base_url, "model": self.model}
            before = Endpoint.objects.filter(pk=self.pk).exclude(**as_before) if self.pk else Endpoint.objects.none()
            is_another = self.pk is not None and before.select_for_update(no_key=True).exists()
            super().save(**options)
            if is_another:
                self.adaptations.all().delete()

    @property
    def key_hint(self) -> str:
        return secret_hint(self.api_key, "key")

    def clean(self) -> None:
        problems: dict[str, str] = {}
        if self.kind != self.Kind.OFFLINE:
            if not self.base_url:
                problems["base_url"] = "Enter the endpoint's address, for example https://models.example/v1."
            if not self.model:
                problems["model"] = "Enter the name of the model, as the endpoint knows it."
        if self.base_url:
            try:
                check_url(self.base_url, allow_private=self.allows_private)
            except AddressRefused as error:
                problems["base_url"] = str(error)
        if (self.api_key and not self.api_key.isprintable()) or not self.api_key.isascii():
            problems["api_key"] = "A key is plain letters, digits and signs in one line."
        reserve, window = self.output_reserve, self.context_window
        if reserve is not None and window is not None and reserve >= window:
            problems["output_reserve"] = "The reserve has to be smaller than the context window."
        if problems:
            raise ValidationError(problems)


class EndpointAdaptation(models.Model):
    """How requests to an endpoint's model differ, since it refused them otherwise. `kind` and `value` as in
    `openvibe.llm.adaptations`; one of a kind that this version does not know changes nothing."""

    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="adaptations", db_index=False)
    model = models.CharField(max_length=200)
    kind = models.CharField(max_length=40)
    value = models.CharField(max_length=100, blank=True, default="")
    words = models.CharField(max_length=300, blank=True, default="", help_text="What the endpoint said, without keys.")
    learned_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering: ClassVar = ["kind"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["endpoint", "model", "kind"], name="llm_adaptation_once_per_model")
        ]

    def __str__(self) -> str:
        return self.effect

    @property
    def effect(self) -> str:
        """What it means, in plain words."""
        kind = KINDS.get(self.kind)
        return kind.effect.format(self.value) if kind else "Something that this version of OpenVibe does not know."
