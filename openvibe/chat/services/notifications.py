"""What a person is notified of: her default, and her choice for one channel or thread."""

from datetime import time
from typing import Any

from django.db import transaction

from openvibe.base.events import emit
from openvibe.base.problems import Problem, Refused
from openvibe.chat.models import Channel, NotificationPreference, Thread
from openvibe.chat.services.permissions import check_not_dive
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import DigestFrequency, Member, NotificationLevel
from openvibe.workspaces.services import set_quiet_hours


def clean_notification_level(level: str) -> str:
    if level not in NotificationLevel.values:
        raise Problem("Choose all, mentions or nothing.", code="bad_notification_level", field="level")
    return level


def check_is_person(by: Access) -> None:
    if by.is_agent:
        raise Refused("Only people are notified. An agent is told of everything it sees by the event stream.")


@transaction.atomic
def set_notification_level(*, scope: Channel | Thread, by: Access, level: str) -> str:
    """What `by` is notified of in a channel or a thread that she sees; empty for what holds around it. Her open pages
    are told."""
    check_is_person(by)
    where: dict[str, Any] = {"participant_id": by.participant_id}
    if isinstance(scope, Thread):
        check_not_dive(scope)
        where["thread"] = scope
    else:
        where["channel"] = scope
    if level:
        level = clean_notification_level(level)
        NotificationPreference.objects.update_or_create(**where, defaults={"level": level})
    else:
        NotificationPreference.objects.filter(**where).delete()
    emit_notifications_changed(by, scope)
    return level


@transaction.atomic
def set_default_notification_level(*, by: Access, level: str) -> str:
    """What `by` is notified of where she chose nothing else."""
    check_is_person(by)
    level = clean_notification_level(level)
    Member.objects.filter(participant=by.participant_id).update(notify_level=level)
    emit_notifications_changed(by)
    return level


@transaction.atomic
def update_notification_settings(
    *, member: Member, by: Access, level: str, dnd_start: time | None, dnd_end: time | None, zone: str, digest: str = ""
) -> None:
    """A person's default, when she is never disturbed (`set_quiet_hours`), and how often missed mentions are mailed to
    her: empty leaves that as it is."""
    if digest and digest not in DigestFrequency.values:
        raise Problem("Choose off, hourly or daily.", code="bad_digest", field="digest")
    if digest:
        Member.objects.filter(pk=member.pk).update(digest=digest)
    set_default_notification_level(by=by, level=level)
    set_quiet_hours(user=member.user, start=dnd_start, end=dnd_end, zone=zone)


def emit_notifications_changed(by: Access, scope: Channel | Thread | None = None) -> None:
    """Tells her own open pages."""
    emit(
        "notifications_changed",
        workspace_id=by.workspace_id,
        channel_id=scope.channel_id if isinstance(scope, Thread) else scope.pk if scope else None,
        thread_id=scope.pk if isinstance(scope, Thread) else None,
        participant_id=by.participant_id,
    )
