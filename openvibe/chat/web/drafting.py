"""What the publish form holds: the newest draft the dive's agent wrote, or what somebody typed."""

from dataclasses import dataclass, field
from itertools import zip_longest

from django.http import QueryDict

from openvibe.chat import drafting
from openvibe.chat.models import Dive
from openvibe.llm.drafts import FULL_CHARACTERS, MOST_BULLETS, MOST_DEFERRED, MOST_QUESTIONS, ResultDraft

LONGEST = FULL_CHARACTERS + 1_000
"""Characters of one field that are shown again; a little more than is taken, so that the refusal can name it."""


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
    """What the agent drafted, for the form."""
    found = drafting.newest_draft(dive)
    if found.draft is None:
        return Drafted(asked=found.asked)
    return Drafted(found.draft, by=dive.agent.name, is_picked=found.is_picked)


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
