"""Instructions for agents: cleaned and measured before they are saved, and the snippets that they include. Trusted:
only admins write them."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import F

from openvibe.base.audit import AuditAction, record_audit
from openvibe.base.events import emit
from openvibe.base.problems import Conflict, Missing, Problem, Refused
from openvibe.engines.llm.tokens import count_tokens
from openvibe.engines.registers import Register
from openvibe.engines.text.cleaning import (
    MAX_BODY_CHARACTERS,
    TextRefused,
    clean_body,
    has_visible_character,
    text_version,
)
from openvibe.engines.text.includes import CutInclude, expand_includes, miswritten_include
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import MAX_INSTRUCTION_TOKENS, Snippet, Workspace, snippet_name_validator

MAX_SNIPPETS = 50
"""Snippets of one workspace. Every prompt with an include reads them all."""

WORKSPACE_CHECK: Register[Callable[[Workspace], None]] = Register(
    "openvibe.workspaces.services.instructions.WORKSPACE_CHECK"
)
"""Raises Problem when agents of the workspace (saved or not) could not be given a prompt: what always stands in one
would be larger than what may be read."""


class InstructionText(NamedTuple):
    """Instructions somewhere in a workspace. `place` names them for whoever asks, in the middle of a sentence."""

    place: str
    text: str


INSTRUCTION_TEXTS: Register[Callable[[Access], Iterable[InstructionText]]] = Register(
    "openvibe.workspaces.services.instructions.INSTRUCTION_TEXTS"
)
"""All instructions of upper floors that include a snippet, in the asker's workspace."""


def check_instructions_version(text: str, version: str | None) -> None:
    """Raises Conflict unless `version` is that of `text`, the instructions that stand there now. None: the caller does
    not say what it began from, and is not asked."""
    if version is not None and version != text_version(text):
        raise Conflict(
            "These instructions were changed meanwhile. Nothing was saved, and your text is kept: look at what they "
            "say now, put both together, and save again.",
            code="changed_meanwhile",
            field="instructions",
        )


def clean_instructions(text: str, *, workspace_id: int, field: str = "instructions", name: str = "") -> str:
    """The text as it is stored; `name` is the snippet's own.

    Raises Problem, with nothing saved, for what cannot be kept, for more than MAX_INSTRUCTION_TOKENS tokens, and for an
    include that could not be followed.
    """
    if "\x00" not in text and not has_visible_character(text):
        return ""
    try:
        cleaned = clean_body(text, max_characters=MAX_BODY_CHARACTERS).strip()
    except TextRefused as error:
        raise Problem(error.message, code=error.code, field=field) from None
    if (tokens := count_tokens(cleaned)) > MAX_INSTRUCTION_TOKENS:
        message = f"This is {tokens:,} tokens; at most {MAX_INSTRUCTION_TOKENS:,} fit. Nothing was saved: shorten it."
        raise Problem(message, code="too_long", field=field)
    if line := miswritten_include(cleaned):
        message = f"“{line}” would stay as it is. An include is a line of its own: @include name. Nothing was saved."
        raise Problem(message, code="include_miswritten", field=field)
    for include in _find_cuts(cleaned, _snippet_texts(workspace_id), name):
        raise Problem(f"{include.message} Nothing was saved.", code=include.reason.replace(" ", "_"), field=field)
    return cleaned


def _snippet_texts(workspace_id: int) -> dict[str, str]:
    """The texts of all snippets of a workspace, by name."""
    return dict(Snippet.objects.filter(workspace=workspace_id).values_list("name", "text"))


def _find_cuts(text: str, snippets: dict[str, str], name: str = "") -> tuple[CutInclude, ...]:
    return expand_includes(text, snippets, max_tokens=MAX_INSTRUCTION_TOKENS, count=count_tokens, name=name).cuts


@transaction.atomic
def create_snippet(*, workspace: Workspace, by: Access, name: str, text: str) -> Snippet:
    """A named text that instructions may include. Raises Refused, Problem, and Conflict for a name that is taken."""
    _lock_snippets(workspace, by)
    name = name.strip()
    try:
        snippet_name_validator(name)
    except ValidationError as error:
        raise Problem(error.messages[0], code="bad_name", field="name") from None
    if Snippet.objects.filter(workspace=workspace).count() >= MAX_SNIPPETS:
        raise Problem(f"A workspace has at most {MAX_SNIPPETS} snippets. Delete one first.", code="too_many")
    text = _clean_snippet(text, workspace, name)
    if Snippet.objects.filter(workspace=workspace, name=name).exists():
        raise Conflict(f"There is a snippet “{name}” already. Change that one.", field="name")
    _audit_snippet(by, name, "", text)
    return Snippet.objects.create(workspace=workspace, name=name, text=text, changed_by_id=by.participant_id)


@transaction.atomic
def update_snippet(*, snippet: Snippet, by: Access, text: str, version: int) -> Snippet:
    """Another text for a snippet, on the `version` that was read. All that include it have it from the next prompt on.

    Raises Conflict when it was changed meanwhile, and Problem when some instructions could not hold it any more.
    """
    _lock_snippets(snippet.workspace, by)
    current = _access_snippet(snippet)
    if current.version != version:
        raise Conflict(
            f"“{snippet.name}” was changed meanwhile. Nothing was saved: look at what it says now, and change that.",
            code="changed_meanwhile",
        )
    text = _clean_snippet(text, snippet.workspace, snippet.name)
    if text == current.text:
        return current
    before = _broken_includes(by)
    changes = {"text": text, "version": F("version") + 1, "changed_by": by.participant_id}
    Snippet.objects.filter(pk=snippet.pk).update(**changes)
    _check_includes(by, before)
    _audit_snippet(by, snippet.name, current.text, text)
    if "@include" in snippet.workspace.instructions:
        WORKSPACE_CHECK.only()(snippet.workspace)
    emit("workspace_changed", workspace_id=snippet.workspace_id)
    return _access_snippet(snippet)


@transaction.atomic
def delete_snippet(*, snippet: Snippet, by: Access) -> None:
    """Raises Problem while anything includes it."""
    _lock_snippets(snippet.workspace, by)
    before = _broken_includes(by)
    _audit_snippet(by, snippet.name, snippet.text, "deleted")
    _access_snippet(snippet).delete()
    _check_includes(by, before)


def _audit_snippet(by: Access, name: str, before: str, after: str) -> None:
    subject = f"the snippet “{name}”"
    record_audit(AuditAction.SETTINGS, workspace_id=by.workspace_id, by=by, subject=subject, before=before, after=after)


def _lock_snippets(workspace: Workspace, by: Access) -> None:
    """One change of a workspace's snippets at a time."""
    if not by.administers or by.workspace_id != workspace.pk:
        raise Refused("Only owners and admins write snippets: they are trusted. Ask one of them.")
    Workspace.objects.select_for_update(no_key=True).get(pk=workspace.pk)


def _access_snippet(snippet: Snippet) -> Snippet:
    current = Snippet.objects.select_related("workspace").filter(pk=snippet.pk).first()
    if current is None:
        raise Missing(f"“{snippet.name}” was deleted meanwhile.")
    return current


def _clean_snippet(text: str, workspace: Workspace, name: str) -> str:
    text = clean_instructions(text, workspace_id=workspace.pk, field="text", name=name)
    if not text:
        raise Problem("A snippet needs a text.", code="empty", field="text")
    return text


def _broken_includes(by: Access) -> dict[tuple[str, str, str], str]:
    """Every include in the workspace that cannot be followed: where it stands, its name and the reason, with the
    sentence that says so."""
    workspace = Workspace.objects.get(pk=by.workspace_id)
    snippets = _snippet_texts(workspace.pk)
    texts = [
        ("the organisation instructions", workspace.instructions, ""),
        *((f"the snippet “{name}”", text, name) for name, text in snippets.items()),
        *((place, text, "") for source in INSTRUCTION_TEXTS for place, text in source(by)),
    ]
    return {
        (place, include.name, include.reason): include.message
        for place, text, name in texts
        for include in _find_cuts(text, snippets, name)
    }


def _check_includes(by: Access, before: dict[tuple[str, str, str], str]) -> None:
    """Raises Problem when an include cannot be followed now that could be `before`."""
    for key, message in _broken_includes(by).items():
        if key not in before:
            place, _, reason = key
            code = reason.replace(" ", "_")
            raise Problem(f"It is part of {place}: {message} Nothing was changed.", code=code, field="text")
