"""Every page of the admin opens, at the same number of queries whatever the number of rows, and shows no secret."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib import admin
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from agents.models import Agent
from openvibe.base.models import Event
from openvibe.chat.models import Thread
from openvibe.engines.llm.models import Endpoint
from openvibe.workspaces.models import Member
from tests import factories
from tests.admin.conftest import KEY, as_superuser, furnish, furnished_orchard, superuser

pytestmark = pytest.mark.django_db
OURS = sorted(
    (model for model in admin.site._registry if model._meta.app_label != "auth"), key=lambda model: model._meta.label
)
NAMES = [model._meta.label_lower for model in OURS]


def address(label: str, page: str, *args: object) -> str:
    return reverse(f"admin:{label.replace('.', '_')}_{page}", args=args)


def newest(label: str) -> Any:
    model = next(model for model in OURS if model._meta.label_lower == label)
    return model._default_manager.order_by("-pk").first()


@pytest.fixture(scope="module")
def ana(module_transaction: None) -> Member:
    return factories.make_member("Ana")


@pytest.fixture(scope="module")
def thread(ana: Member) -> Thread:
    return factories.make_thread(factories.make_channel(ana), ana)


@pytest.fixture(scope="module")
def vibe(ana: Member, thread: Thread) -> Agent:
    return factories.make_agent(ana, "vibe", channel=thread.channel)


@pytest.fixture(scope="module")
def gardens(ana: Member, vibe: Agent, thread: Thread) -> dict[str, Member]:
    """Both, made once for all tests here; Cleo's was furnished last."""
    furnish(ana, vibe, thread)
    return {"ana": ana, "cleo": furnished_orchard(factories.make_member("Cleo"))}


@pytest.fixture
def garden(gardens: dict[str, Member]) -> Member:
    return gardens["ana"]


@pytest.fixture
def other_garden(gardens: dict[str, Member]) -> Member:
    return gardens["cleo"]


@pytest.fixture(scope="module")
def queries(gardens: dict[str, Member], vibe: Agent, thread: Thread) -> dict[str, list[list[str]]]:
    """What each list asked the database, with one row of everything and with four."""
    asked: dict[str, list[list[str]]] = {label: [] for label in NAMES}
    with transaction.atomic():
        root = superuser(gardens["ana"])
        for label in NAMES:  # what is asked once a process
            root.get(address(label, "changelist"))
        for numbers in ((), range(1, 4)):
            for number in numbers:
                furnish(gardens["ana"], vibe, thread, number)
            for label in NAMES:
                with CaptureQueriesContext(connection) as queries:
                    root.get(address(label, "changelist"))
                asked[label].append([query["sql"] for query in queries.captured_queries])
        transaction.set_rollback(True)
    return asked


@pytest.mark.parametrize("label", NAMES)
def test_lists_and_pages_open(label: str, root: Client, garden: Member) -> None:
    listed = root.get(address(label, "changelist"))
    assert listed.status_code == 200
    row = newest(label)
    if row is not None:
        page = root.get(address(label, "change", row.pk))
        assert page.status_code == 200
        assert KEY not in page.content.decode()
    added = root.get(address(label, "add"))
    assert added.status_code in (200, 403)
    assert KEY not in listed.content.decode() + added.content.decode()


@pytest.mark.parametrize("label", NAMES)
def test_lists_take_the_same_queries_for_more_rows(label: str, queries: dict[str, list[list[str]]]) -> None:
    few, many = queries[label]
    assert len(few) > 0
    assert len(many) == len(few), many


def test_the_overview_opens_with_numbers(root: Client, garden: Member) -> None:
    page = root.get(reverse("admin:index")).content.decode()
    for words in (
        "Failed runs, 24 h",
        "Open thumbs down",
        "Tokens used today",
        "Same beginning",
        "Runs waiting",
        "Knowledge expiring",
        "Knowledge to review",
    ):
        assert words in page


def test_sign_in_is_through_the_front_door(client: Client, ben: Member) -> None:
    response = client.get("/admin/", follow=True)
    assert response.redirect_chain[-1][0].startswith("/accounts/login/?next=")
    client.force_login(ben.user)
    assert client.get("/admin/agents/agent/").status_code == 302


@pytest.mark.parametrize("label", NAMES)
@pytest.mark.parametrize("is_staff", [False, True], ids=["owner", "staff"])
def test_who_is_no_superuser_opens_nothing(is_staff: bool, label: str, garden: Member, vibe: Agent) -> None:
    garden.user.is_staff, garden.user.is_superuser = is_staff, False
    garden.user.save()
    client, row = factories.signed_in(garden), newest(label)
    paths = [address(label, "changelist"), address(label, "add"), *([address(label, "change", row.pk)] if row else [])]
    for path in paths:
        for answer in (client.get(path), client.post(path, {"name": "Mine", "confirmed": "yes"})):
            assert answer.status_code == 302
            assert answer.headers["Location"].startswith("/admin/login/?next=")


def test_an_owner_is_sent_home_and_told_where_it_is(ana: Member, ben: Member) -> None:
    words = "What you run is under “Workspace settings”"
    client = factories.signed_in(ana)
    home = client.get("/admin/", follow=True).content.decode()
    assert words in home
    assert "Administration</a>" not in home
    assert f'href="/w/{ana.workspace.slug}/settings/"' in home
    assert words not in factories.signed_in(ben).get("/admin/", follow=True).content.decode()
    assert "Administration</a>" in superuser(ana).get(f"/w/{ana.workspace.slug}/").content.decode()


def test_no_key_in_any_page_of_an_endpoint(garden: Member) -> None:
    endpoint = Endpoint.objects.get(workspace=garden.workspace)
    client = as_superuser(garden)
    page = client.get(address("llm.endpoint", "change", endpoint.pk)).content.decode()
    assert "…6789" in page
    assert KEY not in page


FEW = {"django_celery_beat.intervalschedule", "django_celery_beat.crontabschedule"}
ABOUT_ONE_WORKSPACE = {"memory.memoryplugin", "search.vectorspace"}
"""Pages of their own, which list nothing that grows."""


@pytest.mark.parametrize("label", sorted(set(NAMES) - FEW - ABOUT_ONE_WORKSPACE))
def test_every_list_that_may_grow_is_searched(label: str, gardens: dict[str, Member]) -> None:
    page = next(page for model, page in admin.site._registry.items() if model._meta.label_lower == label)
    client = superuser(gardens["ana"])
    assert page.search_fields
    for words in ("7", "roses 100% x"):
        assert client.get(address(label, "changelist"), {"q": words}).status_code == 200


def test_dates_of_lists_are_read_the_same_everywhere(gardens: dict[str, Member]) -> None:
    Event.objects.update(created_at=datetime(2026, 3, 4, 14, 5, tzinfo=UTC))
    page = superuser(gardens["ana"]).get(address("base.event", "changelist")).content.decode()
    assert "4 Mar 2026, 14:05" in page
    assert "p.m." not in page
