"""An agent's notes about people on its page: all of them for admins, one's own for a member, who may clear them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from memory.models import PROFILE_TOKEN_LIMIT, CarriedVersion, ProfileNote
from memory.services.blocks import agent_known_to
from memory.services.profile import notes_read_by, restore_notes, write_notes
from memory.web.versions import versions_shown
from openvibe.base.problems import Missing, Problem
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant
from openvibe.workspaces.web.doors import WorkspaceRequest, in_workspace

SHOWN = 200


@dataclass(frozen=True)
class Typed:
    person_id: int
    text: str
    problem: str


@dataclass(frozen=True)
class NoteShown:
    note: ProfileNote
    is_about_asker: bool
    may_clear: bool
    typed: Typed | None = None


def notes_of(agent: Participant, access: Access, typed: Typed | None = None) -> dict[str, Any]:
    """What `memory/_notes.html` needs: notes that say something, by the person's name. One query."""
    found = ProfileNote.objects.filter(agent=agent).exclude(content="").select_related("person", "changed_by")
    if not access.administers:
        found = found.filter(person=access.participant_id)
    rows = [
        NoteShown(
            note,
            note.person_id == access.participant_id,
            access.administers or note.person_id == access.participant_id,
            typed if typed and typed.person_id == note.person_id else None,
        )
        for note in found.order_by("person__name", "pk")[:SHOWN]
    ]
    return {
        "notes": rows,
        "notes_agent": agent,
        "sees_all_notes": access.administers,
        "may_write_notes": access.administers and agent.is_active,
        "note_limit": PROFILE_TOKEN_LIMIT,
    }


@in_workspace
@require_safe
def all_notes(request: WorkspaceRequest, handle: str) -> HttpResponse:
    """The notes the asker may see."""
    return _shown(request, agent_known_to(request.access, handle))


@in_workspace
@require_http_methods(["GET", "HEAD", "POST"])
def agent_notes(request: WorkspaceRequest, handle: str, person: str) -> HttpResponse:
    """The versions of the notes about a person. POST changes them: `do` is save, clear or restore."""
    agent = agent_known_to(request.access, handle)
    about = _person(request.access, person)
    if request.method != "POST":
        return _versions(request, agent, about)
    verb, version = request.POST.get("do", ""), _number(request.POST.get("version", ""))
    typed = request.POST.get("text", "")
    try:
        if verb == "restore":
            number = _number(request.POST.get("number", ""))
            restore_notes(agent=agent, person=about, by=request.access, number=number, version=version, how="page")
        elif verb in ("save", "clear"):
            text = typed if verb == "save" else ""
            write_notes(agent=agent, person=about, by=request.access, text=text, how="page", version=version)
        else:
            raise Problem("Say what to do with these notes.", code="bad_verb", field="do")
    except Problem as problem:
        if verb != "save" or isinstance(problem, Missing):
            raise
        return _again(request, agent, Typed(about.pk, typed, problem.message), problem.status)
    return _answer(request, agent)


def _person(access: Access, handle: str) -> Participant:
    """Whom the notes are about, gone members included. What others are noted about, only admins know of."""
    people = Participant.objects.filter(workspace_id=access.workspace_id, handle=handle)
    found = people.exclude(kind=Participant.Kind.AGENT).first()
    if found is None or not (access.administers or found.pk == access.participant_id):
        raise Missing
    return found


def _number(given: str) -> int:
    return int(given) if given.isascii() and given.isdigit() and len(given) < 10 else 0


def _again(request: WorkspaceRequest, agent: Participant, typed: Typed, status: int) -> HttpResponse:
    response = _answer(request, agent, typed, status)
    response.headers["HX-Retarget"], response.headers["HX-Reswap"] = "#agent-notes", "outerHTML"
    return response


def _answer(
    request: WorkspaceRequest, agent: Participant, typed: Typed | None = None, status: int = 200
) -> HttpResponse:
    if not request.htmx and typed is None:
        return redirect(f"{_page(request, agent)}#agent-notes")
    return _shown(request, agent, typed, status)


def _shown(
    request: WorkspaceRequest, agent: Participant, typed: Typed | None = None, status: int = 200
) -> HttpResponse:
    page = {**notes_of(agent, request.access, typed), "back": _page(request, agent)}
    return render(request, "memory/_notes.html" if request.htmx else "memory/notes.html", page, status=status)


def _versions(request: WorkspaceRequest, agent: Participant, person: Participant) -> HttpResponse:
    noted = notes_read_by(agent=agent, person=person, by=request.access)
    page = {
        "agent": agent,
        "title": f"Notes about {person.name}",
        "versions": versions_shown(CarriedVersion.objects.filter(note__agent=agent, note__person=person)),
        "may_restore": agent.is_active and request.access.administers,
        "action": request.path,
        "version": noted.version,
        "back": _page(request, agent),
    }
    return render(request, "memory/_versions.html" if request.htmx else "memory/versions.html", page)


def _page(request: WorkspaceRequest, agent: Participant) -> str:
    return f"/w/{request.workspace.slug}/agents/{agent.handle}/"
