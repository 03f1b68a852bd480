"""Input fields of knowledge."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.utils import timezone
from rest_framework import serializers

from knowledge.presets import expiry_of

UNTIL = (
    "Until when it holds: an ISO date-time with its offset (UTC where it has none), a date (the end of that day, UTC), "
    "`30d`, `90d`, `1y` or `never`."
)


class ExpiryField(serializers.CharField):
    """An instant in UTC; None for never. What cannot be read, or is past, is refused in words."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("help_text", UNTIL)
        super().__init__(allow_null=True, allow_blank=True, **options)

    def to_internal_value(self, data: Any) -> datetime | None:  # type: ignore[override]
        return expiry_of(super().to_internal_value(data), now=timezone.now())


class TagsField(serializers.ListField):
    """Tags as they are written; the service cleans them."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            child=serializers.CharField(max_length=1_000, allow_blank=True), max_length=100,
            help_text="At most 10, of at most 40 characters; kept in lower case.", **options,
        )  # fmt: skip
