"""The participants of a workspace, members among them, and those who are invited."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import pgtrigger
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Case, F, Func, Q, Value, When
from django.db.models.functions import Concat, Now
from django.db.models.lookups import GreaterThan, LessThanOrEqual
from django.utils import timezone

from openvibe.base.name_field import MisleadingNameField, NameField, NameKeyField
from openvibe.engines.database.locks import LockKind, lock_key
from openvibe.engines.text.cleaning import HANDLE_PATTERN
from openvibe.workspaces.models.account import User
from openvibe.workspaces.models.workspace import Workspace

handle_validator = RegexValidator(
    rf"^{HANDLE_PATTERN}\Z", "Use 1 to 32 of a-z, 0-9, - and _, starting with a letter or digit."
)


MAX_NAME_CHARACTERS, MAX_NAME_KEY_CHARACTERS = 80, 160
NAME_LOCKS = 1024
"""Locks of one workspace for names that are given at the same moment."""


class ParticipantQuerySet(models.QuerySet["Participant"]):
    """A name goes with what it looks like, whichever way it is written."""

    def update(self, **values: Any) -> int:
        """Raises TypeError for a name that is an expression: nobody knows yet what it will look like."""
        if "name" in values:
            name = values["name"].value if isinstance(values["name"], Value) else values["name"]
            if not isinstance(name, str):
                raise TypeError("A participant's name is a text.")
            probe = self.model(name=name)
            for field in _name_fields(self.model):
                values[field.name] = field.pre_save(probe, add=False)
        return super().update(**values)

    def refresh_name_columns(self) -> None:
        """Fills in the columns of rows that were written past the model."""
        rows = list(self.order_by("pk"))
        fields = _name_fields(self.model)
        for row in rows:
            for field in fields:
                field.pre_save(row, add=False)
        self.model.objects.bulk_update(rows, [field.name for field in fields], batch_size=1_000)


def _lock_name(row: str) -> str:
    """The statement, in a trigger, by which those who give or leave the name of `row` wait for one another."""
    return (
        f"PERFORM pg_advisory_xact_lock({lock_key(LockKind.NAMES, 0)}"
        f" + ({row}.workspace_id * {NAME_LOCKS}) % 1000000000000"
        f" + (hashtextextended({row}.name_key, 0) & {NAME_LOCKS - 1}));"
    )


def _name_fields(model: type[Participant]) -> tuple[models.Field[Any, Any], ...]:
    """Returns the values of the columns that say what a name looks like."""
    return model._meta.get_field("name_key"), model._meta.get_field("is_name_misleading")


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
    name = NameField(max_length=MAX_NAME_CHARACTERS)
    name_key = NameKeyField(
        max_length=MAX_NAME_KEY_CHARACTERS,
        default="",
        editable=False,
        help_text="What the name looks like; those that can be taken for each other have the same.",
    )
    is_name_misleading = MisleadingNameField(
        default=False, editable=False, help_text="The name reads as more than a name, or mixes scripts."
    )
    has_namesake = models.BooleanField(
        default=False,
        db_default=False,
        editable=False,
        help_text="Somebody else here has a name that looks like it. The database fills it in.",
    )
    label = models.GeneratedField(
        expression=Case(
            When(
                Q(has_namesake=True) | Q(is_name_misleading=True),
                then=Concat("name", Value(" (@"), "handle", Value(")")),
            ),
            default=F("name"),
        ),
        output_field=models.CharField(max_length=MAX_NAME_CHARACTERS + 36),
        db_persist=True,
        help_text="The name, with the handle where it could be taken for another's: how prompts name people.",
    )
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

    objects: ClassVar[models.Manager[Participant]] = models.Manager.from_queryset(ParticipantQuerySet)()

    class Meta:
        ordering = ["handle"]
        indexes = [models.Index(fields=["workspace", "name_key", "has_namesake"], name="participant_name_key")]
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
        triggers = [
            pgtrigger.Trigger(  # two that are given at once would not see each other: hence the lock
                name="finds_namesakes",
                operation=pgtrigger.Insert | pgtrigger.UpdateOf("name_key", "has_namesake"),
                when=pgtrigger.Before,
                func=(
                    f"IF TG_OP = 'INSERT' OR NEW.name_key <> OLD.name_key THEN {_lock_name('NEW')} END IF;"
                    " NEW.has_namesake := EXISTS (SELECT FROM workspaces_participant WHERE id <> NEW.id"
                    " AND workspace_id = NEW.workspace_id AND name_key = NEW.name_key);"
                    " RETURN NEW;"
                ),
            ),
            pgtrigger.Trigger(  # the update lets the other trigger look again
                name="tells_namesakes",
                operation=pgtrigger.Insert | pgtrigger.UpdateOf("name_key") | pgtrigger.Delete,
                when=pgtrigger.After,
                func=(
                    "IF TG_OP = 'UPDATE' AND NEW.name_key = OLD.name_key THEN RETURN NULL; END IF;"  # noqa: S608
                    " IF TG_OP <> 'DELETE' AND NEW.has_namesake THEN"
                    " UPDATE workspaces_participant SET has_namesake = true WHERE workspace_id = NEW.workspace_id"
                    " AND name_key = NEW.name_key AND id <> NEW.id AND NOT has_namesake; END IF;"
                    " IF TG_OP = 'INSERT' OR NOT OLD.has_namesake THEN RETURN NULL; END IF;"
                    f" {_lock_name('OLD')}"  # of two who leave one behind, the second sees that it is one
                    " IF (SELECT count(*) FROM (SELECT FROM workspaces_participant WHERE workspace_id ="
                    " OLD.workspace_id AND name_key = OLD.name_key AND id <> OLD.id LIMIT 2) AS others) = 1 THEN"
                    " UPDATE workspaces_participant SET has_namesake = false WHERE workspace_id = OLD.workspace_id"
                    " AND name_key = OLD.name_key AND id <> OLD.id AND has_namesake; END IF;"
                    " RETURN NULL;"
                ),
            ),
        ]

    def __str__(self) -> str:
        return f"@{self.handle}"

    def save(self, *args: Any, update_fields: Iterable[str] | None = None, **options: Any) -> None:
        if update_fields is not None and "name" in (update_fields := set(update_fields)):
            update_fields |= {field.name for field in _name_fields(type(self))}
        super().save(*args, update_fields=update_fields, **options)

    @property
    def is_name_ambiguous(self) -> bool:
        """Whether it could be taken for another's: the handle stands with it."""
        return bool(self.label != self.name)

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
"""The most bytes of a picture as it is kept; 192 × 192 pixels of noise take about half of it."""


class Picture(models.Model):
    """Picture of a participant: a WebP square of PICTURE_PIXELS that OpenVibe itself encoded."""

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
    """Level of what somebody is notified of. `nothing`, chosen for one channel or thread, mutes it."""

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
    """The position of the workspace's newest event, where `access_member` read it; None without any."""

    def __str__(self) -> str:
        return f"{self.participant} ({self.role})"


PRESENCE_SECONDS = 120
"""How long somebody counts as here after a page of theirs was seen open."""


class Presence(models.Model):
    """The time when a page of somebody was last seen open."""

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
