"""The draft of a dive's result, read from what its agent answered."""

from dataclasses import dataclass

from openvibe.chat.models import Dive, Message
from openvibe.llm.drafts import PICKED_NOTE, ResultDraft, extract_draft, parse_draft

LOOKED_AT = 8
"""Replies since the draft was asked for: a person may have had it changed since."""
WRITTEN = (Message.State.COMPLETE, Message.State.STOPPED)


@dataclass(frozen=True)
class Drafted:
    """What the agent drafted. `asked` is the seq of the message that asked for it, None when nobody did.

    `draft` is None while the reply is awaited; `is_picked` when the reply was no result: sentences picked from it.
    """

    asked: int | None = None
    draft: ResultDraft | None = None
    is_picked: bool = False


def newest_draft(dive: Dive) -> Drafted:
    """From the replies to the last request for a draft: the newest that is one, else sentences of the first."""
    said = Message.objects.filter(thread_id=dive.thread_id, deleted_at=None)
    asked = said.filter(kind=Message.Kind.SYSTEM).order_by("-seq").values_list("seq", flat=True).first()
    if asked is None:
        return Drafted()
    replies = said.filter(seq__gt=asked, author_id=dive.agent_id, kind=Message.Kind.TEXT, state__in=WRITTEN)
    bodies = [body for body in replies.order_by("-seq").values_list("body", flat=True)[:LOOKED_AT] if body.strip()]
    for body in bodies:
        draft = parse_draft(body)
        if draft is not None:
            return Drafted(asked, draft)
    if not bodies:
        return Drafted(asked)
    return Drafted(asked, extract_draft([("", bodies[-1])], note=PICKED_NOTE), is_picked=True)
