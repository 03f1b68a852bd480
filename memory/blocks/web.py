"""Context blocks and profile notes on an agent's page: read, edit in place, restore an earlier version."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from memory.blocks.context_blocks import ContextBlocks
from memory.blocks.models import CarriedVersion
from memory.blocks.queries import (
    BlockDraft,
    NoteDraft,
    access_agent,
    access_blocks,
    access_notes,
    blocks_context,
    list_versions,
    may_write_blocks,
    notes_context,
)
from memory.blocks.services import access_blocks_for_update, restore_block, restore_notes, update_notes
from memory.blocks.values import (
    block_missing,
)
from openvibe.base.problems import Missing, Problem
from openvibe.workspaces.access import Access
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view
from openvibe.workspaces.models import Participant


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def agent_blocks(request: WorkspaceRequest, handle: str) -> HttpResponse:
    """All blocks of an agent. POST makes a new one."""
    agent = access_agent(request.access, handle)
    if request.method != "POST":
        return _blocks_response(request, agent)
    blocks = access_blocks_for_update(agent, request.access, "page")
    typed = _block_draft(request, "")
    try:
        blocks.create(
            typed.new_label, typed.content, description=typed.description, max_tokens=_parse_limit(typed.max_tokens)
        )
    except Problem as problem:
        return _block_error_response(request, agent, typed, problem)
    return _blocks_response(request, agent)


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def agent_block(request: WorkspaceRequest, handle: str, label: str) -> HttpResponse:
    """One block with its versions. POST changes it: `do` is save, lock, unlock, restore or delete."""
    agent = access_agent(request.access, handle)
    if request.method != "POST":
        return _block_versions(request, agent, label)
    blocks = access_blocks_for_update(agent, request.access, "page")
    verb, typed = request.POST.get("do", ""), _block_draft(request, label)
    try:
        _apply_block_action(verb, request, blocks, typed)
    except Missing:
        raise
    except Problem as problem:
        if verb not in ("save", "restore", "delete", "lock", "unlock"):
            raise
        return _block_error_response(request, agent, typed if verb == "save" else BlockDraft(label), problem)
    return _blocks_response(request, agent)


def _apply_block_action(verb: str, request: WorkspaceRequest, blocks: ContextBlocks, typed: BlockDraft) -> None:
    label, seen = typed.label, request.POST.get("seen", "")
    block = blocks.get(label)
    if block is None:
        raise block_missing(label)
    if verb == "save":
        description = typed.description if "description" in request.POST else None
        blocks.set(label, typed.content, description=description, max_tokens=_parse_limit(typed.max_tokens), seen=seen)
    elif verb in ("lock", "unlock"):
        blocks.set(label, block.content, readonly=verb == "lock", seen=seen)
    elif verb == "delete":
        blocks.delete(label, seen=seen)
    elif verb == "restore":
        number = request.POST.get("number", "")
        version_number = int(number) if number.isascii() and number.isdigit() and len(number) < 10 else 0
        restore_block(
            agent=blocks.agent, by=request.access, label=label, number=version_number, seen=seen, how=blocks.author.how
        )
    else:
        raise Problem("Say what to do with this block.", code="bad_verb", field="do")


def _block_draft(request: WorkspaceRequest, label: str) -> BlockDraft:
    form = request.POST
    return BlockDraft(
        label,
        form.get("content", ""),
        form.get("description", ""),
        form.get("max_tokens", ""),
        form.get("label", "").strip(),
    )


def _parse_limit(value: str) -> int | None:
    """The limit as a number; None where none was given. What is no number is refused like a limit of 0."""
    if not value.strip():
        return None
    return int(value) if value.strip().isascii() and value.strip().isdigit() and len(value) < 10 else 0


def _block_error_response(
    request: WorkspaceRequest, agent: Participant, typed: BlockDraft, problem: Problem
) -> HttpResponse:
    """The blocks as they are now, the form open with what was typed and the reason beside it."""
    draft = BlockDraft(
        typed.label,
        typed.content,
        typed.description,
        typed.max_tokens,
        typed.new_label,
        problem.message,
        problem.field or "",
    )
    response = _blocks_response(request, agent, draft, status=problem.status)
    response.headers["HX-Retarget"], response.headers["HX-Reswap"] = "#agent-blocks", "outerHTML"
    return response


def _blocks_response(
    request: WorkspaceRequest, agent: Participant, typed: BlockDraft | None = None, status: int = 200
) -> HttpResponse:
    if request.method == "POST" and not request.htmx and typed is None:
        return redirect(f"{_agent_url(request, agent)}#agent-blocks")
    page = {**blocks_context(agent, request.access, typed), "back": _agent_url(request, agent)}
    return render(request, "memory/_blocks.html" if request.htmx else "memory/blocks.html", page, status=status)


def _block_versions(request: WorkspaceRequest, agent: Participant, label: str) -> HttpResponse:
    block = access_blocks(agent, request.access).get(label)
    if block is None:
        raise block_missing(label)
    page = {
        "agent": agent,
        "title": f"Block “{label}”",
        "about": block.description,
        "versions": list_versions(CarriedVersion.objects.filter(block=block.id)),
        "may_restore": agent.is_active and not block.readonly and may_write_blocks(agent, request.access),
        "action": request.path,
        "seen": block.stamp,
        "back": _agent_url(request, agent),
    }
    return render(request, "memory/_versions.html" if request.htmx else "memory/versions.html", page)


def _agent_url(request: WorkspaceRequest, agent: Participant) -> str:
    return f"/w/{request.workspace.slug}/agents/{agent.handle}/"


@workspace_view
@require_safe
def all_notes(request: WorkspaceRequest, handle: str) -> HttpResponse:
    """The notes the asker may see."""
    return _render_notes(request, access_agent(request.access, handle))


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def agent_notes(request: WorkspaceRequest, handle: str, person: str) -> HttpResponse:
    """The versions of the notes about a person. POST changes them: `do` is save, clear or restore."""
    agent = access_agent(request.access, handle)
    about = _access_person(request.access, person)
    if request.method != "POST":
        return _note_versions(request, agent, about)
    verb, version = request.POST.get("do", ""), _parse_number(request.POST.get("version", ""))
    typed_text = request.POST.get("text", "")
    try:
        if verb == "restore":
            number = _parse_number(request.POST.get("number", ""))
            restore_notes(agent=agent, person=about, by=request.access, number=number, version=version, how="page")
        elif verb in ("save", "clear"):
            text = typed_text if verb == "save" else ""
            update_notes(agent=agent, person=about, by=request.access, text=text, how="page", version=version)
        else:
            raise Problem("Say what to do with these notes.", code="bad_verb", field="do")
    except Problem as problem:
        if verb != "save" or isinstance(problem, Missing):
            raise
        return _note_error_response(request, agent, NoteDraft(about.pk, typed_text, problem.message), problem.status)
    return _notes_response(request, agent)


def _access_person(access: Access, handle: str) -> Participant:
    """Whom the notes are about, gone members included. What others are noted about, only admins know of."""
    people = Participant.objects.filter(workspace_id=access.workspace_id, handle=handle)
    person = people.exclude(kind=Participant.Kind.AGENT).first()
    if person is None or not (access.administers or person.pk == access.participant_id):
        raise Missing
    return person


def _parse_number(value: str) -> int:
    return int(value) if value.isascii() and value.isdigit() and len(value) < 10 else 0


def _note_error_response(request: WorkspaceRequest, agent: Participant, typed: NoteDraft, status: int) -> HttpResponse:
    response = _notes_response(request, agent, typed, status)
    response.headers["HX-Retarget"], response.headers["HX-Reswap"] = "#agent-notes", "outerHTML"
    return response


def _notes_response(
    request: WorkspaceRequest, agent: Participant, typed: NoteDraft | None = None, status: int = 200
) -> HttpResponse:
    if not request.htmx and typed is None:
        return redirect(f"{_agent_url(request, agent)}#agent-notes")
    return _render_notes(request, agent, typed, status)


def _render_notes(
    request: WorkspaceRequest, agent: Participant, typed: NoteDraft | None = None, status: int = 200
) -> HttpResponse:
    page = {**notes_context(agent, request.access, typed), "back": _agent_url(request, agent)}
    return render(request, "memory/_notes.html" if request.htmx else "memory/notes.html", page, status=status)


def _note_versions(request: WorkspaceRequest, agent: Participant, person: Participant) -> HttpResponse:
    notes = access_notes(agent=agent, person=person, by=request.access)
    page = {
        "agent": agent,
        "title": f"Notes about {person.name}",
        "versions": list_versions(CarriedVersion.objects.filter(note__agent=agent, note__person=person)),
        "may_restore": agent.is_active and request.access.administers,
        "action": request.path,
        "version": notes.version,
        "back": _agent_url(request, agent),
    }
    return render(request, "memory/_versions.html" if request.htmx else "memory/versions.html", page)
