"""Storing what a run saw: snapshots written, compared with the one before, and emptied when their retention ends."""

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from itertools import takewhile
from typing import Any

from django.db.models import F, Q
from django.utils import timezone

from agents.assembler.assemble import ASSEMBLER_VERSION, Prompt
from agents.assembler.items import Item
from agents.assembler.render import shared_prefix_tokens
from agents.models import Run, Snapshot, ToolCall, ToolSource
from agents.statistics import record_uses
from memory.models import Episode
from openvibe.base.events import emit
from openvibe.llm.values import ChatMessage

RETENTION = timedelta(days=30)
"""How long stored prompts and results of tools keep their text."""


def shared_prefix_with_last_run(exclude_run: Run | None, prompt: Prompt, *, agent_id: int, thread_id: int) -> int:
    """Tokens this prompt starts with in common with the newest stored prompt of the same agent and thread."""
    before = Snapshot.objects.filter(run__agent_id=agent_id, run__thread_id=thread_id, content__isnull=False)
    if exclude_run is not None:
        before = before.exclude(run=exclude_run)
    newest = before.order_by("-id").first()
    if newest is None:
        return 0
    content = load_content(newest)
    tools = [Item(**entry) for entry in content["items"] if entry["section"] == "tools"]
    return shared_prefix_with(tools, content_messages(content), prompt)


def shared_prefix_with(tools: Sequence[Item], messages: Sequence[ChatMessage], prompt: Prompt) -> int:
    """Tokens the prompt starts with in common with an earlier one: tools stand first, then the messages."""
    now = [item for item in prompt.included if item.section == "tools"]
    same = list(takewhile(lambda pair: pair[0].text == pair[1].text, zip(tools, now, strict=False)))
    shared = sum(item.tokens for _, item in same)
    all_same = len(same) == len(tools) == len(now)
    return shared + (shared_prefix_tokens(messages, prompt.messages, prompt.counter) if all_same else 0)


def store_snapshot(run: Run, prompt: Prompt) -> Snapshot:
    """Keep what the run saw, in the caller's transaction; an earlier attempt's snapshot is replaced.

    Feedback, episodes and knowledge in the prompt count once more as used.
    """
    content = json.dumps(snapshot_content(prompt), ensure_ascii=False)
    first_time = not Snapshot.objects.filter(run=run).exists()
    snapshot, _ = Snapshot.objects.update_or_create(
        run=run,
        defaults={
            **snapshot_counts(prompt),
            "soul": run.agent.soul,
            "prefix_shared": shared_prefix_with_last_run(run, prompt, agent_id=run.agent_id, thread_id=run.thread_id),
            "tool_names": sorted(tool.name for tool in prompt.tools),
            "content": zlib.compress(content.encode(), level=6),
        },
    )
    keys = [item.key for item in prompt.included]
    if first_time:
        _count_episode_uses(key_ids(keys, "episode"))
    record_uses(run=run, entry_ids=key_ids(keys, "knowledge"), how="prompt")
    return snapshot


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
        "included_count": len(prompt.included),
        "dropped_count": len(prompt.dropped),
    }


def key_ids(keys: Iterable[str], kind: str) -> set[int]:
    """Ids of the rows of this kind among keys of items: `episode:7` is episode 7."""
    parts = (key.partition(":") for key in keys)
    return {int(number) for name, _, number in parts if name == kind and number.isdigit()}


def _count_episode_uses(episode_ids: set[int]) -> None:
    """These episodes were in one prompt more; pages that show the feedback behind them hear of it."""
    used = Episode.objects.filter(pk__in=episode_ids)
    used.update(prompt_count=F("prompt_count") + 1)
    given = used.filter(feedback__isnull=False).select_related("feedback__message__thread")
    for message in [episode.feedback.message for episode in given if episode.feedback]:
        thread = message.thread
        emit(
            "feedback_changed",
            workspace_id=thread.workspace_id,
            channel_id=thread.channel_id,
            thread_id=thread.pk,
            message_id=message.pk,
        )


def expire_records() -> None:
    """Remove texts of prompts and results of tools past their retention; the counts, and what was called, stay."""
    expiry = timezone.now() - RETENTION
    Snapshot.objects.filter(created_at__lt=expiry, content__isnull=False).update(content=None)
    ToolCall.objects.filter(created_at__lt=expiry).exclude(result="").update(result="")


def snapshot_content(prompt: Prompt) -> dict[str, Any]:
    return {
        "messages": [{"role": m.role, "content": m.content} for m in prompt.messages],
        "items": [asdict(entry) for entry in prompt.included],
        "dropped": [asdict(entry) for entry in prompt.dropped],
    }


def load_content(snapshot: Snapshot) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(zlib.decompress(bytes(snapshot.content or b"")))
    return content


def content_messages(content: Mapping[str, Any]) -> tuple[ChatMessage, ...]:
    return tuple(ChatMessage(m["role"], m["content"]) for m in content["messages"])


def erase_tool_calls(thread_id: int, message_id: int) -> None:
    """A message of the thread was deleted: what nobody is shown any more is not kept either.

    `message_id` is that message: dives that began from it quote it too.
    """
    quoting = Q(run__thread=thread_id) | Q(run__thread__dive__source=message_id)
    calls = ToolCall.objects.filter(quoting).exclude(arguments="", why="", result="")
    calls.update(arguments="", why="", result="")


def erase_calls_about(*, agent_id: int, person_id: int) -> None:
    """A person cleared what an agent noted about her (both participants): its calls that tell of it are emptied."""
    of_agent = ToolCall.objects.filter(run__agent__participant=agent_id)
    calls = of_agent.filter(sources__kind=ToolSource.Kind.NOTES, sources__ref=person_id)
    ToolCall.objects.filter(pk__in=calls.values("pk")).update(arguments="", why="", result="")
