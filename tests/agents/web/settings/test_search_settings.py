"""Owners and admins choose in the settings what makes texts findable by meaning; it says before what happens."""

import pytest
from django.test import Client

from openvibe.base.models import AuditRecord
from openvibe.engines.llm.models import Endpoint
from openvibe.engines.search.models import VectorSpace
from openvibe.engines.search.space_lifecycle import advance_spaces
from openvibe.workspaces.models import Member
from tests import factories
from tests.agents.web.settings.test_settings_pages import address
from tests.engines.llm.factories import EndpointFactory
from tests.engines.search.fakes import FakeEmbedder, Trouble
from tests.factories import signed_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def browser(ana: Member) -> Client:
    return signed_in(ana)


@pytest.fixture
def endpoint(ana: Member) -> Endpoint:
    return EndpointFactory.create(
        workspace=ana.workspace, name="Embeddings", base_url="https://models.example/v1", model="small"
    )


def ask(browser: Client, member: Member, **fields: str) -> str:
    response = browser.post(address(member, "search"), fields, follow=True)
    assert response.status_code == 200
    return " ".join(response.content.decode().split())


def kinds(member: Member) -> list[str]:
    rows = VectorSpace.objects.filter(workspace=member.workspace).exclude(state="retired")
    return list(rows.order_by("-state").values_list("kind", flat=True))


def test_it_says_what_is_in_use_and_what_another_would_mean(ana: Member, browser: Client, endpoint: Endpoint) -> None:
    factories.say(factories.make_thread(factories.make_channel(ana), ana), ana, "Hello")
    page = " ".join(browser.get(address(ana, "search")).content.decode().split())
    assert "0 texts can be found by meaning, 1 waits (0 % done)." in page
    assert "with secrets masked, is sent to https://models.example/v1" in page
    assert "Use Embeddings: small" in page
    assert "Use Built in" not in page


def test_one_click_switches_and_is_written_down(
    ana: Member, browser: Client, endpoint: Endpoint, fake_embedder: FakeEmbedder
) -> None:
    fake_embedder.dimension = 256
    said = ask(browser, ana, use=f"openai-{endpoint.pk}")
    assert "The old vectors serve until all are made." in said
    assert "Stay with Built in" in said
    assert kinds(ana) == ["static", "openai"]
    advance_spaces()
    assert "by words alone" in ask(browser, ana, use="none")
    assert kinds(ana) == ["none"]
    records = AuditRecord.objects.filter(subject="search embedder").order_by("pk")
    assert [record.actor for record in records] == ["Ana (@ana)"] * 2


def test_an_embedder_is_tried_without_being_chosen(
    ana: Member, browser: Client, endpoint: Endpoint, fake_embedder: FakeEmbedder
) -> None:
    assert "64 numbers a text" in ask(browser, ana, test=f"openai-{endpoint.pk}")
    fake_embedder.trouble = Trouble("It is on fire.")
    assert "It is on fire." in ask(browser, ana, test=f"openai-{endpoint.pk}")
    assert kinds(ana) == ["static"]
    assert not AuditRecord.objects.exists()


@pytest.mark.parametrize("key", ["magic", "", "openai", "openai-0", "openai-x", "static-5-", "\x00"])
def test_what_is_not_on_the_page_changes_nothing(ana: Member, browser: Client, key: str) -> None:
    ask(browser, ana, use=key)
    ask(browser, ana, test=key)
    assert kinds(ana) == ["static"]


def test_others_do_not_choose(ana: Member, dora: Member, cleo: Member, endpoint: Endpoint) -> None:
    assert signed_in(dora).post(address(ana, "search"), {"use": "none"}).status_code == 403
    assert signed_in(cleo).post(address(ana, "search"), {"use": "none"}).status_code == 404
    assert "Choose a model endpoint of this workspace." in ask(signed_in(cleo), cleo, use=f"openai-{endpoint.pk}")
    assert kinds(ana) == kinds(cleo) == ["static"]
