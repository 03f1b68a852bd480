"""Archives of workspaces that were asked for in the app: a job each, and a file that is deleted after a day."""

from django.db import models
from django.db.models import Q

from openvibe.engines.database.locks import LockKind
from openvibe.engines.jobs.jobs import Job, JobKind
from openvibe.workspaces.models import Participant, Workspace


class WorkspaceExport(Job):
    """One archive. Its file is there while it is `done` and `expires_at` is ahead."""

    class State(models.TextChoices):
        QUEUED = "queued", "waiting"
        RUNNING = "running", "being written"
        DONE = "done", "ready"
        FAILED = "failed", "failed"

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="exports")
    requested_by = models.ForeignKey(Participant, on_delete=models.CASCADE, related_name="+")
    state = models.CharField(max_length=7, choices=State.choices, default=State.QUEUED)
    rows = models.PositiveIntegerField(default=0, help_text="Written so far.")
    size = models.PositiveBigIntegerField(default=0, help_text="Bytes of the file.")
    sha256 = models.CharField(max_length=64, blank=True, default="")
    expires_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace"], condition=Q(state__in=["queued", "running"]), name="export_one_at_a_time"
            ),
            models.CheckConstraint(
                condition=Q(state__in=["queued", "running", "done", "failed"]), name="export_state_known"
            ),
            models.CheckConstraint(
                condition=~Q(state="done") | Q(expires_at__isnull=False), name="export_done_expires"
            ),
        ]

    def __str__(self) -> str:
        return f"Export {self.pk} ({self.state})"

    @property
    def is_unfinished(self) -> bool:
        return self.state in (self.State.QUEUED, self.State.RUNNING)


EXPORTS = JobKind(WorkspaceExport, LockKind.WORKSPACE_EXPORT, active=(WorkspaceExport.State.RUNNING,))
