"""A prompt as one viewer may see it: what her access or a deletion withholds is withheld everywhere."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q

from agents.assembler.assemble import ASSEMBLER_VERSION, Prompt
from agents.assembler.snapshot import content_of, messages_of, unpacked
from agents.models import Run, Snapshot
from knowledge.history import restricted_then
from knowledge.models import Entry
from memory.models import CarriedVersion, Episode, WorkItem
from openvibe.chat.models import Channel, Message
from openvibe.llm.values import ChatMessage
from openvibe.workspaces.access import Access

DELETED = "deleted since"
CHANGED = "changed since"
NO_ACCESS = "hidden by your access"


@dataclass(frozen=True)
class SeenItem:
    """One item of a prompt as the viewer may see it; `hidden` says why text and author are withheld."""

    layer: str
    section: str
    key: str
    source: str
    author: str
    ref: str
    trust: str
    tokens: int
    text: str
    message_id: int | None = None
    hidden: str = ""


@dataclass(frozen=True)
class SeenSection:
    layer: str
    section: str
    trust: str
    tokens: int
    items: tuple[SeenItem, ...]


@dataclass(frozen=True)
class SeenDrop:
    layer: str
    section: str
    source: str
    author: str
    tokens: int
    reason: str


@dataclass(frozen=True)
class SnapshotView:
    """A stored prompt as one viewer may see it. Sizes in tokens. Without `kept`, only the counts are left."""

    snapshot: Snapshot
    kept: bool
    sections: tuple[SeenSection, ...] = ()
    dropped: tuple[SeenDrop, ...] = ()
    messages: tuple[ChatMessage, ...] = ()
    hidden_count: int = 0
    layers: Mapping[str, int] | None = None

    @property
    def free(self) -> int:
        return max(self.snapshot.budget - self.snapshot.tokens, 0)


def read_snapshot(run: Run, access: Access) -> SnapshotView | None:
    """What the run saw, as `access` may see it now; None when the run has read nothing yet.

    The caller has checked that the run itself is visible. Texts of items that the viewer may not see (an episode
    learned in a channel she is not in) or that were deleted since are withheld everywhere, raw messages included.
    """
    snapshot = Snapshot.objects.select_related("soul", "run__agent").filter(run=run).first()
    if snapshot is None:
        return None
    if snapshot.content is None:
        return SnapshotView(snapshot, kept=False, layers=snapshot.layers)
    return _view(snapshot, unpacked(snapshot), access)


def _view(snapshot: Snapshot, content: Mapping[str, Any], access: Access) -> SnapshotView:
    entries = [*content["items"], *content["dropped"]]
    withheld = {
        **_withheld(entries, access),
        **_notes_of_others(entries, access),
        **_knowledge_of_others(entries, access, snapshot.created_at),
        **_changed(content["items"], snapshot),
        **_taken_back(content["items"], snapshot),
    }
    items = [_seen(entry, withheld) for entry in content["items"]]
    return SnapshotView(
        snapshot=snapshot,
        kept=True,
        sections=_sections(items),
        dropped=tuple(_seen_drop(entry, withheld) for entry in content["dropped"]),
        messages=_redacted(content, withheld),
        hidden_count=sum(1 for entry in items if entry.hidden == NO_ACCESS),
        layers=snapshot.layers,
    )


def view_of_prompt(prompt: Prompt, access: Access) -> SnapshotView:
    """A prompt that was not sent (a preview), as `access` may see it. Nothing is stored."""
    snapshot = Snapshot(
        task=prompt.task,
        model=prompt.model,
        assembler_version=ASSEMBLER_VERSION,
        budget=prompt.ceiling,
        tokens=prompt.tokens,
        counter=prompt.counter.name,
        layers=dict(prompt.layers),
        included_count=len(prompt.included),
        dropped_count=len(prompt.dropped),
    )
    return _view(snapshot, content_of(prompt), access)


def compared_with_previous(run: Run) -> Snapshot | None:
    """The snapshot before this run's, of the same agent and thread."""
    return (
        Snapshot.objects.filter(run__agent_id=run.agent_id, run__thread_id=run.thread_id, run_id__lt=run.pk)
        .order_by("-run_id")
        .first()
    )


def _ids(entries: Iterable[Mapping[str, Any]], kind: str) -> set[int]:
    found = (str(entry["key"]).partition(":") for entry in entries)
    return {int(number) for name, _, number in found if name == kind and number.isdigit()}


def _withheld(entries: list[Mapping[str, Any]], access: Access) -> dict[str, str]:
    """Keys whose text this viewer may not see, each with the reason."""
    reasons: dict[str, str] = {}
    message_ids = _ids(entries, "message")
    visible = Message.objects.visible_to(access).filter(pk__in=message_ids)
    states = dict(visible.values_list("pk", "deleted_at"))
    for pk in message_ids:
        if pk not in states:
            reasons[f"message:{pk}"] = NO_ACCESS
        elif states[pk] is not None:
            reasons[f"message:{pk}"] = DELETED
    episode_ids = _ids(entries, "episode")
    channels = Channel.objects.visible_to(access)
    episodes = Episode.objects.filter(pk__in=episode_ids)
    known = set(episodes.values_list("pk", flat=True))
    open_to_viewer = set(episodes.filter(channel__in=channels).values_list("pk", flat=True))
    open_to_viewer |= set(episodes.filter(channel=None).values_list("pk", flat=True))
    for pk in episode_ids - open_to_viewer:
        reasons[f"episode:{pk}"] = NO_ACCESS if pk in known else DELETED
    return reasons


def _notes_of_others(entries: list[Mapping[str, Any]], access: Access) -> dict[str, str]:
    """What an agent noted about a person is for that person, the admins and the agent."""
    if access.administers or access.is_agent:
        return {}
    others = _ids(entries, "profile") - {access.participant_id}
    return {f"profile:{pk}": NO_ACCESS for pk in others}


def _knowledge_of_others(entries: list[Mapping[str, Any]], access: Access, at: datetime | None) -> dict[str, str]:
    """Entries that the viewer may not read or could not at that time, and for those who read shared ones only the
    index of restricted ones."""
    ids = _ids(entries, "knowledge")
    seen = set(Entry.objects.visible_to(access).filter(pk__in=ids).values_list("pk", flat=True)) if ids else set()
    then = restricted_then(access, seen, at) if at else set()
    reasons = {f"knowledge:{pk}": NO_ACCESS for pk in ids - seen | then}
    if access.knowledge != "restricted":
        reasons["topics:restricted"] = NO_ACCESS
    if access.knowledge == "none":
        reasons["topics:shared"] = NO_ACCESS
    return reasons


def _changed(items: list[Mapping[str, Any]], snapshot: Snapshot) -> dict[str, str]:
    """Summaries of messages, and answers of tools, that were edited or deleted after the prompt was stored."""
    spans = {entry["key"]: entry["ref"] for entry in items if str(entry["key"]).startswith("summary:")}
    quoting = [entry["key"] for entry in items if str(entry["key"]).startswith("observation:")]
    if snapshot.pk is None or not (spans or quoting):
        return {}
    read_at = min(filter(None, (snapshot.run.started_at, snapshot.created_at)))  # it is read before it is stored
    later = Q(edited_at__gt=read_at) | Q(deleted_at__gt=read_at)
    changed = list(Message.objects.filter(later, thread=snapshot.run.thread_id).values_list("seq", flat=True))
    dived_from = Message.objects.filter(later, dives_from_here__thread=snapshot.run.thread_id)
    reasons = dict.fromkeys(quoting, CHANGED) if changed or (quoting and dived_from.exists()) else {}
    for key, span in spans.items():
        first, _, last = str(span).partition("-")
        if any(int(first) <= seq <= int(last) for seq in changed):
            reasons[key] = CHANGED
    return reasons


def _taken_back(items: list[Mapping[str, Any]], snapshot: Snapshot) -> dict[str, str]:
    """Work that was taken from a message which is deleted now, and notes that the person they were about cleared."""
    work, people = _ids(items, "work"), _ids(items, "profile")
    if snapshot.pk is None or not (work or people):
        return {}
    reasons: dict[str, str] = {}
    if work:
        gone = WorkItem.objects.filter(pk__in=work, message__deleted_at__isnull=False)
        reasons |= {f"work:{pk}": DELETED for pk in gone.values_list("pk", flat=True)}
    if people:
        notes = {"note__agent": snapshot.run.agent.participant_id, "note__person__in": people}
        kept = CarriedVersion.objects.filter(**notes).exclude(content="").values_list("note__person", flat=True)
        reasons |= {f"profile:{pk}": DELETED for pk in people - set(kept)}
    return reasons


def _seen(entry: Mapping[str, Any], withheld: Mapping[str, str]) -> SeenItem:
    hidden = withheld.get(entry["key"], "")
    kind, _, number = str(entry["key"]).partition(":")
    return SeenItem(
        layer=entry["layer"],
        section=entry["section"],
        key=entry["key"],
        source=_source(entry, hidden=bool(hidden)),
        author="" if hidden else entry["author"],
        ref=entry["ref"],
        trust=entry["trust"],
        tokens=entry["tokens"],
        text="" if hidden else entry["text"].strip(),
        message_id=int(number) if kind == "message" and number.isdigit() and not hidden else None,
        hidden=hidden,
    )


def _source(entry: Mapping[str, Any], *, hidden: bool) -> str:
    """Where an item comes from; of hidden knowledge not its topic."""
    return "knowledge" if hidden and entry["section"] == "knowledge" else str(entry["source"])


def _seen_drop(entry: Mapping[str, Any], withheld: Mapping[str, str]) -> SeenDrop:
    hidden = entry["key"] in withheld
    return SeenDrop(
        layer=entry["layer"],
        section=entry["section"],
        source=_source(entry, hidden=hidden),
        author="" if hidden else entry["author"],
        tokens=entry["tokens"],
        reason=entry["reason"],
    )


def _sections(items: list[SeenItem]) -> tuple[SeenSection, ...]:
    grouped: dict[tuple[str, str, str], list[SeenItem]] = {}
    for entry in items:
        grouped.setdefault((entry.layer, entry.section, entry.trust), []).append(entry)
    return tuple(
        SeenSection(layer, section, trust, sum(e.tokens for e in entries), tuple(entries))
        for (layer, section, trust), entries in sorted(grouped.items(), key=lambda pair: pair[0][0])
    )


def _redacted(content: Mapping[str, Any], withheld: Mapping[str, str]) -> tuple[ChatMessage, ...]:
    """The prompt as sent, with a note where a withheld item stood."""
    messages = list(messages_of(content))
    for entry in content["items"]:
        reason = withheld.get(entry["key"])
        if reason is None:
            continue
        note = f"[1 item {reason}]\n\n"
        messages = [
            ChatMessage(m.role, m.content.replace(entry["text"], note)) if entry["text"] in m.content else m
            for m in messages
        ]
    return tuple(messages)
