"""What this floor plugs into the libraries below it: database sessions, checks, signals of jobs, and the broker that
`task.delay()` finds. Most of it connects where it is imported."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate

import openvibe.base.job_runs
import openvibe.celery
import openvibe.engines.database.prepared_statements
import openvibe.engines.database.timestamps  # noqa: F401
import openvibe.engines.serving.proxy_headers
from openvibe.base.queue import install_queue


def wire(config: AppConfig) -> None:
    post_migrate.connect(install_queue, sender=config)
