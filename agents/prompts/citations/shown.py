"""What a run was shown, as its answer may cite it: the items of its prompt, those of the prompts before in its session,
and what its tools returned."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Q

from agents.agent.models import Run, Snapshot, ToolCall, ToolSource
from agents.prompts.answer_sources import unescaped_text
from agents.prompts.assembler.sections.files import READ_TOOL
from agents.prompts.citations.find import Citable
from agents.prompts.snapshots.content import UnreadableContent, unpack_content
from agents.prompts.snapshots.store import is_seq
from knowledge.models import Entry
from openvibe.chat.models import Attachment, Image, Message

MAX_EARLIER_PROMPTS = 10
"""Prompts of a session that are looked through besides the run's own, the latest first."""

_PAGE_OF = re.compile(r"(?:page|slide|sheet|chapter) ([\d,]{1,9}) of ")
_MEMORY_LINE = re.compile(r"^#(\d{1,9}) (in thread (\d{1,18}) \()?", re.MULTILINE)
"""The beginning of a message in what the tool `memory` returned, which no text can imitate."""
_NOT_A_SOURCE = ("request", "later")
"""Sections whose words an answer repeats because it answers them."""


@dataclass
class Shown:
    """`texts`: what may be cited, its text as it was written and the key of its item, for each item of the run's own
    prompt; `own_places`: the places in it of what the agent said itself."""

    citables: dict[tuple[str, int], Citable] = field(default_factory=dict)
    texts: list[tuple[Citable, str, str]] = field(default_factory=list)
    own_places: set[int] = field(default_factory=set)

    def add(self, citable: Citable) -> None:
        """A thing that is shown twice is one."""
        key = (citable.kind, citable.ref)
        known = self.citables.get(key)
        self.citables[key] = citable if known is None else known.merged(citable)


def read_shown(run: Run) -> Shown:
    """At most seven queries, two for each earlier prompt of its session."""
    shown = Shown()
    run_id: int | None = run.pk
    for depth in range(1 + MAX_EARLIER_PROMPTS):
        snapshot = Snapshot.objects.filter(run=run_id).only("content", "continues").first()
        if snapshot is None:
            break
        for item in _items(snapshot.content):
            _add_item(shown, item, is_of_run=depth == 0)
        run_id = snapshot.continues_id
        if run_id is None:
            break
    _add_tool_results(shown, run)
    _add_names(shown)
    _mark_own(shown, run)
    return shown


def _items(content: bytes | memoryview | None) -> Iterable[Mapping[str, Any]]:
    try:
        return [item for item in unpack_content(content)["items"] if item["text"]] if content else ()
    except UnreadableContent:
        return ()


def _add_item(shown: Shown, item: Mapping[str, Any], *, is_of_run: bool) -> None:
    citable = citable_of(item)
    if citable is None:
        return
    if not is_of_run:
        citable = Citable(**{**vars(citable), "item_key": "", "pages": {}})
    shown.add(citable)
    if is_of_run and item["section"] not in _NOT_A_SOURCE:
        text = unescaped_text(item["text"], is_message=citable.kind == "message")
        shown.texts.append((citable, text, item["key"]))


def citable_of(item: Mapping[str, Any]) -> Citable | None:
    """A stored item of a prompt as it may be cited; None for what nobody cites."""
    key, ref, author = str(item["key"]), str(item["ref"]), str(item["author"])
    kind, *numbers = key.split(":")
    if not numbers or not all(map(is_seq, numbers)):
        return None
    ids = list(map(int, numbers))
    if kind in ("message", "middle"):
        number = int(ref) if is_seq(ref) else None
        return Citable("message", ids[0], key, number, author=author, references=() if is_seq(ref) else (ref,))
    if kind in ("knowledge", "work"):
        return Citable(kind, ids[0], key, author=author, references=(key,))
    if kind in ("file", "piece", "image", "pixels") and len(ids) > 1:
        is_file = kind in ("file", "piece")
        page = _PAGE_OF.match(str(item["source"]))
        return Citable(
            "file" if is_file else "image",
            ids[1],
            key,
            author=author,
            references=(f"{'attachment' if is_file else 'image'}:{ids[1]}",),
            pages={int(page[1].replace(",", "")): key} if page else {},
            message_id=ids[0],
        )
    return None


def _add_tool_results(shown: Shown, run: Run) -> None:
    """What the run's own calls returned. One query; three more where there is something."""
    calls = list(
        ToolCall.objects.filter(run=run, decision=ToolCall.Decision.ALLOWED)
        .exclude(result="")
        .prefetch_related("sources")
    )
    places: set[tuple[int, int]] = set()
    files: set[int] = set()
    for call in calls:
        if call.name == "memory":
            places |= {(int(line[3] or run.thread_id), int(line[1])) for line in _MEMORY_LINE.finditer(call.result)}
        elif call.name == READ_TOOL:
            files |= _file_ids(call.arguments)
        for source in call.sources.all():
            if source.kind == ToolSource.Kind.ENTRY:
                shown.add(Citable("knowledge", source.ref, references=(f"knowledge:{source.ref}",)))
    for citable in (*_messages_at(places, run), *_files_in_thread(files, run)):
        shown.add(citable)


def _file_ids(arguments: str) -> set[int]:
    try:
        number = json.loads(arguments)["id"]
    except (ValueError, TypeError, KeyError):
        return set()
    return {number} if isinstance(number, int) and is_seq(str(number)) else set()


def _messages_at(places: Iterable[tuple[int, int]], run: Run) -> Iterator[Citable]:
    is_there = Q()
    for thread_id, seq in sorted(places):
        is_there |= Q(thread=thread_id, seq=seq)
    if not is_there:
        return
    rows = Message.objects.filter(is_there, thread__workspace=run.workspace_id, deleted_at=None)
    for pk, thread_id, seq, author in rows.order_by().values_list("pk", "thread_id", "seq", "author__name"):
        is_here = thread_id == run.thread_id
        yield Citable(
            "message", pk, number=seq, thread_id=None if is_here else thread_id, author=author, by_hash=is_here
        )


def _files_in_thread(ids: Iterable[int], run: Run) -> Iterator[Citable]:
    if not ids:
        return
    is_here = Q(thread=run.thread_id) | Q(message__dives_from_here__thread=run.thread_id)
    for pk, message_id in Attachment.objects.filter(is_here, pk__in=ids).values_list("pk", "message_id"):
        yield Citable("file", pk, references=(f"attachment:{pk}",), message_id=message_id)


def _add_names(shown: Shown) -> None:
    """What files, images and entries are called. One query for each of the three that there are."""
    for kind, rows in (
        ("file", Attachment.objects.values_list("pk", "name")),
        ("image", Image.objects.values_list("pk", "name")),
        ("knowledge", Entry.objects.values_list("pk", "topic")),
    ):
        ids = [ref for known_kind, ref in shown.citables if known_kind == kind]
        for pk, name in rows.filter(pk__in=ids).order_by() if ids else ():
            citable = shown.citables[kind, pk]
            shown.citables[kind, pk] = Citable(**{**vars(citable), "name": name})


def _mark_own(shown: Shown, run: Run) -> None:
    """One query, none without messages."""
    ids = {citable.ref for citable, _, _ in shown.texts if citable.kind == "message"}
    messages = Message.objects.filter(pk__in=ids, author=run.agent.participant_id) if ids else Message.objects.none()
    own = set(messages.values_list("pk", flat=True))
    shown.own_places = {
        place for place, (citable, _, _) in enumerate(shown.texts) if citable.kind == "message" and citable.ref in own
    }
