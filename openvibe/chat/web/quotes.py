"""The pages of *Where does it still stand?*: the places where a message's words are, before and after it is deleted;
and previews of links, asked for once by a page for all that it shows."""

from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from openvibe.base.problems import Missing, Problem
from openvibe.chat import services
from openvibe.chat.queries import MessageQuotes, QuoteView, access_quotes, read_link_previews
from openvibe.engines.serving.fragments import render_fragment
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def message_quotes(request: WorkspaceRequest, message_id: int) -> HttpResponse:
    """The list; POST takes one of it (`kind`, `ref`) and deletes it there too, or (`keep`) leaves it as it is."""
    quotes = access_quotes(request.access, message_id)
    if request.method != "POST":
        return _render_quotes(request, quotes)
    view = _access_quote(quotes, request.POST.get("kind", ""), request.POST.get("ref", ""))
    try:
        if "keep" not in request.POST:
            services.erase_quote(quote=view.quote, by=request.access)
        elif view.may_keep:
            services.keep_quote(quote=view.quote)
    except Missing:
        raise
    except Problem as problem:
        return _render_quotes(request, access_quotes(request.access, message_id), problem)
    slug = request.workspace.slug
    is_any_left = not quotes.has_own_only or _is_any_left(request, message_id)
    return redirect("message-quotes", slug, message_id) if is_any_left else redirect("inbox", slug)


def _render_quotes(request: WorkspaceRequest, quotes: MessageQuotes, problem: Problem | None = None) -> HttpResponse:
    page = {"found": quotes, "message": quotes.message, "thread": quotes.message.thread, "problem": problem}
    return render(request, "chat/quotes.html", page, status=problem.status if problem else 200)


def _access_quote(quotes: MessageQuotes, kind: str, ref: str) -> QuoteView:
    view = next((view for view in quotes.quotes if (view.quote.kind, str(view.quote.ref)) == (kind, ref)), None)
    if view is None:
        raise Missing
    return view


def _is_any_left(request: WorkspaceRequest, message_id: int) -> bool:
    """Whether there is still something for the reader to see."""
    try:
        access_quotes(request.access, message_id)
    except Missing:
        return False
    return True


@workspace_view
@require_safe
def link_previews(request: WorkspaceRequest) -> HttpResponse:
    """JSON: the HTML for each `?ref=` that the reader may see; the others are missing, as what does not exist."""
    previews = read_link_previews(request.access, request.GET.getlist("ref"))
    html = {text: render_fragment("chat/_link_preview.html", link=link) for text, link in previews.items()}
    return JsonResponse({"previews": html})
