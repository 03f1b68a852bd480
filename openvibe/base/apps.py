from django.apps import AppConfig
from django.db.models.signals import post_migrate


class BaseConfig(AppConfig):
    name = "openvibe.base"
    label = "base"
    verbose_name = "Ground floor"

    def ready(self) -> None:
        import openvibe.base.job_runs
        import openvibe.base.prepared_statements
        import openvibe.base.proxy_headers
        import openvibe.base.timestamps
        import openvibe.celery  # noqa: F401 - from here on, `task.delay()` finds our broker
        from openvibe.base.queue import install_queue

        post_migrate.connect(install_queue, sender=self)
