from django.apps import AppConfig


class LcmConfig(AppConfig):
    name = "memory.providers.lcm"
    label = "lcm"
    verbose_name = "Lossless memory"
