"""Writing a file whole or not at all."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO


@contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """A new file that only this system user can read; it takes the place of `path` at the end, or is gone if that is an
    error. Where `path` is a link, that is the file it leads to. Raises OSError, also for devices, pipes and folders."""
    target = Path(os.path.realpath(path))
    if os.path.lexists(target) and not target.is_file():
        raise OSError(errno.EINVAL, "Not a regular file", str(path))
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)  # mode 0600
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
        Path(name).replace(target)
    finally:
        with suppress(FileNotFoundError):
            Path(name).unlink()
