"""The switch of embedders in the admin: it says what happens before, in every workspace."""

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from openvibe.chat.wiring import embed_pending_messages
from openvibe.engines.llm.models import Endpoint
from openvibe.engines.search.embedders import MultilingualEmbedder
from openvibe.engines.search.models import VectorSpace
from openvibe.engines.search.space_lifecycle import advance_spaces
from openvibe.engines.search.spaces import LOCAL_EMBEDDERS
from openvibe.workspaces.models import Member
from tests import factories
from tests.admin.conftest import as_superuser
from tests.engines.llm.factories import EndpointFactory
from tests.engines.search.fakes import FakeEmbedder, Trouble

PAGE = "/admin/search/vectorspace/"


@pytest.fixture
def browser(ana: Member) -> Client:
    return as_superuser(ana)


@pytest.fixture
def endpoint(ana: Member) -> Endpoint:
    return EndpointFactory.create(
        workspace=ana.workspace, name="Embeddings", base_url="https://models.example/v1", model="small"
    )


def ask(browser: Client, ana: Member, **fields: str) -> str:
    response = browser.post(PAGE, {"workspace": str(ana.workspace_id), **fields}, follow=True)
    assert response.status_code == 200
    return response.content.decode()


def kinds(ana: Member) -> list[str]:
    rows = VectorSpace.objects.filter(workspace=ana.workspace).exclude(state="retired")
    return list(rows.order_by("-state").values_list("kind", flat=True))


def test_the_page_says_what_is_in_use_and_what_another_would_mean(
    ana: Member, browser: Client, endpoint: Endpoint
) -> None:
    factories.say(factories.make_thread(factories.make_channel(ana), ana), ana, "Hello")
    page = " ".join(browser.get(PAGE).content.decode().split())
    assert "0 texts can be found by meaning, 1 waits (0 % done). A vector has 256 numbers." in page
    embed_pending_messages()
    page = " ".join(browser.get(PAGE).content.decode().split())
    assert "1 text can be found by meaning; none waits. A vector has 256 numbers." in page
    assert "with secrets masked, is sent to https://models.example/v1" in page
    assert 'value="static" class="ov-button ov-primary"' not in page
    assert "Use Embeddings: small" in page
    assert "Use None" in page


def test_one_click_switches(ana: Member, browser: Client, endpoint: Endpoint, fake_embedder: FakeEmbedder) -> None:
    fake_embedder.dimension = 256
    message = ask(browser, ana, use=f"openai-{endpoint.pk}")

    assert "The old vectors serve until all are made." in message
    assert kinds(ana) == ["static", "openai"]
    assert '<span class="ov-chip">being built</span>' in message
    assert "Stay with Built in" in message
    assert LogEntry.objects.get().user == ana.user

    advance_spaces()
    assert kinds(ana) == ["openai"]
    assert "by words alone" in ask(browser, ana, use="none")
    assert kinds(ana) == ["none"]


def test_the_multilingual_embedder_is_one_click_where_it_is_installed(
    ana: Member, browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "512 numbers a text" in ask(browser, ana, test="multilingual")
    assert "0 texts wait for their vectors." in ask(browser, ana, use="multilingual")
    assert kinds(ana) == ["static", "multilingual"]
    assert "stays in use" in ask(browser, ana, use="static")
    assert kinds(ana) == ["static"]

    monkeypatch.setitem(LOCAL_EMBEDDERS, "multilingual", MultilingualEmbedder(package="not_there"))
    page = browser.get(PAGE).content.decode()
    assert "The multilingual embedder is not installed on this server. Run `make multilingual`" in page
    assert "is not installed on this server" in ask(browser, ana, use="multilingual")
    assert kinds(ana) == ["static"]


def test_an_embedder_is_tried_without_being_chosen(
    ana: Member, browser: Client, endpoint: Endpoint, fake_embedder: FakeEmbedder
) -> None:
    assert "64 numbers a text" in ask(browser, ana, test=f"openai-{endpoint.pk}")
    fake_embedder.trouble = Trouble("It is on fire.")
    assert "It is on fire. Look at the endpoint." in ask(browser, ana, test=f"openai-{endpoint.pk}")
    assert kinds(ana) == ["static"]


def test_trouble_is_shown(ana: Member, browser: Client) -> None:
    VectorSpace.objects.update(problem="It is <on> fire.")
    assert "It is &lt;on&gt; fire." in browser.get(PAGE).content.decode()


@pytest.mark.parametrize("key", ["magic", "", "openai", "openai-0", "openai-x", "static-5-", "\x00"])
def test_what_is_not_on_the_page_changes_nothing(ana: Member, browser: Client, key: str) -> None:
    ask(browser, ana, use=key)
    ask(browser, ana, test=key)
    assert kinds(ana) == ["static"]


def test_a_superuser_may_switch_any_workspace(cleo: Member, root: Client) -> None:
    assert "by words alone" in ask(root, cleo, use="none")
    assert kinds(cleo) == ["none"]


@pytest.mark.parametrize("workspace", ["x", "0"])
def test_an_unknown_workspace_is_said_so(browser: Client, workspace: str) -> None:
    page = browser.get(f"{PAGE}?workspace={workspace}", follow=True).content.decode()
    assert "There is no such workspace." in page


def test_only_endpoints_of_the_workspace_are_chosen(
    ana: Member, cleo: Member, root: Client, endpoint: Endpoint
) -> None:
    assert "Choose a model endpoint of this workspace." in ask(root, cleo, use=f"openai-{endpoint.pk}")
    assert kinds(cleo) == ["static"]
