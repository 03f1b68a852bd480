"""compose.yaml and Dockerfile, read as text: no container is started here."""

import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from django.core.management import load_command_class

from openvibe.settings import CELERY_TASK_QUEUES, STATIC_ROOT, VAR
from openvibe.settings.environment import ROOT, Environment
from tests.operations.cluster import Part
from tests.operations.cluster import services as cluster_services

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
DOCKERFILE = (ROOT / "Dockerfile").read_text()
SERVICES = ("web", "worker", "jobs", "beat", "migrate")


def test_whoever_needs_agents_files_has_them_on_a_volume() -> None:
    for name in SERVICES:
        service = COMPOSE["services"][name]
        home = service["environment"]["OPENVIBE_HOME"]
        assert f"home:{home}" in service["volumes"]
        assert f"-o openvibe -g openvibe /var/lib/openvibe {home}" in DOCKERFILE  # a new volume belongs to whom it did
    assert set(COMPOSE["volumes"]) == {"var", "home", "static", "postgres"}


def test_whoever_serves_knows_of_an_interrupted_restore() -> None:
    """The mark of an interrupted restore stands in OPENVIBE_VAR, and the container of a command goes with it."""
    (var,) = re.findall(r"OPENVIBE_VAR=(\S+)", DOCKERFILE)
    for name in SERVICES:
        assert f"var:{var}" in COMPOSE["services"][name]["volumes"]


def test_files_of_pages_outlive_an_update() -> None:
    assert "static:/var/lib/openvibe/static" in COMPOSE["services"]["web"]["volumes"]
    assert re.search(r"-o openvibe -g openvibe .* /var/lib/openvibe/static$", DOCKERFILE, re.MULTILINE)
    assert Path("/var/lib/openvibe/static") == Path("/var/lib/openvibe") / Path(STATIC_ROOT).relative_to(VAR)


def test_every_service_says_how_it_is_or_why_not() -> None:
    assert "HEALTHCHECK" in DOCKERFILE
    for name in ("postgres", "worker", "beat"):
        assert COMPOSE["services"][name]["healthcheck"]["test"][0].startswith("CMD")
    assert "OPENVIBE_ALLOWED_HOSTS" not in re.search(r"HEALTHCHECK.*\n.*", DOCKERFILE)[0]  # type: ignore[index]


def test_whatever_still_loads_can_be_stopped() -> None:
    """The kernel keeps SIGTERM from a first process that does not handle it yet."""
    assert all(COMPOSE["services"][name]["init"] for name in SERVICES)


def test_each_queue_has_a_worker_and_settings_are_known() -> None:
    served = {command[command.index("--queues") + 1] for command in _commands() if "--queues" in command}
    assert served == {queue.name for queue in CELERY_TASK_QUEUES}
    known = {field.alias or f"OPENVIBE_{name.upper()}" for name, field in Environment.model_fields.items()}
    for name in SERVICES:
        assert set(COMPOSE["services"][name]["environment"]) <= known


def test_the_image_serves_pages_to_other_containers() -> None:
    commands = re.findall(r"^ *CMD (\[.*?\])$", DOCKERFILE, re.MULTILINE)
    *_, server = (json.loads(command) for command in commands)
    assert server[:2] == ["python", "manage.py"]
    parser = load_command_class("openvibe.runner", server[2]).create_parser("manage.py", server[2])
    options = parser.parse_args(server[3:])
    assert (options.only, options.host, options.port) == ("web", "0.0.0.0", 8000)
    assert "127.0.0.1', 8000" in DOCKERFILE
    assert COMPOSE["services"]["web"]["ports"] == ["127.0.0.1:8000:8000"]


def _commands() -> list[list[str]]:
    return [service["command"] for service in COMPOSE["services"].values() if "command" in service]


def test_whatever_ends_is_started_again_by_units_and_containers_alike() -> None:
    """A job that ends by itself, `migrate`, is the one exception."""
    services = COMPOSE["services"]
    assert {name for name, service in services.items() if service.get("restart") != "unless-stopped"} == {"migrate"}
    page = "".join((ROOT / "docs" / f"operations-{subject}.md").read_text() for subject in ("install", "scale"))
    units = [block for block in re.findall(r"```\n(.*?)```", page, re.DOTALL) if "ExecStart=" in block]
    assert [re.findall(r"^(?:Restart|RestartSec)=(.*)$", unit, re.MULTILINE) for unit in units] == [
        ["always", "5"],
        *[["always", "2"]] * 3,
    ]
    commands = [" ".join(part.command[1:]) for part in services_of_cluster()]
    for unit in units[1:]:
        (command,) = re.findall(
            r"^ExecStart=\S+/(?:python|celery) (.*?)(?: --port.*| --loglevel.*)?$", unit, re.MULTILINE
        )
        plain = command.replace("''", "").strip()
        assert any(plain in each for each in commands), f"{plain} is not what is tested"


def services_of_cluster() -> list[Part]:
    """What `test_scale_out.py` starts and kills."""
    with TemporaryDirectory() as folder:
        return cluster_services(Path(folder), "", "", 1)
