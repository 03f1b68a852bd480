from django.apps import AppConfig, apps
from django.db.models.signals import pre_migrate

from openvibe.runner.bootstrap import require_adopted_migrations


class RunnerConfig(AppConfig):
    name = "openvibe.runner"

    def ready(self) -> None:
        # sent by every app that has models; once is enough
        pre_migrate.connect(require_adopted_migrations, sender=apps.get_app_config("base"))
