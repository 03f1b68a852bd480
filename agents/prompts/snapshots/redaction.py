"""Redaction: stored prompts and tool calls as one viewer may see them.

What her access or a deletion withholds is withheld everywhere: in items, raw messages, dropped items and API
answers. Each item is judged by what it came from (its message, thread, entry, call), wherever its run was: a thread
that was closed since speaks in no prompt of another one. An item of a kind that has no rule is shown to nobody."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from django.db.models import Max, Q

from agents.agent.audience import visible_calls
from agents.agent.models import Run, Snapshot, ToolCall, ToolSource
from agents.prompts.assembler.assemble import Prompt
from agents.prompts.assembler.items import DroppedItem, Item
from agents.prompts.snapshots.content import UnreadableContent, content_messages
from agents.prompts.snapshots.entry_erasure import erased_entry_keys
from agents.prompts.snapshots.origins import (
    DELETED_REASON,
    KNOWN_KINDS,
    NO_ACCESS_REASON,
    item_kind,
    withheld_by_thread,
    withheld_kinds,
    withheld_knowledge,
)
from agents.prompts.snapshots.store import (
    OF_FILES,
    is_seq,
    key_ids,
    load_content,
    message_ids,
    replace_item,
    snapshot_content,
    snapshot_counts,
)
from memory.models import CarriedVersion, WorkItem
from openvibe.chat.models import Message
from openvibe.engines.llm.values import ChatMessage
from openvibe.workspaces.access import Access

CHANGED_REASON = "changed since"


@dataclass(frozen=True, slots=True)
class ItemView(Item):
    """One item of a prompt as the viewer may see it; `hidden` says why text and author are withheld."""

    hidden: str = ""

    @property
    def message_id(self) -> int | None:
        return None if self.hidden else next(iter(message_ids([self.key])), None)

    @property
    def image_id(self) -> int | None:
        """The id of an image that stands in the prompt; None where it is none, or hidden."""
        return (
            None if self.hidden or item_kind(self.key) != "pixels" else next(iter(key_ids([self.ref], "image")), None)
        )


@dataclass(frozen=True)
class SectionView:
    layer: str
    section: str
    trust: str
    tokens: int
    items: tuple[ItemView, ...]


@dataclass(frozen=True)
class SnapshotView:
    """A stored prompt as one viewer may see it. Sizes in tokens. Without messages, only the counts are left: the text
    is kept no more, or `is_unreadable`."""

    snapshot: Snapshot
    sections: tuple[SectionView, ...] = ()
    dropped: tuple[DroppedItem, ...] = ()
    messages: tuple[ChatMessage, ...] = ()
    hidden_count: int = 0
    is_unreadable: bool = False

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
        return SnapshotView(snapshot)
    try:
        content = load_content(snapshot)
    except UnreadableContent:
        return SnapshotView(snapshot, is_unreadable=True)
    return _redact(snapshot, content, access)


def _redact(snapshot: Snapshot, content: Mapping[str, Any], access: Access) -> SnapshotView:
    keys = [entry["key"] for entry in (*content["items"], *content["dropped"])]
    withheld = {
        **withheld_kinds(keys, access),
        **_withheld_instructions(keys, access),
        **_withheld_messages(keys, access, snapshot),
        **_withheld_files(keys, access),
        **withheld_by_thread(keys, access),
        **_withheld_profile_notes(keys, access),
        **withheld_knowledge(keys, content["items"], access, snapshot.created_at),
        **_withheld_observations(keys, access),
        **_changed_quotations(content["items"], snapshot),
        **_withdrawn_sources([entry["key"] for entry in content["items"]], snapshot),
        **_erased_entries(snapshot),
    }
    empty_keys = (
        entry["key"] for entry in content["items"] if not entry["text"] and item_kind(entry["key"]) != "pixels"
    )
    withheld = {**dict.fromkeys(empty_keys, CHANGED_REASON), **withheld}
    items = [_item_view(entry, withheld) for entry in content["items"]]
    return SnapshotView(
        snapshot=snapshot,
        sections=_section_views(items),
        dropped=tuple(_dropped_item(entry, withheld) for entry in content["dropped"]),
        messages=_redacted_messages(content, withheld),
        hidden_count=sum(item.hidden == NO_ACCESS_REASON for item in items),
    )


def view_of_prompt(prompt: Prompt, access: Access) -> SnapshotView:
    """A prompt that was not sent (a preview), as `access` may see it. Nothing is stored."""
    return _redact(Snapshot(**snapshot_counts(prompt)), snapshot_content(prompt), access)


def previous_snapshot(run: Run) -> Snapshot | None:
    """The snapshot before this run's, of the same agent and thread."""
    earlier = Snapshot.objects.filter(run__agent_id=run.agent_id, run__thread_id=run.thread_id, run_id__lt=run.pk)
    return earlier.select_related("run").order_by("-run_id").first()


def _withheld_instructions(keys: Iterable[str], access: Access) -> dict[str, str]:
    """The organisation's instructions are for its members; those of a channel and a thread for whoever reads there."""
    organisation = ("instructions:organisation", "include:organisation:")
    return {key: NO_ACCESS_REASON for key in keys if key.startswith(organisation)} if access.is_guest else {}


def _withheld_messages(keys: Iterable[str], access: Access, snapshot: Snapshot) -> dict[str, str]:
    """Messages the viewer may not see, or that say something else by now, each with the reason."""
    ids = message_ids(keys)
    rows = Message.objects.visible_to(access).filter(pk__in=ids).values_list("pk", "deleted_at", "edited_at")
    reasons = dict.fromkeys(ids, NO_ACCESS_REASON)
    read_at = _read_at(snapshot)
    for pk, deleted_at, edited_at in rows:
        is_edited = read_at is not None and edited_at is not None and edited_at > read_at
        reason = DELETED_REASON if deleted_at is not None else CHANGED_REASON if is_edited else ""
        reasons[pk] = reason
    return {f"{kind}:{pk}": reason for pk, reason in reasons.items() if reason for kind in ("message", "middle")}


def _withheld_files(keys: Iterable[str], access: Access) -> dict[str, str]:
    """Files and images of messages that the viewer may not see, or that were deleted: a file's key names its
    message."""
    ids = ((key, key.split(":")[1]) for key in keys if item_kind(key) in OF_FILES and ":" in key)
    ids_by_key = {key: int(number) if is_seq(number) else 0 for key, number in ids}  # 0: of no message
    if not ids_by_key:
        return {}
    visible_messages = Message.objects.visible_to(access).filter(pk__in=ids_by_key.values())
    is_deleted = {pk: deleted_at is not None for pk, deleted_at in visible_messages.values_list("pk", "deleted_at")}
    reasons = {key: DELETED_REASON if is_deleted.get(pk) else NO_ACCESS_REASON for key, pk in ids_by_key.items()}
    return {key: reason for key, reason in reasons.items() if is_deleted.get(ids_by_key[key]) is not False}


def _read_at(snapshot: Snapshot) -> datetime | None:
    """The time at which the prompt was read, which is before it was stored; None for one that was not stored."""
    if not snapshot.pk:
        return None
    return min(filter(None, (snapshot.run.started_at, snapshot.created_at)))


def _withheld_profile_notes(keys: Iterable[str], access: Access) -> dict[str, str]:
    """What an agent noted about a person is for that person, the admins and the agent."""
    if access.administers or access.is_agent:
        return {}
    return {f"profile:{pk}": NO_ACCESS_REASON for pk in key_ids(keys, "profile") - {access.participant_id}}


def _withheld_observations(keys: Iterable[str], access: Access) -> dict[str, str]:
    """What tools answered earlier, where the viewer may not see what it tells of."""
    ids = key_ids(keys, "observation")
    visible_ids = set(visible_calls(access).filter(pk__in=ids).values_list("pk", flat=True)) if ids else set()
    return {f"observation:{pk}": NO_ACCESS_REASON for pk in ids - visible_ids}


def _changed_quotations(items: list[Mapping[str, Any]], snapshot: Snapshot) -> dict[str, str]:
    """Summaries of messages, and answers of tools, that were edited or deleted after the prompt was stored."""
    spans = {entry["key"]: entry["ref"] for entry in items if str(entry["key"]).startswith("summary:")}
    quoting_keys = [entry["key"] for entry in items if str(entry["key"]).startswith("observation:")]
    if snapshot.pk is None or not (spans or quoting_keys):
        return {}
    read_at = _read_at(snapshot)
    changed_since = Q(edited_at__gt=read_at) | Q(deleted_at__gt=read_at)
    changed_seqs = list(
        Message.objects.filter(changed_since, thread=snapshot.run.thread_id).values_list("seq", flat=True)
    )
    dived_from = Message.objects.filter(changed_since, dives_from_here__thread=snapshot.run.thread_id)
    reasons = (
        dict.fromkeys(quoting_keys, CHANGED_REASON) if changed_seqs or (quoting_keys and dived_from.exists()) else {}
    )
    for key, span in spans.items():
        first, _, last = str(span).partition("-")  # what came before it may have been shown to its model, too
        end = last or first
        if not is_seq(end) or any(seq <= int(end) for seq in changed_seqs):
            reasons[key] = CHANGED_REASON
    return reasons


def _withdrawn_sources(keys: Iterable[str], snapshot: Snapshot) -> dict[str, str]:
    """Work that was taken from a message which is deleted now, and notes that the person they were about cleared."""
    work, people = key_ids(keys, "work"), key_ids(keys, "profile")
    if snapshot.pk is None or not (work or people):
        return {}
    reasons: dict[str, str] = {}
    if work:
        deleted_work = WorkItem.objects.filter(pk__in=work, message__deleted_at__isnull=False)
        reasons |= {f"work:{pk}": DELETED_REASON for pk in deleted_work.values_list("pk", flat=True)}
    if people:
        notes = {"note__agent": snapshot.run.agent.participant_id, "note__person__in": people}
        versions = CarriedVersion.objects.filter(**notes).exclude(content="")
        cleared = people - set(versions.values_list("note__person", flat=True))
        reasons |= {f"profile:{pk}": DELETED_REASON for pk in cleared}
    return reasons


def _erased_entries(snapshot: Snapshot) -> dict[str, str]:
    """Knowledge that was erased, as long as stored prompts may still say it."""
    return dict.fromkeys(erased_entry_keys(snapshot.run.workspace_id), DELETED_REASON) if snapshot.pk else {}


def _item_view(entry: Mapping[str, Any], withheld: Mapping[str, str]) -> ItemView:
    hidden_reason = withheld.get(entry["key"], "")
    view = ItemView(**entry, hidden=hidden_reason)
    if hidden_reason:
        source = _hidden_source(view)
        return replace(view, text="", author="", source=source, ref=view.ref if source == view.source else "")
    return replace(view, text=view.text.strip())


def _dropped_item(entry: Mapping[str, Any], withheld: Mapping[str, str]) -> DroppedItem:
    item = DroppedItem(**entry)
    return replace(item, author="", source=_hidden_source(item)) if item.key in withheld else item


NAMING_KINDS = ("knowledge", "instructions", "include", "block", "skill")


def _hidden_source(item: Item | DroppedItem) -> str:
    """The source of a hidden item; of knowledge not its topic, of a block or a skill not its name, of instructions not
    what they include."""
    kind = item_kind(item.key)
    return item.section if kind in NAMING_KINDS or kind not in KNOWN_KINDS else item.source


def _section_views(items: list[ItemView]) -> tuple[SectionView, ...]:
    items_by_section: dict[tuple[str, str, str], list[ItemView]] = {}
    for entry in items:
        items_by_section.setdefault((entry.layer, entry.section, entry.trust), []).append(entry)
    return tuple(
        SectionView(layer, section, trust, sum(e.tokens for e in entries), tuple(entries))
        for (layer, section, trust), entries in sorted(items_by_section.items(), key=lambda pair: pair[0][0])
    )


def _redacted_messages(content: Mapping[str, Any], withheld: Mapping[str, str]) -> tuple[ChatMessage, ...]:
    """The prompt as sent, with a note where a withheld item stood. One that does not stand there as it was stored may
    stand there in another form: then nothing of the prompt is shown."""
    messages = sent_messages = content_messages(content)
    if any(item_kind(key) == "pixels" for key in withheld):  # which message it went with is not said
        messages = sent_messages = tuple(replace(each, images=()) for each in messages)
    hidden_items = [item for item in content["items"] if item["text"] and item["key"] in withheld]
    for item in sorted(hidden_items, key=lambda item: -len(item["text"])):  # what holds another one goes first
        note = f"[1 item {withheld[item['key']]}]\n\n"
        if _without_item(sent_messages, item, "") == sent_messages:
            return tuple(replace(each, content=f"[Not shown: {note.strip()[1:]}") for each in sent_messages)
        messages = _without_item(messages, item, note)
    return messages


def _without_item(messages: tuple[ChatMessage, ...], item: Mapping[str, Any], note: str) -> tuple[ChatMessage, ...]:
    return tuple(replace(each, content=replace_item(each.content, item, note)) for each in messages)


ITEM_FIELDS = ("layer", "section", "key", "source", "author", "ref", "trust", "tokens", "text")
DROPPED_FIELDS = ("layer", "section", "source", "author", "tokens", "reason")


def prompt_payload(prompt: Prompt, prefix_shared: int | None, access: Access | None = None) -> dict[str, Any]:
    """Plain values of a prompt, sizes in tokens; `prefix_shared` as `store.shared_prefix_with_last_run` counts it.

    `layers` are P0 to P6 in order, each with its items, and `frame`: what the messages' own wrapping takes. Of what was
    left out `access` sees only what it may know of; None (the command line) sees everything.
    """
    items = _pick_fields(prompt.included, ITEM_FIELDS)
    dropped_items = prompt.dropped if access is None else view_of_prompt(prompt, access).dropped
    return {
        "messages": [message_payload(message) for message in prompt.messages],
        "tools": [asdict(tool) for tool in prompt.tools],
        "tokens": prompt.tokens,
        "budget": prompt.ceiling,
        "counter": prompt.counter.name,
        "model": prompt.model,
        "layers": [
            {"layer": layer, "tokens": tokens, "items": [item for item in items if item["layer"] == layer]}
            for layer, tokens in prompt.layers.items()
        ],
        "dropped": _pick_fields(dropped_items, DROPPED_FIELDS),
        "prefix_shared": prefix_shared,
    }


def message_payload(message: ChatMessage) -> dict[str, Any]:
    """The message as plain values; of its images all but their bytes."""
    images = [
        {name: getattr(image, name) for name in ("name", "media_type", "width", "height", "description")}
        for image in message.images
    ]
    return {**asdict(replace(message, images=())), "images": images}


def _pick_fields(entries: Iterable[Item | DroppedItem], fields: Iterable[str]) -> list[dict[str, Any]]:
    return [{field: getattr(entry, field) for field in fields} for entry in entries]


CALL_QUOTES_DELETED = "A message it may have quoted was deleted since."
CALL_QUOTES_NOTES = "Notes about a person are shown to that person and to admins only."
CALL_QUOTES_KNOWLEDGE = "It may quote knowledge that you may not read."
CALL_WITHOUT_AUDIENCE = "The tool did not say who may see what it returned, so nobody does."
HIDDEN_CALL_REASON = "It tells of something that you may not see."


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

    Four queries at most.
    """
    calls = list(run.tool_calls.order_by("id").prefetch_related("sources"))
    if not calls:
        return ()
    last_deletion = Message.objects.filter(thread=run.thread_id).aggregate(at=Max("deleted_at"))["at"]
    visible_ids = set(visible_calls(access).filter(run=run).values_list("pk", flat=True))
    return tuple(_tool_call_view(call, last_deletion, call.pk in visible_ids) for call in calls)


def _tool_call_view(call: ToolCall, deleted: datetime | None, is_visible: bool) -> ToolCallView:
    hidden_reason = "" if is_visible else _why_hidden({source.kind for source in call.sources.all()})
    if deleted is not None and deleted >= call.created_at:
        hidden_reason = CALL_QUOTES_DELETED
    return ToolCallView(
        attempt=call.attempt,
        round=call.round,
        id=call.call_id,
        name=call.name,
        arguments="" if hidden_reason else call.arguments,
        decision=call.decision,
        decision_words=call.get_decision_display(),
        why="" if hidden_reason else call.why,
        result="" if hidden_reason else call.result,
        result_tokens=call.result_tokens,
        milliseconds=call.milliseconds,
        created_at=call.created_at,
        hidden=hidden_reason,
    )


def _why_hidden(sources: Collection[str]) -> str:
    """The reason why a call with such sources is withheld, as a sentence."""
    if not sources:
        return CALL_WITHOUT_AUDIENCE
    if ToolSource.Kind.NOTES in sources:
        return CALL_QUOTES_NOTES
    return CALL_QUOTES_KNOWLEDGE if ToolSource.Kind.ENTRY in sources else HIDDEN_CALL_REASON
