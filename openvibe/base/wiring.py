"""What this floor plugs into the libraries below it: database sessions, checks, signals of jobs, and the broker that
`task.delay()` finds. Most of it connects where it is imported."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate

import openvibe.celery
import openvibe.engines.database.prepared_statements
import openvibe.engines.database.timestamps
import openvibe.engines.jobs.job_runs
import openvibe.engines.serving.proxy_headers  # noqa: F401
from openvibe.engines.jobs.queue import install_queue


def wire(config: AppConfig) -> None:
    post_migrate.connect(install_queue, sender=config)
