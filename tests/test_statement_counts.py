"""Every address that is read takes as many statements for many rows as for one; pages have a heading and a way back."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import URLPattern, URLResolver, get_resolver

from agents.models import Agent, WorkspaceExport
from agents.schedules.services import ScheduleDraft, create_schedule
from agents.watching.services import create_watch
from memory.services import record_failure
from memory.work.services import create_work_item
from openvibe.api.models import SCOPES
from openvibe.api.services import issue_token
from openvibe.chat.models import Draft, Message
from openvibe.chat.services import add_reaction, add_to_channel, open_direct_messages, save_message
from openvibe.engines.llm.models import Endpoint
from openvibe.webhooks.models import Webhook
from openvibe.webhooks.services import create_webhook, send_test
from openvibe.workspaces.models import Member
from openvibe.workspaces.services import create_invitation, create_snippet
from tests import factories
from tests.agents.factories import McpServerFactory, McpToolFactory, WatchLookFactory
from tests.api.access_matrix import Place, make_place, write_block, write_dive, write_knowledge, write_work
from tests.engines.llm.factories import EndpointFactory

pytestmark = pytest.mark.django_db
FEW, MANY = 1, 6
MAX_LOOKS = 4
MESSAGES = 40
UNCOUNTED = """
attachment-preview api-schema api-docs api-not-here join api-events events attachment api-attachment
thread-export api-thread-export knowledge-export api-knowledge-export
api-run-context run-context-tab result-full work-handoff api-snippet api-memory-summary thread-memory-summary
api-memory-stats api-block context-preview-tab api-schedule api-watch watch-look openai-not-here
api-run-permission permission-diff
unsubscribe connect-model-local picture thread-memory-prompt thread-memory-compaction settings-export settings-jobs
admin-tables help help-file client-wheel api-import api-import-account settings-import
"""
"""Pages whose statements are not counted: they show no rows, are streams and files, are for superusers, or show one row
that this world does not have."""
OF_AGENTS = (
    "/api/v1/memory",
    "/api/v1/blocks",
    "/api/v1/episodes",
    "/api/v1/proposals",
    "/api/v1/profile",
    "/api/v1/sessions",
)
"""Addresses of the API, for agents alone."""
QUERIES = {
    "search": "?q=roses",
    "api-search": "?q=roses",
    "api-knowledge-search": "?q=roses",
    "api-messages-search": "?q=roses",
    "api-profile": "?person={person}",
}


@dataclass
class World:
    """One workspace with so many of everything, and who looks at it."""

    ids: dict[str, object]
    browser: Client
    token: str
    agent_token: str


def make_world(name: str, count: int) -> World:
    owner = factories.make_member(name)
    places = []
    for number in range(count):
        agent: Agent = factories.make_agent(owner, f"fern{number}", level=4)
        agent.endpoint = EndpointFactory.create(workspace=owner.workspace, name=f"Model {number}", kind="offline")
        agent.save()
        WorkspaceExport.objects.create(
            workspace=owner.workspace, requested_by=owner.participant, state="failed", error="The disk is full."
        )
        channel = factories.make_channel(owner, f"room{number}")
        add_to_channel(channel=channel, participant=agent.participant, by=factories.access(owner))
        place = make_place(owner, channel, agent, f"Bed {number}")
        for write in (write_work, write_block, write_dive, write_knowledge):
            write(place, owner)
        record_failure(agent=agent.participant, thread=place.thread, summary="The model did not answer.")
        factories.make_member(f"{name} helper {number}", owner.workspace)
        by = factories.access(owner)
        create_webhook(by=by, participant=owner.participant, url="https://93.184.216.34/", kinds=["mention"])
        send_test(webhook=Webhook.objects.filter(workspace=owner.workspace).earliest("pk"), by=by)
        write_own_rows(owner, place)
        places.append(place)
        server = McpServerFactory.create(workspace=owner.workspace, name=f"shop{number}")
        for tool in range(count):
            McpToolFactory.create(server=server, name=f"buy{tool}").agents.add(agent)
    first = places[0]
    for number in range(count - 1):
        same = make_place(owner, first.channel, owner.workspace.participants.get(handle=first.agent).agent, f"{number}")
        write_knowledge(same, owner)
        create_work_item(thread=first.thread, by=factories.access(owner), kind="todo", text=f"Weed {number}")
        factories.say(first.thread, owner, f"@{first.agent} roses, {number}?")
    if count > 1:
        factories.say(first.thread, owner, "Roses")
        Message.objects.bulk_create(
            Message(thread=first.thread, author=owner.participant, body=f"Roses {n}", token_count=2)
            for n in range(MESSAGES)
        )
    browser = Client()
    browser.force_login(owner.user, backend="allauth.account.auth_backends.AuthenticationBackend")
    _, token = issue_token(participant=owner.participant, name="t", scopes=SCOPES)
    reader = owner.workspace.participants.get(handle=first.agent)
    _, agent_token = issue_token(participant=reader, name="a", scopes=SCOPES)
    return World(ids_in_addresses(owner, first), browser, token, agent_token)


def write_own_rows(owner: Member, place: Place) -> None:
    """What the owner keeps of the place for herself, and what she set up for others."""
    by, workspace, title = factories.access(owner), owner.workspace, place.thread.title
    add_reaction(message=place.message, by=by, emoji="🌱")
    save_message(message=place.message, by=by)
    Draft.objects.create(participant=owner.participant, thread=place.thread, body="Not yet sent")
    create_snippet(workspace=workspace, by=by, name=title.lower().replace(" ", "-"), text="Prune in spring.")
    create_invitation(workspace=workspace, by=by, role="member", channel_ids=[place.channel.pk])
    helper = factories.make_member(f"Friend {owner.pk} {title}", workspace)
    direct, _ = open_direct_messages(by=by, recipient=helper.participant)
    factories.say(direct, helper, "Roses?")
    agent = Agent.objects.get(participant__workspace=workspace, participant__handle=place.agent)
    draft = ScheduleDraft(title, "0 9 * * 1", "UTC", "What is due?", place.channel)
    create_schedule(agent=agent, by=by, draft=draft)
    watch = create_watch(agent=agent, by=by, channel=place.channel, is_active=False)
    WatchLookFactory.create(watch=watch, thread=place.thread)


def ids_in_addresses(owner: Member, place: Place) -> dict[str, object]:
    """What stands for each argument of an address."""
    webhooks, endpoints = (rows.filter(workspace=owner.workspace) for rows in (Webhook.objects, Endpoint.objects))
    return {
        **place.ids(),
        "handle": place.agent,
        "tab": "prompt",
        "label": "notes",
        "slug": owner.workspace.slug,
        "item": place.work,
        "webhook": webhooks.earliest("pk").pk,
        "endpoint": endpoints.earliest("pk").pk,
        "server": owner.workspace.mcp_servers.earliest("pk").pk,
    }


def named_paths(patterns: list[URLPattern | URLResolver], before: str = "/") -> Iterator[tuple[str, str]]:
    for pattern in patterns:
        path = before + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            if not path.startswith(("/admin", "/accounts")):
                yield from named_paths(pattern.url_patterns, path)
        elif pattern.name and "^" not in path and "(?" not in path:
            yield pattern.name, path


def address(name: str, path: str, world: World) -> str:
    parts = []
    for before, part in zip(("", *path.split("/")), path.split("/"), strict=False):
        argument = part.strip("<>").partition(":")[2].removesuffix("_id")
        owner = {"knowledge": "entry", "contradictions": "contradiction"}.get(before, before.removesuffix("s"))
        parts.append(str(world.ids.get(owner if argument == "pk" else argument, 0)) if part.startswith("<") else part)
    return "/".join(parts) + QUERIES.get(name, "").format(**world.ids)


def statements(world: World, name: str, path: str) -> int | None:
    """How many statements a look takes; None where nothing is read."""
    url = address(name, path, world)
    token = world.agent_token if path.startswith(OF_AGENTS) else world.token
    headers = {"Authorization": f"Bearer {token}"} if path.startswith("/api/") else {}
    with CaptureQueriesContext(connection) as queries:
        response = world.browser.get(url, headers=headers)
    assert response.status_code in (200, 302, 405), (name, url, response.content[:150])
    if b'<div class="shell' in response.content:
        assert re.search(rb'class="icon-button back"', response.content), f"a phone has no way back from {url}"
        assert response.content.count(b"<h1") == 1, f"{url} has not one heading"
        assert_named_once(response.content.decode(), url)
    return None if response.status_code == 405 else len(queries)


def assert_named_once(page: str, url: str) -> None:
    """What stands above the page on a phone does not say its heading, too."""
    bar = re.search(r'<header class="feed-head page-head-bar">(.*?)</header>', page, re.S)
    heading = words(page.partition("<h1")[2].partition(">")[2].partition("</h1>")[0])
    assert bar is None or heading not in words(bar[1]), f"{url} says “{heading}” twice on a phone"
    assert "visually-hidden" not in page.partition("<h1")[2].partition(">")[0] or bar is None, f"{url} hides its name"


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


def test_many_rows_take_as_many_statements_as_one() -> None:
    few, many = make_world("Ana", FEW), make_world("Cleo", MANY)
    more = {}
    for name, path in named_paths(get_resolver().url_patterns):
        if name in UNCOUNTED.split() or statements(few, name, path) is None:
            continue
        small, large = statements(few, name, path) or 0, statements(many, name, path) or 0
        looks = 1
        while large > small and looks < MAX_LOOKS:  # a look may fill a cache, or find that one has expired
            large, looks = statements(many, name, path) or 0, looks + 1
        if large > small:
            more[name] = (small, large)
    assert more == {}
