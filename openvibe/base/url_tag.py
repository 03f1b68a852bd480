"""`{% url %}`, in every template in place of Django's: an address is looked up once for its name and arguments.

A page has a dozen of them, a message that is rendered as many again; each lookup takes longer than a condition."""

from functools import lru_cache
from typing import Any

from django.conf import settings
from django.template import Library
from django.template.base import Parser, Token
from django.template.context import Context
from django.template.defaulttags import URLNode, url
from django.urls import NoReverseMatch, get_script_prefix, get_urlconf, reverse
from django.utils.html import conditional_escape

register = Library()


@lru_cache(maxsize=4_096, typed=True)
def _reverse(prefix: str, urlconf: str, current_app: str | None, name: str, /, *args: Any, **kwargs: Any) -> str:
    """`prefix` is that of the thread: `reverse` asks for it."""
    return reverse(name, urlconf, args, kwargs, current_app)


class CachedURLNode(URLNode):
    """Django's node, but for the lookup."""

    def render(self, context: Context) -> str:
        request: Any = getattr(context, "request", None)  # of a `RequestContext`
        current_app = getattr(request, "current_app", None) or getattr(
            getattr(request, "resolver_match", None), "namespace", None
        )
        args = [arg.resolve(context) for arg in self.args]
        kwargs = {name: value.resolve(context) for name, value in self.kwargs.items()}
        place = (get_script_prefix(), get_urlconf() or settings.ROOT_URLCONF, current_app)
        try:
            address = _reverse(*place, self.view_name.resolve(context), *args, **kwargs)
        except NoReverseMatch:
            if self.asvar is None:
                raise
            address = ""
        if self.asvar:
            context[self.asvar] = address
            return ""
        return str(conditional_escape(address)) if context.autoescape else address


@register.tag("url")
def cached_url(parser: Parser, token: Token) -> CachedURLNode:
    node: Any = url(parser, token)
    return CachedURLNode(node.view_name, node.args, node.kwargs, node.asvar)
