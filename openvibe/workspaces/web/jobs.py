"""The settings page of recurring jobs, for superusers: how each last went, when it runs next, and running it now."""

from django.contrib import messages
from django.db import DatabaseError
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods
from django_celery_beat.models import PeriodicTask
from kombu.exceptions import OperationalError

from openvibe.base.params import int_param
from openvibe.base.problems import Missing
from openvibe.engines.jobs.job_runs import JobBusy, end_orphaned_runs, read_job_statuses, request_job_run
from openvibe.engines.jobs.models import JobRun
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view

MAX_POLLS = 120
"""How often the line that waits for a result asks, once a second."""


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def jobs(request: WorkspaceRequest) -> HttpResponse:
    """A POST asks a worker to run `job` now; `?run=` then shows its result, as soon as there is one."""
    if not request.user.is_superuser:
        raise Missing
    if request.method == "POST":
        return _run_now(request)
    end_orphaned_runs()
    task_id = request.GET.get("run", "")[:64].replace("\x00", "")
    run = JobRun.objects.filter(task_id=task_id).first() if task_id else None
    polls = min(int_param(request.GET, "polls") or 0, MAX_POLLS)
    page: dict[str, object] = {"run": run, "task_id": task_id, "name": request.GET.get("name", "")[:80]}
    page |= {"polls": polls + 1, "gives_up": polls >= MAX_POLLS}
    if request.htmx:  # the line that waits asks
        if run is None or run.is_over:
            return HttpResponse(headers={"HX-Refresh": "true"})
        return render(request, "workspaces/_job_waits.html", page)
    return render(request, "workspaces/jobs.html", {**page, "jobs": read_job_statuses()})


def _run_now(request: WorkspaceRequest) -> HttpResponse:
    job = PeriodicTask.objects.filter(pk=int_param(request.POST, "job") or 0).first()
    if job is None:
        raise Missing
    page = reverse("settings-jobs", args=[request.workspace.slug])
    try:
        task_id = request_job_run(job)
    except JobBusy as refusal:
        messages.info(request, refusal.message)
        return redirect(page)
    except (OperationalError, DatabaseError) as error:
        messages.error(request, f"The queue does not take “{job.name}”: {error}")
        return redirect(page)
    return redirect(reverse("settings-jobs", args=[request.workspace.slug], query={"run": task_id, "name": job.name}))
