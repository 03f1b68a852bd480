"""Files of messages in a bucket of S3, on this machine: they go there, come from there, and nothing stays behind."""

import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.files.storage import Storage, storages
from django.core.management import CommandError
from moto.server import ThreadedMotoServer
from pytest_django.fixtures import Settings

from agents.archive.delete import delete_workspace
from agents.archive.export import export_workspace
from openvibe.base.problems import Missing
from openvibe.chat.models import Message, StoredFile, Thread
from openvibe.chat.services import delete_message, read_original, read_stored_file, store_files
from openvibe.chat.services import stored_files as service
from openvibe.runner.backup import _restore_files, write_backup
from openvibe.settings import environment
from openvibe.settings.environment import Environment, file_storage
from openvibe.workspaces.models import Member
from tests import documents
from tests.factories import access, send_file, signed_in

REPORT = documents.pdf("Prune in March.", "The gate code is QUOKKA-7731.")


@pytest.fixture(scope="module")
def s3_server() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(s3_server: str, settings: Settings) -> Iterator[Any]:
    """An S3 bucket that is set as the place for files."""
    env = Environment(
        s3_bucket="willow",
        s3_endpoint_url=s3_server,
        s3_region="us-east-1",
        s3_access_key="key",
        s3_secret_key="secret",
    )
    made = boto3.resource(
        "s3", endpoint_url=s3_server, region_name="us-east-1", aws_access_key_id="key", aws_secret_access_key="secret"
    ).create_bucket(Bucket="willow")
    settings.STORAGES = {**settings.STORAGES, **file_storage(env)}
    yield made
    made.objects.all().delete()
    made.delete()


def keys(bucket: Any) -> list[str]:
    return [each.key for each in bucket.objects.all()]


def test_files_go_to_the_bucket_and_come_from_there(ana: Member, thread: Thread, bucket: Any) -> None:
    file = send_file(thread, ana, "report.pdf", REPORT)
    assert keys(bucket) == []
    assert store_files(seconds=10) == {"files deleted": 0, "files moved": 1}
    stored = StoredFile.objects.get()
    assert (stored.content, stored.is_elsewhere, keys(bucket)) == (None, True, [stored.name])
    assert store_files(seconds=10)["files moved"] == 0
    assert read_original(stored) == REPORT
    assert signed_in(ana).get(f"/w/{ana.workspace.slug}/files/{file.pk}/").content == REPORT
    delete_message(message=file.message, by=access(ana))
    assert [bytes(each.preview) for each in StoredFile.objects.all()] == [b""]
    assert store_files(seconds=10)["files deleted"] == 1
    assert (keys(bucket), StoredFile.objects.count()) == ([], 0)


class Dying(Storage):
    """The bucket of a process that is killed before, or after, one of its calls."""

    def __init__(self, real: Storage, call: str, *, after: bool) -> None:
        self.real, self.call, self.after = real, call, after

    def _do(self, call: str, *arguments: Any) -> Any:
        if call == self.call and not self.after:
            raise KeyboardInterrupt
        answer = getattr(self.real, call)(*arguments)
        if call == self.call:
            raise KeyboardInterrupt
        return answer

    def save(self, name: str | None, content: Any, max_length: int | None = None) -> str:
        return str(self._do("save", name, content))

    def delete(self, name: str) -> None:
        self._do("delete", name)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("call", ["save", "delete"])
@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_job_that_is_killed_leaves_nothing_behind(
    ana: Member, thread: Thread, bucket: Any, monkeypatch: pytest.MonkeyPatch, call: str, after: bool, is_deleted: bool
) -> None:
    file = send_file(thread, ana, "report.pdf", REPORT)
    with monkeypatch.context() as patch:
        patch.setattr(service, "file_storage", lambda: Dying(storages["files"], call, after=after))
        with pytest.raises(KeyboardInterrupt):
            store_files(seconds=10)
    if is_deleted:  # before the job is tried again
        delete_message(message=Message.objects.get(pk=file.message_id), by=access(ana))
    store_files(seconds=10)
    if is_deleted:
        assert (keys(bucket), StoredFile.objects.count()) == ([], 0)
    else:
        assert read_original(StoredFile.objects.get()) == REPORT
        assert len(keys(bucket)) == 1


def test_a_bucket_that_does_not_answer_is_told_of_and_tried_again(
    ana: Member, thread: Thread, bucket: Any, settings: Settings
) -> None:
    file = send_file(thread, ana, "report.pdf", REPORT)
    store_files(seconds=10)
    bucket.objects.all().delete()
    answer = signed_in(ana).get(f"/w/{ana.workspace.slug}/files/{file.pk}/")
    assert answer.status_code == 404
    with pytest.raises(Missing, match="does not answer, or has it no more"):
        read_original(StoredFile.objects.get())
    settings.STORAGES = {name: each for name, each in settings.STORAGES.items() if name != "files"}
    with pytest.raises(Missing, match="no bucket is set any more"):
        read_original(StoredFile.objects.get())
    assert store_files(seconds=10) == {}


def test_a_bucket_without_what_speaks_with_it_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "find_spec", lambda name: None)
    with pytest.raises(ImproperlyConfigured, match=r"Install requirements-s3\.txt, or unset it"):
        file_storage(Environment(s3_bucket="willow"))
    assert file_storage(Environment()) == {}


def test_a_workspace_that_is_deleted_leaves_nothing_in_the_bucket(ana: Member, thread: Thread, bucket: Any) -> None:
    send_file(thread, ana, "report.pdf", REPORT)
    store_files(seconds=10)
    assert len(list(bucket.objects.all())) == 1
    delete_workspace(workspace=ana.workspace)
    store_files(seconds=10)
    assert (list(bucket.objects.all()), StoredFile.objects.count()) == ([], 0)


def test_archives_and_backups_hold_what_is_in_the_bucket(
    ana: Member, thread: Thread, bucket: Any, tmp_path: Path, settings: Settings
) -> None:
    settings.VAR, settings.HOME = tmp_path / "var", tmp_path / "var/home"
    settings.VAR.mkdir()
    send_file(thread, ana, "report.pdf", REPORT)
    store_files(seconds=10)
    stored = StoredFile.objects.get()
    export_workspace(workspace=ana.workspace, path=tmp_path / "one.zip")
    with zipfile.ZipFile(tmp_path / "one.zip") as archive:
        assert REPORT in [archive.read(each) for each in archive.namelist()]
    write_backup(tmp_path / "openvibe.tar")
    with tarfile.open(tmp_path / "openvibe.tar") as tar:
        assert stored.name in tar.getnames()
        tar.extractall(tmp_path / "unpacked", filter="data")
    bucket.objects.all().delete()
    _restore_files(tmp_path / "unpacked")
    assert read_stored_file(StoredFile.objects.get()) == REPORT
    assert store_files(seconds=10)["files moved"] == 1
    assert [each.key for each in bucket.objects.all()] == [stored.name]


def test_no_backup_is_written_without_the_files(
    ana: Member, thread: Thread, bucket: Any, tmp_path: Path, settings: Settings
) -> None:
    settings.VAR, settings.HOME = tmp_path / "var", tmp_path / "var/home"
    settings.VAR.mkdir()
    send_file(thread, ana, "report.pdf", REPORT)
    store_files(seconds=10)
    bucket.objects.all().delete()
    with pytest.raises(CommandError, match=r"has it no more\. Nothing was written"):
        write_backup(tmp_path / "openvibe.tar")
    assert not (tmp_path / "openvibe.tar").exists()
