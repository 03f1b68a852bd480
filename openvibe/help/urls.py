"""Addresses of the documentation."""

from django.urls import path

from openvibe.help.pages import FIRST_PAGE
from openvibe.help.views import help_file, help_page

urlpatterns = [
    path("", help_page, {"page": FIRST_PAGE}, name="help-index"),
    path("<path:page>/", help_page, name="help"),
    path("<path:file>", help_file, name="help-file"),
]
