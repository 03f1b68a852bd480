from django.apps import AppConfig


class AgentsConfig(AppConfig):
    name = "agents"
    label = "agents"
    verbose_name = "Agents"

    def ready(self) -> None:
        from agents import receivers, wiring  # noqa: F401  # models are there only now; receivers connect signals

        wiring.wire()
