"""How templates show names."""

import regex
from django.template import Library

register = Library()
"""Filters of templates that `{% load names %}`."""

MAX_INITIAL_CHARACTERS = 16
"""The longest first sign of a name in code points: a family of emoji has eleven."""


@register.filter
def initial(name: str) -> str:
    """The first sign of a name as people see it, a letter as a capital: a flag or a family of emoji is one."""
    first = regex.match(r"\X", name)
    sign = first[0] if first else ""
    return (sign if len(sign) <= MAX_INITIAL_CHARACTERS else sign[0]).upper()
