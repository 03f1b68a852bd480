"""The API says what it is: a stored description, a page to read, and a walk through all of it with odd input."""

import html
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import schemathesis
import yaml
from django.conf import settings as django_settings
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from django.test import Client, override_settings
from hypothesis import HealthCheck, Phase, given, seed, settings

from openvibe.api.descriptions import PROPERTIES, SAME_PROPERTIES
from openvibe.api.example_answers import VALUES
from openvibe.api.schema import _generate_schema, _render_schema, openapi_schema, rendered_schema
from openvibe.api.summaries import SUMMARIES
from openvibe.wsgi import application
from tests import factories
from tests.api.client import Api, validator
from tests.api.conftest import token_client
from tests.examples import examples

walk_settings = settings(
    max_examples=examples(12, daily=3),
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
SEEDS = range(examples(5, daily=1))
STORED = Path(django_settings.BASE_DIR) / "docs" / "openapi.yaml"
DESCRIBED = schemathesis.openapi.from_path(STORED)
DESCRIBED.app = application
OPERATIONS = [
    f"{method.upper()} {path}"
    for path, methods in DESCRIBED.raw_schema["paths"].items()
    for method in methods
    if path != "/api/v1/events/"  # that one never ends
]


def test_the_stored_description_is_the_current_one() -> None:
    assert STORED.read_text() == rendered_schema("yaml").decode(), (
        "docs/openapi.yaml is not what the code says. If the change is meant: "
        "python manage.py spectacular --file docs/openapi.yaml"
    )


def test_the_description_is_served_in_both_forms(client: Client) -> None:
    as_yaml, as_json = client.get("/api/v1/schema/"), client.get("/api/v1/schema/?format=json")

    described = yaml.load(as_yaml.content, yaml.CSafeLoader)
    assert described["openapi"].startswith("3.1")
    assert json.loads(as_json.content) == described


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Path, method and operation of each."""
    for path, methods in openapi_schema()["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def test_every_operation_says_what_it_does_and_how_it_fails() -> None:
    for path, method, operation in operations():
        assert operation.get("description"), (method, path)
        assert "application/problem+json" in operation["responses"]["default"]["content"]


def test_every_operation_has_a_summary_of_its_own() -> None:
    ids = [operation["operationId"] for _, _, operation in operations()]
    assert sorted(ids) == list(SUMMARIES), "openvibe/api/summaries.py: one for each operation, sorted"
    for _, _, operation in operations():
        assert re.fullmatch(r"[A-Z][a-z]+ .{1,52}[^.]", operation["summary"]), operation["summary"]
    assert len(set(SUMMARIES.values())) == len(SUMMARIES)


def properties(schema: Any, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every property that a schema names, at any depth, by where it stands."""
    if isinstance(schema, dict):
        for name, inner in schema.items():
            if name == "properties":
                yield from ((f"{place}.{each}", one) for each, one in inner.items())
                name = ""
            yield from properties(inner, ".".join(filter(None, (place, name))))


def test_every_property_and_parameter_is_described() -> None:
    components = openapi_schema()["components"]["schemas"]
    named = dict(properties(components, ""))
    assert len(named) > 1000
    assert [place for place, schema in named.items() if not schema.get("description")] == []
    texts = {schema["description"] for schema in named.values()}
    assert [key for key, text in PROPERTIES.items() if text not in texts] == [], "a help_text says it already"
    for path, method, operation in operations():
        nameless = [each["name"] for each in operation.get("parameters", ()) if not each.get("description")]
        assert nameless == [], (method, path)


def test_tables_of_the_description_name_what_there_is() -> None:
    components = openapi_schema()["components"]["schemas"]
    for key in (*PROPERTIES, *VALUES):
        component, _, name = key.rpartition(".")
        places = [components[component]] if component else components.values()
        assert any(name in place.get("properties", ()) for place in places), key
    assert {*SAME_PROPERTIES, *SAME_PROPERTIES.values()} <= set(components)


def contents() -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Every body and answer, each media type of it, with the steps to it."""
    for path, method, operation in operations():
        for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
            yield ("paths", path, method, "requestBody", "content", media_type), content
        for status, answer in operation["responses"].items():
            for media_type, content in answer.get("content", {}).items():
                yield ("paths", path, method, "responses", status, "content", media_type), content


def test_every_body_and_answer_has_an_example_that_is_valid() -> None:
    """Bodies that are a file alone, and images, have none."""
    checked = 0
    for steps, content in contents():
        if "requestBody" in steps and steps[-1] != "application/json":
            continue
        if content["schema"].get("format") != "binary":
            assert "example" in content, f"openvibe/api/example_answers.py: {steps}"
            validator(*steps).validate(content["example"])
            checked += 1
    assert checked > 300


def test_an_example_names_whatever_an_answer_must_hold() -> None:
    """Rows of lists and inner objects among them: none is left out by being empty."""
    thread = openapi_schema()["paths"]["/api/v1/threads/"]["get"]["responses"]["200"]["content"]["application/json"]
    (row,) = thread["example"]["results"]
    assert (row["id"], row["channel"], row["created_by"]["handle"]) == (12, 3, "ana")


def test_the_page_lists_every_operation_without_anything_from_elsewhere(client: Client) -> None:
    answer = client.get("/api/v1/docs/")
    page = answer.content.decode()

    for path, methods in openapi_schema()["paths"].items():
        for method, operation in methods.items():
            assert f"{method.upper()} {path}</code> {html.escape(operation['summary'])}" in page
    assert re.findall(r'(?:src|href)="(?:https?:)?//', page) == []
    assert "unsafe" not in answer["Content-Security-Policy"]
    assert not re.search(r"<script(?![^>]*src)|<style|style=", page)


@pytest.fixture
def one_connection() -> Iterator[None]:
    """Requests through the WSGI application leave the test's own database connection open."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.fixture(scope="module")
def api(module_transaction: None) -> Api:
    """An API that is made once for every operation; what a walk changes is taken back after it."""
    ana = factories.make_member("Ana")
    thread = factories.make_thread(factories.make_channel(ana), ana)
    factories.make_agent(ana, "vibe", channel=thread.channel)
    factories.say(thread, ana, "@vibe roses?")
    return token_client(ana.participant)


@pytest.mark.django_db
@pytest.mark.usefixtures("one_connection")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OPERATIONS)
@override_settings(API_CALLS_PER_MINUTE=10**6)
def test_nothing_in_the_description_breaks_the_server(api: Api, name: str) -> None:
    method, path = name.split()

    @walk_settings
    @given(case=DESCRIBED[path][method].as_strategy())
    def walk(case: Any) -> None:
        answer = case.call(headers={**api.headers, "Accept-Encoding": "identity"})  # this client reads nothing else
        assert answer.status_code < 500, (case.method, case.path, answer.content)
        assert answer.status_code < 400 or answer.json()["code"], (case.method, case.path, answer.content)

    for number in SEEDS:
        seed(number)(walk)()


def test_first_calls_may_come_at_once() -> None:
    """drf-spectacular describes one schema at a time; two at once were a 500."""
    _generate_schema.cache_clear()
    _render_schema.cache_clear()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: Client(raise_request_exception=False).get("/api/v1/schema/"), range(8)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1


@pytest.mark.parametrize("address", ["?version=1%0a2", "?lang=%0a"])
def test_everybody_reads_the_same_whatever_they_ask(client: Client, address: str) -> None:
    answer = client.get(f"/api/v1/schema/{address}")
    assert answer["Content-Disposition"] == 'inline; filename="OpenVibe.yaml"'
    assert answer.content.decode() == STORED.read_text()
