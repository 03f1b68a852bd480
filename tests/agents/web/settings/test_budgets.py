"""The budgets page: what was spent against the caps, and the caps, for who runs the workspace."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from openvibe.base.models import AuditRecord
from openvibe.workspaces.models import Member, Spending
from tests import factories

pytestmark = pytest.mark.django_db


def test_spend_and_caps(client: Client, ana: Member) -> None:
    vibe = factories.make_agent(ana, "vibe")
    theirs = factories.make_agent(factories.make_member("Cleo"), "fern")
    now = timezone.now()
    for tokens, agent, days in (
        (20_177, vibe.participant, 0),
        (1_000, None, 0),
        (500, vibe.participant, 20),
        (9, None, 40),
    ):
        call = Spending.objects.create(workspace=ana.workspace, agent=agent, model="m", input_tokens=tokens)
        Spending.objects.filter(pk=call.pk).update(created_at=now - timedelta(days=days))
    client.force_login(ana.user)
    address = reverse("budgets", args=[ana.workspace.slug])
    page = client.get(address)
    assert [(row.today, row.days) for row in page.context["rows"]] == [(21_177, 21_677), (20_177, 20_677)]
    assert "20,177" in page.content.decode()

    field = f"agent-{vibe.pk}"
    response = client.post(address, {"workspace": "-1", field: "9" * 30})
    assert len(response.context["form"].errors) == 2
    assert client.post(address, {"workspace": 30_000, field: 0, f"agent-{theirs.pk}": 5}).status_code == 302
    for row, cap in ((ana.workspace, 30_000), (vibe, 0)):
        row.refresh_from_db()
        assert row.daily_token_budget == cap
    theirs.refresh_from_db()
    assert theirs.daily_token_budget != 5
    newest = AuditRecord.objects.filter(action="budget")[:2]
    assert [(row.subject, row.after) for row in newest] == [
        ("@vibe", "0 tokens a day"),
        (ana.workspace.name, "30,000 tokens a day"),
    ]
    assert client.post(address, {"workspace": 30_000, field: 0}).status_code == 302
    assert AuditRecord.objects.filter(action="budget").count() == 2


def test_many_agents_cost_what_one_costs_and_members_see_none(client: Client, ana: Member) -> None:
    address = reverse("budgets", args=[ana.workspace.slug])
    client.force_login(ana.user)

    def cost() -> int:
        with CaptureQueriesContext(connection) as queries:
            assert client.get(address).status_code == 200
        return len(queries)

    factories.make_agent(ana, "vibe")
    cost()
    one = cost()
    for number in range(3):
        factories.make_agent(ana, f"fern{number}")
    assert cost() == one
    client.force_login(factories.make_member("Ben", ana.workspace).user)
    assert client.get(address).status_code == 403
