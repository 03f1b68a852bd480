"""Messages in templates."""

from typing import Any

from django import template
from django.utils.safestring import SafeString

from openvibe.chat.web.presenters import MessageRow, render_message

register = template.Library()


@register.simple_tag(takes_context=True)
def message(context: dict[str, Any], row: MessageRow) -> SafeString:
    """The message of a row, of the `thread` of the page."""
    thread, request = context["thread"], context["request"]
    return render_message(row, thread=thread, request=request, csrf_token=str(context["csrf_token"]))
