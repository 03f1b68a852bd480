"""Services by which a person arranges her sidebar: folds, order, favourites. Her other open pages are told."""

from django.db import transaction

from openvibe.base.events import emit
from openvibe.base.problems import Conflict, Problem, Refused
from openvibe.chat.models import MAX_FAVOURITES, Channel, Favourite, SidebarOrder, SidebarSection, SidebarSettings
from openvibe.workspaces.access import Access


def check_has_sidebar(by: Access) -> None:
    """Raises Refused."""
    if by.is_agent:
        raise Refused("Only people have a sidebar.", code="people_only")


@transaction.atomic
def fold_section(*, section: str, by: Access, is_folded: bool) -> None:
    """Folds a section of the sidebar of `by`, or unfolds it; twice is once."""
    if section not in SidebarSection.values:
        raise Problem(f"Choose one of {', '.join(SidebarSection.values)}.", code="unknown_section", field="folded")
    settings = _locked_settings(by)
    folded = [each for each in settings.folded if each != section] + ([section] if is_folded else [])
    SidebarSettings.objects.filter(pk=settings.pk).update(folded=folded)
    _emit_sidebar_changed(by)


@transaction.atomic
def update_sidebar(*, by: Access, order: str | None = None, folded: list[str] | None = None) -> SidebarSettings:
    """Another order of the channels, other folded sections; None leaves each as it is."""
    if order is not None and order not in SidebarOrder.values:
        raise Problem("Choose name or unread.", code="unknown_order", field="order")
    if folded is not None and not set(folded) <= set(SidebarSection.values):
        raise Problem(f"Choose from {', '.join(SidebarSection.values)}.", code="unknown_section", field="folded")
    settings = _locked_settings(by)
    settings.order = settings.order if order is None else order
    settings.folded = settings.folded if folded is None else list(dict.fromkeys(folded))
    settings.save(update_fields=["order", "folded"])
    _emit_sidebar_changed(by)
    return settings


@transaction.atomic
def add_favourite(*, channel: Channel, by: Access) -> None:
    """Puts a channel or direct messages that `by` sees among her favourites; twice is once. Raises Conflict beyond
    MAX_FAVOURITES."""
    _locked_settings(by)
    own = Favourite.objects.filter(participant=by.participant_id)
    if own.filter(channel=channel).exists():
        return
    if own.count() >= MAX_FAVOURITES:
        raise Conflict(f"You have {MAX_FAVOURITES} favourites. Take one away first.", code="too_many_favourites")
    Favourite.objects.create(channel=channel, participant_id=by.participant_id)
    _emit_sidebar_changed(by)


@transaction.atomic
def remove_favourite(*, channel: Channel, by: Access) -> None:
    """Takes it from the favourites of `by`; one that is none stays none."""
    check_has_sidebar(by)
    if Favourite.objects.filter(participant=by.participant_id, channel=channel).delete()[0]:
        _emit_sidebar_changed(by)


def _locked_settings(by: Access) -> SidebarSettings:
    """The row of a person's choices, made where there is none: whoever changes her sidebar waits for it."""
    check_has_sidebar(by)
    SidebarSettings.objects.bulk_create([SidebarSettings(participant_id=by.participant_id)], ignore_conflicts=True)
    return SidebarSettings.objects.select_for_update().get(participant=by.participant_id)


def _emit_sidebar_changed(by: Access) -> None:
    emit("sidebar_changed", workspace_id=by.workspace_id, participant_id=by.participant_id)
