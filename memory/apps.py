from django.apps import AppConfig


class MemoryConfig(AppConfig):
    name = "memory"
    label = "memory"
    verbose_name = "Memory"

    def ready(self) -> None:
        from memory import receivers  # noqa: F401  (connects the signals)
