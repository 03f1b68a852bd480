from django.apps import AppConfig


class MemoryConfig(AppConfig):
    name = "memory"
    label = "memory"
    verbose_name = "Memory"

    def ready(self) -> None:
        from memory import receivers, wiring  # noqa: F401  (receivers connects the signals)

        wiring.wire()
