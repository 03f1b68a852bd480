"""What a run was shown, as its answer may cite it: the items of its prompt, those of the prompts before in its session,
and what its tools returned."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agents.agent.models import Run, Snapshot, ToolCall, ToolSource
from agents.prompts.answer_sources import unescaped_text
from agents.prompts.assembler.sections.files import READ_TOOL
from agents.prompts.citations.find import Citable
from agents.prompts.snapshots.content import UnreadableContent, unpack_content
from agents.prompts.snapshots.store import is_seq
from knowledge.queries import entry_topics
from openvibe.chat.queries import file_names, image_names, messages_by, messages_of_files, numbered_messages

MAX_EARLIER_PROMPTS = 10
"""Prompts of a session that are looked through besides the run's own, the latest first."""

_PAGE_OF = re.compile(r"(?:page|slide|sheet|chapter) ([\d,]{1,9}) of ")
_MEMORY_LINE = re.compile(r"^#(\d{1,9}) (in thread (\d{1,18}) \()?", re.MULTILINE)
"""The beginning of a message in what the tool `memory` returned, which no text can imitate."""
_NOT_A_SOURCE = ("request", "later")
"""Sections whose words an answer repeats because it answers them."""


@dataclass
class RunSources:
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


def read_sources(run: Run) -> RunSources:
    """Reads what the run was shown. At most eight queries, one more for each earlier prompt of its session."""
    shown = RunSources()
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


def _add_item(shown: RunSources, item: Mapping[str, Any], *, is_of_run: bool) -> None:
    citable = citable_of(item)
    if citable is None:
        return
    if not is_of_run:
        citable = replace(citable, item_key="", pages={})
    shown.add(citable)
    if is_of_run and item["section"] not in _NOT_A_SOURCE:
        text = unescaped_text(item["text"], section=item["section"], role=item["role"], opening=item["opening"])
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


def _add_tool_results(shown: RunSources, run: Run) -> None:
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
    for message in numbered_messages(places, run.workspace_id):
        elsewhere = None if message.thread_id == run.thread_id else message.thread_id
        pk, number, author = message.pk, message.seq, message.author
        shown.add(Citable("message", pk, "", number, elsewhere, author=author, by_hash=elsewhere is None))
    for pk, message_id in messages_of_files(files, run.thread_id).items():
        shown.add(Citable("file", pk, references=(f"attachment:{pk}",), message_id=message_id))


def _file_ids(arguments: str) -> set[int]:
    try:
        number = json.loads(arguments)["id"]
    except (ValueError, TypeError, KeyError):
        return set()
    return {number} if isinstance(number, int) and is_seq(str(number)) else set()


def _add_names(shown: RunSources) -> None:
    """What files, images and entries are called. One query for each of the three that there are."""
    for kind, read_names in (("file", file_names), ("image", image_names), ("knowledge", entry_topics)):
        ids = [ref for known_kind, ref in shown.citables if known_kind == kind]
        for pk, name in read_names(ids).items():
            shown.citables[kind, pk] = replace(shown.citables[kind, pk], name=name)


def _mark_own(shown: RunSources, run: Run) -> None:
    """One query, none without messages."""
    ids = {citable.ref for citable, _, _ in shown.texts if citable.kind == "message"}
    own = messages_by(run.agent.participant_id, ids)
    shown.own_places = {
        place for place, (citable, _, _) in enumerate(shown.texts) if citable.kind == "message" and citable.ref in own
    }
