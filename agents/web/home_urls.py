"""Addresses of pages that find the workspace themselves."""

from django.urls import path

from agents.web.settings.connect_model import connect_model_home

urlpatterns = [path("", connect_model_home, name="connect-model-home")]
