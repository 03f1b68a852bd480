"""Pages of threads: inbox and channel."""

from collections.abc import Callable
from typing import Any

from django.core.paginator import Paginator
from django.utils import timezone

from openvibe.base.fragments import render_fragments
from openvibe.base.params import int_param
from openvibe.chat.queries import ThreadList
from openvibe.workspaces.decorators import WorkspaceRequest

PAGE_SIZE = 50
MAX_OFFSET = 2**31


def thread_list_context(
    request: WorkspaceRequest, list_threads: Callable[..., ThreadList], *, show_channel: bool = False
) -> dict[str, Any]:
    """`threads`, the page that `?page=` names (the first or the last for a number that is none), `items`, its HTML,
    `imports`, and `query`, the rest of the address, for links to other pages.

    One statement, three for a page beyond the last. `list_threads` takes an offset and a limit.
    """
    number = max(int_param(request.GET, "page") or 1, 1)
    thread_list = list_threads(offset=min((number - 1) * PAGE_SIZE, MAX_OFFSET), limit=PAGE_SIZE)
    page: Any = Paginator(range(thread_list.total), PAGE_SIZE).get_page(number)
    if page.number != number:
        thread_list = list_threads(offset=(page.number - 1) * PAGE_SIZE, limit=PAGE_SIZE)
    page.object_list = thread_list.items
    today = timezone.localdate()
    shared = {"slug": request.workspace.slug, "show_channel": show_channel}
    rows = ({**shared, "thread": item, "is_today": timezone.localdate(item.at) == today} for item in thread_list.items)
    others = request.GET.copy()
    others.pop("page", None)
    items = render_fragments("chat/_thread_item.html", rows)
    return {"threads": page, "items": items, "imports": thread_list.imports, "query": others.urlencode()}
