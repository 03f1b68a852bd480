"""The shell: sidebar, stream position and right panel of every workspace page, made only when a template asks."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, cast

from django.http import HttpRequest
from django.template import Library
from django.utils import timezone
from django.utils.crypto import salted_hmac
from django.utils.safestring import SafeString

from openvibe.chat.queries import (
    MAX_COUNTED_MENTIONS,
    Sidebar,
    SidebarChannel,
    SidebarDirect,
    SidebarParticipant,
    SidebarWorkspace,
    read_sidebar,
)
from openvibe.chat.wiring import SIDEBAR_EXTRAS
from openvibe.engines.serving.fragments import render_fragments
from openvibe.workspaces.decorators import WorkspaceRequest

register = Library()
"""Tags of templates that `{% load shell %}`."""

MAX_CHANNELS = 60
"""The most channels in the sidebar; the others are found on the page of all channels, and by the command palette."""
LINKED_VIEWS = frozenset({"agent", "inbox", "knowledge", "mentions", "saved", "search"})
PANEL_PATH = re.compile(r"[a-z0-9][a-z0-9/_-]{0,200}")


@dataclass(frozen=True)
class SidebarTop:
    """What `chat/_sidebar_top.html` shows: the menu of workspaces, and where everything of this one is found."""

    slug: str
    name: str
    workspaces: tuple[SidebarWorkspace, ...]
    administers: bool
    is_superuser: bool
    theme: str
    here: str
    has_news: bool
    notices: int
    mention_count: int
    to_review: object
    quiet_until: str
    is_paused: bool


@dataclass
class Shell:
    """The sidebar, the place in the event stream, and what the right panel holds."""

    request: WorkspaceRequest

    @property
    def position(self) -> int:
        """The position at which the event stream of this page begins: asked before the content is read, or something is
        missed."""
        return self.request.stream_position

    @property
    def session_mark(self) -> str:
        """Marks of the account and of the session, which tell a page that its browser's notifications belong to another
        one. Nothing can be opened with them."""
        marks = (str(self.request.user.pk), self.request.session.session_key or "")
        return ".".join(salted_hmac("openvibe.session_mark", mark).hexdigest()[:16] for mark in marks)

    @cached_property
    def panel(self) -> str:
        """The address `?panel=` names inside this workspace; empty when there is none."""
        path = self.request.GET.get("panel", "")
        return f"/w/{self.request.workspace.slug}/{path}" if PANEL_PATH.fullmatch(path) else ""

    @cached_property
    def sidebar(self) -> Sidebar:
        return read_sidebar(self.request.access, self.request.user.pk)

    @property
    def channels(self) -> tuple[SidebarChannel, ...]:
        return self.sidebar.channels

    @property
    def has_more_channels(self) -> bool:
        return len(self.channels) > MAX_CHANNELS

    @property
    def agents(self) -> tuple[SidebarParticipant, ...]:
        return self.sidebar.agents

    @cached_property
    def extras(self) -> dict[str, object]:
        """What upper floors show in the sidebar."""
        return {name: value for source in SIDEBAR_EXTRAS for name, value in source(self.request.access).items()}

    @property
    def here(self) -> str:
        """The address of the page, where the sidebar may hold a link to it besides those of channels; else empty."""
        match = self.request.resolver_match
        return self.request.path if match is not None and match.url_name in LINKED_VIEWS else ""

    @property
    def top(self) -> SidebarTop:
        request, channels, notices = self.request, self.channels, int(str(self.extras.get("notices") or 0))
        now, quiet = timezone.now(), request.user.do_not_disturb
        conversations: list[SidebarChannel | SidebarDirect] = [*channels, *self.direct]
        return SidebarTop(
            slug=request.workspace.slug,
            name=request.workspace.name,
            workspaces=self.sidebar.workspaces,
            administers=request.access.administers,
            is_superuser=request.user.is_superuser,
            theme=request.user.theme,
            here=self.here,
            has_news=any(each.unread for each in conversations) or notices > 0,
            notices=notices,
            mention_count=sum(each.mention_count for each in conversations),
            to_review=self.extras.get("to_review"),
            quiet_until=_time_in_words(quiet.ends_at(now)),
            is_paused=quiet.until is not None and quiet.until > now,
        )

    def agent_links(self) -> SafeString:
        slug, here = self.request.workspace.slug, self.here
        rows = ({"slug": slug, "agent": agent, "here": here} for agent in self.agents)
        return render_fragments("chat/_sidebar_agent.html", rows)

    @property
    def direct(self) -> tuple[SidebarDirect, ...]:
        return self.sidebar.direct

    def people_links(self) -> SafeString:
        slug, access = self.request.workspace.slug, self.request.access
        rows = (
            {
                "slug": slug,
                "person": one,
                "is_asker": one.pk == access.participant_id,
                "is_listed": one.pk == access.participant_id or not access.is_guest,
            }
            for one in self.sidebar.people
        )
        return render_fragments("chat/_sidebar_person.html", rows)


def _time_in_words(moment: datetime | None) -> str:
    """A time of the days to come, in the reader's zone; empty without one."""
    if moment is None:
        return ""
    local, today = timezone.localtime(moment), timezone.localdate()
    return f"{local:%H:%M}" if local.date() == today else f"{local:%a %-d %b, %H:%M}"


@register.simple_tag(takes_context=True)
def channel_links(context: Mapping[str, Any]) -> SafeString:
    """`{% channel_links %}`: the channels of the sidebar; the page's own `channel`, if it has one, is marked."""
    slug = context["request"].workspace.slug
    current = getattr(context.get("channel"), "pk", None)
    channels = listed_channels(context["shell"].channels, current)
    rows = ({"slug": slug, "channel": one, "is_current": one.pk == current} for one in channels)
    return render_fragments("chat/_sidebar_channel.html", rows)


@register.filter
def mention_count_text(count: int) -> str:
    """A count of mentions, with a plus where the sidebar counted no further. `static/js/live.js` counts on alike."""
    return str(count) if count < MAX_COUNTED_MENTIONS else f"{MAX_COUNTED_MENTIONS}+"


def listed_channels(channels: Sequence[SidebarChannel], current: int | None) -> Sequence[SidebarChannel]:
    """The channels that are listed, at most MAX_CHANNELS of them, in their order: first of all the one shown, those
    with something new, and those the asker was added to."""
    if len(channels) <= MAX_CHANNELS:
        return channels
    by_weight = sorted(
        channels, key=lambda one: (one.pk != current, not one.mention_count, not one.unread, not one.is_joined)
    )
    listed_ids = {one.pk for one in by_weight[:MAX_CHANNELS]}
    return [one for one in channels if one.pk in listed_ids]


@register.simple_tag(takes_context=True)
def direct_links(context: Mapping[str, Any]) -> SafeString:
    """`{% direct_links %}`: the direct messages of the sidebar; those of the page are marked."""
    slug = context["request"].workspace.slug
    current = getattr(context.get("channel"), "pk", None)
    rows = ({"slug": slug, "direct": one, "is_current": one.channel_id == current} for one in context["shell"].direct)
    return render_fragments("chat/_sidebar_direct.html", rows)


def shell_of(request: WorkspaceRequest) -> Shell:
    """The shell of a request, one for all that ask."""
    shell: Shell = vars(request).setdefault("shell", Shell(request))
    return shell


def shell_context(request: HttpRequest) -> dict[str, Shell]:
    """Context processor: `shell`, the same for every template of a request, on pages of a workspace."""
    return {"shell": shell_of(cast(WorkspaceRequest, request))} if hasattr(request, "access") else {}
