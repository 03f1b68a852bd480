"""What the supervisor writes down of its services, every process of the machine reads."""

import json
import os
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from openvibe.engines.serving.service_states import (
    FILE_NAME,
    ServiceState,
    forget_service_states,
    read_service_states,
    write_service_states,
)

STATES = [ServiceState("web"), ServiceState("worker", consecutive_exits=7, exit_code=-9, restart_at=1_800_000_000.0)]


@pytest.fixture(autouse=True)
def own_folder(settings: Settings, tmp_path: Path) -> Path:
    settings.VAR = tmp_path
    return tmp_path


def test_what_was_written_is_read_until_it_is_forgotten() -> None:
    assert read_service_states() == []
    write_service_states(STATES)
    assert read_service_states() == STATES
    forget_service_states()
    forget_service_states()
    assert read_service_states() == []


def test_what_a_killed_supervisor_left_says_nothing(own_folder: Path) -> None:
    write_service_states(STATES)
    report = json.loads((own_folder / FILE_NAME).read_bytes())
    assert report["pid"] == os.getpid()
    for change in ({"begun": report["begun"] - 100}, {"pid": 2**22 + 1}):  # another process has the id; none has
        (own_folder / FILE_NAME).write_text(json.dumps(report | change))
        assert read_service_states() == []


@pytest.mark.parametrize("text", ["", "[]", "{", '{"pid": 1}', '{"pid": "x", "begun": 0, "services": []}'])
def test_a_file_that_is_no_report_says_nothing(own_folder: Path, text: str) -> None:
    (own_folder / FILE_NAME).write_text(text)
    assert read_service_states() == []


def test_who_keeps_ending_is_told_of_in_a_sentence() -> None:
    steady, dying = STATES
    assert steady.problem == ServiceState("jobs", consecutive_exits=1, exit_code=-9).problem == ""
    assert dying.problem == (
        "worker keeps ending: 7 times in a row, last with exit code -9. It starts again at 08:00:00 UTC."
    )
    assert ServiceState("web", consecutive_exits=3, exit_code=1).problem.endswith("It runs again for now.")
