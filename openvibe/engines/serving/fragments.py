"""Pieces of HTML made of plain values alone, and kept in the process by those values.

Lists repeat themselves: the same channel, person or thread stands in the next page, and in everybody's. A template that
is rendered here sees its values, the time zone and a form token, and neither request nor user: equal values are equal
HTML, whoever asks: values of one key are of one type."""

import secrets
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from decimal import Decimal
from itertools import count
from operator import attrgetter
from types import NoneType
from typing import Any

from django.conf import settings
from django.template import Context, Engine, Library
from django.utils import timezone
from django.utils.safestring import SafeString

register = Library()
"""The tag of templates that `{% load fragments %}`."""

MAX_CACHED_CHARACTERS = 8_000_000  # of all in a process; forgotten all at once when there are more
MAX_PIECE_CHARACTERS = 40_000  # what is longer is not kept
_CSRF_PLACEHOLDER = secrets.token_hex(16)  # nobody can guess it, so no text can hold it

_html_cache: dict[tuple[object, ...], str] = {}
_cached_characters = 0  # about: threads that add at once may miss one


def render_fragment(template: str, *, csrf_token: object = "", **values: Hashable) -> SafeString:
    """The template's HTML. Values are plain: strings not marked safe, numbers, times, frozen dataclasses, tuples."""
    return with_csrf_token(render_fragments(template, [values]), csrf_token)


def render_fragments(template: str, rows: Iterable[Mapping[str, Hashable]]) -> SafeString:
    """The HTML of a list: the template for the values of each row, one after the other."""
    timezone_name, html = timezone.get_current_timezone_name(), []
    for values in rows:
        key = (template, timezone_name, *values, typed_key(values.values()))
        html.append(render_cached(key, template, values))
    return SafeString("".join(html))


_DIRECT_TYPES = frozenset({str, SafeString, int, bool, NoneType, datetime})
"""Types whose equal values, both of one type, are one HTML. Numbers with a point are not: 1.0 is 1.00, and 0.0 is
-0.0."""

MAX_SIGNATURES = 10_000
_Part = tuple[int, Callable[[Any], object]]
_signatures: dict[tuple[type, ...], tuple[int, tuple[_Part, ...]]] = {}
"""The shape of values by their types, side by side: a number for the types, and for each part that holds others, or is
not told by its type, where it stands and what tells it. Found out once: a page has hundreds of parts."""
_numbers = count()


def typed_key(values: Iterable[object]) -> tuple[object, ...]:
    """The values with the type of each, inside tuples and dataclasses, too: `True` is 1 and 1.0 to a dictionary, and a
    text the same whether it is safe or not, but they are not the same HTML."""
    parts = tuple(values)
    return parts, _types_of(parts)


def _types_of(parts: tuple[Any, ...]) -> object:
    types = tuple(map(type, parts))
    number, nested = _signatures.get(types) or _add_signature(types)
    return (number, *[tell(parts[index]) for index, tell in nested]) if nested else number


def _add_signature(types: tuple[type, ...]) -> tuple[int, tuple[_Part, ...]]:
    if len(_signatures) >= MAX_SIGNATURES:
        _signatures.clear()
    nested = tuple((index, _teller(kind)) for index, kind in enumerate(types) if kind not in _DIRECT_TYPES)
    _signatures[types] = signature = next(_numbers), nested
    return signature


def _teller(kind: type) -> Callable[[Any], object]:
    """What tells equal values of this type apart that are not the same HTML."""
    if issubclass(kind, tuple):
        return _types_of
    if is_dataclass(kind):
        names = [field.name for field in fields(kind)]
        read_fields = attrgetter(*names)
        if len(names) == 1:
            return lambda value: _types_of((read_fields(value),))
        return lambda value: _types_of(read_fields(value))
    if issubclass(kind, frozenset):
        return lambda value: frozenset(typed_key([each]) for each in value)
    return repr if issubclass(kind, float | Decimal) else lambda value: None


def render_cached(key: tuple[object, ...], template: str, context: Mapping[str, object], *, keep: bool = True) -> str:
    """The template's HTML without a form token (`with_csrf_token`), kept under the key: all that the template reads,
    as `typed_key` has it where it may be of more than one type."""
    html = _html_cache.get(key)
    if html is None:
        html = Engine.get_default().get_template(template).render(Context({**context, "csrf_token": _CSRF_PLACEHOLDER}))
        html = html.strip()
        if keep and len(html) <= MAX_PIECE_CHARACTERS and not settings.DEBUG:
            _keep(key, html)
    return html


def cached_html(key: tuple[object, ...]) -> str | None:
    """What `render_cached` keeps under this key: for whoever would have to make its context first."""
    return _html_cache.get(key)


def with_csrf_token(html: str, csrf_token: object) -> SafeString:
    return SafeString(html.replace(_CSRF_PLACEHOLDER, str(csrf_token)) if _CSRF_PLACEHOLDER in html else html)


@register.simple_tag(takes_context=True)
def fragment(context: Mapping[str, Any], template: str, **values: Hashable) -> SafeString:
    """`{% fragment "chat/_composer.html" composer=composer %}`: the template includes one that reads these values
    alone."""
    return render_fragment(template, csrf_token=context.get("csrf_token", ""), **values)


def _keep(key: tuple[object, ...], html: str) -> None:
    global _cached_characters
    if _cached_characters + len(html) > MAX_CACHED_CHARACTERS:
        _html_cache.clear()
        _cached_characters = 0
    _html_cache[key] = html
    _cached_characters += len(html)
