from django.apps import AppConfig


class ChatConfig(AppConfig):
    name = "openvibe.chat"
    label = "chat"
    verbose_name = "Conversations"

    def ready(self) -> None:
        from openvibe.chat import wiring
        from openvibe.chat.queries import including_instructions, quote_notes
        from openvibe.chat.services import quotes
        from openvibe.workspaces.services import INSTRUCTION_TEXTS

        wiring.wire()
        quotes.wire()
        wiring.INBOX_NOTES.add(quote_notes)
        INSTRUCTION_TEXTS.add(including_instructions)
