"""Files as they came: reading one, taking those in the database to the place that the operator chose for them, and
deleting there what no message has any more.

Every step can be killed: a file is marked as elsewhere before it is written there, leaves the database only once it is
there, and its row goes only once it is deleted there."""

import time
from collections.abc import Callable

import structlog
from django.core.files.base import ContentFile
from django.core.files.storage import InvalidStorageError, Storage, storages
from django.db import transaction

from openvibe.base.problems import Missing
from openvibe.chat.models import StoredFile

log = structlog.get_logger(__name__)


class FileUnavailable(OSError):
    """A file that is in another place, which does not answer, or has it no more."""


def file_storage() -> Storage | None:
    """The place for files that the operator chose (`STORAGES["files"]`); None where that is the database."""
    try:
        return storages["files"]
    except InvalidStorageError:
        return None


def read_stored_file(file: StoredFile) -> bytes:
    """The file as it came. Raises FileUnavailable."""
    if file.content is not None:
        return bytes(file.content)
    storage = file_storage()
    if storage is None:
        raise FileUnavailable("This file is in a bucket, and no bucket is set any more (OPENVIBE_S3_BUCKET).")
    try:
        with storage.open(file.name) as stream:
            return bytes(stream.read())
    except Exception as error:  # every kind of storage has its own
        log.warning("file_unavailable", file=file.pk, error=f"{type(error).__name__}: {error}"[:300])
        raise FileUnavailable("The place where this file is kept does not answer, or has it no more.") from error


def read_original(file: StoredFile | None) -> bytes:
    """The file as it came, for people. Raises Missing with a sentence where it cannot be had."""
    try:
        if file is not None:
            return read_stored_file(file)
    except FileUnavailable as error:
        raise Missing(f"{error} Try again later, or ask who runs this server.") from error
    raise Missing("This file was deleted.")


def store_files(*, seconds: float) -> dict[str, int]:
    """Takes files to the operator's place and deletes there those of deleted messages, for about so long. Several
    workers may do this at once. A file that cannot be moved now is tried again at the next turn."""
    storage = file_storage()
    if storage is None:
        return {}
    deadline = time.monotonic() + seconds
    deleted = StoredFile.objects.filter(attachment=None)
    here = StoredFile.objects.filter(content__isnull=False, attachment__isnull=False)
    return {
        "files deleted": _for_each(list(deleted.values_list("pk", flat=True)[:1_000]), _delete_file, storage, deadline),
        "files moved": _for_each(list(here.values_list("pk", flat=True)[:1_000]), _move_file, storage, deadline),
    }


def _for_each(ids: list[int], act: Callable[[int, Storage], bool], storage: Storage, deadline: float) -> int:
    done = 0
    for pk in ids:
        if time.monotonic() >= deadline:
            break
        try:
            done += act(pk, storage)
        except Exception as error:  # whatever a storage raises: the others do not wait for it
            log.warning("file_not_stored", file=pk, error=f"{type(error).__name__}: {error}"[:300])
            break
    return done


def _move_file(pk: int, storage: Storage) -> bool:
    StoredFile.objects.filter(pk=pk, is_elsewhere=False).update(is_elsewhere=True)  # committed before it is written
    with transaction.atomic():
        rows = StoredFile.objects.select_for_update(skip_locked=True)
        file = rows.filter(pk=pk, attachment__isnull=False, content__isnull=False).first()
        if file is None or file.content is None:
            return False
        storage.delete(file.name)  # half of it may be there
        saved_name = storage.save(file.name, ContentFile(bytes(file.content)))
        if saved_name != file.name:
            storage.delete(saved_name)
            raise OSError(f"The storage named the file {saved_name}.")
        StoredFile.objects.filter(pk=pk).update(content=None)
    return True


def _delete_file(pk: int, storage: Storage) -> bool:
    with transaction.atomic():
        file = StoredFile.objects.select_for_update(skip_locked=True).filter(pk=pk, attachment=None).first()
        if file is None:
            return False
        storage.delete(file.name)
        file.delete()
    return True


def release_files_of_workspace(workspace_id: int) -> int:
    """Marks what a workspace has elsewhere as deleted, in the caller's transaction, before its messages go."""
    files = StoredFile.objects.filter(is_elsewhere=True, attachment__message__thread__workspace=workspace_id)
    return files.update(attachment=None, content=None, preview=b"")
