"""What an agent sees of the workspace, as far as the asker sees it too."""

from django.core.paginator import Paginator
from django.http import HttpResponse
from django.shortcuts import render

from agents.agent.access import visible_to
from agents.web.access import access_agent
from openvibe.chat.models import Message, Thread
from openvibe.chat.queries import access_thread
from openvibe.engines.text.markdown import render_markdown
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view

THREADS_ON_A_PAGE = 200


@workspace_view
def view_as(request: WorkspaceRequest, handle: str) -> HttpResponse:
    """The channels and threads this agent sees, as far as the asker sees them too."""
    agent = access_agent(request, handle)
    agent_threads = Thread.objects.visible_to(visible_to(agent)).exclude_dives().filter(channel__archived_at=None)
    shared_threads = agent_threads.filter(pk__in=Thread.objects.visible_to(request.access))
    ordered = shared_threads.select_related("channel").order_by(
        "channel__name", "channel_id", "-last_message_at", "-pk"
    )
    threads = Paginator(ordered, THREADS_ON_A_PAGE).get_page(request.GET.get("page"))
    page = {"agent": agent, "threads": threads, "hidden": agent_threads.count() - threads.paginator.count}
    return render(request, "agents/view_as.html", page)


@workspace_view
def view_thread_as(request: WorkspaceRequest, handle: str, thread_id: int) -> HttpResponse:
    """The newest messages of a thread exactly as the agent's level shows them."""
    agent = access_agent(request, handle)
    thread = access_thread(request.access, thread_id)
    rows = Message.objects.visible_to(visible_to(agent)).filter(thread=thread)
    newest = list(rows.select_related("author").order_by("-seq")[:50])[::-1]
    page = {
        "agent": agent,
        "thread": thread,
        "entries": [(message, render_markdown(message.body)) for message in newest],
        "is_visible": Thread.objects.visible_to(visible_to(agent)).filter(pk=thread.pk).exists(),
    }
    return render(request, "agents/view_thread_as.html", page)
