from django.apps import AppConfig


class LlmConfig(AppConfig):
    name = "openvibe.llm"
    label = "llm"
    verbose_name = "Language models"
