from django.apps import AppConfig


class LlmConfig(AppConfig):
    name = "openvibe.engines.llm"
    label = "llm"
    verbose_name = "Language models"
