from django.apps import AppConfig


class KnowledgeConfig(AppConfig):
    name = "knowledge"
    label = "knowledge"
    verbose_name = "Knowledge"

    def ready(self) -> None:
        from knowledge import wiring  # models are there only now

        wiring.wire()
