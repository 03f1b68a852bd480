"""The blocks on an agent's page: read, edited in place, locked, taken back to an earlier version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from memory.blocks import ContextBlock, ContextBlocks
from memory.blocks.predefined import PREDEFINED
from memory.blocks.rules import BLOCKS, missing
from memory.models import BLOCK_TOKEN_LIMIT, CarriedVersion
from memory.services.blocks import agent_known_to, blocks_read_by, blocks_written_by, may_write_blocks, restore_block
from memory.web.versions import versions_shown
from openvibe.base.problems import Missing, Problem
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant
from openvibe.workspaces.web.doors import WorkspaceRequest, in_workspace

FROM_THE_START = frozenset(block.label for block in PREDEFINED)


@dataclass(frozen=True)
class Typed:
    """What somebody typed that could not be saved, and why. `label` is empty for a new block."""

    label: str = ""
    content: str = ""
    description: str = ""
    max_tokens: str = ""
    new_label: str = ""
    problem: str = ""
    field: str = ""


@dataclass(frozen=True)
class BlockShown:
    block: ContextBlock
    is_predefined: bool
    typed: Typed | None = None


def blocks_of(agent: Participant, access: Access, typed: Typed | None = None) -> dict[str, Any]:
    """What `memory/_blocks.html` needs. One query."""
    rows = [
        BlockShown(block, block.label in FROM_THE_START, typed if typed and typed.label == block.label else None)
        for block in blocks_read_by(agent, access).list()
    ]
    may_write = agent.is_active and may_write_blocks(agent, access)
    return {
        "blocks": rows,
        "blocks_agent": agent,
        "may_write_blocks": may_write,
        "may_add_block": may_write and len(rows) < BLOCKS,
        "new_block": typed if typed and not typed.label else None,
        "block_limit": BLOCK_TOKEN_LIMIT,
    }


@in_workspace
@require_http_methods(["GET", "HEAD", "POST"])
def agent_blocks(request: WorkspaceRequest, handle: str) -> HttpResponse:
    """All blocks of an agent. POST makes a new one."""
    agent = agent_known_to(request.access, handle)
    if request.method != "POST":
        return _answer(request, agent)
    blocks = blocks_written_by(agent, request.access, "page")
    typed = _typed(request, "")
    try:
        blocks.create(
            typed.new_label, typed.content, description=typed.description, max_tokens=_limit(typed.max_tokens)
        )
    except Problem as problem:
        return _again(request, agent, typed, problem)
    return _answer(request, agent)


@in_workspace
@require_http_methods(["GET", "HEAD", "POST"])
def agent_block(request: WorkspaceRequest, handle: str, label: str) -> HttpResponse:
    """One block with its versions. POST changes it: `do` is save, lock, unlock, restore or delete."""
    agent = agent_known_to(request.access, handle)
    if request.method != "POST":
        return _versions(request, agent, label)
    blocks = blocks_written_by(agent, request.access, "page")
    verb, typed = request.POST.get("do", ""), _typed(request, label)
    try:
        _do(verb, request, blocks, typed)
    except Missing:
        raise
    except Problem as problem:
        if verb not in ("save", "restore", "delete", "lock", "unlock"):
            raise
        return _again(request, agent, typed if verb == "save" else Typed(label), problem)
    return _answer(request, agent)


def _do(verb: str, request: WorkspaceRequest, blocks: ContextBlocks, typed: Typed) -> None:
    label, seen = typed.label, request.POST.get("seen", "")
    block = blocks.get(label)
    if block is None:
        raise missing(label)
    if verb == "save":
        about = typed.description if "description" in request.POST else None
        blocks.set(label, typed.content, description=about, max_tokens=_limit(typed.max_tokens), seen=seen)
    elif verb in ("lock", "unlock"):
        blocks.set(label, block.content, readonly=verb == "lock", seen=seen)
    elif verb == "delete":
        blocks.delete(label, seen=seen)
    elif verb == "restore":
        number = request.POST.get("number", "")
        wanted = int(number) if number.isascii() and number.isdigit() and len(number) < 10 else 0
        restore_block(
            agent=blocks.agent, by=request.access, label=label, number=wanted, seen=seen, how=blocks.author.how
        )
    else:
        raise Problem("Say what to do with this block.", code="bad_verb", field="do")


def _typed(request: WorkspaceRequest, label: str) -> Typed:
    said = request.POST
    return Typed(
        label,
        said.get("content", ""),
        said.get("description", ""),
        said.get("max_tokens", ""),
        said.get("label", "").strip(),
    )


def _limit(given: str) -> int | None:
    """The limit as a number; None where none was given. What is no number is refused like a limit of 0."""
    if not given.strip():
        return None
    return int(given) if given.strip().isascii() and given.strip().isdigit() and len(given) < 10 else 0


def _again(request: WorkspaceRequest, agent: Participant, typed: Typed, problem: Problem) -> HttpResponse:
    """The blocks as they are now, the form open with what was typed and the reason beside it."""
    kept = Typed(
        typed.label, typed.content, typed.description, typed.max_tokens, typed.new_label, problem.message,
        problem.field or "",
    )  # fmt: skip
    response = _answer(request, agent, kept, status=problem.status)
    response.headers["HX-Retarget"], response.headers["HX-Reswap"] = "#agent-blocks", "outerHTML"
    return response


def _answer(
    request: WorkspaceRequest, agent: Participant, typed: Typed | None = None, status: int = 200
) -> HttpResponse:
    if request.method == "POST" and not request.htmx and typed is None:
        return redirect(f"{_page(request, agent)}#agent-blocks")
    page = {**blocks_of(agent, request.access, typed), "back": _page(request, agent)}
    return render(request, "memory/_blocks.html" if request.htmx else "memory/blocks.html", page, status=status)


def _versions(request: WorkspaceRequest, agent: Participant, label: str) -> HttpResponse:
    block = blocks_read_by(agent, request.access).get(label)
    if block is None:
        raise missing(label)
    page = {
        "agent": agent,
        "title": f"Block “{label}”",
        "about": block.description,
        "versions": versions_shown(CarriedVersion.objects.filter(block=block.id)),
        "may_restore": agent.is_active and not block.readonly and may_write_blocks(agent, request.access),
        "action": request.path,
        "seen": block.stamp,
        "back": _page(request, agent),
    }
    return render(request, "memory/_versions.html" if request.htmx else "memory/versions.html", page)


def _page(request: WorkspaceRequest, agent: Participant) -> str:
    return f"/w/{request.workspace.slug}/agents/{agent.handle}/"
