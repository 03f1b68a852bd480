"""Pieces of HTML made of plain values alone, and kept in the process by those values.

Lists repeat themselves: the same channel, person or thread stands in the next page, and in everybody's. A template that
is rendered here sees its values, the time zone and a form token, and neither request nor user: equal values are equal
HTML, whoever asks."""

import secrets
from collections.abc import Hashable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.template import Context, Engine, Library
from django.utils import timezone
from django.utils.safestring import SafeString, mark_safe

register = Library()
"""The tag of templates that `{% load fragments %}`."""

MAX_FRAGMENTS = 8_192  # in each process; most are under 1 kB
_CSRF_PLACEHOLDER = secrets.token_hex(16)  # nobody can guess it, so no text can hold it


def render_fragment(template: str, *, csrf_token: object = "", **values: Hashable) -> SafeString:
    """The template's HTML. Values are plain: strings not marked safe, numbers, times, frozen dataclasses, tuples."""
    html = render_fragments(template, [values])
    return mark_safe(html.replace(_CSRF_PLACEHOLDER, str(csrf_token))) if csrf_token else html


def render_fragments(template: str, rows: Iterable[Mapping[str, Hashable]]) -> SafeString:
    """The HTML of a list: the template for the values of each row, one after the other."""
    render = _render.__wrapped__ if settings.DEBUG else _render
    timezone_name = timezone.get_current_timezone_name()
    return mark_safe("".join([render(template, timezone_name, tuple(values.items())) for values in rows]))


@register.simple_tag(takes_context=True)
def fragment(context: Mapping[str, Any], template: str, **values: Hashable) -> SafeString:
    """`{% fragment "chat/_composer.html" text=draft %}`: the template includes one that reads these values alone."""
    return render_fragment(template, csrf_token=context.get("csrf_token", ""), **values)


@lru_cache(MAX_FRAGMENTS)
def _render(template: str, timezone_name: str, values: tuple[tuple[str, Any], ...]) -> str:
    context = Context({**dict(values), "csrf_token": _CSRF_PLACEHOLDER})
    return Engine.get_default().get_template(template).render(context).strip()
