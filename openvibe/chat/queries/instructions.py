"""Instructions that hold in channels and threads, with the snippets they include."""

from __future__ import annotations

from dataclasses import dataclass

from openvibe.chat.models import Channel, Thread, sees_channel, sees_thread
from openvibe.engines.text.cleaning import text_version
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Workspace
from openvibe.workspaces.queries import ExpandedInstructions, expand_instructions, read_snippets
from openvibe.workspaces.services import InstructionText


@dataclass(frozen=True)
class ScopedInstructions:
    """Instructions that hold in a channel or a thread, with what they include. `place` names whose they are, in the
    middle of a sentence; `ref` is their id and version."""

    place: str
    ref: str
    expanded: ExpandedInstructions


def scoped_instructions(
    access: Access | None, workspace: Workspace, channel: Channel, thread: Thread | None = None
) -> list[ScopedInstructions]:
    """The widest first, as the asker may see them (None: all): the organisation's are not for guests. A dive has those
    of the thread it started in, too."""
    is_guest = access is not None and access.is_guest
    scopes: list[tuple[str, str, Workspace | Channel | Thread | None]] = [
        ("the whole workspace", "workspace", None if is_guest else workspace),
        (f"#{channel.name}", "channel", channel),
        ("the thread this dive started in", "thread", thread.parent if thread is not None else None),
        ("this thread", "thread", thread),
    ]
    texts = [(place, f"{kind}:{row.pk}", row.instructions) for place, kind, row in scopes if row is not None]
    snippets = read_snippets(workspace.pk) if any("@include" in text for *_, text in texts) else ()
    return [
        ScopedInstructions(place, f"{ref}@{text_version(text)}", expand_instructions(text, snippets))
        for place, ref, text in texts
        if text.strip()
    ]


def including_instructions(access: Access) -> list[InstructionText]:
    """Instructions of channels and threads of the workspace that include a snippet. A place that the asker does not see
    is not named."""
    including = {"workspace": access.workspace_id, "instructions__contains": "@include"}
    channels, threads = Channel.objects.filter(**including), Thread.objects.filter(**including)
    return [
        *(
            InstructionText(
                f"#{row.name}" if sees_channel(access, row.pk) else "a channel you do not see", row.instructions
            )
            for row in channels
        ),
        *(
            InstructionText(
                f"the thread “{row.title}”" if sees_thread(access, row) else "a thread you do not see", row.instructions
            )
            for row in threads
        ),
    ]
