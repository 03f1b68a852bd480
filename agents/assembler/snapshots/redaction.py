"""Redaction: stored prompts and tool calls as one viewer may see them.

What her access or a deletion withholds is withheld everywhere: in items, raw messages, dropped items and API
answers."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from django.db.models import Max, Q

from agents.assembler.assemble import ASSEMBLER_VERSION, Prompt
from agents.assembler.snapshots.store import content_messages, load_content, snapshot_content
from agents.assembler.values import DroppedItem, Item
from agents.models import Run, Snapshot, ToolCall
from knowledge.models import Entry
from knowledge.queries import restricted_at
from memory.models import CarriedVersion, Episode, WorkItem
from openvibe.chat.models import Channel, Message
from openvibe.llm.values import ChatMessage
from openvibe.workspaces.access import Access

DELETED_SINCE = "deleted since"
CHANGED_SINCE = "changed since"
NO_ACCESS = "hidden by your access"


@dataclass(frozen=True)
class ItemView:
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
class SectionView:
    layer: str
    section: str
    trust: str
    tokens: int
    items: tuple[ItemView, ...]


@dataclass(frozen=True)
class DroppedItemView:
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
    sections: tuple[SectionView, ...] = ()
    dropped: tuple[DroppedItemView, ...] = ()
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
    return _redact(snapshot, load_content(snapshot), access)


def _redact(snapshot: Snapshot, content: Mapping[str, Any], access: Access) -> SnapshotView:
    entries = [*content["items"], *content["dropped"]]
    withheld = {
        **_withheld_messages_and_episodes(entries, access),
        **_withheld_profile_notes(entries, access),
        **_withheld_knowledge(entries, access, snapshot.created_at),
        **_changed_quotations(content["items"], snapshot),
        **_withdrawn_sources(content["items"], snapshot),
    }
    items = [_item_view(entry, withheld) for entry in content["items"]]
    return SnapshotView(
        snapshot=snapshot,
        kept=True,
        sections=_section_views(items),
        dropped=tuple(_dropped_item_view(entry, withheld) for entry in content["dropped"]),
        messages=_redacted_messages(content, withheld),
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
    return _redact(snapshot, snapshot_content(prompt), access)


def previous_snapshot(run: Run) -> Snapshot | None:
    """The snapshot before this run's, of the same agent and thread."""
    return (
        Snapshot.objects.filter(run__agent_id=run.agent_id, run__thread_id=run.thread_id, run_id__lt=run.pk)
        .order_by("-run_id")
        .first()
    )


def _key_ids(entries: Iterable[Mapping[str, Any]], kind: str) -> set[int]:
    parts = (str(entry["key"]).partition(":") for entry in entries)
    return {int(number) for name, _, number in parts if name == kind and number.isdigit()}


def _withheld_messages_and_episodes(entries: list[Mapping[str, Any]], access: Access) -> dict[str, str]:
    """Keys whose text this viewer may not see, each with the reason."""
    reasons: dict[str, str] = {}
    message_ids = _key_ids(entries, "message")
    visible = Message.objects.visible_to(access).filter(pk__in=message_ids)
    states = dict(visible.values_list("pk", "deleted_at"))
    for pk in message_ids:
        if pk not in states:
            reasons[f"message:{pk}"] = NO_ACCESS
        elif states[pk] is not None:
            reasons[f"message:{pk}"] = DELETED_SINCE
    episode_ids = _key_ids(entries, "episode")
    channels = Channel.objects.visible_to(access)
    episodes = Episode.objects.filter(pk__in=episode_ids)
    existing = set(episodes.values_list("pk", flat=True))
    visible_episodes = set(episodes.filter(channel__in=channels).values_list("pk", flat=True))
    visible_episodes |= set(episodes.filter(channel=None).values_list("pk", flat=True))
    for pk in episode_ids - visible_episodes:
        reasons[f"episode:{pk}"] = NO_ACCESS if pk in existing else DELETED_SINCE
    return reasons


def _withheld_profile_notes(entries: list[Mapping[str, Any]], access: Access) -> dict[str, str]:
    """What an agent noted about a person is for that person, the admins and the agent."""
    if access.administers or access.is_agent:
        return {}
    others = _key_ids(entries, "profile") - {access.participant_id}
    return {f"profile:{pk}": NO_ACCESS for pk in others}


def _withheld_knowledge(entries: list[Mapping[str, Any]], access: Access, at: datetime | None) -> dict[str, str]:
    """Entries that the viewer may not read or could not at that time, and for those who read shared ones only the
    index of restricted ones."""
    ids = _key_ids(entries, "knowledge")
    readable_ids = (
        set(Entry.objects.visible_to(access).filter(pk__in=ids).values_list("pk", flat=True)) if ids else set()
    )
    restricted_ids = restricted_at(access, readable_ids, at) if at else set()
    reasons = {f"knowledge:{pk}": NO_ACCESS for pk in ids - readable_ids | restricted_ids}
    if access.knowledge != "restricted":
        reasons["topics:restricted"] = NO_ACCESS
    if access.knowledge == "none":
        reasons["topics:shared"] = NO_ACCESS
    return reasons


def _changed_quotations(items: list[Mapping[str, Any]], snapshot: Snapshot) -> dict[str, str]:
    """Summaries of messages, and answers of tools, that were edited or deleted after the prompt was stored."""
    spans = {entry["key"]: entry["ref"] for entry in items if str(entry["key"]).startswith("summary:")}
    quoting_keys = [entry["key"] for entry in items if str(entry["key"]).startswith("observation:")]
    if snapshot.pk is None or not (spans or quoting_keys):
        return {}
    read_at = min(filter(None, (snapshot.run.started_at, snapshot.created_at)))  # it is read before it is stored
    changed_since = Q(edited_at__gt=read_at) | Q(deleted_at__gt=read_at)
    changed = list(Message.objects.filter(changed_since, thread=snapshot.run.thread_id).values_list("seq", flat=True))
    dived_from = Message.objects.filter(changed_since, dives_from_here__thread=snapshot.run.thread_id)
    reasons = dict.fromkeys(quoting_keys, CHANGED_SINCE) if changed or (quoting_keys and dived_from.exists()) else {}
    for key, span in spans.items():
        first, _, last = str(span).partition("-")
        if any(int(first) <= seq <= int(last) for seq in changed):
            reasons[key] = CHANGED_SINCE
    return reasons


def _withdrawn_sources(items: list[Mapping[str, Any]], snapshot: Snapshot) -> dict[str, str]:
    """Work that was taken from a message which is deleted now, and notes that the person they were about cleared."""
    work, people = _key_ids(items, "work"), _key_ids(items, "profile")
    if snapshot.pk is None or not (work or people):
        return {}
    reasons: dict[str, str] = {}
    if work:
        deleted_work = WorkItem.objects.filter(pk__in=work, message__deleted_at__isnull=False)
        reasons |= {f"work:{pk}": DELETED_SINCE for pk in deleted_work.values_list("pk", flat=True)}
    if people:
        notes = {"note__agent": snapshot.run.agent.participant_id, "note__person__in": people}
        people_with_notes = (
            CarriedVersion.objects.filter(**notes).exclude(content="").values_list("note__person", flat=True)
        )
        reasons |= {f"profile:{pk}": DELETED_SINCE for pk in people - set(people_with_notes)}
    return reasons


def _item_view(entry: Mapping[str, Any], withheld: Mapping[str, str]) -> ItemView:
    hidden = withheld.get(entry["key"], "")
    kind, _, number = str(entry["key"]).partition(":")
    return ItemView(
        layer=entry["layer"],
        section=entry["section"],
        key=entry["key"],
        source=_source_label(entry, hidden=bool(hidden)),
        author="" if hidden else entry["author"],
        ref=entry["ref"],
        trust=entry["trust"],
        tokens=entry["tokens"],
        text="" if hidden else entry["text"].strip(),
        message_id=int(number) if kind == "message" and number.isdigit() and not hidden else None,
        hidden=hidden,
    )


def _source_label(entry: Mapping[str, Any], *, hidden: bool) -> str:
    """Where an item comes from; of hidden knowledge not its topic."""
    return "knowledge" if hidden and entry["section"] == "knowledge" else str(entry["source"])


def _dropped_item_view(entry: Mapping[str, Any], withheld: Mapping[str, str]) -> DroppedItemView:
    hidden = entry["key"] in withheld
    return DroppedItemView(
        layer=entry["layer"],
        section=entry["section"],
        source=_source_label(entry, hidden=hidden),
        author="" if hidden else entry["author"],
        tokens=entry["tokens"],
        reason=entry["reason"],
    )


def _section_views(items: list[ItemView]) -> tuple[SectionView, ...]:
    grouped: dict[tuple[str, str, str], list[ItemView]] = {}
    for entry in items:
        grouped.setdefault((entry.layer, entry.section, entry.trust), []).append(entry)
    return tuple(
        SectionView(layer, section, trust, sum(e.tokens for e in entries), tuple(entries))
        for (layer, section, trust), entries in sorted(grouped.items(), key=lambda pair: pair[0][0])
    )


def _redacted_messages(content: Mapping[str, Any], withheld: Mapping[str, str]) -> tuple[ChatMessage, ...]:
    """The prompt as sent, with a note where a withheld item stood."""
    messages = list(content_messages(content))
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


ITEM_FIELDS = ("layer", "section", "key", "source", "author", "ref", "trust", "tokens", "text")
DROPPED_FIELDS = ("layer", "section", "source", "author", "tokens", "reason")


def prompt_payload(prompt: Prompt, prefix_shared: int, access: Access | None = None) -> dict[str, Any]:
    """Plain values of a prompt, sizes in tokens; `prefix_shared` as `store.shared_prefix_with` counts it.

    `layers` are P0 to P6 in order, each with its items, and `frame`: what the messages' own wrapping takes. Of what was
    left out `access` is told only what it may know of; None (the command line) is told everything.
    """
    items = _pick_fields(prompt.included, ITEM_FIELDS)
    dropped = prompt.dropped if access is None else view_of_prompt(prompt, access).dropped
    return {
        "messages": [asdict(message) for message in prompt.messages],
        "tools": [asdict(tool) for tool in prompt.tools],
        "tokens": prompt.tokens,
        "budget": prompt.ceiling,
        "counter": prompt.counter.name,
        "model": prompt.model,
        "layers": [
            {"layer": layer, "tokens": tokens, "items": [item for item in items if item["layer"] == layer]}
            for layer, tokens in prompt.layers.items()
        ],
        "dropped": _pick_fields(dropped, DROPPED_FIELDS),
        "prefix_shared": prefix_shared,
    }


def _pick_fields(
    entries: Iterable[Item | DroppedItem | DroppedItemView], fields: Iterable[str]
) -> list[dict[str, Any]]:
    return [{field: getattr(entry, field) for field in fields} for entry in entries]


CALL_QUOTES_DELETED = "A message it may have quoted was deleted since."
CALL_QUOTES_NOTES = "Notes about a person are shown to that person and to admins only."
CALL_QUOTES_KNOWLEDGE = "It may quote knowledge that you may not read."
KNOWLEDGE_TOOL = "knowledge_search"


@dataclass(frozen=True)
class ToolCallView:
    """One call. `hidden` says why arguments and result are withheld; `result` is empty once it is no longer kept."""

    attempt: int
    round: int
    id: str
    name: str
    arguments: str
    decision: str
    decision_words: str
    why: str
    result: str
    result_tokens: int
    milliseconds: int
    created_at: datetime
    hidden: str = ""


def visible_tool_calls(run: Run, access: Access) -> tuple[ToolCallView, ...]:
    """All calls of all attempts, oldest first. The caller has checked that the run itself is visible.

    At most three queries.
    """
    calls = list(run.tool_calls.order_by("id"))
    if not calls:
        return ()
    last_deletion = Message.objects.filter(thread=run.thread_id).aggregate(at=Max("deleted_at"))["at"]
    reads_notes = access.administers or access.participant_id in (run.trigger.author_id, run.agent.participant_id)
    reads_all = all(call.name != KNOWLEDGE_TOOL for call in calls) or can_read_run_knowledge(run, access)
    return tuple(_tool_call_view(call, last_deletion, reads_notes, reads_all) for call in calls)


def can_read_run_knowledge(run: Run, access: Access) -> bool:
    """Whether the asker may read every entry the run had before it, and could at that time."""
    used = set(run.knowledge_uses.values_list("entry", flat=True))
    readable = set(Entry.objects.visible_to(access).filter(pk__in=used).values_list("pk", flat=True))
    return used == readable and not restricted_at(access, used, run.queued_at)


def _tool_call_view(call: ToolCall, deleted: datetime | None, reads_notes: bool, reads_knowledge: bool) -> ToolCallView:
    hidden = CALL_QUOTES_DELETED if deleted is not None and deleted >= call.created_at else ""
    if not hidden and not reads_notes and _touches_profile_notes(call):
        hidden = CALL_QUOTES_NOTES
    if not hidden and call.name == KNOWLEDGE_TOOL and not reads_knowledge:
        hidden = CALL_QUOTES_KNOWLEDGE
    return ToolCallView(
        attempt=call.attempt,
        round=call.round,
        id=call.call_id,
        name=call.name,
        arguments="" if hidden else call.arguments,
        decision=call.decision,
        decision_words=call.get_decision_display(),
        why="" if hidden else call.why,
        result="" if hidden else call.result,
        result_tokens=call.result_tokens,
        milliseconds=call.milliseconds,
        created_at=call.created_at,
        hidden=hidden,
    )


def _touches_profile_notes(call: ToolCall) -> bool:
    """Whether it read or wrote an agent's notes about whoever asked."""
    if call.name != "memory":
        return False
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return True  # refused, but nobody knows what it says
    return not isinstance(arguments, dict) or str(arguments.get("action", "")).startswith("profile")
