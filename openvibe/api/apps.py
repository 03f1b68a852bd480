from django.apps import AppConfig


class ApiConfig(AppConfig):
    name = "openvibe.api"
    label = "api"
    verbose_name = "API"
