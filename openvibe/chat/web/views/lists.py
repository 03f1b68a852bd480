"""What is new for the reader: inbox, mentions, and the sidebar that says so."""

from django.conf import settings
from django.core.paginator import Paginator
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.module_loading import import_string
from django.views.decorators.http import require_safe

from openvibe.chat.querysets import mentions_of, unread_threads
from openvibe.chat.web.numbers import number
from openvibe.chat.web.shell import shell_of
from openvibe.workspaces.web.doors import WorkspaceRequest, in_workspace

SHOWN = 50


@in_workspace
@require_safe
def inbox(request: WorkspaceRequest) -> HttpResponse:
    """Threads with something new, newest first, below what needs the reader for another reason."""
    shell_of(request).position  # noqa: B018  where live updates begin, asked before anything is read
    threads = Paginator(unread_threads(request.access), SHOWN).get_page(request.GET.get("page"))
    notes = [note for path in settings.INBOX_EXTRAS for note in import_string(path)(request.access)]
    return render(
        request, "chat/_inbox.html" if request.htmx else "chat/inbox.html", {"threads": threads, "notes": notes}
    )


@in_workspace
@require_safe
def next_unread(request: WorkspaceRequest) -> HttpResponse:
    """To the newest thread with something new, other than `?from=`; else to the inbox."""
    waiting = unread_threads(request.access).exclude(pk=number(request.GET, "from") or 0).first()
    to = redirect("thread", request.workspace.slug, waiting.pk) if waiting else None
    return to or redirect("inbox", request.workspace.slug)


@in_workspace
@require_safe
def mentions(request: WorkspaceRequest) -> HttpResponse:
    """Messages that name the reader, newest first."""
    found = Paginator(mentions_of(request.access), SHOWN).get_page(request.GET.get("page"))
    return render(request, "chat/mentions.html", {"found": found})


@in_workspace
@require_safe
def sidebar(request: WorkspaceRequest) -> HttpResponse:
    """The sidebar again, after something changed."""
    return render(request, "chat/_sidebar.html")
