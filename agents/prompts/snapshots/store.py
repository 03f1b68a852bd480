"""Storing what a run saw: snapshots written, compared with the one before, and emptied when their retention ends."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import takewhile
from operator import attrgetter
from typing import Any

from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils import timezone

from agents.agent.models import AgentPlan, Permission, Run, RunStep, Snapshot, ToolCall, ToolSource, WatchLook
from agents.prompts.assembler.assemble import ASSEMBLER_VERSION, Prompt
from agents.prompts.assembler.items import DroppedItem, Item, reachable_tools
from agents.prompts.assembler.render import shared_prefix_tokens
from agents.prompts.snapshots.content import (
    CONTENT_VERSION,
    UnreadableContent,
    content_messages,
    describe_images,
    image_stand_in,
    pack_content,
    unpack_content,
)
from agents.statistics.knowledge_uses import record_uses
from openvibe.base.events import emit
from openvibe.base.quotation import Quotation
from openvibe.chat.wiring import ErasedText
from openvibe.engines.database.compiled_queries import CompiledQuery, array_literal
from openvibe.engines.database.prepared_statements import fetch_prepared
from openvibe.engines.llm.values import ChatMessage

MAX_DIGITS = 18
"""The most digits of the number of a row."""

OF_FILES = frozenset(("file", "piece", "image", "pixels"))
"""Kinds of items whose keys name the message that they came with, then themselves."""

ERASED_NOTE = "[1 item deleted or changed since]\n\n"
"""Stands in a stored prompt where an item said what may not be kept."""


def shared_prefix_with_last_run(
    exclude_run: Run | None, prompt: Prompt, *, agent_id: int, thread_id: int
) -> int | None:
    """Tokens this prompt starts with in common with the newest stored prompt of the same agent and thread.

    None where none is stored, or none that can be read.
    """
    newest = _newest_content.rows(agent_id, thread_id, exclude_run.pk if exclude_run else 0)
    if not newest:
        return None
    try:
        content = unpack_content(newest[0][0])
    except UnreadableContent:
        return None
    tools = [Item(**entry) for entry in content["items"] if entry["section"] == "tools"]
    return shared_prefix_with(tools, content_messages(content), prompt)


@CompiledQuery
def _newest_content(agent_id: int, thread_id: int, other_than: int) -> QuerySet[Any, Any]:
    runs = Snapshot.objects.filter(run__agent=agent_id, run__thread=thread_id, content__isnull=False, continues=None)
    return runs.exclude(run=other_than).order_by("-id").values_list("content")[:1]


def shared_prefix_with(tools: Sequence[Item], messages: Sequence[ChatMessage], prompt: Prompt) -> int:
    """Tokens the prompt starts with in common with an earlier one: tools stand first, then the messages."""
    now = [item for item in prompt.included if item.section == "tools"]
    same = list(takewhile(lambda pair: pair[0].text == pair[1].text, zip(tools, now, strict=False)))
    shared = sum(item.tokens for _, item in same)
    all_same = len(same) == len(tools) == len(now)
    sent = [replace(each, images=tuple(map(image_stand_in, each.images))) for each in prompt.messages]
    return shared + (shared_prefix_tokens(messages, sent, prompt.counter) if all_same else 0)


def store_snapshot(run: Run, prompt: Prompt, *, is_new: bool = False) -> None:
    """Stores what the run saw, in the transaction that holds the run; an earlier snapshot of it is replaced.

    `is_new`: there is none. Feedback, episodes and knowledge in the prompt count once more as used.
    """
    prefix_shared = None  # of what goes on with a session: all of that is the prefix
    if prompt.continues is None:
        prefix_shared = shared_prefix_with_last_run(run, prompt, agent_id=run.agent_id, thread_id=run.thread_id)
    values = {
        **snapshot_counts(prompt),
        "soul": run.agent.soul,
        "prefix_shared": prefix_shared,
        "continues_id": prompt.continues,
        "tool_names": sorted(reachable_tools(prompt.tools)),
        "content": pack_content(snapshot_content(prompt)),
        "recall": prompt.recall,
        "history_start": prompt.history_start,
    }
    keys = [item.key for item in prompt.included]
    is_stored = not is_new and Snapshot.objects.filter(run=run).update(**values, told_at=timezone.now())
    if not is_stored:
        Snapshot.objects.create(run=run, **values)
        _count_episode_uses(key_ids(keys, "episode"))
    record_uses(run=run, entry_ids=key_ids(keys, "knowledge"), how="prompt")


def add_to_snapshot(run: Run, items: Sequence[Item], message: ChatMessage, tokens: int) -> None:
    """Adds what the run was told in its course to what it saw, in the transaction that holds the run; nothing where it
    saw nothing yet. `tokens`: of the message."""
    snapshot = Snapshot.objects.select_for_update(no_key=True, of=("self",)).filter(run=run).first()
    if snapshot is None:
        return
    counts = Counter(snapshot.layers)
    for item in items:
        counts[item.layer] += item.tokens
    counts["frame"] += tokens - sum(item.tokens for item in items)
    snapshot.layers, snapshot.tokens, snapshot.told_at = dict(counts), snapshot.tokens + tokens, timezone.now()
    snapshot.sections = dict(Counter(snapshot.sections) + Counter(section_tokens(items)))
    snapshot.included_count += len(items)
    try:
        content = load_content(snapshot)
    except UnreadableContent:
        content = None
    if content is not None:
        content["messages"].append({"role": message.role, "content": message.content, "images": ""})
        content["items"] += _rows(Item, items)
        snapshot.content = pack_content(content)
    snapshot.save(update_fields=["layers", "tokens", "sections", "included_count", "content", "told_at"])


def snapshot_counts(prompt: Prompt) -> dict[str, Any]:
    """What stays of a prompt once its texts are gone, as fields of Snapshot."""
    return {
        "task": prompt.task,
        "model": prompt.model,
        "assembler_version": ASSEMBLER_VERSION,
        "budget": prompt.ceiling,
        "tokens": prompt.tokens,
        "counter": prompt.counter.name,
        "layers": dict(prompt.layers),
        "sections": section_tokens(prompt.included),
        "included_count": len(prompt.included),
        "dropped_count": len(prompt.dropped),
    }


def section_tokens(items: Iterable[Item]) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for item in items:
        sums[item.section] += item.tokens
    return dict(sums)


def key_ids(keys: Iterable[str], kind: str) -> set[int]:
    """Ids of the rows of this kind among keys of items: `episode:7` is episode 7."""
    parts = (key.partition(":") for key in keys)
    return {int(number) for name, _, number in parts if name == kind and is_seq(number)}


def is_seq(text: str) -> bool:
    """Whether it is the number of a message, or of a row: digits that fit into a column."""
    return text.isdecimal() and text.isascii() and len(text) <= MAX_DIGITS


def message_ids(keys: Iterable[str]) -> set[int]:
    """Ids of the messages that stand in a prompt, or passages of their middles, by the keys of its items."""
    keys = list(keys)
    return key_ids(keys, "message") | key_ids(keys, "middle")


_COUNT_USES = """
WITH held AS (  -- in order: no deadlock
    SELECT id FROM memory_episode WHERE id = ANY(%s::bigint[]) ORDER BY id FOR NO KEY UPDATE
), used AS (
    UPDATE memory_episode episode SET prompt_count = prompt_count + 1 FROM held WHERE episode.id = held.id
    RETURNING feedback_id
)
SELECT t.workspace_id, t.channel_id, t.id, m.id FROM used JOIN memory_feedback f ON f.id = used.feedback_id
JOIN chat_message m ON m.id = f.message_id JOIN chat_thread t ON t.id = m.thread_id
"""


def _count_episode_uses(episode_ids: set[int]) -> None:
    """Counts that these episodes were in one prompt more; pages that show the feedback behind them hear of it."""
    if not episode_ids:
        return
    for workspace_id, channel_id, thread_id, message_id in fetch_prepared(_COUNT_USES, [array_literal(episode_ids)]):
        emit(
            "feedback_changed",
            workspace_id=workspace_id,
            channel_id=channel_id,
            thread_id=thread_id,
            message_id=message_id,
        )


def expire_records() -> int:
    """Removes texts of prompts, results of tools, thoughts and silent looks older than PROMPT_RETENTION_DAYS; returns
    how many of the first two. The counts stay."""
    expiry = timezone.now() - timedelta(days=settings.PROMPT_RETENTION_DAYS)
    prompts = Snapshot.objects.filter(created_at__lt=expiry, content__isnull=False).update(content=None)
    old_calls = ToolCall.objects.filter(created_at__lt=expiry)
    old_calls.exclude(provider_fields="").update(provider_fields="")
    RunStep.objects.filter(created_at__lt=expiry).forget()
    Permission.objects.filter(created_at__lt=expiry).forget()
    old_looks = WatchLook.objects.filter(created_at__lt=expiry)
    old_looks.exclude(outcome=WatchLook.Outcome.SPOKE).delete()
    old_looks.filter(content__isnull=False).update(content=None, why="")
    return prompts + old_calls.exclude(result="").update(result="")


def snapshot_content(prompt: Prompt) -> dict[str, Any]:
    return {
        "version": CONTENT_VERSION,
        "head": dict(prompt.head),
        "after_attempt": prompt.after_attempt,
        "messages": [
            {"role": m.role, "content": m.content, "images": describe_images(m.images)} for m in prompt.messages
        ],
        "items": _rows(Item, prompt.included),
        "dropped": _rows(DroppedItem, prompt.dropped),
    }


def _rows(kind: type[Item] | type[DroppedItem], entries: Iterable[Item | DroppedItem]) -> list[dict[str, Any]]:
    """What `asdict` gives of each, in a fifteenth of its time: all their fields are text and numbers."""
    names = [field.name for field in fields(kind)]
    values = attrgetter(*names)
    return [dict(zip(names, values(entry), strict=True)) for entry in entries]


def load_content(snapshot: Snapshot) -> dict[str, Any]:
    """Raises UnreadableContent."""
    return unpack_content(snapshot.content or b"")


def erase_from_snapshots(erased: ErasedText) -> int:
    """Rewrites the stored prompts that contain what a message does not say any more; the counts stay. Returns how many
    were rewritten.

    Emptied are the message itself, summaries of it, what tools answered, work that was taken from it, and whatever
    repeats it word for word.
    """
    snapshots = Snapshot.objects.written_since(erased.quotable_since).filter(
        _quoting_runs("run__", erased.thread_id, erased.message_id), content__isnull=False
    )
    snapshots = snapshots.select_for_update(of=("self",))
    changed_count = 0
    for snapshot in snapshots.order_by("pk").iterator(chunk_size=20):
        was_there = partial(_tells_of, erased=erased) if snapshot.created_at <= erased.erased_at else _tells_of_nothing
        changed_count += rewrite_snapshot(snapshot, was_there, erased.quotation)
    return changed_count


def rewrite_snapshot(
    snapshot: Snapshot, tells: Callable[[Mapping[str, Any]], bool], quotation: Quotation, *, named: Collection[str] = ()
) -> bool:
    """Empty the items of a stored prompt that tell of it or repeat it, in the messages too; whether there were any.
    What has one of the keys `named` loses its name as well, left out or not. Of what cannot be read nothing is kept."""
    try:
        content = load_content(snapshot)
    except UnreadableContent:
        snapshot.content = None
        snapshot.save(update_fields=["content"])
        return True
    quoting = [item for item in content["items"] if item["text"] and (tells(item) or quotation.is_in(item["text"]))]
    for item in quoting:
        for message in content["messages"]:
            message["content"] = replace_item(message["content"], item, ERASED_NOTE)
        item["text"] = item["author"] = ""
    pixels = [item for item in content["items"] if str(item["key"]).startswith("pixels:") and tells(item)]
    referring = [message for message in content["messages"] if pixels and message["images"]]
    for message in referring:  # which of them it went with is not said
        message["images"] = ""
    for item in pixels:
        item["author"] = ""
    leaking = [message for message in content["messages"] if quotation.is_in(message["content"])]
    for message in leaking:  # it stands there in another form than its item has
        message["content"] = ERASED_NOTE
    sources = [row for row in (*content["items"], *content["dropped"]) if row["key"] in named]
    for row in sources:
        row["source"] = row["key"].partition(":")[0]
    if quoting or referring or leaking or sources:
        snapshot.content = pack_content(content)
        snapshot.save(update_fields=["content"])
    return bool(quoting or referring or leaking)


def replace_item(content: str, item: Mapping[str, Any], note: str) -> str:
    """A message of a stored prompt with `note` in the place of an item.

    An answer of the agent's own, and a question in its own words, is all of its message, and nothing else: its words,
    such as "No", may stand anywhere. A line of a transcript begins a line: the end of a longer number is another
    message's.
    """
    is_question = item.get("section") == "request" and not item["text"].startswith("<request ")
    if item.get("role") == "assistant" or is_question:
        return note if content == item["text"] else content
    if not item.get("opening"):
        return content.replace(item["text"], note)
    return re.sub(rf"^{re.escape(item['text'])}", lambda _: f"{note.strip()}\n", content, flags=re.MULTILINE)


def _quoting_runs(prefix: str, thread_id: int, message_id: int) -> Q:
    """Runs of the message's thread, and of dives that began from it."""
    return Q(**{f"{prefix}thread": thread_id}) | Q(**{f"{prefix}thread__dive__source": message_id})


def _tells_of(item: Mapping[str, Any], *, erased: ErasedText) -> bool:
    """Whether an item that was stored before is the message, a file or a summary of it, or what a tool answered
    there."""
    kind, _, _ = str(item["key"]).partition(":")
    if kind == "summary":
        first, _, last = str(item["ref"]).partition("-")
        return not (is_seq(first) and is_seq(last)) or int(first) <= erased.seq <= int(last)
    if kind in OF_FILES:
        return str(item["key"]).startswith(f"{kind}:{erased.message_id}:")
    return kind == "observation" or message_ids([item["key"]]) == {erased.message_id}


def _tells_of_nothing(item: Mapping[str, Any]) -> bool:
    return False


def erase_calls_quoting(erased: ErasedText) -> int:
    """Empty the calls that repeat the text; how many. Of a deleted message those made before went with it.

    What their model's provider wants back goes with every call: nobody can read whether it tells of the text.
    """
    calls = ToolCall.objects.filter(
        _quoting_runs("run__", erased.thread_id, erased.message_id), created_at__gte=erased.quotable_since
    )
    calls.erase_provider_fields()
    calls = calls.exclude(arguments="", why="", result="")
    rows = calls.values_list("pk", "arguments", "why", "result").iterator(chunk_size=200)
    quoting = [pk for pk, *texts in rows if erased.quotation.is_in("\n".join(texts))]
    return ToolCall.objects.filter(pk__in=quoting).update(arguments="", why="", result="")


def erase_tool_calls(thread_id: int, message_id: int) -> None:
    """A message of the thread was deleted: what nobody is shown any more is not kept either.

    `message_id` is that message: dives that began from it quote it too.
    """
    calls = ToolCall.objects.filter(_quoting_runs("run__", thread_id, message_id))
    calls.erase_provider_fields()
    calls.exclude(arguments="", why="", result="").update(arguments="", why="", result="")
    RunStep.objects.filter(_quoting_runs("run__", thread_id, message_id)).forget()
    Permission.objects.filter(_quoting_runs("run__", thread_id, message_id)).forget()


def erase_looks(thread_id: int, since: datetime | None = None) -> int:
    """Empties what looks at the thread, begun since then, were shown and said; how many. They hold most of its newest
    messages, so none is searched."""
    looks = WatchLook.objects.filter(thread=thread_id).exclude(content=None, why="")
    return (looks if since is None else looks.filter(created_at__gte=since)).update(content=None, why="")


def erase_looks_quoting(erased: ErasedText) -> int:
    """Empties what looks at the message's thread were shown and said since it was posted; how many."""
    return erase_looks(erased.thread_id, erased.quotable_since)


def erase_steps_quoting(erased: ErasedText) -> int:
    """Empty thoughts, reported steps and permissions that repeat the text, and take such entries out of agents' plans;
    how many rows. Of a deleted message the steps and permissions before went with it."""
    in_runs, quotation = _quoting_runs("run__", erased.thread_id, erased.message_id), erased.quotation
    steps, asked = RunStep.objects.filter(in_runs).with_text(), Permission.objects.filter(in_runs).with_text()
    step_texts = steps.values_list("pk", "text", "arguments", "result", "files").iterator(chunk_size=50)
    asked_texts = asked.values_list("pk", "title", "command", "arguments", "diff", "note", "paths").iterator(50)
    step_ids = [pk for pk, *texts in step_texts if quotation.is_in(_all_text(texts))]
    asked_ids = [pk for pk, *texts in asked_texts if quotation.is_in(_all_text(texts))]
    count = RunStep.objects.filter(pk__in=step_ids).forget() + Permission.objects.filter(pk__in=asked_ids).forget()
    plans = AgentPlan.objects.select_for_update(of=("self",))
    for plan in plans.filter(_quoting_runs("", erased.thread_id, erased.message_id)).order_by("pk"):
        kept = [entry for entry in plan.entries if not quotation.is_in(entry["content"])]
        if kept != plan.entries:
            plan.entries = kept
            plan.save(update_fields=["entries", "updated_at"])
            count += 1
    return count


def _all_text(values: Iterable[Any]) -> str:
    """Texts, and all texts in lists of texts and of objects, one below the other."""
    lines = []
    for value in values:
        if isinstance(value, str):
            lines.append(value)
        elif isinstance(value, Mapping):
            lines.append(_all_text(value.values()))
        elif isinstance(value, Iterable):
            lines.append(_all_text(value))
    return "\n".join(lines)


def erase_calls_about(*, agent_id: int, person_id: int) -> None:
    """A person cleared what an agent noted about her (both participants): its calls that tell of it are emptied."""
    of_agent = ToolCall.objects.filter(run__agent__participant=agent_id)
    of_agent.erase_provider_fields()
    calls = of_agent.filter(sources__kind=ToolSource.Kind.NOTES, sources__ref=person_id)
    about_person = Q(requested_by=person_id) | Q(pk__in=calls.values("run"))
    runs = Run.objects.filter(about_person, agent__participant=agent_id).values("pk")
    RunStep.objects.filter(run__in=runs).forget()
    Permission.objects.filter(run__in=runs).forget()
    ToolCall.objects.filter(pk__in=calls.values("pk")).update(arguments="", why="", result="")
