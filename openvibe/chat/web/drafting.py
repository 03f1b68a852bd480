"""What the publish form holds: the newest draft the dive's agent wrote, or what somebody typed."""

from dataclasses import dataclass, field
from itertools import zip_longest

from django.http import QueryDict

from openvibe.chat.models import Dive, Message
from openvibe.llm.drafts import (
    FULL_CHARACTERS,
    MOST_BULLETS,
    MOST_DEFERRED,
    MOST_QUESTIONS,
    PICKED_NOTE,
    ResultDraft,
    extract_draft,
    parse_draft,
)

LOOKED_AT = 8
"""Replies since the draft was asked for: a person may have had it changed since."""
LONGEST = FULL_CHARACTERS + 1_000
"""Characters of one field that are shown again; a little more than is taken, so that the refusal can name it."""
WRITTEN = (Message.State.COMPLETE, Message.State.STOPPED)


@dataclass(frozen=True)
class Drafted:
    """A draft for the form. `asked` is the number of the message that asked for it while its reply is awaited.

    `is_picked` when the reply was no result, and sentences were picked from it; `is_typed` when somebody typed it.
    """

    draft: ResultDraft = field(default_factory=ResultDraft)
    by: str = ""
    asked: int | None = None
    is_picked: bool = False
    is_typed: bool = False

    @property
    def bullets(self) -> list[str]:
        return padded(self.draft.bullets, MOST_BULLETS)

    @property
    def deferred(self) -> list[str]:
        return padded(self.draft.deferred, MOST_DEFERRED)

    @property
    def questions(self) -> list[str]:
        return padded(self.draft.questions, MOST_QUESTIONS)


def padded(texts: tuple[str, ...], most: int) -> list[str]:
    """At least `most` texts, empty ones at the end: one for each field."""
    return [text for text, _ in zip_longest(texts, range(most), fillvalue="")]


def newest_draft(dive: Dive) -> Drafted:
    """From the replies to the last request for a draft: the newest that is one, else sentences of the first."""
    said = Message.objects.filter(thread_id=dive.thread_id, deleted_at=None)
    asked = said.filter(kind=Message.Kind.SYSTEM).order_by("-seq").values_list("seq", flat=True).first()
    if asked is None:
        return Drafted()
    replies = said.filter(seq__gt=asked, author_id=dive.agent_id, kind=Message.Kind.TEXT, state__in=WRITTEN)
    bodies = [body for body in replies.order_by("-seq").values_list("body", flat=True)[:LOOKED_AT] if body.strip()]
    for body in bodies:
        if draft := parse_draft(body):
            return Drafted(draft, by=dive.agent.name)
    if not bodies:
        return Drafted(asked=asked)
    picked = extract_draft([(dive.agent.name, bodies[-1])], note=PICKED_NOTE)
    return Drafted(picked, by=dive.agent.name, is_picked=True)


def typed_draft(posted: QueryDict) -> Drafted:
    """The fields `headline`, `bullet`, `full`, `deferred` and `question` as they were sent, without blank items."""
    draft = ResultDraft(
        headline=_plain(posted.get("headline", "")),
        bullets=_items(posted, "bullet"),
        full=_plain(posted.get("full", "")),
        deferred=_items(posted, "deferred"),
        questions=_items(posted, "question"),
    )
    return Drafted(draft, is_typed=True)


def _items(posted: QueryDict, name: str) -> tuple[str, ...]:
    return tuple(_plain(text) for text in posted.getlist(name)[:20] if text.strip())


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n")[:LONGEST]
