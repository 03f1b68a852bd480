"""What one does with the sidebar: folding, its order, and what there is to do with a place in it."""

from collections.abc import Callable, Mapping

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from openvibe.base.problems import Problem, Refused
from openvibe.chat import services
from openvibe.chat.models import reread_visibility, sees_channel
from openvibe.chat.queries import SidebarPlace, access_sidebar_place
from openvibe.chat.web.shell import Shell
from openvibe.workspaces.decorators import WorkspaceRequest, page_before, workspace_view
from openvibe.workspaces.models import NotificationLevel


@workspace_view
@require_safe
def sidebar(request: WorkspaceRequest) -> HttpResponse:
    """The sidebar again, after something changed."""
    return render(request, "chat/_sidebar.html")


@workspace_view
@require_POST
def sidebar_arrange(request: WorkspaceRequest) -> HttpResponse:
    """Folds a section (`fold`), unfolds one (`unfold`), or chooses the `order` of channels; answers scripts with the
    sidebar as it is then, others with the page before."""
    if order := request.POST.get("order"):
        services.update_sidebar(by=request.access, order=order)
    else:
        is_folded = "fold" in request.POST
        section = request.POST.get("fold" if is_folded else "unfold", "")
        services.fold_section(section=section, by=request.access, is_folded=is_folded)
    return _answer(request, page_before(request, otherwise=reverse("inbox", args=[request.workspace.slug])))


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def sidebar_place(request: WorkspaceRequest, channel_id: int) -> HttpResponse:
    """The card of what there is to do with a channel or direct messages; POST with `do` does it."""
    place = access_sidebar_place(request.access, channel_id)
    if request.method != "POST":
        template = "chat/_sidebar_place.html" if request.htmx else "chat/sidebar_place.html"
        return render(request, template, {"place": place, "name": _name_of(place)})
    action = ACTIONS.get(request.POST.get("do", ""))
    if action is None:
        raise Problem(f"Choose one of {', '.join(ACTIONS)}.", code="unknown_action", field="do")
    said = action(request, place)
    if not request.htmx:
        messages.success(request, said)
    slug = request.workspace.slug
    if not sees_channel(reread_visibility(request.access), place.channel.pk):
        return _answer(request, reverse("inbox", args=[slug]))
    own_page = ("thread", place.thread.pk) if place.thread else ("channel", place.channel.pk)
    here = reverse(own_page[0], args=[slug, own_page[1]])
    return _answer(request, page_before(request, otherwise=here))


def _answer(request: WorkspaceRequest, address: str) -> HttpResponse:
    if not request.htmx:
        return redirect(address)
    request.access = reread_visibility(request.access)
    vars(request)["shell"] = Shell(request)
    return render(request, "chat/_sidebar.html")


def _name_of(place: SidebarPlace) -> str:
    return place.other.label if place.other else str(place.channel)


def _favourite(request: WorkspaceRequest, place: SidebarPlace) -> str:
    services.add_favourite(channel=place.channel, by=request.access)
    return f"{_name_of(place)} is among your favourites."


def _unfavourite(request: WorkspaceRequest, place: SidebarPlace) -> str:
    services.remove_favourite(channel=place.channel, by=request.access)
    return f"{_name_of(place)} is no favourite any more."


def _mute(request: WorkspaceRequest, place: SidebarPlace) -> str:
    scope = place.thread or place.channel
    services.set_notification_level(scope=scope, by=request.access, level=NotificationLevel.NOTHING)
    return f"{_name_of(place)} is muted: what is new there is not marked as new."


def _unmute(request: WorkspaceRequest, place: SidebarPlace) -> str:
    services.set_notification_level(scope=place.thread or place.channel, by=request.access, level="")
    return f"{_name_of(place)} is not muted any more."


def _join(request: WorkspaceRequest, place: SidebarPlace) -> str:
    _check_channel(place)
    services.add_to_channel(channel=place.channel, participant=request.member.participant, by=request.access)
    return f"You joined {place.channel}."


def _leave(request: WorkspaceRequest, place: SidebarPlace) -> str:
    _check_channel(place)
    services.remove_from_channel(channel=place.channel, participant=request.member.participant, by=request.access)
    return f"You left {place.channel}."


def _check_channel(place: SidebarPlace) -> None:
    """Raises Refused for direct messages, which nobody joins or leaves."""
    if place.thread:
        sentence = "Direct messages are between two: nobody joins or leaves them. Mute them instead."
        raise Refused(sentence, code="is_direct")


ACTIONS: Mapping[str, Callable[[WorkspaceRequest, SidebarPlace], str]] = {
    "favourite": _favourite,
    "unfavourite": _unfavourite,
    "mute": _mute,
    "unmute": _unmute,
    "join": _join,
    "leave": _leave,
}
