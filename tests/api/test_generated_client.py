"""A client generated from the stored description makes every call, each with the description's own example."""

import importlib
import json
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from django.conf import settings
from django.test import Client
from openapi_python_client import generate
from openapi_python_client.config import Config, ConfigFile, MetaType

from openvibe.api.models import SCOPES
from openvibe.api.services import issue_token
from tests.api.client import ROOT, Api
from tests.api.example_world import EXTERNAL_OPERATIONS, ExampleWorld, make_example_world

pytestmark = pytest.mark.django_db
STORED = Path(settings.BASE_DIR) / "docs" / "openapi.yaml"
DESCRIPTION: dict[str, Any] = yaml.load(STORED.read_text(), yaml.CSafeLoader)
OPERATIONS = {
    operation["operationId"]: (path, operation)
    for path, methods in DESCRIPTION["paths"].items()
    for operation in methods.values()
    if operation["operationId"] != "events_stream"  # never ends
}
OF_AGENTS = ("sessions_",)
"""Operations that are an agent's alone begin so."""
OF_EXTERNAL_AGENTS = ("runs_begin", *EXTERNAL_OPERATIONS, "runs_get_permission")
"""Those of agents that answer themselves."""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name of the generated package."""
    folder = tmp_path_factory.mktemp("client")
    source = folder / "openapi.json"
    source.write_text(json.dumps(DESCRIPTION))  # the generator reads YAML word by word, in seconds
    images = dict.fromkeys(("image/png", "image/jpeg"), "application/octet-stream")  # the generator knows no images
    options = ConfigFile(post_hooks=[], content_type_overrides=images)
    config = Config.from_sources(options, MetaType.NONE, source, "utf-8", False, folder / "generated_client")
    problems = generate(config=config)
    assert all("content type" in str(problem.detail) for problem in problems), problems  # files of knowledge/import/
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield "generated_client"


@pytest.fixture(scope="module")
def world(module_transaction: None) -> ExampleWorld:
    return make_example_world()


@pytest.fixture(scope="module")
def connect(package: str, world: ExampleWorld) -> Callable[[str], Any]:
    """A generated client that calls as the example's caller. Its answers are checked as all of the tests' are."""
    secrets = {
        participant.pk: issue_token(participant=participant, name="examples", scopes=SCOPES)[1]
        for participant in (world.owner.participant, world.agent.participant, world.external.participant)
    }

    def answer(request: httpx.Request) -> httpx.Response:
        path = request.url.raw_path.decode().removeprefix(ROOT)
        ours = ("content-type", "accept-encoding")  # ours is said apart, and reads what is not compressed
        headers = {name: value for name, value in request.headers.items() if name not in ours}
        sent = {"Content_Type": request.headers.get("content-type", "application/json")}
        response = Api(Client(), headers).call(request.method, path, request.content, **sent)
        content = b"".join(response)  # streamed or not
        return httpx.Response(response.status_code, headers=dict(response.headers), content=content)

    def connected(operation_id: str) -> Any:
        caller = world.agent if operation_id.startswith(OF_AGENTS) else world.owner
        caller = world.external if operation_id in OF_EXTERNAL_AGENTS else caller
        client = importlib.import_module(f"{package}.client")
        transport = {"transport": httpx.MockTransport(answer)}
        return client.AuthenticatedClient("http://testserver", secrets[caller.participant.pk], httpx_args=transport)

    return connected


def body_model(package: str, operation: dict[str, Any], body: dict[str, Any]) -> Any:
    """The body as the generated class of its schema."""
    name = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    choices = DESCRIPTION["components"]["schemas"][name].get("discriminator")
    name = choices["mapping"][body[choices["propertyName"]]].rpartition("/")[2] if choices else name
    return getattr(importlib.import_module(f"{package}.models"), name).from_dict(body)


def upload(package: str, form: dict[str, Any]) -> Any:
    """A file of one message as the generated class of its schema."""
    name = form["schema"]["$ref"].rpartition("/")[2]
    file_type = importlib.import_module(f"{package}.types").File
    file = file_type(payload=BytesIO(b'{"role": "user", "content": "When do I prune?"}\n'), file_name="chat.jsonl")
    return getattr(importlib.import_module(f"{package}.models"), name)(file=file)


@pytest.mark.parametrize("operation_id", OPERATIONS)
def test_every_example_works_through_a_generated_client(
    package: str, world: ExampleWorld, connect: Callable[[str], Any], operation_id: str
) -> None:
    path, operation = OPERATIONS[operation_id]
    call = importlib.import_module(f"{package}.api.{operation['tags'][0]}.{operation_id}")
    values = {
        each["name"].lower().replace("-", "_"): world.parameter(operation_id, path, each["name"], each["example"])
        for each in operation.get("parameters", ())
        if "example" in each
    }
    content = operation.get("requestBody", {}).get("content", {})
    if "multipart/form-data" in content and "application/json" not in content:
        values["body"] = upload(package, content["multipart/form-data"])
    elif content:
        example = operation["requestBody"]["content"]["application/json"]["example"]
        values["body"] = body_model(package, operation, world.body(operation_id, example))

    answer = call.sync_detailed(client=connect(operation_id), **values)

    assert str(answer.status_code.value) in operation["responses"], answer.content
    if answer.content and answer.headers["Content-Type"] == "application/json":
        understood = json.dumps(answer.parsed.to_dict()).replace('+00:00"', 'Z"')
        assert json.loads(understood) == json.loads(answer.content)
