"""How far texts lie in the days that a question names. Pure: no Django, no database.

People tell of a day from the evening before until a week or two after it, most of it at once."""

from __future__ import annotations

from datetime import datetime, time, timedelta, tzinfo
from typing import Final

import numpy as np
from numpy.typing import NDArray

from openvibe.engines.search.values import Floats
from openvibe.engines.text.dates import DateRange, find_dates

_DAY_SECONDS: Final = 86_400.0
_LEAD_DAYS: Final = 1
"""Days before, on which people speak of what is to come."""

_FULL_DAYS, _FADE_DAYS = 7.0, 7.0
"""Days after on which a text counts in full; and then, in which it fades."""


def date_weights(question: str, asked_at: datetime, seconds: NDArray[np.float64]) -> Floats | None:
    """A weight from 0 to 1 for each text (n): how much its time is one that the question names; None where it names
    none, or none of the texts, or all of them alike.

    `asked_at` is in the asker's time zone, in which days begin and end; `seconds` (n) since 1970.
    """
    ranges = find_dates(question, asked_at.date())
    if not ranges or not len(seconds):
        return None
    weights = np.max([_range_weights(days, asked_at.tzinfo, seconds) for days in ranges], axis=0)
    return weights.astype(np.float32) if np.ptp(weights) else None


def _range_weights(days: DateRange, zone: tzinfo | None, seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    try:
        first, end = (
            datetime.combine(day, time(), zone).timestamp()
            for day in (days.first - timedelta(days=_LEAD_DAYS), days.last + timedelta(days=1))
        )
    except (OverflowError, ValueError):  # the ends of the calendar
        return np.zeros(len(seconds))
    fading = (seconds - end) / _DAY_SECONDS - _FULL_DAYS
    return np.where(seconds >= first, np.clip(1 - fading / _FADE_DAYS, 0, 1), 0.0)
