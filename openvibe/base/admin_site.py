"""The admin as a whole: who may enter, its lists in the order of what people come to do, and what every page shows."""

from collections.abc import Callable
from typing import Any, NamedTuple

from django.apps import apps
from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseRedirect
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode

from openvibe.engines.registers import Register
from openvibe.engines.serving.service_states import read_service_states

HELP: dict[str, str] = {
    "agents.agent": "admins/#agents",
    "agents.mcpserver": "mcp/#other-programs-tools-for-your-agents",
    "agents.run": "agents/#look-at-a-run",
    "agents.snapshot": "context/",
    "agents.trustchange": "admins/#trust",
    "api.token": "api/#get-a-token",
    "base.jobrun": "operations-monitor/#recurring-jobs",
    "django_celery_beat.periodictask": "operations-monitor/#recurring-jobs",
    "knowledge.entry": "knowledge/#knowledge",
    "knowledge.contradiction": "knowledge/#review",
    "llm.endpoint": "admins/#models-and-budgets",
    "memory.memoryplugin": "memory/#plugins",
    "search.vectorspace": "knowledge-engine/#the-embedder",
    "webhooks.webhook": "webhooks/",
    "workspaces.invitation": "admins/#invite-people",
    "workspaces.member": "admins/#people",
}
"""The page and heading below /help/ that speak of a list, by its model; of others `admins/` does."""


class ListPage(NamedTuple):
    """One list of the admin: its title, its icon (Material Symbols), its model and what it holds in one line."""

    title: str
    icon: str
    model: str
    about: str

    @property
    def url_name(self) -> str:
        return self.model.replace(".", "_")

    @property
    def help_at(self) -> str:
        return HELP.get(self.model, "admins/")


LIST_GROUPS: dict[str, tuple[ListPage, ...]] = {
    "Agents": (
        ListPage("Agents", "smart_toy", "agents.agent", "Who answers: SOUL, trust level, channels, tools and budget."),
        ListPage("SOUL versions", "history_edu", "agents.soulversion", "Every SOUL an agent ever had. None changes."),
        ListPage("Changes of trust", "verified_user", "agents.trustchange", "Who set which trust level, and why."),
    ),
    "Memory": (
        ListPage("Memory plugins", "extension", "memory.memoryplugin", "What recalls long conversations, and how."),
        ListPage("Compactions", "compress", "memory.compaction", "What was summarised when, and how it went."),
        ListPage("Threads in memory", "forum", "lcm.conversation", "How long threads are, and which cannot shrink."),
        ListPage("Feedback", "thumbs_up_down", "memory.feedback", "What people said of agents' answers."),
        ListPage("Episodes", "psychology", "memory.episode", "What agents remember of their past."),
    ),
    "Knowledge": (
        ListPage("Entries", "menu_book", "knowledge.entry", "What a workspace holds to be true."),
        ListPage("Revisions", "history", "knowledge.revision", "Every change of an entry."),
        ListPage("Contradictions", "compare_arrows", "knowledge.contradiction", "Entries that seem to disagree."),
    ),
    "People and places": (
        ListPage("Workspaces", "domain", "workspaces.workspace", "Name, instructions and token budgets of a team."),
        ListPage("Members", "group", "workspaces.member", "Who belongs to a workspace, and their role."),
        ListPage("Invitations", "mail", "workspaces.invitation", "Links that let somebody join."),
        ListPage("People and agents", "badge", "workspaces.participant", "Everybody who has a name in a workspace."),
        ListPage("Channels", "tag", "chat.channel", "Places for threads, and who was added to them."),
        ListPage("Snippets", "integration_instructions", "workspaces.snippet", "Texts that instructions include."),
        ListPage("Tokens", "key", "api.token", "With which programs use the API. Secrets are shown once."),
        ListPage("Accounts", "person", "workspaces.user", "Who may sign in on this server."),
    ),
    "Endpoints": (
        ListPage("Model endpoints", "hub", "llm.endpoint", "Where models answer, their keys, limits and prices."),
        ListPage("MCP servers", "handyman", "agents.mcpserver", "Programs that offer tools to agents."),
        ListPage("Webhooks", "webhook", "webhooks.webhook", "Addresses that are told what happens."),
        ListPage("Search embedder", "manage_search", "search.vectorspace", "What makes texts findable by meaning."),
    ),
    "What happened": (
        ListPage("Audit log", "gavel", "base.auditrecord", "Who changed what, before and after. Nothing is deleted."),
        ListPage("Runs", "play_circle", "agents.run", "Every answer of an agent: its state, tokens and errors."),
        ListPage("Prompts", "visibility", "agents.snapshot", "How large each prompt was. No texts."),
        ListPage("Background calls", "schedule", "workspaces.spending", "Models asked while nobody waited."),
        ListPage("Dives", "scuba_diving", "chat.dive", "Side threads, and how they ended. No texts."),
        ListPage("Webhook deliveries", "send", "webhooks.delivery", "What was sent to webhooks, and the answers."),
        ListPage("Edits in the admin", "receipt_long", "admin.logentry", "What was saved on pages of the admin."),
    ),
    "Server": (
        ListPage("Jobs", "event_repeat", "django_celery_beat.periodictask", "What the server does by itself."),
        ListPage("Results of jobs", "fact_check", "base.jobrun", "How each run of a job went, the newest first."),
        ListPage("Events", "bolt", "base.event", "What open pages and webhooks are told."),
        ListPage("Idempotency keys", "repeat", "api.idempotencykey", "Calls of the API that are made once only."),
    ),
}
"""What the sidebar and the first page list, in the order of what people come to do."""

LIST_PAGES = {page.url_name: page for pages in LIST_GROUPS.values() for page in pages}


NOT_FOR_OWNERS = (
    "Only superusers use the administration. What you run is under “Workspace settings”, in the menu at the top left."
)
"""Said to who owns or administers a workspace and is sent away."""


def may_use_admin(request: HttpRequest) -> bool:
    """Whether the asker runs the installation: superusers do."""
    user: Any = request.user
    return bool(user.is_active and user.is_superuser)


def list_groups() -> dict[str, list[dict[str, Any]]]:
    """The lists by their group's title, as the theme's sidebar wants them."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for title, pages in LIST_GROUPS.items():
        for page in pages:
            if admin.site.is_registered(apps.get_model(page.model)):
                link = reverse(f"admin:{page.url_name}_changelist")
                item = {"title": page.title, "icon": page.icon, "link": link, "about": page.about}
                groups.setdefault(title, []).append(item)
    about = "How much room each table takes, and how long what grows by itself is kept."
    tables = {"title": "Tables", "icon": "database", "link": reverse("admin-tables"), "about": about}
    groups.setdefault("Server", []).append(tables)
    return groups


def sidebar(request: HttpRequest) -> list[dict[str, Any]]:
    """The sidebar as the theme wants it."""
    overview = [
        {"title": "Overview", "icon": "home", "link": reverse("admin:index")},
        {"title": "Back to the conversations", "icon": "arrow_back", "link": "/", "active": False},
    ]
    lists = [{"title": title, "items": items} for title, items in list_groups().items()]
    return [{"title": "", "items": overview}, *lists]


def page_context(context: dict[str, Any], request: HttpRequest) -> dict[str, Any]:
    """The context of every page: the theme of the reader's profile and, on a model's pages, its list with the line on
    it."""
    match, user = request.resolver_match, request.user
    name = match.url_name if match else ""
    page = next((page for prefix, page in LIST_PAGES.items() if (name or "").startswith(f"{prefix}_")), None)
    theme = getattr(user, "theme", "system")
    # static/css/admin.css has the colours: no style stands in the page
    context |= {"theme": "" if theme == "system" else theme, "colors": None, "list_page": page}
    request.list_page = page  # type: ignore[attr-defined]  # the page's title is rendered without the context
    return context


DASHBOARD: Register[Callable[[HttpRequest, dict[str, Any]], dict[str, Any]]] = Register(
    "openvibe.base.admin_site.DASHBOARD"
)
"""Adds to the context of the index page what it shows."""


def dashboard(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """The first page: what to repair, and what upper floors show."""
    problems = [state.problem for state in read_service_states() if state.problem]
    return DASHBOARD.only()(request, context | {"list_groups": list_groups(), "service_problems": problems})


def redirect_to_login(request: HttpRequest, extra_context: object = None) -> HttpResponse:
    """The admin has no sign-in of its own. Somebody signed in without the right to enter is sent home, and who runs a
    workspace is told where its pages are."""
    user: Any = request.user
    if user.is_authenticated:
        if user.memberships.filter(role__in=("owner", "admin"), removed_at=None).exists():
            messages.info(request, NOT_FOR_OWNERS)
        return redirect("/")
    target = request.GET.get("next") or reverse("admin:index")
    return HttpResponseRedirect(f"{reverse('account_login')}?{urlencode({'next': target})}")


admin.site.login = redirect_to_login  # type: ignore[method-assign]  # there is one door
admin.site.has_permission = may_use_admin  # type: ignore[method-assign]  # no flag for staff
admin.site.extra_context = page_context  # type: ignore[attr-defined]  # a hook of the theme's site
admin.site.index_title = "Overview"
