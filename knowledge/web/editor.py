"""Forms that write an entry: by hand, from a message or a dive's result, edited, or superseding another one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.crypto import get_random_string
from django.views.decorators.http import require_http_methods, require_POST

from knowledge.expiry import EXPIRY_PRESETS
from knowledge.models import ENTRY_TOKEN_LIMIT, LIVE_STATUSES, MAX_TOPIC_CHARACTERS, Entry
from knowledge.services import (
    AlreadyPinned,
    accept_entry,
    change_owner,
    create_entry,
    default_visibility,
    pin_result,
    supersede_entry,
    update_entry,
)
from knowledge.services.validation import check_may_manage
from knowledge.similarity import find_similar_entries
from knowledge.topics import guess_topic
from knowledge.web.forms import EntryFormData, access_entry, access_owner, form_data_of, read_form_data, strip_nul
from knowledge.web.presenters import EntryRow, entry_rows
from knowledge.web.views import suggest_topics
from openvibe.base.problems import Conflict, Missing, Problem
from openvibe.chat.models import DiveResult, Message, Thread
from openvibe.chat.queries import access_message
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view
from openvibe.workspaces.models import Participant

MAX_SIMILAR = 5


@dataclass(frozen=True)
class EntryFormPage:
    """What one form is for. `entry` is the one changed or superseded, `message` the one pinned."""

    title: str
    button: str
    entry: Entry | None = None
    message: Message | None = None
    hint: str = ""
    shows_similar: bool = True
    asks_owner: bool = True
    may_accept: bool = False


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def create(request: WorkspaceRequest) -> HttpResponse:
    """An entry written by hand; `?topic=` begins it."""
    check_may_manage(request.access)
    form = EntryFormPage("New entry", "Save")
    if request.method != "POST":
        initial = EntryFormData(topic=request.GET.get("topic", "").replace("\x00", "")[:MAX_TOPIC_CHARACTERS])
        return render_form(request, form, new_form_data(initial, request))
    data = read_form_data(request)
    try:
        entry = create_entry(by=request.access, **new_entry_fields(request, data))
    except Problem as problem:
        return render_form(request, form, data, problem)
    return redirect("knowledge-entry", request.workspace.slug, entry.pk)


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def edit(request: WorkspaceRequest, entry_id: int) -> HttpResponse:
    """The page that changes an entry. Where it was changed elsewhere meanwhile: both texts stand side by side, nothing
    is lost."""
    check_may_manage(request.access)
    entry = access_entry(request, entry_id)
    form = EntryFormPage(
        "Edit entry", "Save", entry, shows_similar=False, may_accept=entry.status == Entry.Status.PROPOSED
    )
    if request.method != "POST":
        return render_form(request, form, form_data_of(entry))
    return _save_change(request, form, entry, _save_edit)


@transaction.atomic
def _save_edit(request: WorkspaceRequest, entry: Entry, data: EntryFormData) -> Entry:
    """The words and the owner together; a suggestion may be accepted in these words."""
    owner = access_owner(request, data.owner, entry)
    changes = {"entry": entry, "by": request.access, "note": data.note, **data.changed_fields(entry)}
    save = accept_entry if request.POST.get("then") == "accept" else update_entry
    save(**changes, is_pinned=data.is_pinned, based_on=data.based_on)
    if owner is not None:
        change_owner(entry=entry, by=request.access, owner=owner)
    return entry


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def supersede(request: WorkspaceRequest, entry_id: int) -> HttpResponse:
    """The page that writes what takes an entry's place, beginning with its own words."""
    check_may_manage(request.access)
    entry = access_entry(request, entry_id)
    form = EntryFormPage(
        "Supersede entry",
        "Supersede",
        entry,
        shows_similar=False,
        asks_owner=False,
        hint="This takes its place; the old entry is kept, and leaves every prompt.",
    )
    if request.method != "POST":
        initial = replace(form_data_of(entry), expires="90d", expires_on="", client_id=get_random_string(24))
        return render_form(request, form, initial)
    return _save_change(request, form, entry, _save_successor)


def _save_successor(request: WorkspaceRequest, entry: Entry, data: EntryFormData) -> Entry:
    options: dict[str, Any] = {"based_on": data.based_on, "note": data.note, "client_id": data.client_id}
    return supersede_entry(entry=entry, by=request.access, **options, **data.words())


def _save_change(
    request: WorkspaceRequest,
    form: EntryFormPage,
    entry: Entry,
    save: Callable[[WorkspaceRequest, Entry, EntryFormData], Entry],
) -> HttpResponse:
    """Saves what was sent and shows the entry; after a refusal the form again, beside the entry as it is by now."""
    data = read_form_data(request)
    try:
        saved = save(request, entry, data)
    except Missing:
        raise
    except Problem as problem:
        return render_form(request, replace(form, entry=access_entry(request, entry.pk)), data, problem)
    return redirect("knowledge-entry", request.workspace.slug, saved.pk)


@workspace_view
@require_POST
def similar_entries(request: WorkspaceRequest) -> HttpResponse:
    """The entries most like what is being written, each to be superseded if that is what is meant."""
    data = read_form_data(request)
    return render(request, "knowledge/_similar.html", {"data": data, "similar": similar_rows(request, data)})


def render_form(
    request: WorkspaceRequest, form: EntryFormPage, data: EntryFormData, problem: Problem | None = None, **more: Any
) -> HttpResponse:
    """The form with what was sent. After a refusal everything is kept, and the field that has to change is named."""
    data = strip_nul(data)
    is_stale = isinstance(problem, Conflict) and problem.code == "stale"
    if is_stale and form.entry is not None:
        data = replace(data, based_on=form.entry.version)
    page = {
        "form": form,
        "data": data,
        "problem": problem,
        "theirs": form.entry if is_stale else None,
        "similar": similar_rows(request, data) if form.shows_similar else [],
        "topics": suggest_topics(request),
        "presets": EXPIRY_PRESETS.items(),
        "kinds": Entry.Kind.choices,
        "visibilities": Entry.Visibility.choices,
        "topic_limit": MAX_TOPIC_CHARACTERS,
        "token_limit": ENTRY_TOKEN_LIMIT,
        **more,
    }
    name = "knowledge/_form.html" if request.htmx else "knowledge/form.html"
    response = render(request, name, page, status=problem.status if problem else 200)
    if problem and request.htmx:
        response.headers["HX-Retarget"], response.headers["HX-Reswap"] = "#knowledge-form", "outerHTML"
    return response


def new_form_data(data: EntryFormData, request: WorkspaceRequest) -> EntryFormData:
    """A form nobody has sent yet: its own key, and the asker as owner."""
    return replace(data, client_id=get_random_string(24), owner=_own_handle(request))


def _own_handle(request: WorkspaceRequest) -> str:
    return Participant.objects.values_list("handle", flat=True).get(pk=request.access.participant_id)


def new_entry_fields(request: WorkspaceRequest, data: EntryFormData) -> dict[str, Any]:
    """All fields of a new entry, as services take them. Raises Missing and Problem."""
    return {
        "supersedes": access_entry(request, data.supersedes) if data.supersedes else None,
        "client_id": data.client_id,
        "note": data.note,
        **data.words(),
        "is_pinned": data.is_pinned,
        "owner": access_owner(request, data.owner),
    }


def similar_rows(request: WorkspaceRequest, data: EntryFormData) -> list[EntryRow]:
    """The most similar entries that hold, with the one chosen to be superseded among them."""
    hits = find_similar_entries(request.access, f"{data.topic}\n{data.content}", most=MAX_SIMILAR)
    entries = [hit.entry for hit in hits]
    if data.supersedes and data.supersedes not in {entry.pk for entry in entries}:
        entries += list(Entry.objects.visible_to(request.access).with_related().filter(pk=data.supersedes))
    return entry_rows(entries)


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def pin(request: WorkspaceRequest, message_id: int) -> HttpResponse:
    """The form, filled in from the message; POST pins it. A result that is pinned already says where."""
    message = access_message(request.access, message_id)
    if message.is_deleted:
        raise Missing(
            "This message was deleted, so it cannot be pinned. Write it as an entry of its own if it is to be kept."
        )
    check_may_manage(request.access)
    if request.method != "POST":
        pinned = _pinned_entries(request, message)
        if message.kind == Message.Kind.DIVE_RESULT and any(entry.status != Entry.Status.PROPOSED for entry in pinned):
            return _render_already_pinned(request, message)
        return _render_pin_form(request, message, new_form_data(form_data_from_message(request, message), request))
    data = read_form_data(request)
    try:
        entry = pin_result(message=message, by=request.access, **new_entry_fields(request, data))
    except AlreadyPinned as problem:
        return _render_already_pinned(request, message, data, problem)
    except Missing:
        raise
    except Problem as problem:
        return _render_pin_form(request, message, data, problem)
    return redirect("knowledge-entry", request.workspace.slug, entry.pk)


def form_data_from_message(request: WorkspaceRequest, message: Message) -> EntryFormData:
    """What the form says before anybody wrote in it: a result's headline and bullets, or the message's own text."""
    result = DiveResult.objects.filter(message=message).first()
    kind, content, title = str(Entry.Kind.FACT), message.body, message.body
    if result is not None:
        bullets = "\n".join(f"- {bullet}" for bullet in result.bullets)
        kind, content = Entry.Kind.DECISION, f"{result.headline}\n\n{bullets}"
        title = f"{result.headline}\n{bullets}"
    topic = guess_topic(title, suggest_topics(request))
    return EntryFormData(topic=topic, content=content, kind=kind, visibility=default_visibility(message.thread))


def _pinned_entries(request: WorkspaceRequest, message: Message) -> list[Entry]:
    entries = Entry.objects.visible_to(request.access).with_related()
    return list(entries.filter(source_message=message, status__in=LIVE_STATUSES))


def _render_pin_form(
    request: WorkspaceRequest, message: Message, data: EntryFormData, problem: Problem | None = None
) -> HttpResponse:
    is_result = message.kind == Message.Kind.DIVE_RESULT
    form = EntryFormPage("Pin to knowledge", "Save", message=message, hint=_visibility_hint(message.thread))
    before = [] if is_result else entry_rows(_pinned_entries(request, message))
    return render_form(request, form, data, problem, thread=message.thread, pinned_before=before)


def _visibility_hint(thread: Thread) -> str:
    """The reason why the form begins restricted, where it does."""
    if thread.access == Thread.Access.HUMAN_ONLY:
        return "This was said where no agent reads along: no agent will see this entry, whatever you choose."
    if thread.access == Thread.Access.AGENT_RESTRICTED:
        return "Only the listed agents read this thread: no other agent will see this entry, whatever you choose."
    if thread.channel.is_private:
        return (
            "This was said in a private channel. Restricted, only admins, its owner and agents at L4 read it; "
            "shared, everybody in the workspace does, and agents from L3."
        )
    return ""


def _render_already_pinned(
    request: WorkspaceRequest, message: Message, data: EntryFormData | None = None, problem: Problem | None = None
) -> HttpResponse:
    """The result is pinned: where, and what was written meanwhile, kept."""
    page = {"message": message, "rows": entry_rows(_pinned_entries(request, message)), "data": data, "problem": problem}
    name = "knowledge/_pinned.html" if request.htmx else "knowledge/pinned.html"
    return render(request, name, page, status=problem.status if problem else 200)
