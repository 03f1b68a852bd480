"""Pieces of HTML made of plain values alone, and kept in the process by those values.

Lists repeat themselves: the same channel, person or thread stands in the next page, and in everybody's. A template that
is rendered here sees its values, the time zone and a form token, and neither request nor user: equal values are equal
HTML, whoever asks."""

import secrets
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from django.conf import settings
from django.template import Context, Engine, Library
from django.utils import timezone
from django.utils.safestring import SafeString, mark_safe

register = Library()
"""The tag of templates that `{% load fragments %}`."""

MAX_CACHED_CHARACTERS = 4_000_000  # of all in a process; forgotten all at once when there are more
_CSRF_PLACEHOLDER = secrets.token_hex(16)  # nobody can guess it, so no text can hold it

_html_cache: dict[tuple[object, ...], str] = {}
_cached_characters = 0  # about: threads that add at once may miss one


def render_fragment(template: str, *, csrf_token: object = "", **values: Hashable) -> SafeString:
    """The template's HTML. Values are plain: strings not marked safe, numbers, times, frozen dataclasses, tuples."""
    html = render_fragments(template, [values])
    return mark_safe(html.replace(_CSRF_PLACEHOLDER, str(csrf_token))) if csrf_token else html


def render_fragments(template: str, rows: Iterable[Mapping[str, Hashable]]) -> SafeString:
    """The HTML of a list: the template for the values of each row, one after the other."""
    timezone_name, html = timezone.get_current_timezone_name(), []
    for values in rows:
        key = (template, timezone_name, *values.items())
        html.append(_html_cache.get(key) or _render(key, template, values))
    return mark_safe("".join(html))


@register.simple_tag(takes_context=True)
def fragment(context: Mapping[str, Any], template: str, **values: Hashable) -> SafeString:
    """`{% fragment "chat/_composer.html" composer=composer %}`: the template includes one that reads these values
    alone."""
    return render_fragment(template, csrf_token=context.get("csrf_token", ""), **values)


def _render(key: tuple[object, ...], template: str, values: Mapping[str, Hashable]) -> str:
    context = Context({**values, "csrf_token": _CSRF_PLACEHOLDER})
    html = Engine.get_default().get_template(template).render(context).strip()
    if not settings.DEBUG:
        _keep(key, html)
    return html


def _keep(key: tuple[object, ...], html: str) -> None:
    global _cached_characters
    if _cached_characters + len(html) > MAX_CACHED_CHARACTERS:
        _html_cache.clear()
        _cached_characters = 0
    _html_cache[key] = html
    _cached_characters += len(html)
