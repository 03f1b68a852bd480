"""People's accounts, each of which may belong to several workspaces."""

from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Any, ClassVar

from django.contrib.auth.models import AbstractBaseUser, BaseUserManager, PermissionsMixin
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Lower
from django.utils import timezone

from openvibe.base.name_field import NameField
from openvibe.engines.database.time_zones import instant_of, time_zone_or_utc


@dataclass(frozen=True)
class DoNotDisturb:
    """The times when somebody wants no notifications: `until` an instant, and every day from `start` to `end` in her
    time `zone`, over midnight where `end` is the earlier one."""

    until: datetime | None = None
    start: time | None = None
    end: time | None = None
    zone: str = ""

    def ends_at(self, now: datetime) -> datetime | None:
        """The time when she may be disturbed again; None when she may be now."""
        ends = [self.until] if self.until and self.until > now else []
        if self.start is not None and self.end is not None:
            zone = time_zone_or_utc(self.zone)
            local = now.astimezone(zone)
            is_late, is_early = local.time() >= self.start, local.time() < self.end
            if (is_late and is_early) if self.start < self.end else (is_late or is_early):
                day = local.date() if is_early else local.date() + timedelta(days=1)
                end = datetime.combine(day, self.end)
                instant = instant_of(end, zone)
                ends.append(instant if instant > now else end.replace(tzinfo=zone, fold=1))  # the hour comes twice
        return max(ends, default=None)


class UserManager(BaseUserManager["User"]):
    """Accounts are found by e-mail address, whatever its case."""

    def get_by_natural_key(self, username: str | None) -> "User":
        return self.get(email__iexact=username)

    def create_user(self, email: str, password: str | None = None, **extra: Any) -> "User":
        user = self.model(email=self.normalize_email(email).lower(), **extra)
        user.set_password(password)
        user.save()
        return user

    def create_superuser(self, email: str, password: str | None = None, **extra: Any) -> "User":
        return self.create_user(email, password, is_staff=True, is_superuser=True, **extra)


class User(AbstractBaseUser, PermissionsMixin):
    """A person's account. One account may belong to several workspaces."""

    email = models.EmailField(unique=True)
    name = NameField(max_length=80)
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
