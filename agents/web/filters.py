"""Filters of the templates that `{% load agents %}`."""

from collections.abc import Mapping

from django import template

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
def in_thousands(tokens: int) -> str:
    """3400 → 3.4k, 800 → 800."""
    return f"{tokens / 1000:.1f}".removesuffix(".0") + "k" if tokens >= 1000 else str(tokens)
