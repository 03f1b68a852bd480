"""Messages in templates."""

from typing import Any

from django import template
from django.utils.safestring import SafeString

from openvibe.chat.web.fragments import message_html
from openvibe.chat.web.rows import Row

register = template.Library()


@register.simple_tag(takes_context=True)
def message(context: dict[str, Any], row: Row) -> SafeString:
    """The message of a row, of the `thread` of the page."""
    thread, request = context["thread"], context["request"]
    return message_html(row, thread=thread, request=request, csrf_token=str(context["csrf_token"]))
