"""The documentation, for everybody who reaches this server, signed in or not: it holds nothing of any workspace."""

from mimetypes import guess_type

from django.http import FileResponse, Http404, HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_safe

from openvibe.help.pages import contents, file_paths, page_address, page_paths, read_page

FILE_SECONDS = 3600  # for which a browser keeps a picture


@require_safe
def help_page(request: HttpRequest, page: str) -> HttpResponseBase:
    """A page of the documentation, by its name: `members`."""
    if (shown := read_page(page)) is None:
        raise Http404
    sections = [
        (section.title, [(page_address(name), title, name == page) for name, title in section.pages])
        for section in contents()
    ]
    return render(request, "help/page.html", {"page": shown, "sections": sections})


@require_safe
def help_file(request: HttpRequest, file: str) -> HttpResponseBase:
    """A picture or a program that a page links to; programs are shown as text. A page without its slash leads on."""
    if (name := file.removesuffix(".md")) in page_paths():
        return HttpResponseRedirect(page_address(name))
    if (path := file_paths().get(file)) is None:
        raise Http404
    kind = guess_type(path.name)[0] or ""
    response = FileResponse(
        path.open("rb"), content_type=kind if kind.startswith("image/") else "text/plain; charset=utf-8"
    )
    response.headers["Cache-Control"] = f"max-age={FILE_SECONDS}"
    return response
