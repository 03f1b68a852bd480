"""`/readyz` says why this process cannot serve, in JSON."""

from pathlib import Path

import pytest
from django.db import connection
from django.test import Client
from pytest_django.fixtures import Settings

from openvibe.base import disk
from openvibe.base.disk import Room, least_room, written_folders


def test_a_process_that_can_serve_is_ready(client: Client, db: None) -> None:
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ready"})


def test_a_full_disk_is_said_and_how_full_it_is(client: Client, db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "MIN_FREE_BYTES", 2**60)  # no disk has as much
    monkeypatch.setattr(disk, "MIN_FREE_DIVISOR", 1)  # all of it is to be free, and the test's own files are not
    answer = client.get("/readyz", headers={"Host": "10.0.0.7"})
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert answer.json()["code"] == "disk_full"
    assert answer.json()["reason"].startswith("The server's disk is full: ")
    assert client.get("/healthz").status_code == 200


def test_the_fullest_disk_counts_and_a_folder_that_is_not_made_yet_counts_as_the_one_above(tmp_path: Path) -> None:
    folders = [tmp_path, tmp_path / "home" / "agents", tmp_path / "database"]
    folders[2].mkdir()
    asked = list[Path]()

    def disk_usage(path: Path) -> tuple[int, int, int]:
        asked.append(path)
        return 40, 0, {"database": 5}.get(path.name, 9)

    assert least_room(folders, disk_usage=disk_usage) == Room(tmp_path / "database", 5, 2)
    assert asked == [tmp_path, tmp_path, tmp_path / "database"]
    assert least_room([tmp_path]).free > 0


@pytest.mark.parametrize(("total", "needed"), [(20 << 20, 1 << 20), (1 << 40, 64 << 20)])
def test_a_small_disk_needs_a_share_of_it_free(tmp_path: Path, total: int, needed: int) -> None:
    assert least_room([tmp_path], disk_usage=lambda _: (total, 0, total)).needed == needed


@pytest.mark.parametrize("is_embedded", [True, False])
def test_the_data_of_an_embedded_database_is_looked_at(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, is_embedded: bool
) -> None:
    engine = "openvibe.engines.database.embedded" if is_embedded else "django.db.backends.postgresql"
    monkeypatch.setitem(connection.settings_dict, "ENGINE", engine)
    folders = written_folders()
    assert folders[:3] == [settings.VAR, settings.STATIC_ROOT, settings.HOME]
    assert (settings.VAR / "postgres" / "data" in folders) == is_embedded
