"""What the verbs of work share: clean words, the thread's lock, and the bells."""

from memory.models import Compaction
from memory.signals import milestone_reached
from openvibe.base.models import emit
from openvibe.base.problems import Missing, Problem, Refused
from openvibe.chat.models import Thread
from openvibe.chat.services.writing import is_archived, not_over
from openvibe.chat.text import TextRefused, clean_body
from openvibe.workspaces.access import Access


def worded(text: str, *, field: str, most: int, required: bool = True) -> str:
    """The text as it is kept, at most `most` characters. Raises Problem that names the field."""
    if not required and not text.strip():
        return ""
    try:
        return clean_body(text, max_characters=most).strip()
    except TextRefused as error:
        raise Problem(error.message, code=error.code, field=field) from None


def locked_thread(thread: Thread, by: Access, *, even_over: bool = False) -> Thread:
    """The thread, held until the transaction ends.

    Raises Missing when `by` does not see it, Refused when it is archived or, unless `even_over`, a dive that is over.
    """
    seen = Thread.objects.visible_to(by).select_related("channel").order_by()
    found: Thread | None = seen.select_for_update(of=("self",), no_key=True).filter(pk=thread.pk).first()
    if found is None:
        raise Missing
    if is_archived(found):
        raise Refused("This conversation is archived. Bring it back before changing its work.", code="archived")
    if not even_over:
        not_over(found)
    return found


def told(thread: Thread) -> None:
    emit("work_changed", workspace_id=thread.workspace_id, channel_id=thread.channel_id, thread_id=thread.pk)


def milestone(thread: Thread, trigger: Compaction.Trigger, by: Access) -> None:
    milestone_reached.send(sender=Thread, thread=thread, trigger=trigger, by=by)
