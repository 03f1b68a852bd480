"""Blocks, profile notes and their versions, as an asker may see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.core.paginator import Paginator
from django.db.models import Q, QuerySet

from memory.blocks.context_blocks import NOTES, ContextBlocks
from memory.blocks.models import CarriedVersion, ProfileNote
from memory.blocks.values import BLOCK_TOKEN_LIMIT, MAX_BLOCKS, PREDEFINED_BLOCKS, PROFILE_TOKEN_LIMIT, BlockAuthor
from openvibe.base.problems import Missing, Refused
from openvibe.chat.models import Message, Thread
from openvibe.chat.queries import access_by, participants_known_to
from openvibe.engines.database.compiled_queries import CompiledQuery
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant

MAX_VERSIONS = 50
SOURCE_LABELS = {
    "page": "",
    "admin": "in the admin",
    "api": "through the API",
    "agent": "in a conversation",
    "review": "from a review",
    "import": "by an import",
    "default": "from the start",
}


def list_versions(rows: QuerySet[CarriedVersion]) -> list[dict[str, Any]]:
    """What `memory/_versions.html` shows: the newest 50 versions, the newest first. One query. `same`: the text is that
    of the version before; only its limit, description or flag was changed."""
    versions = list(rows.select_related("author").order_by("-number")[: MAX_VERSIONS + 1])
    return [
        {
            "number": row.number,
            "text": row.content,
            "author": row.author.label
            if row.author
            else "Somebody who is gone"
            if row.how != "default"
            else "OpenVibe",
            "how": SOURCE_LABELS.get(row.how, ""),
            "at": row.created_at,
            "is_current": index == 0,
            "same": [before.content for before in versions[index + 1 : index + 2]] == [row.content],
        }
        for index, row in enumerate(versions[:MAX_VERSIONS])
    ]


def is_public_thread(thread_id: int) -> bool:
    """Whether what is learned in a thread may be known in every other one."""
    return bool(_public_thread.rows(thread_id))


@CompiledQuery
def _public_thread(thread_id: int) -> QuerySet[Any, Any]:
    return Thread.objects.filter(pk=thread_id, access=Thread.Access.OPEN, channel__is_private=False).values_list("pk")


def access_agent(by: Access, handle: str) -> Participant:
    """An agent by its handle. Admins also know deactivated ones, an agent always itself. Raises Missing."""
    return _agent_by_handle(by, handle)


def _visible_agents(access: Access) -> QuerySet[Participant]:
    agents = Participant.objects.filter(workspace_id=access.workspace_id, kind=Participant.Kind.AGENT)
    if access.administers:
        return agents
    return agents.filter(pk__in=participants_known_to(access).order_by().values("pk"))


_agent_by_handle = access_by("handle", _visible_agents)


def may_write_blocks(agent: Participant, by: Access) -> bool:
    """Owners and admins those of every agent, an agent its own."""
    return by.workspace_id == agent.workspace_id and (by.administers or by.participant_id == agent.pk)


def access_blocks(agent: Participant, by: Access) -> ContextBlocks:
    """The blocks of an agent, to look at. Members read those of the agents they know, guests none (Missing), an agent
    its own (Refused)."""
    if by.workspace_id != agent.workspace_id or by.is_guest:
        raise Missing
    if by.is_agent and by.participant_id != agent.pk:
        raise Refused("An agent reads its own blocks only.")
    return ContextBlocks(agent, author=BlockAuthor(by.participant_id))


def read_notes(agent_id: int, person_id: int) -> str:
    """What the agent (a participant's id) noted about the person; "" when nothing."""
    contents = ProfileNote.objects.filter(agent_id=agent_id, person_id=person_id).values_list("content", flat=True)
    return contents.first() or ""


def access_person(by: Access, handle: str) -> Participant:
    """Somebody notes can be about: a member by handle. Raises Missing."""
    return _member_by_handle(by, handle)


_member_by_handle = access_by(
    "handle", lambda access: participants_known_to(access).filter(kind=Participant.Kind.MEMBER)
)


def access_last_speaker(by: Access, thread_id: int) -> Participant:
    """The person who said something in the thread last. Raises Missing where `by` sees no thread, or nobody spoke."""
    if not Thread.objects.visible_to(by).filter(pk=thread_id).exists():
        raise Missing
    messages = Message.objects.visible_to(by).filter(
        thread=thread_id, author__kind=Participant.Kind.MEMBER, deleted_at=None
    )
    newest: Message | None = messages.select_related("author").order_by("-seq").first()
    if newest is None:
        raise Missing("Nobody has said anything in this thread yet.")
    return newest.author


def access_notes(*, agent: Participant, person: Participant, by: Access) -> ProfileNote:
    """Admins read all, an agent its own, a member those about herself: else Refused. Of version 0, and empty, while
    there are none."""
    check_notes_readable(agent, person, by)
    note = NOTES.find_or_new(agent.pk, person.pk)
    note.agent, note.person = agent, person
    return note


def check_notes_readable(agent: Participant, person: Participant, by: Access) -> None:
    if by.workspace_id != agent.workspace_id or person.workspace_id != agent.workspace_id:
        raise Missing
    if not (by.administers or by.participant_id in (agent.pk, person.pk)):
        raise Refused("Only admins, the agent itself and the person it is about read these notes.")


@dataclass(frozen=True)
class TextDraft:
    """What somebody typed that could not be saved, and why. `key`: the block's label, empty for a new one; the id of
    the person the notes are about."""

    key: str | int
    content: str = ""
    description: str = ""
    max_tokens: str = ""
    new_label: str = ""
    problem: str = ""
    field: str = ""


def blocks_context(agent: Participant, access: Access, draft: TextDraft | None = None) -> dict[str, Any]:
    """What `memory/_blocks.html` needs. One query. Raises as `access_blocks`."""
    predefined_labels = {block.label for block in PREDEFINED_BLOCKS}
    rows = [
        {
            "block": block,
            "is_predefined": block.label in predefined_labels,
            "typed": draft if draft and draft.key == block.label else None,
        }
        for block in access_blocks(agent, access).list()
    ]
    may_write = agent.is_active and may_write_blocks(agent, access)
    return {
        "blocks": rows,
        "blocks_agent": agent,
        "may_write_blocks": may_write,
        "may_add_block": may_write and len(rows) < MAX_BLOCKS,
        "new_block": draft if draft and not draft.key else None,
        "block_limit": BLOCK_TOKEN_LIMIT,
    }


NOTES_ON_A_PAGE = 25
"""Each may have as many words as a page of a book."""


def notes_context(
    agent: Participant, access: Access, draft: TextDraft | None = None, *, number: int | str | None = 1, about: str = ""
) -> dict[str, Any]:
    """What `memory/_notes.html` needs: notes that say something, by the person's name, a page of them: that number, or
    where the person of the handle `about` stands. Two queries, one more with `about`."""
    notes = ProfileNote.objects.filter(agent=agent).exclude(content="").select_related("person", "changed_by")
    if not access.administers:
        notes = notes.filter(person=access.participant_id)
    person = Participant.objects.filter(workspace=agent.workspace_id, handle=about).first() if about else None
    if person is not None:
        earlier = Q(person__name__lt=person.name) | Q(person__name=person.name, person__lt=person.pk)
        number = notes.filter(earlier).count() // NOTES_ON_A_PAGE + 1
    page = Paginator(notes.order_by("person__name", "person"), NOTES_ON_A_PAGE).get_page(number)
    rows = [
        {
            "note": note,
            "is_about_asker": note.person_id == access.participant_id,
            "typed": draft if draft and draft.key == note.person_id else None,
        }
        for note in page
    ]
    return {
        "notes": rows,
        "notes_page": page,
        "notes_agent": agent,
        "sees_all_notes": access.administers,
        "may_write_notes": access.administers and agent.is_active,
        "note_limit": PROFILE_TOKEN_LIMIT,
    }
