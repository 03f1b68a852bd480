"""What a session of an agent elsewhere has been shown: the stored prompts of its runs, from the whole one on."""

from collections.abc import Iterable, Mapping
from typing import Any

from agents.agent.models import EXTERNAL_RUNS, Run, Snapshot
from agents.prompts.assembler.continuation import Session
from agents.prompts.assembler.items import Item
from agents.prompts.snapshots.content import UnreadableContent, unpack_content
from agents.prompts.snapshots.store import message_ids
from openvibe.chat.queries import has_deleted

MAX_PROMPTS = 200
"""Prompts that one session is followed back through; a longer one begins anew, with the whole context."""

NOT_KEPT = "What run {run} had read is not kept any more."


def read_session(run: Run, after_run: int) -> Session | str:
    """The session that read the prompt of `after_run` last, for `run` to go on with; as a sentence why it cannot, where
    it cannot. Five queries, however many prompts there were."""
    runs_here = Run.objects.filter(EXTERNAL_RUNS.condition, agent=run.agent_id, thread=run.thread_id)
    previous = runs_here.exclude(pk=run.pk).filter(pk=after_run).select_related("reply").first()
    if previous is None:
        return f"Run {after_run} is no earlier run of yours in this thread."
    said = previous.reply.body if previous.reply is not None else ""
    if previous.state != Run.State.DONE and not (previous.state == Run.State.STOPPED and said):
        return f"Run {after_run} did not come to its end: what it read may have reached no session."
    snapshots = Snapshot.objects.filter(run__agent=run.agent_id, run__thread=run.thread_id)
    chain = _chain(after_run, dict(snapshots.values_list("run_id", "continues_id")))
    if not chain:
        return NOT_KEPT.format(run=after_run)
    if len(chain) > MAX_PROMPTS:
        return f"The session has read {len(chain)} prompts: it begins anew."
    try:
        contents = _read_contents(chain)
    except UnreadableContent:
        return NOT_KEPT.format(run=after_run)
    rows = {pk: (attempt, reply) for pk, attempt, reply in runs_here.filter(pk__in=chain).values_list(*_RUN_COLUMNS)}
    if len(rows) < len(chain) or not _is_unbroken(chain, contents, {pk: attempt for pk, (attempt, _) in rows.items()}):
        return "A run of the session was begun anew since."
    items = [Item(**entry) for content in contents for entry in content["items"]]
    own_ids = frozenset(reply for _, reply in rows.values() if reply is not None)
    read_ids = message_ids(item.key for item in items) | own_ids
    if has_deleted(read_ids):
        return "A message that it had read was deleted since."
    return Session(
        run_id=after_run,
        attempt=rows[after_run][0],
        items=items,
        left_out=frozenset(entry["key"] for content in contents for entry in content["dropped"]),
        own_ids=own_ids,
        head=contents[0]["head"],
    )


_RUN_COLUMNS = ("pk", "attempt", "reply_id")


def _chain(after_run: int, continues: Mapping[int, int | None]) -> list[int]:
    """The runs of the session, from the one with the whole prompt on; none where a prompt is missing."""
    chain: list[int] = []
    current: int | None = after_run
    while current is not None:
        if current not in continues or current in chain:
            return []
        chain.append(current)
        current = continues[current]
    return chain[::-1]


def _read_contents(chain: Iterable[int]) -> list[dict[str, Any]]:
    """Raises UnreadableContent where one is not kept."""
    contents = dict(Snapshot.objects.filter(run__in=chain).values_list("run_id", "content"))
    return [unpack_content(contents[pk] or b"") for pk in chain]


def _is_unbroken(chain: list[int], contents: list[dict[str, Any]], attempts: Mapping[int, int]) -> bool:
    """Whether each prompt goes on with the very attempt of the run before it that is stored now."""
    pairs = zip(chain, contents[1:], strict=False)
    return all(content["after_attempt"] == attempts[pk] for pk, content in pairs)
