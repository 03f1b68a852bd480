from django.apps import AppConfig


class SearchConfig(AppConfig):
    name = "openvibe.engines.search"
    label = "search"
    verbose_name = "Search"
