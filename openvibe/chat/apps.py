from django.apps import AppConfig


class ChatConfig(AppConfig):
    name = "openvibe.chat"
    label = "chat"
    verbose_name = "Conversations"

    def ready(self) -> None:
        from openvibe.chat import wiring

        wiring.wire()
