"""Form data of knowledge: read from the request, given to services; lookups of the entry or owner it names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from knowledge.expiry import format_instant, parse_expiry
from knowledge.models import Entry
from knowledge.services import KEEP
from knowledge.services.validation import possible_owners
from knowledge.tags import join_tags, split_tags
from openvibe.base.params import MAX_ID, int_param
from openvibe.base.problems import Missing, Problem
from openvibe.chat.queries import participants_known_to
from openvibe.workspaces.decorators import WorkspaceRequest
from openvibe.workspaces.models import Participant
from openvibe.workspaces.queries import name_like

ON_DATE = "on"

_DATE_INPUT = re.compile(r"(?:\d{4}-\d\d-\d\d(?P<time>T\d\d:\d\d(?::\d\d)?)?)?")
"""What date pickers send, with a time or without."""


@dataclass(frozen=True)
class EntryFormData:
    """One form. `expires` is a preset or "on"; then `expires_on` says when. `tags` are a line of `knowledge.tags`."""

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

    @property
    def expires_on_type(self) -> str:
        """The type of the input that can show `expires_on`: a date picker, one with a time, or a text where it is
        neither."""
        match = _DATE_INPUT.fullmatch(self.expires_on)
        try:
            datetime.fromisoformat(self.expires_on or "2030-06-30")
        except ValueError:
            return "text"
        return "text" if not match else "datetime-local" if match["time"] else "date"

    def expires_at(self) -> datetime | None:
        """The instant, UTC; of a preset to the minute. Raises Problem (field expires_at)."""
        if self.expires == ON_DATE and not self.expires_on.strip():
            raise Problem("Say on which date it expires, or choose never.", code="bad_expiry", field="expires_at")
        text = self.expires_on if self.expires == ON_DATE else self.expires
        return parse_expiry(text, now=whole_minute(timezone.now()))

    def words(self) -> dict[str, Any]:
        """What the entry says and until when, as services take it. Raises Problem (field expires_at)."""
        return {
            "topic": self.topic,
            "content": self.content,
            "kind": self.kind,
            "visibility": self.visibility,
            "tags": split_tags(self.tags),
            "expires_at": self.expires_at(),
        }

    def changed_fields(self, entry: Entry) -> dict[str, Any]:
        """The changed fields as `words`; an expiry that was left as it is may be past."""
        if entry.expires_at and (self.expires, self.expires_on.strip()) == (ON_DATE, expiry_input(entry.expires_at)):
            return {**replace(self, expires="never").words(), "expires_at": KEEP}
        return self.words()


def read_form_data(request: WorkspaceRequest) -> EntryFormData:
    """What was sent."""
    form_data = request.POST
    text: Mapping[str, str] = {
        name: form_data.get(name, "").replace("\r\n", "\n")
        for name in ("topic", "content", "kind", "visibility", "tags", "expires", "expires_on", "owner", "note")
    }
    return EntryFormData(
        **text,
        is_pinned="is_pinned" in form_data,
        supersedes=int_param(form_data, "supersedes") or None,
        based_on=int_param(form_data, "based_on"),
        client_id=form_data.get("client_id", "")[:100],
    )


def form_data_of(entry: Entry) -> EntryFormData:
    """The form that says what the entry says now."""
    return EntryFormData(
        topic=entry.topic,
        content=entry.content,
        kind=entry.kind,
        visibility=entry.visibility,
        tags=join_tags(entry.tags),
        expires=ON_DATE if entry.expires_at else "never",
        expires_on=expiry_input(entry.expires_at) if entry.expires_at else "",
        is_pinned=entry.is_pinned,
        owner=entry.owner.handle,
        based_on=entry.version,
    )


def expiry_input(at: datetime) -> str:
    """An instant as date pickers have it, in UTC: `2026-03-01` for the end of that day, else `2026-03-01T09:30`."""
    return format_instant(at).removesuffix(" UTC").replace(" ", "T")


def whole_minute(at: datetime) -> datetime:
    """The minute from where presets count: nobody means seconds."""
    return at.replace(second=0, microsecond=0)


def strip_nul(data: EntryFormData) -> EntryFormData:
    """What can be shown and stored again after a refusal."""
    texts: dict[str, Any] = {name: value for name, value in vars(data).items() if isinstance(value, str)}
    return replace(data, **{name: value.replace("\x00", "") for name, value in texts.items()})


MAX_OWNERS_OFFERED = 8
MAX_NAME_CHARACTERS = 100


def suggest_owners(request: WorkspaceRequest, words: str) -> list[Participant]:
    """The people who may own entries and have these words in name or handle, by name, at most eight. One statement."""
    cleaned_words = words.replace("\x00", "").strip()[:MAX_NAME_CHARACTERS]
    return list(_owners(request).filter(name_like(cleaned_words)).order_by("name", "id")[:MAX_OWNERS_OFFERED])


def find_owner(request: WorkspaceRequest, handle: str) -> Participant | None:
    """The person who may own an entry and has this handle, with or without its @."""
    return _owners(request).filter(handle=_bare_handle(handle)).first()


def access_owner(request: WorkspaceRequest, owner_text: str, entry: Entry | None = None) -> Participant | None:
    """The owner of this handle; None where nobody is named, or who owns the entry already, who may have left since.

    Raises Problem (field owner)."""
    handle = _bare_handle(owner_text)
    if not handle or (entry is not None and handle == entry.owner.handle):
        return None
    owner = find_owner(request, handle)
    if owner is None:
        raise Problem(
            f"Nobody who can own an entry has the handle “{handle[:MAX_NAME_CHARACTERS]}”. "
            "Name a member by their handle.",
            code="bad_owner",
            field="owner",
        )
    return owner


def _bare_handle(text: str) -> str:
    return text.replace("\x00", "").strip().removeprefix("@").lower()


def _owners(request: WorkspaceRequest) -> QuerySet[Participant]:
    """The people who may own an entry; for guests those of them that they know."""
    people = possible_owners(request.workspace.pk)
    if not request.access.is_guest:
        return people
    return people.filter(pk__in=participants_known_to(request.access).order_by().values("pk"))


def access_entry(request: WorkspaceRequest, entry_id: int) -> Entry:
    """The entry with owner, author, who decided it, where it is from and its successor. Raises Missing."""
    entry = Entry.objects.visible_to(request.access).with_related().filter(pk=min(entry_id, MAX_ID)).first()
    if entry is None:
        raise Missing
    return entry
