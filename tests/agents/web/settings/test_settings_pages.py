"""Owners and admins run their workspace in the app: agents, models, memory, archives; members see none of it."""

import hashlib
import zipfile
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from django.conf import LazySettings
from django.db import connections, transaction
from django.test import Client
from django.utils import timezone

from agents.archive.jobs import delete_expired_archives, execute_export
from agents.connect.endpoint_forms import EndpointForm
from agents.connect.endpoints import save_endpoint
from agents.models import Agent, WorkspaceExport
from memory.plugins.registry import active_plugin
from openvibe.base.models import AuditRecord
from openvibe.engines.llm.models import Endpoint
from openvibe.workspaces.models import Member
from tests import factories
from tests.engines.llm.factories import EndpointFactory
from tests.engines.llm.model_server import Answer, serving
from tests.factories import signed_in
from tests.locks import wait_until_blocked
from tests.memory.plugins.third_party import installed_package

pytestmark = pytest.mark.django_db
KEY = "sk-very-secret-0123456789"
PAGES = (
    *("", "general", "agents", "memory", "instructions", "models", "models/new", "mcp-servers", "mcp-servers/new"),
    *("search", "prompts", "activity", "exports"),
)


def address(member: Member, page: str) -> str:
    return f"/w/{member.workspace.slug}/settings/{page}/".replace("//", "/")


def test_every_page_is_in_the_list_and_for_admins_alone(ana: Member, dora: Member, cleo: Member, vibe: Agent) -> None:
    index = signed_in(ana).get(address(ana, "")).content.decode()
    for page in PAGES[1:]:
        assert signed_in(ana).get(address(ana, page)).status_code == 200, page
        assert page.endswith("/new") or f'href="{address(ana, page)}"' in index
    for page in PAGES:
        assert signed_in(dora).get(address(ana, page)).status_code == 403, page
        assert signed_in(cleo).get(address(ana, page)).status_code == 404, page


def model_form(**changes: Any) -> dict[str, Any]:
    limits = {"context_window": 32_000, "output_reserve": 2_000, "timeout_seconds": 60, "price_in": "", "price_out": ""}
    where = {"name": "Paid", "kind": "openai", "base_url": "https://93.184.216.34/v1", "model": "m", "api_key": KEY}
    return {**where, **limits, "is_default": "on", **changes}


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_what_is_no_address_offers_no_models(ana: Member, kind: str) -> None:
    for base_url in ("http://\x00/", "http://[::1/", "https://[zz]/", "https://models\t.example/", "https://\u2028x/"):
        form = {"kind": kind, "base_url": base_url, "api_key": KEY}
        answer = signed_in(ana).post(f"{address(ana, 'models')}offered/", form)
        assert (answer.status_code, "address" in answer.json()["message"]) == (200, True), base_url


def test_models_are_fetched_from_the_one_address_inside_that_a_superuser_allowed(ana: Member) -> None:
    root = as_superuser(ana)
    pages = (f"{address(ana, 'models')}offered/", "/admin/llm/endpoint/models/")
    with serving(Answer("sage-1 sage-2")) as server:
        allowed = EndpointFactory.create(
            workspace=ana.workspace,
            name="Ours",
            base_url=server.base_url,
            allowed_address=server.base_url,
            model="sage-1",
        )
        form = {"kind": "openai", "base_url": server.base_url, "api_key": KEY, "endpoint": allowed.pk}
        for page in pages:
            assert root.post(page, form).json()["models"] == ["sage-1", "sage-2"], page
            elsewhere = root.post(page, {**form, "base_url": f"{server.base_url}/"}).json()
            assert "inside this server's own network" in elsewhere["message"], page
            assert elsewhere["models"] == [], page


def test_a_model_is_added_changed_tested_and_deleted(ana: Member, cleo: Member) -> None:
    browser, models = signed_in(ana), address(ana, "models")
    inward = browser.post(f"{models}new/", model_form(base_url="http://127.0.0.1:5432/"))
    assert (inward.status_code, Endpoint.objects.count()) == (400, 0)
    assert KEY.encode() not in inward.content
    assert browser.post(f"{models}new/", model_form()).status_code == 302
    endpoint = Endpoint.objects.get()
    assert (endpoint.workspace, endpoint.api_key, endpoint.is_default) == (ana.workspace, KEY, True)
    page = f"{models}{endpoint.pk}/"
    assert KEY.encode() not in browser.get(page).content
    browser.post(page, model_form(api_key="", name="Ours", base_url="https://93.184.216.35/v1"))
    endpoint.refresh_from_db()
    assert (endpoint.name, endpoint.api_key) == ("Ours", "")  # a key is only for the address it was entered for

    Endpoint.objects.filter(pk=endpoint.pk).update(kind="offline")
    browser.post(page, {"act": "test"})
    endpoint.refresh_from_db()
    assert (endpoint.tested_at is not None, endpoint.test_problem) == (True, "")
    assert b"Answered" in browser.get(models).content
    foreign = factories.make_paid_endpoint(cleo)
    assert browser.post(f"{models}{foreign.pk}/", {"act": "delete"}).status_code == 404
    browser.post(page, {"act": "delete"})
    assert list(Endpoint.objects.all()) == [foreign]
    changes = AuditRecord.objects.filter(action="endpoint").values_list("actor", "after")
    assert {actor for actor, _ in changes} == {"Ana (@ana)"}
    assert KEY not in str(list(changes))


def as_superuser(member: Member) -> Client:
    member.user.is_staff = member.user.is_superuser = True
    member.user.save()
    return signed_in(member)


def test_tests_are_limited_for_each_person_in_app_and_admin_together(ana: Member, settings: LazySettings) -> None:
    assert settings.ACCOUNT_RATE_LIMITS["test_model"] == "60/h/user"
    settings.ACCOUNT_RATE_LIMITS = {**settings.ACCOUNT_RATE_LIMITS, "test_model": "1/h/user", "list_models": "1/h/user"}
    endpoint, root = EndpointFactory.create(workspace=ana.workspace, name="Ours", kind="offline"), as_superuser(ana)
    eve = factories.make_member("Eve", ana.workspace, role="admin")
    page, admin = f"{address(ana, 'models')}{endpoint.pk}/", f"/admin/llm/endpoint/{endpoint.pk}/test/"
    said = [root.post(page, {"act": "test"}, follow=True), root.post(admin, follow=True)]
    said += [root.post(page, {"act": "test"}, follow=True), signed_in(eve).post(page, {"act": "test"}, follow=True)]
    assert ["You tested many times" in answer.content.decode() for answer in said] == [False, True, True, False]
    lists = [
        root.post(where, {}).json() for where in (f"{address(ana, 'models')}offered/", "/admin/llm/endpoint/models/")
    ]
    assert ["many lists" in each["message"] for each in lists] == [False, True]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("page", ["settings", "admin"])
def test_two_who_take_the_same_name_or_the_default_at_once_get_a_sentence(ana: Member, page: str) -> None:
    """The second waits for the first, and is told then."""
    where = f"{address(ana, 'models')}new/" if page == "settings" else "/admin/llm/endpoint/add/"
    browser, answers = as_superuser(ana), []

    def save() -> None:
        answers.append(browser.post(where, model_form(workspace=ana.workspace_id)))
        connections.close_all()

    second = Thread(target=save)
    with transaction.atomic():
        form = EndpointForm(model_form(), instance=Endpoint(workspace=ana.workspace))
        assert form.is_valid()
        save_endpoint(endpoint=form.instance, by=factories.access(ana), changes=())
        second.start()
        wait_until_blocked(second)
    second.join(30)
    (answer,) = answers
    form = answer.context["form"] if page == "settings" else answer.context["adminform"].form
    assert answer.status_code == (400 if page == "settings" else 200)
    assert set(form.errors) == {"name", "is_default"}
    assert Endpoint.objects.count() == 1


@pytest.mark.parametrize(
    ("changes", "field"),
    [({}, "name"), ({"output_reserve": 40_000, "name": "B"}, "output_reserve"), ({"model": "", "name": "B"}, "model")],
)
def test_a_model_that_cannot_be_saved_is_a_sentence(ana: Member, changes: dict[str, Any], field: str) -> None:
    factories.make_paid_endpoint(ana)
    answer = signed_in(ana).post(f"{address(ana, 'models')}new/", model_form(is_default="", **changes))
    assert (answer.status_code, Endpoint.objects.count()) == (400, 1)
    assert answer.context["form"].errors


def test_a_memory_of_a_package_says_when_to_restart(ana: Member, tmp_path: Path) -> None:
    browser, page = signed_in(ana), address(ana, "memory")
    with installed_package(tmp_path):
        assert "restart OpenVibe first" in browser.get(page).content.decode()
        changed = browser.post(page, {"plugin": "acme/notebook"}, follow=True).content.decode()
        assert "restart OpenVibe: where the package is not known yet" in changed


def test_another_memory_is_switched_on_with_one_click(ana: Member) -> None:
    browser, page = signed_in(ana), address(ana, "memory")
    html = browser.get(page).content.decode()
    assert "Ends: old messages are summarised." in html
    assert browser.post(page, {"plugin": "memory/nothing"}).status_code == 400
    browser.post(page, {"plugin": "memory/simple"})
    assert active_plugin(ana.workspace_id).name == "memory/simple"
    response = browser.post(page, {"settings": "memory/lcm", "set-fresh_tail_tokens": "many"})
    assert response.status_code == 400
    assert b'value="many"' in response.content


def test_an_agent_is_deactivated_and_brought_back(ana: Member, vibe: Agent) -> None:
    browser, page = signed_in(ana), address(ana, "agents")
    browser.post(page, {"agent": vibe.pk, "deactivate": "1"})
    assert b"Bring back" in browser.get(page).content
    browser.post(page, {"agent": vibe.pk})
    vibe.refresh_from_db()
    assert vibe.is_active


@pytest.mark.django_db(transaction=True)  # an archive is of one moment
def test_an_archive_is_made_downloaded_for_a_day_and_gone(ana: Member, settings: LazySettings, tmp_path: Path) -> None:
    settings.HOME = tmp_path
    factories.say(factories.make_thread(factories.make_channel(ana), ana), ana, "Prune the roses.")
    browser, page = signed_in(ana), address(ana, "exports")
    assert browser.post(page).status_code == 403  # private conversations are in it
    settings.OWNERS_EXPORT = True
    assert browser.post(page).status_code == 302
    assert browser.post(page).status_code == 409
    export = WorkspaceExport.objects.get()
    assert execute_export(export.pk) is None
    export.refresh_from_db()
    assert (export.state, export.rows > 5) == ("done", True)
    download = f"{page}{export.pk}/"
    answer = browser.get(download)
    content = b"".join(answer.streaming_content)  # type: ignore[attr-defined]  # of a file
    assert hashlib.sha256(content).hexdigest() == export.sha256
    assert "manifest.json" in zipfile.ZipFile(BytesIO(content)).namelist()
    assert "attachment" in answer["Content-Disposition"]

    second_owner = factories.make_member("Finn", ana.workspace, role="owner")
    assert signed_in(second_owner).get(download).status_code == 404
    notes = AuditRecord.objects.filter(action="export").values_list("actor", "after")
    assert list(notes) == [("Ana (@ana)", "downloaded"), ("Ana (@ana)", f"{ana.workspace_id}-{export.pk}.zip")]
    WorkspaceExport.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert browser.get(download).status_code == 404
    assert delete_expired_archives() == 1
    assert list((tmp_path / "exports").iterdir()) == []


def test_whether_a_model_stands_in_for_summaries_is_told_in_words(ana: Member) -> None:
    page = signed_in(ana).get(address(ana, "models/new")).content.decode()
    assert '<option value="" selected>No</option>' in page
    assert "---" not in page
