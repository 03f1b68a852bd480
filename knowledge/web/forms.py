"""What stands in a form of knowledge: as it was typed, so that nothing is lost, and as services take it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.utils import timezone

from knowledge.models import Entry
from knowledge.presets import expiry_of, shown
from knowledge.services import KEEP
from knowledge.services.revising import possible_owners
from openvibe.base.problems import Problem
from openvibe.chat.querysets import participants_known_to
from openvibe.chat.web.numbers import number
from openvibe.workspaces.models import Participant
from openvibe.workspaces.web.doors import WorkspaceRequest

ON_A_DATE = "on"
_TAG_ENDS = re.compile(r"[,\n;]")


@dataclass(frozen=True)
class Typed:
    """One form. `expires` is a preset or "on"; then `expires_on` says when. `tags` are divided by commas."""

    topic: str = ""
    content: str = ""
    kind: str = Entry.Kind.FACT
    visibility: str = Entry.Visibility.SHARED
    tags: str = ""
    expires: str = "90d"
    expires_on: str = ""
    is_pinned: bool = False
    owner: str = ""
    supersedes: int | None = None
    note: str = ""
    based_on: int | None = None
    client_id: str = ""

    def expires_at(self, now: datetime | None = None) -> datetime | None:
        """The instant, UTC; of a preset to the minute. Raises Problem (field expires_at)."""
        if self.expires == ON_A_DATE and not self.expires_on.strip():
            raise Problem("Say on which date it expires, or choose never.", code="bad_expiry", field="expires_at")
        return expiry_of(self.expires_on if self.expires == ON_A_DATE else self.expires, now=this_minute(now))

    def words(self) -> dict[str, Any]:
        """What the entry says and until when, as services take it. Raises Problem (field expires_at)."""
        return {
            "topic": self.topic,
            "content": self.content,
            "kind": self.kind,
            "visibility": self.visibility,
            "tags": tags_in(self.tags),
            "expires_at": self.expires_at(),
        }

    def changed_words(self, entry: Entry) -> dict[str, Any]:
        """As `words`; an expiry that was left as it is may be past."""
        if entry.expires_at and (self.expires, self.expires_on.strip()) == (ON_A_DATE, shown(entry.expires_at)):
            return {**replace(self, expires="never").words(), "expires_at": KEEP}
        return self.words()

    def everything(self, request: WorkspaceRequest) -> dict[str, Any]:
        """All fields of a new entry."""
        return {**self.words(), "is_pinned": self.is_pinned, "owner": owner_named(request, self.owner)}


def typed_in(request: WorkspaceRequest) -> Typed:
    """What was sent."""
    given = request.POST
    text: Mapping[str, str] = {
        name: given.get(name, "").replace("\r\n", "\n")
        for name in ("topic", "content", "kind", "visibility", "tags", "expires", "expires_on", "owner", "note")
    }
    return Typed(
        **text,
        is_pinned="is_pinned" in given,
        supersedes=number(given, "supersedes") or None,
        based_on=number(given, "based_on"),
        client_id=given.get("client_id", "")[:100],
    )


def typed_of(entry: Entry) -> Typed:
    """The form that says what the entry says now."""
    return Typed(
        topic=entry.topic,
        content=entry.content,
        kind=entry.kind,
        visibility=entry.visibility,
        tags=", ".join(entry.tags),
        expires=ON_A_DATE if entry.expires_at else "never",
        expires_on=shown(entry.expires_at) if entry.expires_at else "",
        is_pinned=entry.is_pinned,
        owner=str(entry.owner_id),
        based_on=entry.version,
    )


def this_minute(now: datetime | None = None) -> datetime:
    """From where presets count: nobody means seconds."""
    return (now or timezone.now()).replace(second=0, microsecond=0)


def without_nul(typed: Typed) -> Typed:
    """What can be shown and stored again after a refusal."""
    text: dict[str, Any] = {
        name: value.replace("\x00", "") for name, value in vars(typed).items() if isinstance(value, str)
    }
    return replace(typed, **text)


def tags_in(text: str) -> list[str]:
    return [tag.strip() for tag in _TAG_ENDS.split(text) if tag.strip()]


def owners_of(request: WorkspaceRequest) -> list[Participant]:
    """Who may own an entry, by name; for guests those of them that they know."""
    people = possible_owners(request.workspace.pk).order_by("name", "id")
    if request.access.is_guest:
        people = people.filter(pk__in=participants_known_to(request.access).order_by().values("pk"))
    return list(people)


def owner_named(request: WorkspaceRequest, given: str) -> Participant | None:
    """The owner chosen; None for nobody chosen. Raises Problem (field owner)."""
    if not given:
        return None
    found = next((one for one in owners_of(request) if str(one.pk) == given), None)
    if found is None:
        raise Problem("Choose an owner from the list.", code="bad_owner", field="owner")
    return found
