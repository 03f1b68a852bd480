"""Messages that a person saved: the page of them, saving and removing."""

from django.core.paginator import Paginator
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from openvibe.chat import services
from openvibe.chat.queries import access_message, saved_messages
from openvibe.engines.text.markdown import plain_text
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view

PAGE_SIZE = 50
MAX_EXCERPT_SOURCE = 2000
"""Characters of a message that its excerpt is made of."""


@workspace_view
@require_safe
def saved(request: WorkspaceRequest) -> HttpResponse:
    """Those the reader may still see, the last saved first."""
    messages = saved_messages(request.access).select_related("thread__channel", "author__agent")
    page = Paginator(messages, PAGE_SIZE).get_page(request.GET.get("page"))
    rows = [(message, plain_text(message.body[:MAX_EXCERPT_SOURCE])) for message in page]
    return render(request, "chat/saved.html", {"page": page, "rows": rows})


@workspace_view
@require_POST
def message_save(request: WorkspaceRequest, message_id: int) -> HttpResponse:
    """The page that saves the message, or with `unsave` takes it from the saved ones; then back to the page of saved
    ones `from` there."""
    message, is_saved = access_message(request.access, message_id), "unsave" not in request.POST
    change = services.save_message if is_saved else services.unsave_message
    change(message=message, by=request.access)
    if request.htmx:
        context = {"message": message, "slug": request.workspace.slug, "is_saved": is_saved}
        return render(request, "chat/_save_action.html", context)
    if request.POST.get("from") == "saved":
        return redirect("saved", request.workspace.slug)
    return redirect("message", request.workspace.slug, message.pk)
