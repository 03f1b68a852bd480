"""Addresses under /v1/, with and without a slash at the end: clients write none."""

from django.urls import re_path

from agents.openai_api import views

urlpatterns = [
    re_path(r"^models/?$", views.Models.as_view(), name="openai-models"),
    re_path(r"^models/(?P<model>@?[A-Za-z0-9_-]+)/?$", views.OneModel.as_view(), name="openai-model"),
    re_path(r"^chat/completions/?$", views.ChatCompletions.as_view(), name="openai-chat"),
    re_path(r"^responses/?$", views.Responses.as_view(), name="openai-responses"),
    re_path(r"", views.NothingHere.as_view(), name="openai-not-here"),
]
