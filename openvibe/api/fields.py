"""Input fields that several doors take."""

import re
from datetime import datetime
from typing import Any, NoReturn

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from openvibe.base.params import MAX_ID

_PLAIN_DIGITS = re.compile(r"-?[0-9]+")


class WholeNumberField(serializers.IntegerField):
    """A whole number; as text, in an address too, in plain digits: `1_0`, which Python takes for 10, is none."""

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, str) and not _PLAIN_DIGITS.fullmatch(data):
            self.fail("invalid")
        return int(super().to_internal_value(data))


class IdField(WholeNumberField):
    """The id of a row."""

    def __init__(self, **options: Any) -> None:
        super().__init__(min_value=1, max_value=MAX_ID, **options)


class SeqField(WholeNumberField):
    """A `seq` of a thread; 0 is before the first message."""

    def __init__(self, **options: Any) -> None:
        super().__init__(min_value=0, max_value=MAX_ID, **options)


class ChoiceField(serializers.ChoiceField):
    """One of a few values. What is refused is told which they are."""

    default_error_messages = {"invalid_choice": '"{input}" is not one of: {choices}.'}

    def fail(self, key: str, **values: Any) -> NoReturn:
        super().fail(key, choices=", ".join(map(str, self.choices)), **values)


class TextField(serializers.CharField):
    """Text that its service checks: length, characters, emptiness. Kept as it came."""

    def __init__(self, **options: Any) -> None:
        super().__init__(trim_whitespace=False, allow_blank=True, **options)


class IsoField(serializers.DateTimeField):
    """A time that is ISO 8601 text already, as every answer gives it."""

    def to_representation(self, value: Any) -> str:
        return str(utc_text(datetime.fromisoformat(value)))


@extend_schema_field({"type": "string", "pattern": r"^([01]\d|2[0-3]):[0-5]\d$", "example": "22:00"})
class ClockTimeField(serializers.TimeField):
    """Hours and minutes of a day, as in 22:00; JSON Schema's `time` wants seconds and an offset."""

    def __init__(self, **options: Any) -> None:
        super().__init__(format="%H:%M", input_formats=["%H:%M"], **options)


def utc_text(moment: datetime | None) -> str | None:
    """A time in UTC as every answer gives it: ISO 8601 with `Z`."""
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")
