"""The audit log: each verb that changes who may do what writes one row, in its transaction, and none ever goes."""

import csv
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db import ProgrammingError, connection, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agents.agent.services import (
    create_agent,
    deactivate_agent,
    reactivate_agent,
    restore_soul,
    save_soul,
    set_trust_level,
    update_agent,
)
from agents.models import Agent, McpServer, McpTool
from agents.tools.mcp_servers.tools import allow_tools
from knowledge.exchange.entry_export import export_entries
from memory.plugins.services import configure_plugin, disable_plugin, enable_plugin
from openvibe.api.services import issue_token, revoke_token
from openvibe.base.models import AuditRecord
from openvibe.chat.services import add_to_channel, remove_from_channel
from openvibe.webhooks.services import create_webhook, delete_webhook, rotate_secret, update_webhook
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member
from openvibe.workspaces.services import (
    accept_invitation,
    create_invitation,
    create_snippet,
    create_workspace,
    delete_snippet,
    remove_member,
    revoke_invitation,
    update_member_role,
    update_snippet,
    update_workspace,
)
from tests import factories
from tests.admin.conftest import as_superuser
from tests.agents.agent.soul.sample_souls import FERN

pytestmark = pytest.mark.django_db
Writes = list[tuple[str, Callable[[], object]]]


def of_agents(ana: Member, by: Access) -> Writes:
    agent: Agent = factories.make_agent(ana, "vibe")
    server = McpServer.objects.create(workspace=ana.workspace, name="tools", url="https://tools.example/mcp")
    tool = McpTool.objects.create(server=server, name="weigh", effect="reads", fetched_at=timezone.now())
    assert agent.soul is not None
    first = agent.soul
    settings: dict[str, Any] = {"endpoint": None, "answers_itself": agent.answers_itself, "channels": ()}
    return [
        ("trust", lambda: set_trust_level(agent=agent, by=by, level=3, note="It did well.")),
        ("soul", lambda: save_soul(agent=agent, by=by, text=FERN, note="Warmer.", based_on=1)),
        ("soul", lambda: restore_soul(version=first, by=by, based_on=2)),
        ("budget", lambda: update_agent(agent=agent, by=by, daily_token_budget=7, is_active=True, **settings)),
        ("tools", lambda: allow_tools(agent=agent, tools=[tool], by=by)),
        ("agent", lambda: deactivate_agent(agent=agent, by=by)),
        ("agent", lambda: reactivate_agent(agent=agent, by=by)),
        ("agent soul", lambda: create_agent(by=by, workspace=ana.workspace, handle="fern", name="Fern", soul=FERN)),
    ]


def of_people(ana: Member, by: Access) -> Writes:
    ben, cleo = factories.make_member("Ben", ana.workspace), factories.make_member("Cleo")
    channel = factories.make_channel(ana, "garden")
    open_link, secret = create_invitation(workspace=ana.workspace, by=by, role="member", uses=2)
    return [
        ("member", lambda: create_workspace(name="Orchard", owner=ana.user)),
        ("role", lambda: update_member_role(member=ben, role="admin", by=by)),
        ("channel", lambda: add_to_channel(channel=channel, participant=ben.participant, by=by)),
        ("channel", lambda: remove_from_channel(channel=channel, participant=ben.participant, by=by)),
        ("member", lambda: remove_member(member=ben, by=by)),
        ("invitation", lambda: create_invitation(workspace=ana.workspace, by=by, role="guest")),
        ("member", lambda: accept_invitation(token=secret, user=cleo.user)),
        ("invitation", lambda: revoke_invitation(invitation=open_link, by=by)),
    ]


def of_settings(ana: Member, by: Access) -> Writes:
    home = ana.workspace
    snippet = create_snippet(workspace=home, by=by, name="tone", text="Be brief.")
    words, tail = {"description": home.description, "instructions": home.instructions}, {"fresh_tail_tokens": 4_000}
    return [
        ("settings", lambda: update_workspace(workspace=home, by=by, name="Willows", **words)),
        ("settings", lambda: create_snippet(workspace=home, by=by, name="style", text="Be kind.")),
        ("settings", lambda: update_snippet(snippet=snippet, by=by, text="Be short.", version=1)),
        ("settings", lambda: delete_snippet(snippet=snippet, by=by)),
        ("plugin", lambda: enable_plugin(workspace=home, name="memory/simple", by=by)),
        ("plugin", lambda: disable_plugin(workspace=home, name="memory/simple", by=by)),
        ("plugin", lambda: configure_plugin(workspace=home, name="memory/lcm", config=tail, by=by)),
        ("export", lambda: export_entries(by)),
    ]


def of_programs(ana: Member, by: Access) -> Writes:
    token, _ = issue_token(participant=ana.participant, name="Script", scopes=["read"])
    hook, _ = create_webhook(by=by, participant=ana.participant, url="https://93.184.216.34/x", kinds=["mention"])
    return [
        ("token", lambda: issue_token(participant=ana.participant, name="New", scopes=["read"], by=by)),
        ("token", lambda: revoke_token(token=token, by=by)),
        (
            "webhook",
            lambda: create_webhook(
                by=by, participant=ana.participant, url="https://93.184.216.34/path-key", kinds=["mention"]
            ),
        ),
        ("webhook", lambda: update_webhook(webhook=hook, by=by, paused=True)),
        ("webhook", lambda: rotate_secret(webhook=hook, by=by)),
        ("webhook", lambda: delete_webhook(webhook=hook, by=by)),
    ]


@pytest.mark.parametrize("verbs", [of_agents, of_people, of_settings, of_programs])
def test_each_verb_writes_its_row(ana: Member, verbs: Callable[[Member, Access], Writes]) -> None:
    for actions, write in verbs(ana, factories.access(ana)):
        newest = AuditRecord.objects.first()
        write()
        rows = AuditRecord.objects.filter(pk__gt=newest.pk if newest else 0).order_by("id")
        assert [row.action for row in rows] == actions.split(), write
        for row in rows:
            assert row.after
            assert row.actor in ("Ana (@ana)", "Cleo (@cleo)")
            assert "path-key" not in row.subject + row.after


def test_rows_come_with_the_change_and_never_go(ana: Member) -> None:
    agent, by = factories.make_agent(ana, "vibe"), factories.access(ana)
    before = AuditRecord.objects.count()
    with transaction.atomic():
        set_trust_level(agent=agent, by=by, level=4, note="Taken back.")
        transaction.set_rollback(True)
    assert AuditRecord.objects.count() == before
    agent.refresh_from_db()
    set_trust_level(agent=agent, by=by, level=4, note="It did well.")
    row = AuditRecord.objects.first()
    assert row is not None
    assert (row.subject, row.before, row.after) == ("@vibe", "L2 Advisor", "L4 Autonomous")
    for sql in ("DELETE FROM base_auditrecord", "UPDATE base_auditrecord SET actor = 'nobody'"):
        with pytest.raises(ProgrammingError, match="Cannot update or delete"), transaction.atomic():
            connection.cursor().execute(sql)


def test_edits_in_the_admin_are_in_it_without_secrets(ana: Member) -> None:
    client = as_superuser(ana)
    form = {"workspace": ana.workspace_id, "name": "Local", "kind": "openai", "model": "m", "context_window": 32_000}
    form |= {"output_reserve": 2_000, "timeout_seconds": 60, "price_in": 0, "price_out": 0}
    form |= {"base_url": "https://93.184.216.34/v1", "api_key": "sk-very-secret"}
    assert client.post(reverse("admin:llm_endpoint_add"), form).status_code == 302
    made = AuditRecord.objects.first()
    assert made is not None
    assert (made.action, made.after, made.workspace_id) == ("endpoint", "made", ana.workspace_id)
    assert made.actor == f"Ana ({ana.user.email}), in the admin"
    address = reverse("admin:workspaces_workspace_change", args=[ana.workspace_id])
    settings = {"name": ana.workspace.name, "budgets": "{}", "daily_token_budget": 5}
    assert client.post(address, settings).status_code == 302
    budget = AuditRecord.objects.first()
    assert budget is not None
    assert (budget.action, budget.before, budget.after) == ("budget", "2,000,000", "5")
    assert not AuditRecord.objects.filter(after__contains="sk-").exists()


def test_the_page_filters_and_exports_for_who_administers(client: Client, ana: Member) -> None:
    agent, by = factories.make_agent(ana, "vibe"), factories.access(ana)
    set_trust_level(agent=agent, by=by, level=3, note="=1+1")
    create_snippet(workspace=ana.workspace, by=by, name="tone", text="Be brief.")
    cleo = factories.make_member("Cleo")
    set_trust_level(agent=factories.make_agent(cleo, "other"), by=factories.access(cleo), level=3, note="Hers")
    client.force_login(ana.user)
    address = reverse("audit", args=[ana.workspace.slug])
    page = client.get(address).content.decode()
    assert "L3 Operator" in page
    assert "tone" in page
    assert "Hers" not in page
    assert "tone" not in client.get(address, {"what": "trust", "who": "ana"}).content.decode()
    assert "Nothing fits" in client.get(address, {"until": "2001-01-01"}).content.decode()
    assert client.get(address, {"since": "yesterday"}).status_code == 400
    lines = client.get(address, {"what": "trust", "format": "csv"}).getvalue().decode()
    assert [row["note"] for row in csv.DictReader(io.StringIO(lines))] == ["'=1+1"]
    lines = client.get(address, {"what": "export", "format": "jsonl"}).getvalue().decode()
    assert [json.loads(line)["subject"] for line in lines.splitlines()] == ["the audit log", "the audit log"]
    ben = factories.make_member("Ben", ana.workspace)
    client.force_login(ben.user)
    assert client.get(address).status_code == 403
