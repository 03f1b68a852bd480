"""How easily a watching agent speaks up in a channel: what people say of what it posted there moves it.

Nothing is added up: the verdicts that stand are counted when it is asked, so one that is changed or taken back counts
as it is now."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Count, F, Q
from django.utils import timezone

from agents.agent.models import Run, Watch
from memory.models import Feedback
from openvibe.engines.text.cleaning import pluralize

JUDGED_FOR = timedelta(days=30)
"""How long a verdict counts."""

MAX_STEPS = 8
STEPS_OF_DOWN, STEPS_OF_UP = 2, -1
BASE_PERCENT, PERCENT_OF_STEP = 50, 5


@dataclass(frozen=True)
class Threshold:
    """`steps` above where it began, 0 to MAX_STEPS; `not_helpful`: the verdicts that raised it."""

    rest_minutes: int
    steps: int = 0
    not_helpful: int = 0

    @property
    def rest(self) -> timedelta:
        """How long people have said nothing before it looks: once more as long for each step."""
        return timedelta(minutes=self.rest_minutes * (1 + self.steps))

    @property
    def percent(self) -> int:
        """How sure the model has to be."""
        return BASE_PERCENT + PERCENT_OF_STEP * self.steps

    @property
    def words(self) -> str:
        """What it waits for, as a sentence."""
        minutes = int(self.rest.total_seconds() // 60)
        words = (
            f"It looks when people have said nothing for {pluralize(minutes, 'minute')}, and speaks up when it is at"
            f" least {self.percent} % sure."
        )
        if not self.steps:
            return words
        return (
            f"{words} At first these were {pluralize(self.rest_minutes, 'minute')} and {BASE_PERCENT} %: people found"
            f" {pluralize(self.not_helpful, 'message')} of its own here not helpful in the last {JUDGED_FOR.days} days,"
            " and each counts double."
        )


def read_thresholds(watches: Iterable[Watch]) -> dict[int, Threshold]:
    """The threshold of each, by its id. One query."""
    watches = list(watches)
    since = timezone.now() - JUDGED_FOR
    verdicts = Feedback.objects.filter(
        message__run__task=Run.Task.PROACTIVE,
        message__run__trigger__watch_look__watch__in=[watch.pk for watch in watches],
        updated_at__gte=since,
        updated_at__gt=F("message__run__trigger__watch_look__watch__judged_from"),
    )
    is_down = Q(verdict=Feedback.Verdict.DOWN)
    counts = verdicts.order_by().values_list("message__run__trigger__watch_look__watch")
    rows = counts.annotate(down=Count("pk", filter=is_down), up=Count("pk", filter=~is_down))
    by_watch = {pk: (down, up) for pk, down, up in rows}
    return {watch.pk: _threshold(watch, *by_watch.get(watch.pk, (0, 0))) for watch in watches}


def _threshold(watch: Watch, down: int, up: int) -> Threshold:
    steps = min(max(STEPS_OF_DOWN * down + STEPS_OF_UP * up, 0), MAX_STEPS)
    return Threshold(watch.rest_minutes, steps, down)
