"""Profile notes: what one agent noted about one person. Reading them, and the one way they are written."""

from __future__ import annotations

from django.db import transaction

from memory.models import PROFILE_TOKEN_LIMIT, CarriedVersion, ProfileNote
from openvibe.base.problems import Conflict, Missing, Problem
from openvibe.llm.tokens import count
from openvibe.workspaces.models import Participant

LONGEST_TEXT = 20_000  # characters looked at before counting tokens


def read_notes(agent_id: int, person_id: int) -> str:
    """What the agent (a participant's id) noted about the person; "" when nothing."""
    found = ProfileNote.objects.filter(agent_id=agent_id, person_id=person_id).values_list("content", flat=True)
    return found.first() or ""


def store_notes(
    *, agent_id: int, person_id: int, text: str, by_id: int | None, how: str, version: int | None = None
) -> ProfileNote:
    """Replace the notes; every change leaves a version with its author. The same text again changes nothing.

    `version` is the number the writer saw (0: none yet): when it is not the current one any more, Conflict is raised.
    At most PROFILE_TOKEN_LIMIT tokens, else Problem; Missing when agent and person share no workspace.
    """
    content = cleaned_notes(text)
    with transaction.atomic():
        _must_know(agent_id, person_id)
        note = _locked(agent_id, person_id)
        if version is not None and version != (note.version if note else 0):
            raise Conflict("These notes were changed somewhere else meanwhile. Compare, then save again.", code="stale")
        if note is None:
            note = ProfileNote(agent_id=agent_id, person_id=person_id, version=0)
        elif note.content == content:
            return note
        note.content, note.tokens, note.version, note.changed_by_id = content, count(content), note.version + 1, by_id
        note.save()
        CarriedVersion.objects.create(note=note, number=note.version, content=content, author_id=by_id, how=how)
    return note


def cleaned_notes(text: str) -> str:
    """The text as it is kept. Raises Problem: characters that cannot be kept, or too long."""
    if "\x00" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise Problem("These notes hold a character that cannot be kept. Paste them again as plain text.",
                      code="bad_text", field="text")  # fmt: skip
    content = text.replace("\r\n", "\n").replace("\r", "\n").strip()
    tokens = count(content) if len(content) <= LONGEST_TEXT else len(content)
    if tokens > PROFILE_TOKEN_LIMIT:
        raise Problem(
            f"These notes take {tokens:,} tokens; at most {PROFILE_TOKEN_LIMIT} fit. Shorten them.",
            code="too_long", field="text",
        )  # fmt: skip
    return content


def _must_know(agent_id: int, person_id: int) -> None:
    pair = Participant.objects.filter(pk__in=[agent_id, person_id]).values_list("pk", "workspace_id", "kind")
    known = {pk: (workspace_id, kind) for pk, workspace_id, kind in pair}
    agent, person = known.get(agent_id), known.get(person_id)
    if agent is None or person is None or agent[0] != person[0] or agent[1] != Participant.Kind.AGENT:
        raise Missing


def _locked(agent_id: int, person_id: int) -> ProfileNote | None:
    """The note, locked; two first notes at once agree on one row."""
    notes = ProfileNote.objects.select_for_update(of=("self",)).filter(agent_id=agent_id, person_id=person_id)
    note = notes.first()
    if note is None:
        Participant.objects.select_for_update(of=("self",)).get(pk=agent_id)
        note = notes.first()
    return note
