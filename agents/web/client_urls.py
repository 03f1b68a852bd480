"""Addresses of the client's wheel."""

from django.urls import path

from agents.web import client_wheel

urlpatterns = [
    path("client.whl", client_wheel.newest_client, name="client-newest"),
    path("client/<str:filename>", client_wheel.client_wheel, name="client-wheel"),
]
