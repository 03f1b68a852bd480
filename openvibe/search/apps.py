from django.apps import AppConfig


class SearchConfig(AppConfig):
    name = "openvibe.search"
    label = "search"
    verbose_name = "Search"
