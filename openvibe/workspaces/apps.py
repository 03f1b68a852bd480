from django.apps import AppConfig


class WorkspacesConfig(AppConfig):
    name = "openvibe.workspaces"
    label = "workspaces"
    verbose_name = "People and workspaces"

    def ready(self) -> None:
        from openvibe.workspaces import receivers, wiring  # noqa: F401  # models are there only now; receivers connect signals

        wiring.wire()
