"""Webhooks and deliveries in the admin, to look at: they are managed in the app, where the secret is shown once."""

from django.contrib import admin

from openvibe.base.admin import ReadOnlyAdmin
from openvibe.webhooks.models import Delivery, Webhook


@admin.register(Webhook)
class WebhookAdmin(ReadOnlyAdmin):
    list_display = ("address", "participant", "state", "reason", "failing_since", "created_at")
    list_filter = ("state",)
    list_select_related = ("participant",)
    search_fields = ("participant__handle",)  # who may not read an address may not find it letter by letter either
    ordering = ("-id",)
    fields = (
        *("workspace", "participant", "made_by", "address", "kinds", "state", "reason"),
        *("failing_since", "next_attempt_at", "rotated_at", "created_at", "updated_at"),
    )

    @admin.display
    def address(self, webhook: Webhook) -> str:
        return webhook.masked_url


@admin.register(Delivery)
class DeliveryAdmin(ReadOnlyAdmin):
    list_display = ("uid", "webhook", "kind", "state", "attempts", "status", "attempted_at")
    list_filter = ("state", "kind")
    list_select_related = ("webhook",)
    search_fields = ("=uid", "webhook__url")
    ordering = ("-id",)
    fields = (
        *("webhook", "uid", "kind", "position", "state", "attempts", "status", "error"),
        *("milliseconds", "attempted_at", "created_at"),
    )
