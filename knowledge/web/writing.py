"""Writing an entry: by hand, changing one, and writing the one that takes its place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.crypto import get_random_string
from django.views.decorators.http import require_http_methods, require_POST

from knowledge.finding import similar_entries
from knowledge.models import ENTRY_TOKEN_LIMIT, TOPIC, Entry
from knowledge.presets import PRESETS
from knowledge.services import accept_entry, add_entry, change_owner, edit_entry, supersede_entry
from knowledge.services.revising import check_may_manage
from knowledge.web.finding import entry_of
from knowledge.web.forms import Typed, owner_named, owners_of, typed_in, typed_of, without_nul
from knowledge.web.listing import topics_known
from knowledge.web.shown import EntryShown, entries_shown
from openvibe.base.problems import Conflict, Missing, Problem
from openvibe.chat.models import Message
from openvibe.workspaces.web.doors import WorkspaceRequest, in_workspace

SIMILAR_SHOWN = 5


@dataclass(frozen=True)
class Form:
    """What one form is for. `entry` is the one changed or superseded, `message` the one pinned."""

    title: str
    button: str
    entry: Entry | None = None
    message: Message | None = None
    hint: str = ""
    shows_similar: bool = True
    asks_owner: bool = True
    may_accept: bool = False


@in_workspace
@require_http_methods(["GET", "HEAD", "POST"])
def new(request: WorkspaceRequest) -> HttpResponse:
    """An entry written by hand; `?topic=` begins it."""
    check_may_manage(request.access)
    form = Form("New entry", "Save")
    if request.method != "POST":
        begun = Typed(topic=request.GET.get("topic", "").replace("\x00", "")[:TOPIC])
        return form_page(request, form, fresh(begun, request))
    typed = typed_in(request)
    try:
        entry = add_entry(by=request.access, supersedes=superseded_by(request, typed), client_id=typed.client_id,
                          note=typed.note, **typed.everything(request))  # fmt: skip
    except Problem as problem:
        return form_page(request, form, typed, problem)
    return saved(request, entry)


@in_workspace
@require_http_methods(["GET", "HEAD", "POST"])
def edit(request: WorkspaceRequest, entry_id: int) -> HttpResponse:
    """Change an entry. Changed elsewhere meanwhile: both texts stand side by side, nothing is lost."""
    check_may_manage(request.access)
    entry = entry_of(request, entry_id)
    form = Form("Edit entry", "Save", entry, shows_similar=False, may_accept=entry.status == Entry.Status.PROPOSED)
    if request.method != "POST":
        return form_page(request, form, typed_of(entry))
    typed = typed_in(request)
    try:
        _save(request, entry, typed)
    except Missing:
        raise
    except Problem as problem:
        return form_page(request, replace(form, entry=entry_of(request, entry_id)), typed, problem)
    return saved(request, entry)


@transaction.atomic
def _save(request: WorkspaceRequest, entry: Entry, typed: Typed) -> None:
    """The words and the owner together; a suggestion may be accepted in these words."""
    owner = owner_named(request, typed.owner)
    said = {"entry": entry, "by": request.access, "note": typed.note, **typed.changed_words(entry)}
    if request.POST.get("then") == "accept":
        accept_entry(**said, based_on=typed.based_on)
    else:
        edit_entry(**said, is_pinned=typed.is_pinned, based_on=typed.based_on)
    if owner is not None:
        change_owner(entry=entry, by=request.access, owner=owner)


@in_workspace
@require_http_methods(["GET", "HEAD", "POST"])
def supersede(request: WorkspaceRequest, entry_id: int) -> HttpResponse:
    """Write what takes an entry's place, beginning with its own words."""
    check_may_manage(request.access)
    entry = entry_of(request, entry_id)
    form = Form("Supersede entry", "Supersede", entry, shows_similar=False, asks_owner=False,
                hint="This takes its place; the old entry is kept, and leaves every prompt.")  # fmt: skip
    if request.method != "POST":
        begun = replace(typed_of(entry), expires="90d", expires_on="")
        return form_page(request, form, replace(begun, client_id=get_random_string(24)))
    typed = typed_in(request)
    try:
        newer = supersede_entry(entry=entry, by=request.access, based_on=typed.based_on, note=typed.note,
                                client_id=typed.client_id, **typed.words())  # fmt: skip
    except Missing:
        raise
    except Problem as problem:
        return form_page(request, replace(form, entry=entry_of(request, entry_id)), typed, problem)
    return saved(request, newer)


@in_workspace
@require_POST
def similar(request: WorkspaceRequest) -> HttpResponse:
    """The entries most like what is being written, each to be superseded if that is what is meant."""
    typed = typed_in(request)
    return render(request, "knowledge/_similar.html", {"typed": typed, "similar": similar_to(request, typed)})


# --- what pages show ----------------------------------------------------------------------------------------
def form_page(
    request: WorkspaceRequest, form: Form, typed: Typed, problem: Problem | None = None, **more: Any
) -> HttpResponse:
    """The form with what was typed. After a refusal everything is kept, and the field that has to change is named."""
    typed = without_nul(typed)
    is_stale = isinstance(problem, Conflict) and problem.code == "stale"
    if is_stale and form.entry is not None:
        typed = replace(typed, based_on=form.entry.version)
    page = {
        "form": form,
        "typed": typed,
        "problem": problem,
        "theirs": form.entry if is_stale else None,
        "similar": similar_to(request, typed) if form.shows_similar else [],
        "topics": topics_known(request),
        "owners": owners_of(request),
        "presets": PRESETS.items(),
        "kinds": Entry.Kind.choices,
        "visibilities": Entry.Visibility.choices,
        "topic_limit": TOPIC,
        "token_limit": ENTRY_TOKEN_LIMIT,
        **more,
    }
    name = "knowledge/_form.html" if request.htmx else "knowledge/form.html"
    response = render(request, name, page, status=problem.status if problem else 200)
    if problem and request.htmx:
        response.headers["HX-Retarget"], response.headers["HX-Reswap"] = "#knowledge-form", "outerHTML"
    return response


def fresh(typed: Typed, request: WorkspaceRequest) -> Typed:
    """A form nobody has sent yet: its own key, and the asker as owner."""
    return replace(typed, client_id=get_random_string(24), owner=str(request.access.participant_id))


def superseded_by(request: WorkspaceRequest, typed: Typed) -> Entry | None:
    """The entry ticked as superseded. Raises Missing when the asker may not see it."""
    return entry_of(request, typed.supersedes) if typed.supersedes else None


def similar_to(request: WorkspaceRequest, typed: Typed) -> list[EntryShown]:
    """The most similar entries that hold, with the one chosen to be superseded among them."""
    hits = similar_entries(request.access, f"{typed.topic}\n{typed.content}", most=SIMILAR_SHOWN)
    found = [hit.entry for hit in hits]
    if typed.supersedes and typed.supersedes not in {entry.pk for entry in found}:
        found += list(Entry.objects.visible_to(request.access).with_people().filter(pk=typed.supersedes))
    return entries_shown(found)


def saved(request: WorkspaceRequest, entry: Entry) -> HttpResponse:
    """Where to look at what was saved."""
    return redirect("knowledge-entry", request.workspace.slug, entry.pk)
