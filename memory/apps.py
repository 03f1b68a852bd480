from django.apps import AppConfig


class MemoryConfig(AppConfig):
    name = "memory"

    def ready(self) -> None:
        from memory import receivers, wiring  # noqa: F401  # models are there only now; receivers connect signals

        wiring.wire()
