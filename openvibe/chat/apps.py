from django.apps import AppConfig


class ChatConfig(AppConfig):
    name = "openvibe.chat"
    label = "chat"
    verbose_name = "Conversations"

    def ready(self) -> None:
        from openvibe.chat import queries, wiring  # models are there only now
        from openvibe.chat.services import quotes  # models are there only now
        from openvibe.workspaces.services import INSTRUCTION_TEXTS  # models are there only now

        wiring.wire()
        quotes.wire()
        wiring.INBOX_NOTES.add(queries.quote_notes)
        INSTRUCTION_TEXTS.add(queries.including_instructions)
