"""Creates and changes workspaces."""

import json
from collections.abc import Callable
from copy import copy
from typing import Any

from django.db import transaction
from django.utils.text import slugify

from openvibe.base.audit import AuditAction, record_audit
from openvibe.base.events import emit
from openvibe.base.problems import Problem, Refused
from openvibe.engines.registers import Register
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member, User, Workspace
from openvibe.workspaces.services.instructions import WORKSPACE_CHECK, check_instructions_version, clean_instructions
from openvibe.workspaces.services.members import check_name, create_owner

NAME_MESSAGE = "Give the workspace a name of 1 to 80 characters."
BUDGET_CHECK: Register[Callable[[object], None]] = Register("openvibe.workspaces.services.workspace.BUDGET_CHECK")
"""Raises ValueError, with a sentence for people, for token budgets of prompts that do not hold."""


@transaction.atomic
def create_workspace(*, name: str, owner: User, slug: str = "", handle: str = "") -> Member:
    """A new workspace with its owner as the first member."""
    name = check_name(name, NAME_MESSAGE)
    base = slugify(slug or name)[:34] or "workspace"
    number, is_new = 0, False
    while not is_new:
        number += 1
        free_slug = base if number == 1 else f"{base}-{number}"
        workspace, is_new = Workspace.objects.get_or_create(slug=free_slug, defaults={"name": name})
    member = create_owner(workspace=workspace, user=owner, handle=handle)
    subject = f"@{member.participant.handle}"
    record_audit(AuditAction.MEMBER, workspace_id=workspace.pk, by=member, subject=subject, after="made it, as owner")
    emit("members_changed", workspace_id=workspace.pk)
    return member


@transaction.atomic
def update_workspace(
    *,
    workspace: Workspace,
    by: Access,
    name: str | None = None,
    description: str | None = None,
    instructions: str | None = None,
    instructions_version: str | None = None,
) -> Workspace:
    """Changes what the workspace is called and what its agents are told about it; None leaves what there is.

    `instructions_version` is that of the instructions that were read: Conflict where others stand there now.
    """
    if not by.administers or by.workspace_id != workspace.pk:
        raise Refused("Only owners and admins may change the workspace.")
    if instructions is not None:
        rows = Workspace.objects.select_for_update(no_key=True).values_list("instructions", flat=True)
        check_instructions_version(rows.get(pk=workspace.pk), instructions_version)
    texts = {"name": name, "description": description, "instructions": instructions}
    values = {field: text.strip() for field, text in texts.items() if text is not None}
    if name is not None:
        values["name"] = check_name(name, NAME_MESSAGE)
    if any("\x00" in text for text in values.values()):
        raise Problem(NAME_MESSAGE, code="bad_name", field="name")
    if len(description or "") > 1000:
        raise Problem("A description has at most 1,000 characters.", code="too_long", field="description")
    if values.get("instructions", workspace.instructions.strip()) != workspace.instructions.strip():
        values["instructions"] = clean_instructions(values["instructions"], workspace_id=workspace.pk).strip()
        _check_prompts(workspace, values["instructions"])
    for field, after in values.items():
        if (before := getattr(workspace, field)) != after:
            change = {"subject": field, "before": before, "after": after}
            record_audit(AuditAction.SETTINGS, workspace_id=workspace.pk, by=by, **change)
            setattr(workspace, field, after)
    workspace.save(update_fields=[*values, "updated_at"])
    emit("workspace_changed", workspace_id=workspace.pk)
    return workspace


@transaction.atomic
def update_prompt_budgets(*, workspace: Workspace, by: Access, budgets: dict[str, Any]) -> Workspace:
    """Changes how many tokens prompts may have, by task type and part, where they differ from the defaults.

    Raises Problem, with nothing changed, for numbers that do not hold or leave an agent no room for a prompt, and
    Refused for non-admins.
    """
    if not by.administers or by.workspace_id != workspace.pk:
        raise Refused("Only owners and admins may change how large prompts are.")
    current = Workspace.objects.select_for_update(no_key=True).get(pk=workspace.pk)
    try:
        BUDGET_CHECK.only()(budgets)
    except ValueError as error:
        raise Problem(str(error), code="bad_budget", field="budgets") from None
    before, current.budgets = current.budgets, budgets
    if before != budgets:
        WORKSPACE_CHECK.only()(current)
        words = [json.dumps(value) if value else "the defaults" for value in (before, budgets)]
        change = {"subject": "sizes of prompts", "before": words[0], "after": words[1]}
        record_audit(AuditAction.BUDGET, workspace_id=workspace.pk, by=by, **change)
        current.save(update_fields=["budgets", "updated_at"])
        emit("workspace_changed", workspace_id=workspace.pk)
    return current


def _check_prompts(workspace: Workspace, instructions: str) -> None:
    """Raises Problem that names the field when agents could not be given a prompt with these instructions."""
    draft = copy(workspace)
    draft.instructions = instructions
    try:
        WORKSPACE_CHECK.only()(draft)
    except Problem as problem:
        raise Problem(problem.message, code=problem.code, field="instructions") from None
