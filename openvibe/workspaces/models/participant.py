"""Who speaks in a workspace, members among them, and who is invited."""

import pgtrigger
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import F, Func, Q
from django.db.models.functions import Now
from django.db.models.lookups import GreaterThan, LessThanOrEqual
from django.utils import timezone

from openvibe.base.name_field import NameField
from openvibe.base.text import HANDLE_PATTERN
from openvibe.workspaces.models.account import User
from openvibe.workspaces.models.workspace import Workspace

handle_validator = RegexValidator(
    rf"^{HANDLE_PATTERN}\Z", "Use 1 to 32 of a-z, 0-9, - and _, starting with a letter or digit."
)


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

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="participants", db_index=False)
    kind = models.CharField(max_length=9, choices=Kind.choices)
    handle = models.CharField(max_length=32, validators=[handle_validator])
    name = NameField(max_length=80)
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
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="members", db_index=False)
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
