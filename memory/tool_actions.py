"""What the memory tool can be asked for, action by action, and how the answers read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from memory.providers.base import (
    Description,
    Entry,
    Explorer,
    Found,
    MemoryProvider,
    ProfileStore,
    Searcher,
    Session,
)
from openvibe.base.problems import Problem

Given = Mapping[str, Any]
LARGEST = 2**63 - 1


@dataclass(frozen=True)
class Argument:
    """One argument of an action. `least` and `most` bound a number, or the length of a text in characters."""

    name: str
    type: Literal["string", "integer"]
    description: str
    required: bool = False
    least: int = 1
    most: int = LARGEST

    def schema(self, actions: Sequence[str]) -> dict[str, Any]:
        bounds = {"minLength": self.least, "maxLength": self.most}
        if self.type == "integer":
            bounds = {"minimum": self.least, "maximum": self.most}
        return {"type": self.type, "description": f"For {', '.join(actions)}: {self.description}", **bounds}

    def checked(self, value: object) -> str | int:
        """Raises Problem unless the value is what the schema says. Nothing is converted."""
        if self.type == "integer":
            if isinstance(value, int) and not isinstance(value, bool) and self.least <= value <= self.most:
                return value
            raise self._refused(f"a whole number from {self.least} to {self.most}")
        if isinstance(value, str) and "\x00" not in value and self.least <= len(value) <= self.most:
            return value
        raise self._refused(f"a text of {self.least} to {self.most} characters")

    def _refused(self, wanted: str) -> Problem:
        return Problem(f'"{self.name}" has to be {wanted}', code="bad_argument", field=self.name)


@dataclass(frozen=True)
class Action:
    """`answer` is called with arguments that were checked, on a plugin that has the capability `needs`."""

    name: str
    description: str
    answer: Callable[[Any, Session, Given], str]
    needs: type[Any] | None = None
    arguments: tuple[Argument, ...] = ()
    for_agents_only: bool = False

    def checked(self, given: Given) -> dict[str, str | int]:
        """Raises Problem for an argument that is unknown, missing or not of its kind. A null is no argument."""
        known = {argument.name: argument for argument in self.arguments}
        said = {name: value for name, value in given.items() if value is not None}
        for name in said:
            if name not in known:
                takes = ", ".join(known) or "no arguments"
                raise Problem(
                    f'"{name[:80]}" is not an argument of {self.name}; it takes {takes}',
                    code="bad_argument",
                    field=name[:80],
                )
        for argument in self.arguments:
            if argument.required and argument.name not in said:
                raise Problem(f'{self.name} needs "{argument.name}"', code="bad_argument", field=argument.name)
        return {name: known[name].checked(value) for name, value in said.items()}


def _status(provider: MemoryProvider, session: Session, given: Given) -> str:
    stats = provider.stats(session)
    lines = [
        f"{stats.messages} messages were said in this conversation.",
        f"What is remembered of them takes {stats.tokens} tokens in {stats.entries} entries.",
    ]
    if stats.summaries:
        lines.append(f"{stats.summaries} summaries stand for older parts; the deepest is of depth {stats.deepest}.")
    return "\n".join([*lines, *([stats.note] if stats.note else [])])


def _search(provider: Searcher, session: Session, given: Given) -> str:
    found = provider.search(session, str(given["query"]), int(given.get("limit", 20)))
    return "\n".join(map(_hit, found)) or "Nothing was found. Try fewer or other words."


def _hit(found: Found) -> str:
    if found.kind == "summary":
        return f"summary {found.id} (from #{found.ordinal}, {found.at}): {found.snippet}"
    return f"#{found.ordinal} {found.author}, {found.at}: {found.snippet}"


def _describe(provider: Explorer, session: Session, given: Given) -> str:
    found = provider.describe(session, int(given["summary_id"]))
    made = f"by {found.model or 'no model'}, level {found.level}"
    lines = [
        f"summary {found.id}: {found.kind}, depth {found.depth}, stands for {_span(found.first, found.last)}"
        f" ({found.message_count} messages, {found.earliest} to {found.latest})",
        f"{found.tokens} tokens made from {found.source_tokens}, {made}",
        *_neighbours(found),
        found.content,
    ]
    return "\n".join(lines)


def _neighbours(found: Description) -> list[str]:
    lines = []
    if found.container is not None:
        lines.append(f"It is part of summary {found.container}.")
    if found.constituents:
        lines.append(f"It is made of {', '.join(f'summary {constituent}' for constituent in found.constituents)}.")
    if found.is_stale:
        lines.append("A message in it was changed: it is being written anew.")
    return lines


def _expand(provider: Explorer, session: Session, given: Given) -> str:
    cursor = given.get("cursor")
    found = provider.expand(session, int(given["summary_id"]), None if cursor is None else int(cursor))
    lines = [_entry(entry) for entry in found.entries]
    if found.cursor is not None:
        lines.append(f"There is more: expand summary {given['summary_id']} with cursor {found.cursor}.")
    return "\n".join(lines) or "Nothing of it is left to show."


def _entry(entry: Entry) -> str:
    if entry.summary_id is not None:
        return f"summary {entry.summary_id} ({_span(entry.ordinal, entry.last)}, {entry.at}): {entry.text}"
    kind = "" if entry.kind == "text" else f", {entry.kind.replace('_', ' ')}"
    return f"#{entry.ordinal} {entry.author_name}, {entry.at}{kind}: {entry.text}"


def _span(first: int, last: int) -> str:
    return f"#{first}" if first == last else f"#{first}–#{last}"


def _profile_get(provider: ProfileStore, session: Session, given: Given) -> str:
    return provider.get_profile(_about_somebody(session)) or "You have noted nothing about this person yet."


def _profile_update(provider: ProfileStore, session: Session, given: Given) -> str:
    text = provider.set_profile(_about_somebody(session), str(given["text"]))
    return f"Your notes about this person now say:\n{text}" if text else "Your notes about this person are empty now."


def _about_somebody(session: Session) -> Session:
    if session.person_id is None:
        raise Problem("nobody asked here, so there is no person to note anything about", code="no_person")
    return session


SUMMARY: Final = Argument("summary_id", "integer", "the number of a summary.", required=True)
ACTIONS: Final = (
    Action("status", "how much was said and how much of it is remembered in which form.", _status),
    Action(
        "search", "messages and summaries that hold these words, literally.", _search, Searcher,
        (
            Argument("query", "string", "words to look for.", required=True, most=1_000),
            Argument("limit", "integer", "most hits; 20 unless said.", most=20),
        ),
    ),
    Action("describe", "a summary and where it stands.", _describe, Explorer, (SUMMARY,)),
    Action(
        "expand", "what a summary stands for, one step down: its messages or its summaries.", _expand, Explorer,
        (SUMMARY, Argument("cursor", "integer", "where the last answer said there is more.", least=0)),
    ),
    Action(
        "profile_get", "your notes about the person you talk to.", _profile_get, ProfileStore, for_agents_only=True
    ),
    Action(
        "profile_update", "replace your notes about the person you talk to; keep what still holds.", _profile_update,
        ProfileStore, (Argument("text", "string", "the notes, whole.", required=True, least=0, most=20_000),),
        for_agents_only=True,
    ),
)  # fmt: skip
"""In the order in which the tool offers them. `status` is every plugin's."""
