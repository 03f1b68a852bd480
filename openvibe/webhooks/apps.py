from django.apps import AppConfig


class WebhooksConfig(AppConfig):
    name = "openvibe.webhooks"
    label = "webhooks"
    verbose_name = "Webhooks"

    def ready(self) -> None:
        from openvibe.webhooks import wiring  # models are there only now

        wiring.wire()
