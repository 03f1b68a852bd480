from threading import Thread
from typing import Any

from celery.signals import worker_ready
from django.apps import AppConfig


class LlmConfig(AppConfig):
    name = "openvibe.engines.llm"
    label = "llm"
    verbose_name = "Language models"

    def ready(self) -> None:
        worker_ready.connect(import_clients, dispatch_uid="llm.import_clients")


def import_clients(**_signal: Any) -> None:
    """A worker loads the clients of the endpoints there are before its first run: a vendor's package takes a second."""
    from openvibe.engines.llm.endpoints.endpoints import (  # reads models, which are there only now
        import_client_packages,
    )

    Thread(target=import_client_packages, name="import-clients", daemon=True).start()
