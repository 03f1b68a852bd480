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

from openvibe.engines.database.fields import EncryptedTextField, secret_hint
from openvibe.engines.database.models import TimestampedModel
from openvibe.engines.llm.adaptations.adaptations import KINDS
from openvibe.engines.llm.images import is_known_to_see
from openvibe.engines.llm.known_models import find_model
from openvibe.engines.llm.retries import CallLimits
from openvibe.engines.network.ssrf_guard import AddressRefused, check_url

MIN_WINDOW = 2_000
"""Tokens; in less no prompt of an agent fits with an answer."""
WINDOW_TOO_SMALL = (
    f"Agents need a context window of at least {MIN_WINDOW:,} tokens. Start the model with a larger one, or take "
    "another."
)


def reserve_within(reserve: int, window: int, learned_window: int | None) -> int:
    """Tokens kept for the answer, in a window that was set, or in a smaller one that was learned."""
    return reserve if learned_window is None or learned_window >= window else min(reserve, learned_window // 4)


def may_be_sent_images(kind: str, model: str, choice: bool | None) -> bool:
    """An admin's choice; else what is known of the model, or its name says. Where nothing does, images are tried."""
    if kind == Endpoint.Kind.OFFLINE:
        return False
    if choice is not None:
        return choice
    known = find_model(model)
    return "images" in known.abilities if known else is_known_to_see(model) is not False


MAX_TIMEOUT_SECONDS = 3_600


class Endpoint(TimestampedModel):
    """A model that admins of a workspace set up. The key is stored encrypted and never shown again."""

    class Kind(models.TextChoices):
        OFFLINE = "offline", "Offline (quotes, no network)"
        OPENAI = "openai", "OpenAI-compatible"
        ANTHROPIC = "anthropic", "Anthropic"
        RESPONSES = "responses", "OpenAI Responses"

    class WindowSource(models.TextChoices):
        ASSUMED = "", "Assumed"
        PERSON = "person", "Set by a person"
        SERVER = "server", "Told by the server"
        KNOWN = "known", "Known of the model"

    SUMMARY_RANKS = ((2, "Second"), (3, "Third"))

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
        default=32_000,
        validators=[MinValueValidator(MIN_WINDOW, WINDOW_TOO_SMALL)],
        help_text="Tokens, prompt and answer together.",
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
        validators=[MinValueValidator(1), MaxValueValidator(MAX_TIMEOUT_SECONDS)],
        help_text="How long one answer may take in all.",
    )
    sees_images = models.BooleanField(
        null=True,
        blank=True,
        choices=((None, "As its name says"), (True, "Yes"), (False, "No")),
        help_text="Whether the model is sent images. Where its name does not say, it is tried.",
    )
    is_default = models.BooleanField(default=False, help_text="Used by agents that name no endpoint of their own.")
    is_for_summaries = models.BooleanField(
        default=False, help_text="Writes summaries of conversations; without one, the default does."
    )
    summary_rank = models.PositiveSmallIntegerField(
        null=True,
        blank=True,
        choices=SUMMARY_RANKS,
        help_text="Writes summaries where the models before it cannot: asked as the second, or as the third.",
    )

    is_fallback = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Answers where another model of this workspace fails twice, for agents that name no fallback.",
    )

    window_source = models.CharField(
        max_length=6,
        choices=WindowSource.choices,
        default=WindowSource.ASSUMED,
        db_default=WindowSource.ASSUMED,
        editable=False,
        help_text="Who set the context window.",
    )
    told_window = models.PositiveIntegerField(
        null=True, editable=False, help_text="Tokens that the server says the model takes, prompt and answer together."
    )
    told_window_by = models.CharField(max_length=200, blank=True, default="", db_default="", editable=False)
    told_window_at = models.DateTimeField(null=True, editable=False)
    learned_window = models.PositiveIntegerField(
        null=True,
        editable=False,
        help_text="Tokens that a refusal of a longer prompt named, or that were left after it.",
    )
    learned_window_by = models.CharField(max_length=300, blank=True, default="", db_default="", editable=False)
    learned_window_at = models.DateTimeField(null=True, editable=False)
    unread_sent = models.PositiveIntegerField(
        null=True, editable=False, help_text="Tokens of a prompt of which the server read fewer without a word."
    )
    unread_read = models.PositiveIntegerField(null=True, editable=False, help_text="Tokens of it that were read.")
    unread_at = models.DateTimeField(null=True, editable=False)
    token_factor = models.FloatField(
        default=1.0,
        db_default=1.0,
        editable=False,
        help_text="What its prompts count by its own usage, in parts of the estimate made here.",
    )

    failures = models.PositiveIntegerField(default=0, editable=False, help_text="Of answers, in a row.")
    rests_until = models.DateTimeField(null=True, editable=False)
    query_failures = models.PositiveIntegerField(default=0, editable=False, help_text="Of vectors of questions.")
    query_rests_until = models.DateTimeField(null=True, editable=False)

    tested_at = models.DateTimeField(null=True, editable=False, help_text="When a person last tried it out.")
    test_problem = models.CharField(max_length=500, blank=True, default="", db_default="", editable=False)

    attempts = CallLimits.attempts
    """Times that one call is tried; an instance that another stands in for is given fewer."""
    waits_for_start = True
    """Whether a server is waited for that nothing listens at; not where somebody waits, or another stands in."""

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
            models.UniqueConstraint(
                fields=["workspace"], condition=Q(is_fallback=True), name="llm_endpoint_one_fallback_per_workspace"
            ),
            models.UniqueConstraint(
                fields=["workspace", "summary_rank"],
                condition=Q(summary_rank__isnull=False),
                name="llm_endpoint_summary_rank_once_per_workspace",
            ),
            models.CheckConstraint(
                condition=Q(summary_rank__isnull=True) | Q(summary_rank__in=[2, 3], is_for_summaries=False),
                name="llm_endpoint_summary_rank_is_second_or_third",
            ),
            models.CheckConstraint(
                condition=Q(is_default=False) | Q(is_fallback=False), name="llm_endpoint_fallback_is_another"
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
    def is_sent_images(self) -> bool:
        """Whether prompts hold images for it, or only their names and descriptions."""
        return may_be_sent_images(self.kind, self.model, self.sees_images)

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

    @property
    def identity(self) -> tuple[str, str, str]:
        """What is answered by: another address or model is another one, and nothing that was learned holds for it."""
        return self.kind, self.base_url.rstrip("/"), self.model

    def is_same_model(self, other: Endpoint) -> bool:
        """Whether both ask one model at one address, whatever they are called here."""
        return self.pk == other.pk or self.identity == other.identity

    @property
    def usable_window(self) -> int:
        """Tokens of prompt and answer: what is set here, or less where the endpoint refused so much."""
        return min(self.context_window, self.learned_window or self.context_window)

    @property
    def usable_reserve(self) -> int:
        """Tokens kept for the answer: of a window that turned out smaller than the one set a quarter at most."""
        return reserve_within(self.output_reserve, self.context_window, self.learned_window)

    def forget_windows(self) -> None:
        """Clears what was told, learned and noticed about how much it reads. Not saved."""
        self.told_window = self.told_window_at = self.learned_window = self.learned_window_at = None
        self.unread_sent = self.unread_read = self.unread_at = None
        self.told_window_by = self.learned_window_by = ""

    def save(self, **options: Any) -> None:
        """What was changed begins without failures, and untested; with another address, model or kind it forgets what
        the one before said, and wanted of requests."""
        self.failures = self.query_failures = 0
        self.rests_until = self.query_rests_until = self.tested_at = None
        self.test_problem = ""
        with transaction.atomic():
            as_before = {"kind": self.kind, "base_url": self.base_url, "model": self.model}
            before = Endpoint.objects.filter(pk=self.pk).exclude(**as_before) if self.pk else Endpoint.objects.none()
            is_another = self.pk is not None and before.select_for_update(no_key=True).exists()
            if is_another:
                self.forget_windows()
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
        if self.is_default and self.is_fallback:
            problems["is_fallback"] = "The default cannot stand in for itself. Choose another model as the fallback."
        if self.is_for_summaries and self.summary_rank is not None:
            problems["summary_rank"] = "It writes the summaries already. Choose another model to stand in for it."
        if problems:
            raise ValidationError(problems)


class EndpointAdaptation(models.Model):
    """How requests to an endpoint's model differ, since it refused them otherwise. `kind` and `value` as in
    `openvibe.engines.llm.adaptations.adaptations`; one of a kind that this version does not know changes nothing."""

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
