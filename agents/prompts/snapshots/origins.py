"""Origins: what the items of a prompt came from, wherever its run was, and whether a viewer may see that now.

An item's key names the row that it came from, such as `episode:7`; what was made of several rows names their keys in
`origins`. So a thread that was closed since it was read says nothing in the stored prompts of other threads either.
Where an item came from is never guessed: of a kind that has no rule nobody is shown one."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import reduce
from typing import Any

from django.db.models import Exists, Model, OuterRef, Q, QuerySet, Value

from agents.prompts.snapshots.store import OF_FILES, key_ids
from knowledge.models import Entry
from knowledge.queries import restricted_at, was_any_restricted_since
from memory.models import Approval, Episode, ProgressEntry, WorkItem
from openvibe.chat.models import Thread
from openvibe.chat.queries import visibility_of
from openvibe.workspaces.access import Access

DELETED_REASON = "deleted since"
NO_ACCESS_REASON = "hidden by your access"

OF_THE_RUN = frozenset(
    (
        *("policy", "instructions", "include", "tool", "tools", "summary", "older messages"),
        *("workspace", "channel", "situation", "reminders", "draft", "image notice"),
    )
)
"""Kinds of items that come from the run's own thread and workspace, which whoever sees the run may see."""

OF_THE_AGENT = frozenset(("soul", "block", "skill", "skills"))
"""What the agent is made of: for members, not for guests."""

OF_THREADS: Mapping[str, type[Model]] = {
    "work": WorkItem,
    "approval": Approval,
    "progress": ProgressEntry,
    "episode": Episode,
}
"""Kinds whose rows name the thread that they came from."""

OF_ROWS = frozenset(("message", "middle", "profile", "knowledge", "topics", "observation", *OF_FILES, *OF_THREADS))
"""Kinds that are judged by the rows that they came from."""

KNOWN_KINDS = OF_THE_RUN | OF_THE_AGENT | OF_ROWS


def item_kind(key: str) -> str:
    """`message` of `message:7`."""
    return key.partition(":")[0]


def withheld_kinds(keys: Iterable[str], access: Access) -> dict[str, str]:
    """What the agent is made of, from guests; and from everybody what a version that is not this one put there."""
    shown_kinds = KNOWN_KINDS - OF_THE_AGENT if access.is_guest else KNOWN_KINDS
    return {key: NO_ACCESS_REASON for key in keys if item_kind(key) not in shown_kinds}


def withheld_by_thread(keys: Iterable[str], access: Access) -> dict[str, str]:
    """Work, approvals, progress and episodes of threads that the viewer may not see, and those that are gone. One
    query, none where there are none."""
    ids_by_kind = {kind: ids for kind in OF_THREADS if (ids := key_ids(keys, kind))}
    if not ids_by_kind:
        return {}
    selects = [_rows_seen(kind, ids, access) for kind, ids in ids_by_kind.items()]
    is_seen = {(kind, pk): seen for kind, pk, seen in reduce(lambda one, other: one.union(other, all=True), selects)}
    return {
        f"{kind}:{pk}": NO_ACCESS_REASON if (kind, pk) in is_seen else DELETED_REASON
        for kind, ids in ids_by_kind.items()
        for pk in ids
        if not is_seen.get((kind, pk))
    }


def _rows_seen(kind: str, ids: Iterable[int], access: Access) -> QuerySet[Any, Any]:
    """Kind, id, and whether the viewer may see where each of these rows came from."""
    threads = Thread.objects.visible_to(access).filter(pk=OuterRef("thread_id")).order_by()
    seen: Any = Exists(threads)
    if kind == "episode":
        seen = seen | _learned_in_no_thread(access)
    rows = OF_THREADS[kind]._base_manager.filter(pk__in=ids).order_by().annotate(item_kind=Value(kind), is_seen=seen)
    columns: QuerySet[Any, Any] = rows.values_list("item_kind", "pk", "is_seen")
    return columns


def _learned_in_no_thread(access: Access) -> Q:
    """Episodes that came from nowhere; for people also those of which only the channel is known, which may have come
    from a thread of it that is closed to agents."""
    nowhere = Q(thread=None, channel=None)
    return nowhere if access.is_agent else nowhere | Q(thread=None, channel__id__any_of=visibility_of(access).channels)


def withheld_knowledge(
    keys: Iterable[str], items: Iterable[Mapping[str, Any]], access: Access, at: datetime | None
) -> dict[str, str]:
    """Entries that the viewer may not read now or could not `at` that time, and indexes that name such an entry.

    `keys`: of all that was included or left out; `items`: what was included. Three queries at most.
    """
    indexes = {item["key"]: key_ids(_origins_of(item), "knowledge") for item in items if _is_index(item["key"])}
    entry_ids = key_ids(keys, "knowledge")
    readable_ids = _readable_entries(entry_ids.union(*indexes.values()), access, at)
    reasons = {f"knowledge:{pk}": NO_ACCESS_REASON for pk in entry_ids - readable_ids}
    for key, named_ids in indexes.items():
        is_shown = named_ids <= readable_ids if named_ids else _is_old_index_shown(key, access, at)
        if not is_shown:
            reasons[key] = NO_ACCESS_REASON
    return reasons


def _is_index(key: str) -> bool:
    return item_kind(key) == "topics"


def _origins_of(item: Mapping[str, Any]) -> list[str]:
    """None of an item that was stored before there were any."""
    return str(item.get("origins", "")).split()


def _readable_entries(ids: set[int], access: Access, at: datetime | None) -> set[int]:
    if not ids:
        return set()
    readable_ids = set(Entry.objects.visible_to(access).filter(pk__in=ids).order_by().values_list("pk", flat=True))
    return readable_ids - restricted_at(access, readable_ids, at) if at else readable_ids


def _is_old_index_shown(key: str, access: Access, at: datetime | None) -> bool:
    """Whether an index may be shown that was stored when it did not say which entries it names: agents are shown none,
    since one of the entries may come from a thread that is closed to them now; people one of which they may read every
    entry."""
    if access.is_agent or access.knowledge == "none":
        return False
    if access.knowledge == "restricted":
        return True
    is_shared = key == f"topics:{Entry.Visibility.SHARED.value}"
    return is_shared and not (at is not None and was_any_restricted_since(access, at))
