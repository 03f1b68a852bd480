"""The uses of feedback: whether it stands in prompts now, and which answers were written with it."""

from dataclasses import dataclass

from agents.agent.models import Run, Snapshot
from agents.prompts.assembler.sections.episodes import MAX_FEEDBACK_ITEMS
from agents.prompts.snapshots.content import UnreadableContent
from agents.prompts.snapshots.store import load_content
from memory.models import Episode
from openvibe.workspaces.access import Access

MAX_RUNS_READ = 30
"""The newest runs since the feedback whose prompts are looked through: each is unpacked for it."""


@dataclass(frozen=True)
class FeedbackUses:
    """`in_use`: the agent's next prompts hold it. `runs`: the newest answers that had it before them, as far as the
    asker may read them; `all_read` is false where older ones were not looked through."""

    in_use: bool
    runs: list[Run]
    all_read: bool


def read_feedback_uses(episode: Episode, access: Access) -> FeedbackUses:
    """Three queries."""
    newest = Episode.objects.of(episode.agent_id).open_feedback().values_list("pk", flat=True)[:MAX_FEEDBACK_ITEMS]
    since = Run.objects.visible_to(access).filter(agent__participant=episode.agent_id, queued_at__gte=episode.created_at)
    runs = list(since.exclude(reply=None).select_related("thread", "reply").order_by("-id")[: MAX_RUNS_READ + 1])
    snapshots = {row.run_id: row for row in Snapshot.objects.filter(run__in=[run.pk for run in runs[:MAX_RUNS_READ]])}
    used = [run for run in runs if run.pk in snapshots and _holds(snapshots[run.pk], f"episode:{episode.pk}")]
    return FeedbackUses(episode.pk in list(newest), used, len(runs) <= MAX_RUNS_READ)


def _holds(snapshot: Snapshot, key: str) -> bool:
    """False, too, where the prompt's texts are gone."""
    try:
        content = load_content(snapshot)
    except UnreadableContent:
        return False
    return any(item["key"] == key for item in content["items"])
