from django.apps import AppConfig


class ChatConfig(AppConfig):
    name = "openvibe.chat"
    label = "chat"
    verbose_name = "Conversations"

    def ready(self) -> None:
        from openvibe.chat import wiring
        from openvibe.chat.queries import quote_notes
        from openvibe.chat.services import quotes

        wiring.wire()
        quotes.wire()
        wiring.INBOX_NOTES.add(quote_notes)
