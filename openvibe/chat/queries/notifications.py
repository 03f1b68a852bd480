"""What somebody is notified of: the choices she made for channels and threads, and what holds."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from openvibe.chat.models import Channel, NotificationPreference, Thread
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member


def notification_preferences(access: Access) -> QuerySet[NotificationPreference]:
    """The asker's choices for what she still sees: channels first, by name."""
    is_visible = Q(channel__in=Channel.objects.visible_to(access)) | Q(thread__in=Thread.objects.visible_to(access))
    rows = NotificationPreference.objects.filter(is_visible, participant_id=access.participant_id)
    return rows.select_related("channel", "thread__channel").order_by(
        "channel__name", "thread__channel__name", "thread__title", "pk"
    )


def chosen_notification_level(access: Access, scope: Channel | Thread) -> str:
    """What the asker chose for it; empty where nothing."""
    own = NotificationPreference.objects.filter(participant_id=access.participant_id)
    rows = own.filter(thread=scope) if isinstance(scope, Thread) else own.filter(channel=scope)
    return rows.values_list("level", flat=True).first() or ""


def notification_level(access: Access, scope: Channel | Thread | None = None) -> str:
    """What holds: the thread's choice, its channel's, the asker's default."""
    level = chosen_notification_level(access, scope) if scope else ""
    if not level and isinstance(scope, Thread):
        level = chosen_notification_level(access, scope.channel)
    default = Member.objects.filter(participant=access.participant_id).values_list("notify_level", flat=True)
    return level or default[0]
