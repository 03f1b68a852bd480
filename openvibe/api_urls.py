"""The agents' API, `/api/v1/`. Upper floors are named as strings only."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
