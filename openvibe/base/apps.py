from django.apps import AppConfig


class BaseConfig(AppConfig):
    name = "openvibe.base"
    label = "base"
    verbose_name = "Ground floor"

    def ready(self) -> None:
        from openvibe.base import wiring  # models are there only now

        wiring.wire(self)
