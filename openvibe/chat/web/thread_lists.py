"""Pages of threads: inbox and channel."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.http import HttpRequest
from django.utils import timezone
from django.utils.safestring import SafeString

from openvibe.base.params import int_param
from openvibe.chat.queries import ThreadItem, ThreadList
from openvibe.engines.serving.fragments import render_fragments
from openvibe.workspaces.decorators import WorkspaceRequest

PAGE_SIZE = 50
MAX_PAGE = 2**20
T = TypeVar("T")


@dataclass(frozen=True)
class OpenEndedPage(Generic[T]):
    """A page of a list whose length nobody counted, for `chat/_pages.html`. `number` is 1 or more."""

    items: Sequence[T]
    number: int
    has_next: bool

    @property
    def has_previous(self) -> bool:
        return self.number > 1

    @property
    def has_other_pages(self) -> bool:
        return self.has_previous or self.has_next

    @property
    def previous_page_number(self) -> int:
        return self.number - 1

    @property
    def next_page_number(self) -> int:
        return self.number + 1

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


def page_number(request: HttpRequest) -> int:
    """What `?page=` says, 1 for what is no page."""
    return min(max(int_param(request.GET, "page") or 1, 1), MAX_PAGE)


def thread_list_context(
    request: WorkspaceRequest, list_threads: Callable[..., ThreadList], *, show_channel: bool = False
) -> dict[str, Any]:
    """`threads`, the page that `?page=` names (the first for a number that is none), `items`, its HTML, `imports`, and
    `query`, the rest of the address, for links to other pages.

    One statement, two for a page beyond the last. `list_threads` takes an offset and a limit.
    """
    number = page_number(request)
    thread_list = list_threads(offset=(number - 1) * PAGE_SIZE, limit=PAGE_SIZE)
    if not thread_list.items and number > 1:
        number, thread_list = 1, list_threads(offset=0, limit=PAGE_SIZE)
    page = OpenEndedPage(thread_list.items, number, thread_list.has_more)
    others = request.GET.copy()
    others.pop("page", None)
    items = thread_rows(thread_list.items, slug=request.workspace.slug, show_channel=show_channel)
    return {"threads": page, "items": items, "imports": thread_list.imports, "query": others.urlencode()}


def thread_rows(items: Sequence[ThreadItem], *, slug: str, show_channel: bool = False) -> SafeString:
    """The HTML of these threads, each a row of a list; times are those of the current time zone."""
    today, shared = timezone.localdate(), {"slug": slug, "show_channel": show_channel}
    rows = ({**shared, "thread": item, "is_today": timezone.localdate(item.at) == today} for item in items)
    return render_fragments("chat/_thread_item.html", rows)
