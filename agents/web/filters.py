"""Filters and tags of the templates that `{% load agents %}`."""

from collections.abc import Mapping

from django import template
from django.conf import settings

from agents.runs.error_text import ErrorText, read_error

register = template.Library()


@register.filter
def percent_of(part: int, whole: int) -> str:
    """The share in percent with one decimal; a dash when the whole is empty."""
    return f"{100 * part / whole:.1f}" if whole else "–"


@register.filter
def entry(table: Mapping[str, object], key: str) -> object:
    """The table's entry for the key, else the key itself."""
    return table.get(key, key)


@register.filter
def error_text(error: str) -> ErrorText:
    """An error as a sentence, and what is behind *Details*."""
    return read_error(error)


@register.filter
def duration(seconds: float | None) -> str:
    """0.42 → 0.4 s, 150 → 2.5 min, 7200 → 2.0 h, 200000 → 2.3 days; a dash for None."""
    if seconds is None:
        return "–"
    for limit, size, unit in ((90, 1, "s"), (5400, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds / 86_400:.1f} days"


@register.filter
def in_thousands(tokens: int) -> str:
    """3400 → 3.4k, 800 → 800."""
    return f"{tokens / 1000:.1f}".removesuffix(".0") + "k" if tokens >= 1000 else str(tokens)


@register.simple_tag
def prompt_retention_days() -> int:
    """Days for which texts of prompts and results of tools are kept."""
    return int(settings.PROMPT_RETENTION_DAYS)
