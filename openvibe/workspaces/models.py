"""Users, workspaces, and who speaks in them."""

from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Any, ClassVar

import pgtrigger
from django.contrib.auth.models import AbstractBaseUser, BaseUserManager, PermissionsMixin
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import F, Func, Q, QuerySet
from django.db.models.functions import Lower, Now
from django.db.models.lookups import GreaterThan, LessThanOrEqual
from django.utils import timezone

from openvibe.base.models import Timestamped
from openvibe.base.params import MAX_ID
from openvibe.base.query_cache import CompiledQuery
from openvibe.base.text import HANDLE_PATTERN
from openvibe.base.time_zones import time_zone_or_utc

handle_validator = RegexValidator(
    rf"^{HANDLE_PATTERN}\Z", "Use 1 to 32 of a-z, 0-9, - and _, starting with a letter or digit."
)

snippet_name_validator = RegexValidator(
    r"^[a-z0-9][a-z0-9_-]{0,39}\Z", "Use 1 to 40 of a-z, 0-9, - and _, starting with a letter or digit."
)


MAX_INSTRUCTION_TOKENS = 2_000
"""Tokens of the instructions of one scope, with all that they include. Those of the organisation always fit beside the
SOUL in P0."""


@dataclass(frozen=True)
class DoNotDisturb:
    """When somebody wants no notifications: `until` an instant, and every day from `start` to `end` in her time `zone`,
    over midnight where `end` is the earlier one."""

    until: datetime | None = None
    start: time | None = None
    end: time | None = None
    zone: str = ""

    def ends_at(self, now: datetime) -> datetime | None:
        """When she may be disturbed again; None when she may be now."""
        ends = [self.until] if self.until and self.until > now else []
        if self.start is not None and self.end is not None:
            local = now.astimezone(time_zone_or_utc(self.zone))
            is_late, is_early = local.time() >= self.start, local.time() < self.end
            if (is_late and is_early) if self.start < self.end else (is_late or is_early):
                day = local.date() if is_early else local.date() + timedelta(days=1)
                ends.append(datetime.combine(day, self.end, local.tzinfo))
        return max(ends, default=None)


class UserManager(BaseUserManager["User"]):
    """Accounts are found by e-mail address, whatever its case; by number with a statement that is made once, since
    every request of a session asks so."""

    def get(self, *args: Any, **conditions: Any) -> "User":
        pk = conditions.get("pk")
        is_plain = (
            type(self) is UserManager and len(conditions) == 1 and not args
        )  # from another row, accounts are fewer
        if not is_plain or not isinstance(pk, int) or not 0 < pk <= MAX_ID:
            return super().get(*args, **conditions)
        users: list[User] = _user_by_id.objects(pk)
        if not users:
            raise User.DoesNotExist
        return users[0]

    def get_by_natural_key(self, username: str | None) -> "User":
        return self.get(email__iexact=username)

    def create_user(self, email: str, password: str | None = None, **extra: Any) -> "User":
        user = self.model(email=self.normalize_email(email).lower(), **extra)
        user.set_password(password)
        user.save()
        return user

    def create_superuser(self, email: str, password: str | None = None, **extra: Any) -> "User":
        return self.create_user(email, password, is_staff=True, is_superuser=True, **extra)


@CompiledQuery
def _user_by_id(user_id: int) -> QuerySet["User"]:
    return User.objects.filter(pk=user_id)


class User(AbstractBaseUser, PermissionsMixin):
    """A person's account. One account may belong to several workspaces."""

    email = models.EmailField(unique=True)
    name = models.CharField(max_length=80)
    theme = models.CharField(
        max_length=6, choices=[("system", "As the system"), ("light", "Light"), ("dark", "Dark")], default="system"
    )
    time_zone = models.CharField(
        max_length=64, blank=True, default="", db_default="", help_text="As in Europe/Berlin; empty: as browsers say."
    )
    dnd_until = models.DateTimeField(null=True, blank=True, help_text="No notifications until then.")
    dnd_start = models.TimeField(null=True, blank=True, help_text="No notifications daily from then, in her time zone.")
    dnd_end = models.TimeField(null=True, blank=True)
    is_staff = models.BooleanField(default=False)
    is_active = models.BooleanField(default=True)
    date_joined = models.DateTimeField(default=timezone.now, editable=False)

    objects: ClassVar[UserManager] = UserManager()

    USERNAME_FIELD = "email"
    EMAIL_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = ["name"]

    class Meta:
        constraints = [
            models.UniqueConstraint(Lower("email"), name="user_email_any_case"),
            models.CheckConstraint(
                condition=Q(dnd_start=None, dnd_end=None)
                | (Q(dnd_start__isnull=False, dnd_end__isnull=False) & ~Q(dnd_start=F("dnd_end"))),
                name="user_dnd_hours_whole",
            ),
        ]

    def __str__(self) -> str:
        return self.name or self.email

    def get_full_name(self) -> str:
        return self.name

    get_short_name = get_full_name

    @property
    def do_not_disturb(self) -> DoNotDisturb:
        return DoNotDisturb(self.dnd_until, self.dnd_start, self.dnd_end, self.time_zone)


class Workspace(Timestamped):
    """A tenant: people, channels, agents and knowledge that never meet another workspace's."""

    name = models.CharField(max_length=80)
    slug = models.SlugField(max_length=40, unique=True)
    description = models.TextField(
        blank=True, max_length=1000, help_text="Who you are; agents read it (≤ 200 tokens are used)."
    )
    instructions = models.TextField(
        blank=True, help_text="Organisation instructions: trusted, in every agent's prompt, at most 2,000 tokens."
    )
    budgets = models.JSONField(default=dict, blank=True, help_text="Token budgets that differ from the defaults.")
    daily_token_budget = models.PositiveIntegerField(
        default=2_000_000, help_text="Tokens all agents together may use in one UTC day."
    )

    class Meta:
        triggers = [
            pgtrigger.Trigger(
                name="has_vector_space",
                operation=pgtrigger.Insert,
                when=pgtrigger.After,
                func=(
                    "INSERT INTO search_vectorspace"
                    " (workspace_id, kind, model, dimension, state, problem, failures, served_since)"
                    " VALUES (NEW.id, 'static', '', 256, 'serving', '', 0, now());"
                    " RETURN NULL;"
                ),
            )
        ]

    def __str__(self) -> str:
        return self.name


class Snippet(Timestamped):
    """A text with a name that instructions include (`@include name`): trusted, written by admins only."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="snippets")
    name = models.CharField(max_length=40, validators=[snippet_name_validator])
    text = models.TextField()
    version = models.PositiveIntegerField(default=1, help_text="Counts its changes.")
    changed_by = models.ForeignKey("Participant", null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["workspace", "name"], name="snippet_name_unique"),
            models.CheckConstraint(condition=Q(name__regex=r"^[a-z0-9][a-z0-9_-]{0,39}$"), name="snippet_name_form"),
        ]

    def __str__(self) -> str:
        return f"@include {self.name}"


class Participant(models.Model):
    """One speaker of a workspace: a member, an agent, or somebody known only from imported conversations.

    An assistant or bot of an imported conversation is a kind of its own, so that nobody takes it for a person, nor for
    an agent of the workspace: like all imported speakers it has no access, no account and answers nobody.
    """

    class Kind(models.TextChoices):
        MEMBER = "member", "Member"
        AGENT = "agent", "Agent"
        IMPORTED = "imported", "Imported speaker"
        ASSISTANT = "assistant", "Imported assistant"

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="participants")
    kind = models.CharField(max_length=9, choices=Kind.choices)
    handle = models.CharField(max_length=32, validators=[handle_validator])
    name = models.CharField(max_length=80)
    is_active = models.BooleanField(default=True)
    picture_version = models.CharField(
        max_length=16,
        blank=True,
        default="",
        db_default="",
        editable=False,
        help_text="Of its picture, which is cached by it; empty without one. The database fills it in.",
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["handle"]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "handle"],
                name="participant_handle_unique",
                violation_error_message="This handle is taken in this workspace.",
            ),
            models.CheckConstraint(condition=Q(handle__regex=rf"^{HANDLE_PATTERN}$"), name="participant_handle_form"),
            models.CheckConstraint(
                condition=Q(kind__in=["member", "agent", "imported", "assistant"]), name="participant_kind_known"
            ),
        ]

    def __str__(self) -> str:
        return f"@{self.handle}"

    @property
    def is_agent(self) -> bool:
        return self.kind == self.Kind.AGENT

    @property
    def avatar_url(self) -> str | None:
        """Path of its picture, None without one."""
        return f"/pictures/{self.pk}/{self.picture_version}.webp" if self.picture_version else None


PICTURE_PIXELS = 192
"""Width and height of a picture: sharp at the largest size it is shown in, on dense screens."""

MAX_PICTURE_BYTES = 100_000
"""Of a picture as it is kept; 192 × 192 pixels of noise take about half of it."""


class Picture(models.Model):
    """What a participant looks like: a WebP square of PICTURE_PIXELS that OpenVibe itself encoded."""

    participant = models.OneToOneField(Participant, on_delete=models.CASCADE, related_name="picture")
    content = models.BinaryField(help_text="WebP.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(
                    GreaterThan(Func(F("content"), function="octet_length", output_field=models.IntegerField()), 0),
                    LessThanOrEqual(
                        Func(F("content"), function="octet_length", output_field=models.IntegerField()),
                        MAX_PICTURE_BYTES,
                    ),
                ),
                name="picture_size_bounded",
            )
        ]
        triggers = [
            pgtrigger.Trigger(
                name="names_its_hash",
                operation=pgtrigger.Insert | pgtrigger.Update | pgtrigger.Delete,
                when=pgtrigger.After,
                func=(
                    "IF TG_OP = 'DELETE' THEN"
                    " UPDATE workspaces_participant SET picture_version = '' WHERE id = OLD.participant_id;"
                    " ELSE UPDATE workspaces_participant"
                    " SET picture_version = left(encode(sha256(NEW.content), 'hex'), 16) WHERE id = NEW.participant_id;"
                    " END IF; RETURN NULL;"
                ),
            )
        ]

    def __str__(self) -> str:
        return f"Picture of {self.participant}"


IMPORTED_KINDS = (Participant.Kind.IMPORTED, Participant.Kind.ASSISTANT)
ASSISTANT_KINDS = (Participant.Kind.AGENT, Participant.Kind.ASSISTANT)
"""Kinds of speakers that are no persons."""


class NotificationLevel(models.TextChoices):
    """What somebody is notified of. `nothing`, chosen for one channel or thread, mutes it."""

    ALL = "all", "All messages"
    MENTIONS = "mentions", "Mentions"
    NOTHING = "nothing", "Nothing"


class DigestFrequency(models.TextChoices):
    """How often missed mentions are mailed at most."""

    OFF = "off", "Off"
    HOURLY = "hourly", "At most once an hour"
    DAILY = "daily", "At most once a day"


class Member(models.Model):
    """A user's place in a workspace. `removed_at` ends every access at once and keeps what they said."""

    class Role(models.TextChoices):
        OWNER = "owner", "Owner"
        ADMIN = "admin", "Admin"
        MEMBER = "member", "Member"
        GUEST = "guest", "Guest"

    participant = models.OneToOneField(Participant, on_delete=models.CASCADE, related_name="member")
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="members")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=6, choices=Role.choices, default=Role.MEMBER)
    joined_at = models.DateTimeField(db_default=Now(), editable=False)
    removed_at = models.DateTimeField(null=True, blank=True)
    enter_sends = models.BooleanField(default=True, help_text="Enter sends a message, Shift+Enter breaks the line.")
    shortcuts = models.BooleanField(default=True, help_text="Single-key shortcuts.")
    is_invisible = models.BooleanField(default=False, db_default=False, help_text="Nobody is shown when they are here.")
    notify_level = models.CharField(
        max_length=8,
        choices=NotificationLevel.choices,
        default=NotificationLevel.MENTIONS,
        db_default=NotificationLevel.MENTIONS,
        help_text="What the member is notified of where no channel or thread says otherwise.",
    )
    digest = models.CharField(
        max_length=6,
        blank=True,
        choices=DigestFrequency.choices,
        default="",
        db_default="",
        help_text="E-mails about missed mentions; empty: daily where e-mail is set up.",
    )
    digest_sent_at = models.DateTimeField(null=True, editable=False)
    first_steps_since = models.DateTimeField(
        null=True, editable=False, help_text="What was done since then counts as first steps. Empty: none are shown."
    )
    opened_context_at = models.DateTimeField(null=True, editable=False, help_text="When they first saw a prompt.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workspace", "user"], name="member_once_per_workspace"),
            models.CheckConstraint(
                condition=Q(role__in=["owner", "admin", "member", "guest"]), name="member_role_known"
            ),
            models.CheckConstraint(
                condition=Q(notify_level__in=["all", "mentions", "nothing"]), name="member_notify_level_known"
            ),
            models.CheckConstraint(condition=Q(digest__in=["", "off", "hourly", "daily"]), name="member_digest_known"),
        ]

    stream_position: int | None = None
    """Of the workspace's newest event, where `access_member` read it; None without any."""

    def __str__(self) -> str:
        return f"{self.participant} ({self.role})"


PRESENCE_SECONDS = 120
"""How long somebody counts as here after a page of theirs was seen open."""


class Presence(models.Model):
    """When a page of somebody was last seen open."""

    participant = models.OneToOneField(Participant, on_delete=models.CASCADE, primary_key=True, related_name="presence")
    seen_at = models.DateTimeField(db_default=Now())


class Invitation(models.Model):
    """A link that lets somebody join with a role until it expires, is used up or taken back. Stored hashed."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="invitations")
    token_hash = models.CharField(max_length=64, unique=True, editable=False)
    role = models.CharField(max_length=6, choices=Member.Role.choices, default=Member.Role.MEMBER)
    channels = models.ManyToManyField("chat.Channel", blank=True, related_name="+")
    created_by = models.ForeignKey(Participant, on_delete=models.CASCADE, related_name="+")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField()
    uses_left = models.PositiveSmallIntegerField(default=1)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.CheckConstraint(condition=~Q(role="owner"), name="invitation_never_makes_owners")]

    def __str__(self) -> str:
        return f"Invitation as {self.role}"

    @property
    def is_open(self) -> bool:
        return self.revoked_at is None and self.uses_left > 0 and self.expires_at > timezone.now()


class Spending(models.Model):
    """What one model call in the background cost, in tokens. Calls of runs are counted in the runs."""

    class Purpose(models.TextChoices):
        SUMMARIES = "summaries", "Summaries"
        REVIEW = "review", "Reviews"
        CONTRADICTIONS = "contradictions", "Contradictions"
        TRIALS = "trials", "Trial questions"

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="spendings")
    agent = models.ForeignKey(
        Participant, null=True, on_delete=models.CASCADE, related_name="+", help_text="Whose budget it counts against."
    )
    purpose = models.CharField(max_length=14, choices=Purpose.choices)
    model = models.CharField(max_length=120)
    input_tokens = models.PositiveIntegerField(default=0)
    output_tokens = models.PositiveIntegerField(default=0)
    cached_tokens = models.PositiveIntegerField(
        null=True, help_text="Of the input, read from the provider's cache. Empty where the provider did not say."
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        verbose_name = "background call"
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["workspace", "-created_at"], name="spending_of_workspace"),
            models.Index(fields=["agent", "-created_at"], name="spending_of_agent"),
        ]

    def __str__(self) -> str:
        return f"{self.get_purpose_display()}: {self.input_tokens + self.output_tokens:,} tokens"
