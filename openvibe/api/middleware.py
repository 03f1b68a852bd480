"""An address of the API without its last slash is the same address."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse


class SlashMiddleware:
    """Adds the slash that is missing, before anything is looked up: a redirect would lose the body of a POST."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path_info.startswith("/api/") and not request.path_info.endswith("/"):
            request.path_info += "/"
            request.path += "/"
        return self.get_response(request)
