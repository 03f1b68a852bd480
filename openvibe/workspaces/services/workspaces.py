"""Verbs of workspaces."""

from django.db import transaction
from django.utils.text import slugify

from openvibe.base.models import emit
from openvibe.base.problems import Problem, Refused
from openvibe.llm.tokens import count
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member, User, Workspace
from openvibe.workspaces.services.members import add_member

INSTRUCTION_TOKENS = 2_000
"""Tokens of organisation instructions that always fit beside the SOUL in P0."""


@transaction.atomic
def create_workspace(*, name: str, owner: User, slug: str = "", handle: str = "") -> Member:
    """A new workspace with its owner as the first member."""
    name = name.strip()
    if not name or "\x00" in name or len(name) > 80:
        raise Problem("Give the workspace a name of 1 to 80 characters.", code="bad_name", field="name")
    base = slugify(slug or name)[:34] or "workspace"
    unique, number = base, 1
    while Workspace.objects.filter(slug=unique).exists():
        number += 1
        unique = f"{base}-{number}"
    workspace = Workspace.objects.create(name=name, slug=unique)
    return add_member(workspace=workspace, user=owner, role=Member.Role.OWNER, handle=handle)


@transaction.atomic
def edit_workspace(*, workspace: Workspace, by: Access, name: str, description: str, instructions: str) -> Workspace:
    """Change what the workspace is called and what its agents are told about it."""
    if not by.administers or by.workspace_id != workspace.pk:
        raise Refused("Only owners and admins may change the workspace.")
    name = name.strip()
    if not name or len(name) > 80 or "\x00" in name + description + instructions:
        raise Problem("Give the workspace a name of 1 to 80 plain characters.", code="bad_name", field="name")
    if len(description) > 1000:
        raise Problem("A description has at most 1,000 characters.", code="too_long", field="description")
    if (tokens := count(instructions)) > INSTRUCTION_TOKENS:
        raise Problem(
            f"These instructions are {tokens:,} tokens; at most {INSTRUCTION_TOKENS:,} fit. Shorten them.",
            code="too_long",
            field="instructions",
        )
    workspace.name, workspace.description, workspace.instructions = name, description.strip(), instructions.strip()
    workspace.save(update_fields=["name", "description", "instructions", "updated_at"])
    emit("workspace_changed", workspace_id=workspace.pk)
    return workspace
