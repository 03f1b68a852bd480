from django.apps import AppConfig


class LcmConfig(AppConfig):
    name = "memory.plugins.lcm"
    label = "lcm"
    verbose_name = "Lossless memory"
