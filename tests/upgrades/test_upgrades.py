"""Data of every version there was, brought up to this one: every page and every read of the API opens on it."""

import gzip
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pytest
from django.apps import apps
from django.db import connection
from django.db.models import Model, Q
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from pytest_django import DjangoDbBlocker
from pytest_django.fixtures import Settings

from agents.archive.tables import workspace_tables
from agents.models import Agent, Run, Schedule, Watch, WatchLook, WorkspaceExport
from knowledge.models import Contradiction, Entry
from memory.models import Approval, Compaction, Episode, Handoff, Proposal, WorkItem
from memory.plugins.lcm.models import Summary
from openvibe.api.models import SCOPES, Token
from openvibe.api.services import issue_token
from openvibe.chat.models import Attachment, Channel, Dive, Image, Message, Thread
from openvibe.engines.llm.models import Endpoint
from openvibe.runner.bootstrap import prepare_database
from openvibe.settings import AUTHENTICATION_BACKENDS
from openvibe.webhooks.models import Delivery, Webhook
from openvibe.workspaces.models import Invitation, Member, Participant, Snippet, User, Workspace
from tests.databases import connected_to, create_database, drop_database, schema
from tests.upgrades.write_state import SECRET_KEY, STATES

pytestmark = pytest.mark.django_db(transaction=True)
STATE_FILES = {
    "version_before": STATES.parent / "version_before.sql.gz",
    **{file.name.removesuffix(".sql.gz"): file for file in sorted(STATES.glob("*.sql.gz"))},
}
ARGUMENT = re.compile(r"<(?:\w+:)?(\w+)>")
MAX_ROWS = 6
"""The most rows of a kind, in the addresses of one workspace."""

NAMES: dict[str, type[Model]] = {
    **{"approval": Approval, "attachment": Attachment, "channel": Channel, "compaction": Compaction, "dive": Dive},
    **{"contradiction": Contradiction, "delivery": Delivery, "endpoint": Endpoint, "entry": Entry, "episode": Episode},
    **{
        "export": WorkspaceExport,
        "handoff": Handoff,
        "image": Image,
        "invitation": Invitation,
        "item": WorkItem,
        "member": Member,
    },
    **{"message": Message, "participant": Participant, "proposal": Proposal, "run": Run, "schedule": Schedule},
    **{"snippet": Snippet, "summary": Summary, "thread": Thread, "token": Token, "webhook": Webhook},
    **{"watch": Watch, "watche": Watch, "look": WatchLook},
    **{"session": Thread, "summarie": Summary, "knowledge": Entry, "work": WorkItem, "number": Delivery},
}
"""What an argument of an address is the number of, by its name or by the part before it."""
WORDS = {
    "tab": ["raw", "items", "tools", "prompt"],
    "label": ["notes"],
    "verb": ["archive", "accept"],
    "token": ["unknown"],
    "picture_version": ["1"],
    "model": ["vibe"],
    "app_label": ["agents"],
    "url": ["nothing"],
}
QUERIES = ("q=roses", "thread={thread}", "person={person}", "agent={agent}&days=30")
OF_AGENTS = tuple(
    f"/api/v1/{name}/" for name in ("memory", "blocks", "episodes", "proposals", "profile", "sessions", "agents")
)
"""Parts of the API that are for agents alone."""
ENDLESS = ("/events/", "/logout/")


@pytest.fixture(scope="module", params=STATE_FILES)
def upgraded(
    request: pytest.FixtureRequest, django_db_setup: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[tuple[str, str]]:
    """The name of the state, and of its database, which has every migration."""
    name = f"upgraded_{os.getpid()}"
    with django_db_blocker.unblock():
        create_database(name, dump=gzip.decompress(STATE_FILES[request.param].read_bytes()).decode())
        try:
            with connected_to(name):
                prepare_database()
            yield request.param, name
        finally:
            drop_database(name)


@pytest.fixture
def state(upgraded: tuple[str, str], django_db_blocker: DjangoDbBlocker, settings: Settings) -> Iterator[str]:
    """The name of the state. Meanwhile Django's connection is to it, and its secrets can be read."""
    settings.SECRET_KEY = SECRET_KEY
    with django_db_blocker.unblock(), connected_to(upgraded[1]):
        yield upgraded[0]


@pytest.fixture(scope="module")
def new_schema(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> str:
    """The schema of the test database, which this version made."""
    with django_db_blocker.unblock():
        return schema(connection.settings_dict["NAME"])


def newest_state() -> str:
    return max(name for name in STATE_FILES if name != "version_before")


def routes(patterns: list[URLPattern | URLResolver], before: str = "/") -> Iterator[str]:
    """Every address with its arguments, such as `/w/<slug>/t/<thread_id>/`."""
    for pattern in patterns:
        path = before + re.sub(r"\(\?P<(\w+)>[^()]*\)", r"<\1>", str(pattern.pattern)).strip("^$").replace("/?", "/")
        if isinstance(pattern, URLResolver):
            yield from routes(pattern.url_patterns, path)
        elif not path.endswith(ENDLESS):
            yield ARGUMENT.sub(r"<\1>", path).replace("//", "/")


def numbers(workspace: Workspace, limit: int = MAX_ROWS) -> dict[str, list[object]]:
    """Values of the arguments of addresses: the rows of the workspace, the newest of each kind."""
    tables = {table.model: table for table in workspace_tables()}
    values: dict[str, list[object]] = {
        name: list(tables[model].rows(workspace.pk).order_by("-pk").values_list("pk", flat=True)[:limit])
        for name, model in NAMES.items()
    }
    if limit > 1:
        values["message"] = message_ids(workspace)
    people = workspace.participants.all()
    values["handle"] = list(people.filter(kind="agent").values_list("handle", flat=True))
    values["person"] = list(people.filter(kind="member").values_list("handle", flat=True))
    words: dict[str, list[object]] = {name: list(several[:limit]) for name, several in WORDS.items()}
    return {**values, "slug": [workspace.slug], **words}


def message_ids(workspace: Workspace) -> list[object]:
    """One of each kind of message, the newest, and those that something hangs on."""
    messages = Message.objects.filter(thread__workspace=workspace).order_by("-pk")
    kinds = {
        (kind, state, gone is None): pk
        for pk, kind, state, gone in messages.values_list("pk", "kind", "state", "deleted_at")
    }
    others = messages.filter(Q(quotes__isnull=False) | Q(revisions__isnull=False) | Q(attachments__isnull=False))
    return [*kinds.values(), *others.values_list("pk", flat=True)[:MAX_ROWS]]


def addresses(route: str, values: Mapping[str, list[object]], *, with_queries: bool) -> set[str]:
    """The route with each value of each argument; the others are the newest meanwhile. Lists are asked for more where
    there are `with_queries`."""
    found = list(ARGUMENT.finditer(route))
    choices = {}
    for argument in found:
        before = route[: argument.start()].rstrip("/").rpartition("/")[2].removesuffix("s")
        choices[argument[0]] = values.get(argument[1].removesuffix("_id")) or values.get(before, [1]) or [1]
    paths = set()
    for name, several in choices.items():
        rest = {other: those[0] for other, those in choices.items() if other != name}
        paths |= {fill_in(route, {**rest, name: value}) for value in several}
    if not choices or set(choices) == {"<slug>"}:
        path = fill_in(route, {"<slug>": values["slug"][0]})
        first = {name: (several or [1])[0] for name, several in values.items()}
        queries = (query.format(**first, agent=(values["handle"] or ["none"])[0]) for query in QUERIES)
        paths |= {path, *(f"{path}?{query}" for query in queries if with_queries)}
    return paths


def fill_in(route: str, values: Mapping[str, object]) -> str:
    for argument, value in values.items():
        route = route.replace(argument, str(value))
    return route


@dataclass
class Reading:
    """What came of the addresses that were opened: `failures`, by who asked for what; `opened`, the routes that gave
    somebody a page or an answer; `unread`, those that nobody reads: they take what is posted."""

    failures: dict[str, str] = field(default_factory=dict)
    opened: set[str] = field(default_factory=set)
    unread: set[str] = field(default_factory=set)

    def open(self, who: str, client: Client, route: str, path: str, token: str = "") -> None:
        if route in self.unread:
            return
        response = client.get(path, headers={"Authorization": f"Bearer {token}"} if token else {})
        if response.status_code >= 500:
            raised = getattr(response, "exc_info", None)
            self.failures[f"{who} {path}"] = repr(raised[1] if raised else response.content[:200])
        if response.streaming:
            response.getvalue()
        if response.status_code == 405:
            self.unread.add(route)
        if response.status_code < 400:
            self.opened.add(route)


def browser(user: User | None = None) -> Client:
    client = Client(raise_request_exception=False)
    if user is not None:
        client.force_login(user, backend=AUTHENTICATION_BACKENDS[0])
    return client


def token_of(participant: Participant) -> str:
    return issue_token(participant=participant, name="reader", scopes=SCOPES)[1]


def read_workspace(reading: Reading, workspace: Workspace, every_route: Collection[str]) -> None:
    """Every page and every read of the API, as its owner, as another member, and what is for agents as one of them."""
    values, newest = numbers(workspace), numbers(workspace, limit=1)
    agent = Agent.objects.filter(workspace=workspace).order_by("pk").first()
    pages = [route for route in every_route if route.startswith("/w/")]
    endpoints = [route for route in every_route if route.startswith(("/api/", "/v1/"))]
    members = Member.objects.filter(workspace=workspace).select_related("user", "participant").order_by("pk")
    for role in ("owner", "member"):
        if member := members.filter(role=role).first():
            client, token = browser(member.user), token_of(member.participant)
            is_owner = role == "owner"
            ids = values if is_owner else newest
            for route, path in addresses_of(pages, ids, with_queries=is_owner):
                reading.open(role, client, route, path)
            for route, path in addresses_of(endpoints, ids, with_queries=is_owner):
                reading.open(role, browser(), route, path, token)
    if agent:
        token = token_of(agent.participant)
        for route, path in addresses_of(endpoints, values):
            if route.startswith(OF_AGENTS):
                reading.open("agent", browser(), route, path, token)


def addresses_of(
    some_routes: Iterable[str], values: Mapping[str, list[object]], *, with_queries: bool = True
) -> Iterator[tuple[str, str]]:
    return (
        (route, path) for route in some_routes for path in sorted(addresses(route, values, with_queries=with_queries))
    )


def read_installation(reading: Reading, user: User, every_route: Collection[str]) -> None:
    """Reads as a superuser: the admin with a row of each table, the account's own pages, and what belongs to no
    workspace."""
    client = browser(user)
    for route in every_route:
        if route.startswith(("/w/", "/api/", "/v1/")):
            continue
        table = re.match(r"/admin/(\w+)/(\w+)/<object_id>/", route)
        ids: list[object] = [1]
        if table:
            model = apps.get_model(table[1], table[2])
            ids = list(model._base_manager.order_by("-pk").values_list("pk", flat=True)[:2])
        for path in {ARGUMENT.sub(str(pk), route) for pk in ids}:
            reading.open("superuser", client, route, path)


UNOPENED = """
/api/v1/watches/<pk>/
/api/v1/ /v1/ /api/v1/memory/summaries/<pk>/ /api/v1/sessions/<pk>/ /api/v1/sessions/<pk>/messages/
/api/v1/threads/<pk>/search/ /api/v1/tokens/<pk>/ /join/<token>/ /unsubscribe/<token>/
/pictures/<participant_id>/<picture_version>.webp /w/<slug>/agents/<handle>/feedback/<episode_id>/always/
/w/<slug>/agents/<handle>/feedback/<episode_id>/
/w/<slug>/settings/exports/<export_id>/ /w/<slug>/t/<thread_id>/memory/compactions/<compaction_id>/
/w/<slug>/tokens/<token_id>/revoke/ /w/<slug>/images/<image_id>/ /w/<slug>/images/<image_id>/description/
/w/<slug>/settings/imports/<import_id>/ /api/v1/imports/<pk>/ /api/v1/imports/<pk>/account/
/w/<slug>/images/<image_id>/small/ /w/<slug>/files/<attachment_id>/preview/
/api/v1/images/<pk>/ /api/v1/images/<pk>/content/ /api/v1/runs/<pk>/permissions/<key>/
/api/v1/agents/<handle>/rules/<pk>/ /w/<slug>/agents/<handle>/rules/<rule_id>/delete/
/w/<slug>/approvals/<approval_id>/diff/ /w/<slug>/looks/<look_id>/
"""
"""Need a secret, a file, two arguments that belong together, or an image that its reader may see; what they say of no
such row is read all the same."""

EMPTY_TABLES = {
    "auth_group": "OpenVibe has no groups of accounts",
    "auth_group_permissions": "OpenVibe has no groups of accounts",
    "workspaces_user_groups": "OpenVibe has no groups of accounts",
    "workspaces_user_user_permissions": "only superusers see the admin",
    "socialaccount_socialapp": "providers stand in the settings",
    "socialaccount_socialtoken": "no token of a provider is kept",
}
"""Tables that nobody writes to, and why."""
TABLE_OF_DUMP = re.compile(r"^COPY public\.(\w+) .*?;\n(.*?)^\\\.$", re.MULTILINE | re.DOTALL)


def test_the_newest_state_has_every_kind_of_row() -> None:
    dump = gzip.decompress(STATE_FILES[newest_state()].read_bytes()).decode()
    tables = dict(TABLE_OF_DUMP.findall(dump))
    assert len(tables) > len(apps.get_models()) / 2
    assert {name for name, rows in tables.items() if not rows} == set(EMPTY_TABLES)


def test_tables_are_those_of_a_new_installation(upgraded: tuple[str, str], new_schema: str) -> None:
    assert schema(upgraded[1]) == new_schema


def test_every_page_opens(state: str) -> None:
    every_route = sorted(set(routes(get_resolver().url_patterns)))
    reading = Reading()
    for workspace in Workspace.objects.order_by("pk"):
        read_workspace(reading, workspace, every_route)
    superuser = User.objects.filter(is_superuser=True).first()
    read_installation(reading, superuser or User.objects.create_superuser("super@example.org"), every_route)
    assert reading.failures == {}
    if state == newest_state():
        places = ("/w/", "/api/", "/v1/", "/join/", "/pictures/", "/unsubscribe/")
        unopened = {route for route in every_route if route.startswith(places)} - reading.opened - reading.unread
        assert unopened <= set(UNOPENED.split()), "no row of the newest state opens them"
