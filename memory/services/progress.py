"""The verb of the progress log: it is only ever added to."""

from django.db import transaction

from memory.models import ProgressEntry
from memory.services.worded import locked_thread, told, worded
from openvibe.chat.models import Thread
from openvibe.workspaces.access import Access


@transaction.atomic
def log_progress(
    *,
    thread: Thread,
    by: Access,
    checkpoint: str,
    changed: str = "",
    evidence: str = "",
    open_issues: str = "",
    next_action: str = "",
) -> ProgressEntry:
    """Note where the work stands: the checkpoint in one line, the rest at most 2,000 characters each.

    Raises Missing (unseen thread), Refused (archived), Problem (empty checkpoint, too long).
    """
    said = {
        name: worded(text, field=name, most=2_000, required=False)
        for name, text in (
            ("changed", changed), ("evidence", evidence), ("open_issues", open_issues), ("next_action", next_action),
        )
    }  # fmt: skip
    line = " ".join(worded(checkpoint, field="checkpoint", most=200).split())
    locked = locked_thread(thread, by)
    entry = ProgressEntry.objects.create(thread=locked, checkpoint=line, author_id=by.participant_id, **said)
    told(locked)
    return entry
