"""Context blocks and profile notes on an agent's page: read, edit in place, restore an earlier version."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from memory.blocks.context_blocks import BLOCKS, NOTES, ContextBlocks
from memory.blocks.queries import (
    TextDraft,
    access_agent,
    access_blocks,
    access_notes,
    blocks_context,
    list_versions,
    may_write_blocks,
    notes_context,
)
from memory.blocks.services import access_blocks_for_update, restore_block, restore_notes, update_notes
from openvibe.base.params import int_param
from openvibe.base.problems import Missing, Problem
from openvibe.workspaces.access import Access
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view
from openvibe.workspaces.models import Participant

BLOCK_ACTIONS = ("save", "lock", "unlock", "restore", "delete")


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def agent_blocks(request: WorkspaceRequest, handle: str) -> HttpResponse:
    """All blocks of an agent. POST makes a new one."""
    agent = access_agent(request.access, handle)
    if request.method != "POST":
        return _list_response(request, agent, "blocks")
    blocks = access_blocks_for_update(agent, request.access, "page")
    draft = _block_draft(request, "")
    limit = _parse_limit(draft.max_tokens)
    create = partial(blocks.create, draft.new_label, draft.content, description=draft.description, max_tokens=limit)
    return _change(request, agent, "blocks", create, draft)


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def agent_block(request: WorkspaceRequest, handle: str, label: str) -> HttpResponse:
    """One block with its versions. POST changes it: `do` is save, lock, unlock, restore or delete."""
    agent = access_agent(request.access, handle)
    if request.method != "POST":
        return _block_versions(request, agent, label)
    blocks = access_blocks_for_update(agent, request.access, "page")
    verb, draft = request.POST.get("do", ""), _block_draft(request, label)
    action = partial(_apply_block_action, verb, request, blocks, draft)
    refused_draft = draft if verb == "save" else TextDraft(label) if verb in BLOCK_ACTIONS else None
    return _change(request, agent, "blocks", action, refused_draft)


def _apply_block_action(verb: str, request: WorkspaceRequest, blocks: ContextBlocks, draft: TextDraft) -> None:
    label, based_on = str(draft.key), request.POST.get("seen", "")
    block = blocks.access(label)
    if verb == "save":
        description = draft.description if "description" in request.POST else None
        blocks.set(
            label, draft.content, description=description, max_tokens=_parse_limit(draft.max_tokens), based_on=based_on
        )
    elif verb in ("lock", "unlock"):
        blocks.set(label, block.content, readonly=verb == "lock", based_on=based_on)
    elif verb == "delete":
        blocks.delete(label, based_on=based_on)
    elif verb == "restore":
        number = int_param(request.POST, "number") or 0
        restore_block(agent=blocks.agent, by=request.access, label=label, number=number, based_on=based_on, how="page")
    else:
        raise Problem("Say what to do with this block.", code="bad_verb", field="do")


def _block_draft(request: WorkspaceRequest, label: str) -> TextDraft:
    texts = {name: request.POST.get(name, "") for name in ("content", "description", "max_tokens")}
    return TextDraft(label, new_label=request.POST.get("label", "").strip(), **texts)


def _parse_limit(value: str) -> int | None:
    """The limit as a number; None where none was given. What is no number is refused like a limit of 0."""
    if not value.strip():
        return None
    return int(value) if value.strip().isascii() and value.strip().isdigit() and len(value) < 10 else 0


def _block_versions(request: WorkspaceRequest, agent: Participant, label: str) -> HttpResponse:
    block = access_blocks(agent, request.access).access(label)
    page = {
        "title": f"Block “{label}”",
        "about": block.description,
        "versions": list_versions(BLOCKS.versions(agent.pk, label)),
        "may_restore": agent.is_active and not block.readonly and may_write_blocks(agent, request.access),
        "seen": block.stamp,
    }
    return _render(request, agent, "versions", page)


@workspace_view
@require_safe
def all_notes(request: WorkspaceRequest, handle: str) -> HttpResponse:
    """The notes the asker may see."""
    return _list_response(request, access_agent(request.access, handle), "notes")


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def agent_notes(request: WorkspaceRequest, handle: str, person: str) -> HttpResponse:
    """The versions of the notes about a person. POST changes them: `do` is save, clear or restore."""
    agent = access_agent(request.access, handle)
    about = _access_person(request.access, person)
    if request.method != "POST":
        return _note_versions(request, agent, about)
    verb, text = request.POST.get("do", ""), request.POST.get("text", "")
    action = partial(_apply_note_action, verb, request, agent, about, text)
    return _change(request, agent, "notes", action, TextDraft(about.pk, text) if verb == "save" else None)


def _apply_note_action(
    verb: str, request: WorkspaceRequest, agent: Participant, person: Participant, text: str
) -> None:
    access, version = request.access, int_param(request.POST, "version") or 0
    if verb == "restore":
        number = int_param(request.POST, "number") or 0
        restore_notes(agent=agent, person=person, by=access, number=number, version=version, how="page")
    elif verb in ("save", "clear"):
        text = text if verb == "save" else ""
        update_notes(agent=agent, person=person, by=access, text=text, how="page", version=version)
    else:
        raise Problem("Say what to do with these notes.", code="bad_verb", field="do")


def _access_person(access: Access, handle: str) -> Participant:
    """The person whom the notes are about, gone members included. What others are noted about, only admins know of."""
    people = Participant.objects.filter(workspace_id=access.workspace_id, handle=handle)
    person = people.exclude(kind=Participant.Kind.AGENT).first()
    if person is None or not (access.administers or person.pk == access.participant_id):
        raise Missing
    return person


def _note_versions(request: WorkspaceRequest, agent: Participant, person: Participant) -> HttpResponse:
    access_notes(agent=agent, person=person, by=request.access)
    page = {
        "title": f"Notes about {person.name}",
        "versions": list_versions(NOTES.versions(agent.pk, person.pk)),
        "may_restore": agent.is_active and request.access.administers,
    }
    return _render(request, agent, "versions", page)


def _change(
    request: WorkspaceRequest, agent: Participant, kind: str, action: Callable[[], object], draft: TextDraft | None
) -> HttpResponse:
    """Makes the change. When it is refused and there is a draft, its form is open with what was typed and the reason
    beside it."""
    try:
        action()
    except Missing:
        raise
    except Problem as problem:
        if draft is None:
            raise
        draft = replace(draft, problem=problem.message, field=problem.field or "")
        return _list_response(request, agent, kind, draft, problem.status)
    return _list_response(request, agent, kind)


def _list_context(request: WorkspaceRequest, agent: Participant, kind: str, draft: TextDraft | None) -> dict[str, Any]:
    """What an agent's page shows of each kind. The templates and the elements on the page are called after them."""
    if kind == "blocks":
        return blocks_context(agent, request.access, draft)
    about = str(request.resolver_match.kwargs.get("person", "")) if request.resolver_match else ""
    return notes_context(agent, request.access, draft, number=request.GET.get("page"), about=about)


def _list_response(
    request: WorkspaceRequest, agent: Participant, kind: str, draft: TextDraft | None = None, status: int = 200
) -> HttpResponse:
    """The blocks or the notes as they are now; after a change without htmx, the agent's page."""
    if request.method == "POST" and not request.htmx and draft is None:
        return redirect(f"{_agent_url(request, agent)}#agent-{kind}")
    response = _render(request, agent, kind, _list_context(request, agent, kind, draft), status)
    if draft is not None:
        response.headers["HX-Retarget"], response.headers["HX-Reswap"] = f"#agent-{kind}", "outerHTML"
    return response


def _render(
    request: WorkspaceRequest, agent: Participant, name: str, page: dict[str, Any], status: int = 200
) -> HttpResponse:
    page = {**page, "agent": agent, "action": request.path, "back": _agent_url(request, agent)}
    template = f"memory/_{name}.html" if request.htmx else f"memory/{name}.html"
    return render(request, template, page, status=status)


def _agent_url(request: WorkspaceRequest, agent: Participant) -> str:
    return f"/w/{request.workspace.slug}/agents/{agent.handle}/"
