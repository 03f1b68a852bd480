"""The shell: sidebar, stream position and right panel of every workspace page, made only when a template asks."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple, cast

from django.http import HttpRequest
from django.template import Library
from django.utils import timezone
from django.utils.crypto import salted_hmac
from django.utils.safestring import SafeString

from openvibe.chat.models import Channel, SidebarOrder, SidebarSection, sees_channel
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
from openvibe.engines.serving.fragments import render_fragment, render_fragments
from openvibe.workspaces.decorators import WorkspaceRequest

register = Library()
"""Tags of templates that `{% load shell %}`."""

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
        """Channels by name, for lists to choose from: those of the sidebar."""
        return self.sidebar.channels

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
        request, notices = self.request, int(str(self.extras.get("notices") or 0))
        now, quiet = timezone.now(), request.user.do_not_disturb
        return SidebarTop(
            slug=request.workspace.slug,
            name=request.workspace.name,
            workspaces=self.sidebar.workspaces,
            administers=request.access.administers,
            is_superuser=request.user.is_superuser,
            theme=request.user.theme,
            here=self.here,
            has_news=self.sidebar.has_news or notices > 0,
            notices=notices,
            mention_count=self.sidebar.mention_count,
            to_review=self.extras.get("to_review"),
            quiet_until=_time_in_words(quiet.ends_at(now)),
            is_paused=quiet.until is not None and quiet.until > now,
        )


def _time_in_words(moment: datetime | None) -> str:
    """A time of the days to come, in the reader's zone; empty without one."""
    if moment is None:
        return ""
    local, today = timezone.localtime(moment), timezone.localdate()
    return f"{local:%H:%M}" if local.date() == today else f"{local:%a %-d %b, %H:%M}"


@register.filter
def mention_count_text(count: int) -> str:
    """A count of mentions, with a plus where the sidebar counted no further. `static/js/live.js` counts on alike."""
    return str(count) if count < MAX_COUNTED_MENTIONS else f"{MAX_COUNTED_MENTIONS}+"


@dataclass(frozen=True)
class SectionHead:
    """The heading of a section. `count` is shown beside it: unread direct messages."""

    name: str
    label: str
    is_folded: bool
    count: int = 0


class Section(NamedTuple):
    """A section of the sidebar as its template shows it. A folded one has what is new in it, and where one is."""

    head: SectionHead
    rows: SafeString


@register.simple_tag(takes_context=True)
def sidebar_sections(context: Mapping[str, Any]) -> dict[str, Section]:
    """`{% sidebar_sections as sections %}`: the sections by their names; the page's own `channel`, if it has one, is
    marked."""
    channel = context.get("channel")
    return _Sections(context["shell"], channel if isinstance(channel, Channel) else None).by_name()


@dataclass
class _Sections:
    shell: Shell
    channel: Channel | None

    @cached_property
    def current(self) -> int | None:
        return self.channel.pk if self.channel else None

    def by_name(self) -> dict[str, Section]:
        favourites: list[SidebarChannel | SidebarDirect] = [
            *self._channels(is_favourite=True),
            *self._direct(is_favourite=True),
        ]
        unread_count = self.shell.sidebar.direct_count
        return {
            "favourites": self._section(SidebarSection.FAVOURITES, self._links(favourites)),
            "direct": self._section(SidebarSection.DIRECT, self._links(self._direct(is_favourite=False)), unread_count),
            "agents": self._section(SidebarSection.AGENTS, self._agents()),
            "channels": self._section(SidebarSection.CHANNELS, self._links(self._channels(is_favourite=False))),
            "people": self._section(SidebarSection.PEOPLE, self._people()),
        }

    def _section(self, section: SidebarSection, rows: SafeString, count: int = 0) -> Section:
        is_folded = section in self.shell.sidebar.folded
        return Section(SectionHead(section.value, str(section.label), is_folded, count), rows)

    def _shows(self, section: SidebarSection, *, is_new: bool, pk: int | None) -> bool:
        return section not in self.shell.sidebar.folded or is_new or (pk is not None and pk == self.current)

    def _channels(self, *, is_favourite: bool) -> list[SidebarChannel]:
        """Channels of one of the two sections, in the asker's order; the one that is shown is always among them."""
        section = SidebarSection.FAVOURITES if is_favourite else SidebarSection.CHANNELS
        listed = list(self.shell.sidebar.channels)
        if (channel := self.channel) and not channel.is_direct and all(each.pk != channel.pk for each in listed):
            listed.append(SidebarChannel(channel.pk, channel.name, channel.is_private, unread=False, mention_count=0))
            listed.sort(key=attrgetter("name"))
        rows = [
            each
            for each in listed
            if each.is_favourite == is_favourite and self._shows(section, is_new=each.is_new, pk=each.pk)
        ]
        if self.shell.sidebar.order == SidebarOrder.UNREAD:
            rows.sort(key=lambda each: (not each.mention_count, not each.unread, each.is_muted))
        return rows

    def _direct(self, *, is_favourite: bool) -> list[SidebarDirect]:
        section = SidebarSection.FAVOURITES if is_favourite else SidebarSection.DIRECT
        return [
            each
            for each in self.shell.sidebar.direct
            if each.is_favourite == is_favourite and self._shows(section, is_new=each.is_new, pk=each.channel_id)
        ]

    def _links(self, rows: Sequence[SidebarChannel | SidebarDirect]) -> SafeString:
        slug, current = self.shell.request.workspace.slug, self.current
        html = (
            render_fragment("chat/_sidebar_channel.html", slug=slug, channel=each, is_current=each.pk == current)
            if isinstance(each, SidebarChannel)
            else render_fragment(
                "chat/_sidebar_direct.html", slug=slug, direct=each, is_current=each.channel_id == current
            )
            for each in rows
        )
        return SafeString("".join(html))

    def _agents(self) -> SafeString:
        shell = self.shell
        rows = (
            {"slug": shell.request.workspace.slug, "agent": agent, "here": shell.here}
            for agent in shell.sidebar.agents
            if self._shows(SidebarSection.AGENTS, is_new=bool(agent.replies), pk=None)
        )
        return render_fragments("chat/_sidebar_agent.html", rows)

    def _people(self) -> SafeString:
        request = self.shell.request
        rows = (
            {"slug": request.workspace.slug, "person": one, "is_asker": one.pk == request.access.participant_id}
            for one in self.shell.sidebar.people
            if self._shows(SidebarSection.PEOPLE, is_new=False, pk=None)
        )
        return render_fragments("chat/_sidebar_person.html", rows)


def channel_choices(request: WorkspaceRequest, chosen: int | None) -> list[SidebarChannel]:
    """Channels for a list to choose from: those of the sidebar, and the one that is chosen, with one more statement
    where it is none of them; by name."""
    choices = list(shell_of(request).channels)
    if chosen is not None and all(each.pk != chosen for each in choices) and sees_channel(request.access, chosen):
        rooms = Channel.objects.visible_to(request.access).filter(pk=chosen)
        choices += [SidebarChannel(one.pk, one.name, one.is_private, unread=False, mention_count=0) for one in rooms]
        choices.sort(key=attrgetter("name"))
    return choices


def shell_of(request: WorkspaceRequest) -> Shell:
    """The shell of a request, one for all that ask."""
    shell: Shell = vars(request).setdefault("shell", Shell(request))
    return shell


def shell_context(request: HttpRequest) -> dict[str, Shell]:
    """Context processor: `shell`, the same for every template of a request, on pages of a workspace."""
    return {"shell": shell_of(cast(WorkspaceRequest, request))} if hasattr(request, "access") else {}
