"""Memory plugins that fulfil the contract for real and do as a test says."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from memory.plugins import registry
from memory.plugins.base import (
    CompactionProgress,
    CompactionResult,
    ContextEntry,
    MemoryHit,
    MessagePiece,
    NewMessage,
    Session,
    SessionStats,
    SummaryDescription,
    SummaryExpansion,
    TextPiece,
)
from memory.plugins.models import MemoryPlugin
from openvibe.base.problems import Missing
from openvibe.chat.models import Message
from openvibe.workspaces.models import Workspace
from tests.memory.factories import MemoryPluginFactory


class PlainProvider:
    """The five methods and nothing else."""

    def bootstrap(self, session: Session) -> None: ...

    def append(self, session: Session, messages: Sequence[NewMessage]) -> list[int]:
        raise NotImplementedError("nothing is appended in these tests")

    def assemble(self, session: Session, budget: int, fresh_tail: int) -> list[ContextEntry]:
        return []

    def stats(self, session: Session) -> SessionStats:
        said = Message.objects.filter(thread_id=session.thread_id).count()
        return SessionStats(messages=said, entries=said, tokens=said * 50)

    def close(self) -> None: ...


class LookingProvider(PlainProvider):
    """A provider that also searches and explores: one summary, number 5, of the messages 1 to 3."""

    def __init__(self, words: str = "prune in March") -> None:
        self.words = words

    def search(self, session: Session, query: str, limit: int = 20) -> list[MemoryHit]:
        if query != "roses":
            return []
        hits = [MemoryHit("summary", 5, 1, "", "2026-01-01T00:00:00Z", self.words)]
        hits += [MemoryHit("message", n, n, "Ana", "2026-01-01T00:00:00Z", self.words) for n in range(1, 50)]
        return hits[:limit]

    def describe(self, session: Session, summary_id: int) -> SummaryDescription:
        if summary_id != 5:
            raise Missing
        return SummaryDescription(
            5,
            "leaf",
            0,
            self.words,
            3,
            300,
            1,
            3,
            "2026-01-01T00:00:00Z",
            "2026-01-02T00:00:00Z",
            3,
            9,
            (),
            "normal",
            "gpt-4o",
            False,
        )

    def expand(self, session: Session, summary_id: int, cursor: int | None = None) -> SummaryExpansion:
        self.describe(session, summary_id)
        first = cursor or 1
        said = [
            ContextEntry(n, n, "text", self.words, 3, "2026-01-01T00:00:00Z", message_id=n, author_name="Ana")
            for n in range(first, 4)
        ]
        return SummaryExpansion(tuple(said[:2]), first + 2 if len(said) > 2 else None)


class ReadingProvider(PlainProvider):
    """A provider that also finds and reads messages of other threads: one, of 10 characters a piece."""

    def search_everywhere(self, session: Session, query: str, limit: int = 20) -> list[MemoryHit]:
        at, place, link = "2026-01-01T00:00:00Z", "#garden, “Roses”", "/w/willow/m/7/"
        return [MemoryHit("message", 7, 12, "Ana", at, "prune", 34, place, link)] if query else []

    def read_message(
        self, session: Session, number: int, *, offset: int = 0, thread_id: int | None = None
    ) -> MessagePiece:
        if number != 12:
            raise Missing
        text = "prune them in March, not before"[offset : offset + 10]
        hit = MemoryHit("message", 7, 12, "Ana", "2026-01-01T00:00:00Z", text, thread_id=thread_id)
        return MessagePiece(hit, TextPiece(text, offset, offset + len(text), 31))


class NotingProvider(PlainProvider):
    """A provider that also keeps notes about people."""

    def __init__(self) -> None:
        self.notes: dict[int | None, str] = {}

    def get_profile(self, session: Session) -> str:
        return self.notes.get(session.person_id, "")

    def set_profile(self, session: Session, text: str) -> str:
        self.notes[session.person_id] = text.strip()
        return self.notes[session.person_id]


class EverythingProvider(LookingProvider, ReadingProvider, NotingProvider):
    def __init__(self, words: str = "prune in March") -> None:
        LookingProvider.__init__(self, words)
        NotingProvider.__init__(self)


@dataclass
class CompactingProvider(PlainProvider):
    """Compacts as told: `steps` are called one after the other, an exception from one goes through as it is."""

    made: CompactionResult = field(default_factory=lambda: CompactionResult(900, 400, (7, 8), 1))
    steps: list[Callable[[], None]] = field(default_factory=list)
    reports: list[tuple[int, int]] = field(default_factory=list)
    is_due: bool = True
    seen: list[Mapping[str, Any]] = field(default_factory=list)

    def bootstrap(self, session: Session) -> None:
        self.seen.append({"call": "bootstrap"})
        self._step()

    def needs_compaction(self, session: Session, budget: int) -> bool:
        return self.is_due

    def compact(
        self, session: Session, budget: int, *, full: bool = False, progress: CompactionProgress | None = None
    ) -> CompactionResult:
        self.seen.append({"call": "compact", "budget": budget, "full": full, "session": session})
        for done, of in self.reports:
            if progress is not None:
                progress(done, of)
        self._step()
        return self.made

    def _step(self) -> None:
        if self.steps:
            self.steps.pop(0)()


@dataclass
class RebuildingProvider(CompactingProvider):
    """A provider that also writes summaries anew."""

    rebuilt: CompactionResult = field(default_factory=lambda: CompactionResult(0, 0))

    held: set[int] = field(default_factory=set)
    changed_threads: list[int] = field(default_factory=list)

    def covers_message(self, message_id: int) -> bool:
        return message_id in self.held

    def rebuild(self, session: Session) -> CompactionResult:
        self.seen.append({"call": "rebuild"})
        return self.rebuilt

    def threads_to_rebuild(self, limit: int = 200) -> list[int]:
        return self.changed_threads[:limit]


class InstalledProvider(RebuildingProvider):
    """The same, as an installed package offers it: made with its config."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()


def install(workspace: Workspace, folder: Path, monkeypatch: pytest.MonkeyPatch) -> InstalledProvider:
    """Puts a package with a memory plugin on the path, switches it on in the workspace, and returns it."""
    package = folder / "told_memory-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: told-memory\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(
        "[openvibe.memory]\ntold = tests.memory.plugins.fakes:InstalledProvider\n"
    )
    monkeypatch.syspath_prepend(str(folder))
    registry.clear_plugin_cache()
    MemoryPlugin.objects.filter(workspace=workspace).update(enabled=False)
    MemoryPluginFactory.create(workspace=workspace, name="told", enabled=True)
    provider = registry.provider_for(workspace.pk)
    assert isinstance(provider, InstalledProvider)
    return provider
