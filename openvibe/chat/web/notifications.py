"""What the reader is notified of: the menu at the head of threads and channels, and her own page."""

from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from openvibe.base.forms import ServiceForm
from openvibe.base.params import int_param
from openvibe.base.problems import Problem
from openvibe.chat import services
from openvibe.chat.digests import effective_digest, must_confirm_address
from openvibe.chat.models import Channel, NotificationPreference, Thread
from openvibe.chat.queries import access_channel, access_thread, notification_preferences, read_surroundings
from openvibe.workspaces.decorators import WorkspaceRequest, page_before, request_timezone, workspace_view
from openvibe.workspaces.models import DigestFrequency, NotificationLevel
from openvibe.workspaces.services import pause_notifications

CHOICES = (
    (NotificationLevel.ALL, "All messages"),
    (NotificationLevel.MENTIONS, "Mentions"),
    (NotificationLevel.NOTHING, "Nothing (mute)"),
)
LABELS = dict(NotificationLevel.choices)
PREFERENCES_ON_A_PAGE = 50


@dataclass(frozen=True)
class NotifyMenu:
    """What `chat/_notify_menu.html` shows: the level of one channel or thread. `level` is empty where none is set,
    `default` is what holds then, and `origin` says whence."""

    action: str
    what: str
    level: str
    default: str
    origin: str
    choices: tuple[tuple[str, str], ...] = CHOICES

    @property
    def is_muted(self) -> bool:
        return self.level == NotificationLevel.NOTHING

    @property
    def label(self) -> str:
        return LABELS[NotificationLevel(self.level or self.default)]

    @property
    def default_label(self) -> str:
        return f"{self.origin}: {LABELS[NotificationLevel(self.default)].lower()}"


def thread_notify_menu(request: WorkspaceRequest, thread: Thread, own_level: str, of_channel: str) -> NotifyMenu:
    action = reverse("thread-notify", args=[request.workspace.slug, thread.pk])
    origin = f"As {thread.channel}" if of_channel else "Your default"
    return NotifyMenu(action, "thread", own_level, of_channel or request.member.notify_level, origin)


def channel_notify_menu(request: WorkspaceRequest, channel: Channel) -> NotifyMenu:
    """The menu of a channel that was looked up by `access_channel`."""
    action = reverse("channel-notify", args=[request.workspace.slug, channel.pk])
    own_level = str(getattr(channel, "notify_level", ""))
    return NotifyMenu(action, "channel", own_level, request.member.notify_level, "Your default")


@workspace_view
@require_POST
def thread_notify(request: WorkspaceRequest, thread_id: int) -> HttpResponse:
    """The page that chooses `level` for the thread; empty for what holds in its channel."""
    thread = access_thread(request.access, thread_id)
    services.set_notification_level(scope=thread, by=request.access, level=request.POST.get("level", ""))
    if not request.htmx:
        return _redirect_back(request, "thread", thread.pk)
    surroundings = read_surroundings(thread, request.access)
    menu = thread_notify_menu(request, thread, surroundings.notify_level, surroundings.channel_notify_level)
    return render(request, "chat/_notify_menu.html", {"menu": menu, "is_open": True})


@workspace_view
@require_POST
def channel_notify(request: WorkspaceRequest, channel_id: int) -> HttpResponse:
    """The page that chooses `level` for the channel; empty for the reader's default."""
    channel = access_channel(request.access, channel_id)
    level = services.set_notification_level(scope=channel, by=request.access, level=request.POST.get("level", ""))
    if not request.htmx:
        return _redirect_back(request, "channel", channel.pk)
    vars(channel)["notify_level"] = level
    return render(request, "chat/_notify_menu.html", {"menu": channel_notify_menu(request, channel), "is_open": True})


def _redirect_back(request: WorkspaceRequest, view: str, pk: int) -> HttpResponse:
    slug = request.workspace.slug
    if "listed" not in request.POST:
        return redirect(view, slug, pk)
    number = int_param(request.POST, "listed") or 1
    query = f"?page={number}" if number > 1 else ""
    return redirect(f"{reverse('notifications', args=[slug])}{query}#notify-places")


TIME_ATTRIBUTES = {"type": "time"}


class NotificationForm(ServiceForm):
    """What a person is notified of, where no channel or thread says otherwise."""

    level = forms.ChoiceField(
        label="Notify me of", choices=NotificationLevel.choices, widget=forms.RadioSelect, required=False
    )
    dnd_start = forms.TimeField(
        label="Do not disturb, every day from", widget=forms.TimeInput(TIME_ATTRIBUTES, "%H:%M"), required=False
    )
    dnd_end = forms.TimeField(label="Until", widget=forms.TimeInput(TIME_ATTRIBUTES, "%H:%M"), required=False)
    digest = forms.ChoiceField(
        label="E-mail mentions that I missed", choices=DigestFrequency.choices, widget=forms.RadioSelect, required=False
    )


@dataclass(frozen=True)
class ListedPreference:
    """A choice as the page lists it."""

    href: str
    name: str
    place: str
    menu: NotifyMenu


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def notifications(request: WorkspaceRequest) -> HttpResponse:
    """The reader's default and her choices for channels and threads."""
    member, user = request.member, request.user
    initial = {
        "level": member.notify_level,
        "digest": effective_digest(member),
        "dnd_start": user.dnd_start,
        "dnd_end": user.dnd_end,
    }
    form = NotificationForm(request.POST if request.method == "POST" else None, initial=initial)
    if not settings.EMAIL_CONFIGURED:
        del form.fields["digest"]
    if request.method == "POST" and form.is_valid():
        try:
            zone = request.COOKIES.get("zone", "")
            services.update_notification_settings(member=member, by=request.access, zone=zone, **form.cleaned_data)
            messages.success(request, "Saved.")
            return redirect("notifications", request.workspace.slug)
        except Problem as problem:
            form.add_problem(problem)
    page = Paginator(notification_preferences(request.access), PREFERENCES_ON_A_PAGE).get_page(request.GET.get("page"))
    context: dict[str, Any] = {
        "form": form,
        "listed": [_listed_preference(request, each) for each in page],
        "page": page,
        "email_configured": settings.EMAIL_CONFIGURED,
        "must_confirm": settings.EMAIL_CONFIGURED and must_confirm_address(user),
        "email_minutes": settings.DIGEST_AFTER_MINUTES,
        "zone": request_timezone(request).key,
        "browsers": user.push_subscriptions.order_by("-created_at"),
    }
    return render(request, "chat/notifications.html", context, status=form.status)


def _listed_preference(request: WorkspaceRequest, each: NotificationPreference) -> ListedPreference:
    slug = request.workspace.slug
    view, row = ("thread", each.thread) if each.thread else ("channel", each.channel)
    assert row is not None
    place = str(row.channel) if isinstance(row, Thread) else ""
    action = reverse(f"{view}-notify", args=[slug, row.pk])
    menu = NotifyMenu(action, view, each.level, request.member.notify_level, "Your default")
    return ListedPreference(reverse(view, args=[slug, row.pk]), str(row), place, menu)


PAUSES = {"30": timedelta(minutes=30), "120": timedelta(hours=2)}
MORNING = time(8)


@workspace_view
@require_POST
def do_not_disturb(request: WorkspaceRequest) -> HttpResponse:
    """No notifications for so many minutes (`for`: 30 or 120), until 8:00 `tomorrow`, or `off`; then back to the
    page."""
    pause, now = request.POST.get("for", ""), timezone.now()
    if pause not in (*PAUSES, "tomorrow", "off"):
        raise Problem("Choose 30, 120, tomorrow or off.", code="bad_pause", field="for")
    until = now + PAUSES[pause] if pause in PAUSES else None
    if pause == "tomorrow":
        until = timezone.make_aware(datetime.combine(timezone.localdate(now) + timedelta(days=1), MORNING))
    pause_notifications(user=request.user, until=until)
    return redirect(page_before(request, otherwise=reverse("inbox", args=[request.workspace.slug])))
