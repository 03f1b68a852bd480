"""Addresses of webhooks, under /w/<slug>/."""

from django.urls import path

from openvibe.webhooks.web import views

urlpatterns = [
    path("webhooks/", views.webhooks, name="webhooks"),
    path("webhooks/<int:webhook_id>/", views.webhook, name="webhook"),
    path("webhooks/<int:webhook_id>/deliveries/<int:delivery_id>/send/", views.resend, name="delivery-send"),
]
