"""What is learned of an endpoint, in the database: for every process, until it is another one or is told to forget."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event, Thread
from typing import Any

import pytest
from django.db import connection
from django.urls import reverse
from pytest_django.fixtures import Settings

from agents.connect.endpoints import forget_adaptations
from openvibe.base.models import AuditRecord
from openvibe.engines.llm.endpoints.endpoints import client_for, is_adapted, try_endpoint
from openvibe.engines.llm.errors import BadAnswer
from openvibe.engines.llm.models import Endpoint, EndpointAdaptation
from openvibe.engines.llm.values import ChatMessage
from openvibe.workspaces.models import Member
from tests.engines.llm.conformance import KEY, PROMPT, TEXT, TOOL
from tests.engines.llm.factories import EndpointFactory
from tests.engines.llm.model_server import Answer, Asked, FakeEndpoint, serving
from tests.factories import access, signed_in

NO_TOOLS = "registry.ollama.ai/library/gemma3:4b does not support tools"


def without_tools(asked: Asked) -> Answer:
    return Answer(status=400, error={"message": NO_TOOLS}) if "tools" in asked.body else Answer(TEXT)


def without_system(asked: Asked) -> Answer:
    has_system = any(message["role"] == "system" for message in asked.body["messages"])
    return Answer(status=400, error={"message": "System role not supported"}) if has_system else Answer(TEXT)


@pytest.fixture
def server(settings: Settings) -> Iterator[FakeEndpoint]:
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    with serving(script=without_tools) as server:
        yield server


@pytest.fixture
def endpoint(server: FakeEndpoint, ana: Member) -> Endpoint:
    return make_endpoint(server, ana)


def make_endpoint(server: FakeEndpoint, ana: Member, **values: Any) -> Endpoint:
    return EndpointFactory.create(
        workspace=ana.workspace, name="Garden", base_url=server.base_url, api_key=KEY, model="gemma3:4b", **values
    )


def learn(endpoint: Endpoint) -> None:
    assert client_for(endpoint).complete(PROMPT, tools=[TOOL]).text == TEXT


def kinds(endpoint: Endpoint) -> set[str]:
    return set(EndpointAdaptation.objects.filter(endpoint=endpoint).values_list("kind", flat=True))


def test_what_one_process_learned_the_next_one_knows(endpoint: Endpoint, server: FakeEndpoint) -> None:
    learn(endpoint)
    row = EndpointAdaptation.objects.get()
    assert (row.endpoint_id, row.model, row.kind) == (endpoint.pk, "gemma3:4b", "no_tools")
    assert row.words == NO_TOOLS
    fresh = client_for(Endpoint.objects.get())
    assert is_adapted(fresh, "no_tools")
    completion = fresh.complete(PROMPT, tools=[TOOL])
    assert [notice.code for notice in completion.notices] == ["no_tools"]
    assert ["tools" in asked.body for asked in server.asked] == [True, False, False]


def test_what_a_call_without_its_cause_is_told_nothing(endpoint: Endpoint) -> None:
    learn(endpoint)
    assert client_for(Endpoint.objects.get()).complete(PROMPT).notices == ()


@pytest.mark.parametrize(
    "change", [{"model": "qwen3:8b"}, {"base_url": "http://127.0.0.1:9/v1"}, {"kind": "anthropic"}]
)
def test_another_endpoint_forgets(endpoint: Endpoint, change: dict[str, str]) -> None:
    learn(endpoint)
    for name, value in change.items():
        setattr(endpoint, name, value)
    endpoint.save()
    assert kinds(endpoint) == set()


def test_another_name_or_price_forgets_nothing(endpoint: Endpoint) -> None:
    learn(endpoint)
    endpoint.name, endpoint.price_in = "Beds", 3
    endpoint.save()
    assert kinds(endpoint) == {"no_tools"}


def test_nothing_is_written_of_an_endpoint_that_was_changed_meanwhile(endpoint: Endpoint) -> None:
    client = client_for(endpoint)
    changed = Endpoint.objects.get(pk=endpoint.pk)
    changed.model = "qwen3:8b"
    changed.save()
    assert client.complete(PROMPT, tools=[TOOL]).text == TEXT
    assert kinds(endpoint) == set()


@pytest.mark.django_db(transaction=True)
def test_two_who_learn_the_same_at_once_do_not_clash(ana: Member, settings: Settings) -> None:
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    both, adapted, texts = Event(), list[Asked](), list[str]()

    def answer(asked: Asked) -> Answer:
        if "tools" in asked.body:
            return without_tools(asked)
        adapted.append(asked)
        if len(adapted) == 2:
            both.set()
        return Answer(TEXT, hold=both)

    with serving(script=answer) as server:
        row = make_endpoint(server, ana)

        def ask() -> None:
            try:
                texts.append(client_for(Endpoint.objects.get(pk=row.pk)).complete(PROMPT, tools=[TOOL]).text)
            finally:
                connection.close()

        threads = [Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert texts == [TEXT, TEXT]
    assert EndpointAdaptation.objects.count() == 1


def test_a_row_of_another_version_changes_nothing(endpoint: Endpoint) -> None:
    for kind, value in (("speaks_backwards", ""), ("lower_limit", "many")):
        EndpointAdaptation.objects.create(endpoint=endpoint, model=endpoint.model, kind=kind, value=value)
    assert client_for(endpoint).complete(PROMPT, max_output_tokens=9).text == TEXT
    assert "does not know" in EndpointAdaptation.objects.get(kind="speaks_backwards").effect


def test_a_refusal_that_nothing_helps_against_is_not_remembered(ana: Member, settings: Settings) -> None:
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    with serving(Answer(status=400, error={"message": NO_TOOLS})) as server:
        row = make_endpoint(server, ana)
        with pytest.raises(BadAnswer, match="does not support tools"):
            client_for(row).complete(PROMPT, tools=[TOOL])
    assert len(server.asked) == 2
    assert kinds(row) == set()


def test_an_unsaved_endpoint_is_adapted_to_and_nothing_is_written(server: FakeEndpoint, ana: Member) -> None:
    draft = Endpoint(workspace=ana.workspace, name="Draft", base_url=server.base_url, model="gemma3:4b", api_key=KEY)
    learn(draft)
    assert try_endpoint(endpoint=draft).ok
    assert EndpointAdaptation.objects.count() == 0


def test_a_test_forgets_what_is_not_needed_any_more(ana: Member, settings: Settings) -> None:
    """A test asks as if nothing was known; what it could not show stays."""
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    with serving(Answer(TEXT)) as server:
        row = make_endpoint(server, ana)
        for kind in ("limit_name", "no_images"):
            EndpointAdaptation.objects.create(endpoint=row, model=row.model, kind=kind, value="")
        assert try_endpoint(endpoint=row).ok
    assert kinds(row) == {"no_images"}
    assert "max_tokens" in server.asked[0].body


def test_a_test_keeps_what_is_still_needed(ana: Member, settings: Settings) -> None:
    settings.ALLOW_PRIVATE_ENDPOINTS = True

    def answer(asked: Asked) -> Answer:
        if "max_tokens" not in asked.body:
            return Answer(TEXT)
        message = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
        return Answer(status=400, error={"message": message})

    with serving(script=answer) as server:
        row = make_endpoint(server, ana)
        EndpointAdaptation.objects.create(
            endpoint=row, model=row.model, kind="limit_name", value="max_completion_tokens"
        )
        assert try_endpoint(endpoint=row).ok
        assert len(server.asked) == 2
    assert EndpointAdaptation.objects.get().value == "max_completion_tokens"


def test_a_failed_test_forgets_nothing(ana: Member, settings: Settings) -> None:
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    with serving(Answer(status=401)) as server:
        row = make_endpoint(server, ana)
        EndpointAdaptation.objects.create(endpoint=row, model=row.model, kind="limit_name", value="")
        assert not try_endpoint(endpoint=row).ok
    assert kinds(row) == {"limit_name"}


def test_forgetting_is_audited(endpoint: Endpoint, ana: Member) -> None:
    learn(endpoint)
    assert forget_adaptations(endpoint=endpoint, by=access(ana)) == 1
    assert kinds(endpoint) == set()
    record = AuditRecord.objects.get(after="forgotten")
    assert record.subject == "What was learned of Garden"
    assert record.before == "gemma3:4b: It takes no tools, so agents answer without them."
    assert record.actor_id == ana.participant_id


def test_the_page_of_the_endpoint_says_what_was_learned_and_forgets_it(endpoint: Endpoint, ana: Member) -> None:
    learn(endpoint)
    EndpointAdaptation.objects.filter(endpoint=endpoint).update(words="<b>no</b> tools here")
    client = signed_in(ana)
    address = reverse("settings-model", args=[ana.workspace.slug, endpoint.pk])
    page = client.get(address).content.decode()
    assert "It takes no tools, so agents answer without them." in page
    assert "&lt;b&gt;no&lt;/b&gt; tools here" in page
    other = EndpointFactory.create(workspace=ana.workspace, name="Other", kind="offline")
    strange = EndpointAdaptation.objects.create(endpoint=other, model="", kind="no_images")
    client.post(address, {"act": "forget", "adaptation": strange.pk})
    assert kinds(other) == {"no_images"}
    client.post(address, {"act": "forget", "adaptation": EndpointAdaptation.objects.get(endpoint=endpoint).pk})
    assert kinds(endpoint) == set()
    assert "What it wants otherwise" not in client.get(address).content.decode()


def test_who_does_not_administer_forgets_nothing(endpoint: Endpoint, ben: Member) -> None:
    learn(endpoint)
    address = reverse("settings-model", args=[ben.workspace.slug, endpoint.pk])
    assert signed_in(ben).post(address, {"act": "forget"}).status_code in (403, 404)
    assert kinds(endpoint) == {"no_tools"}


def test_the_admin_shows_and_forgets(endpoint: Endpoint, admin_client: Any) -> None:
    learn(endpoint)
    page = admin_client.get(reverse("admin:llm_endpoint_change", args=[endpoint.pk])).content.decode()
    assert "It takes no tools, so agents answer without them." in page
    address = reverse("admin:llm_endpoint_forget_adaptations", args=[endpoint.pk])
    assert "learned anew" in admin_client.get(address).content.decode()
    admin_client.post(address)
    assert kinds(endpoint) == set()
    assert AuditRecord.objects.filter(after="forgotten").count() == 1


def test_knowing_it_costs_one_query(endpoint: Endpoint, django_assert_num_queries: Any) -> None:
    learn(endpoint)
    for kind in ("no_seed", "no_images"):
        EndpointAdaptation.objects.create(endpoint=endpoint, model=endpoint.model, kind=kind)
    row = Endpoint.objects.get()
    with django_assert_num_queries(1):
        client = client_for(row)
        client.complete([ChatMessage("user", "Hello")])
        client.complete([ChatMessage("user", "Hello")])
