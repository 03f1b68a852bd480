from django.apps import AppConfig


class WebhooksConfig(AppConfig):
    name = "openvibe.webhooks"
    label = "webhooks"
    verbose_name = "Webhooks"

    def ready(self) -> None:
        from openvibe.chat.wiring import INBOX_NOTES
        from openvibe.webhooks import receivers  # noqa: F401 - connects them
        from openvibe.webhooks.queries import resting_notes

        INBOX_NOTES.add(resting_notes)
