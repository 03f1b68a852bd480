"""A secret key that is made once and kept in a file only its owner can read."""

import os
import secrets
from contextlib import suppress
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured


def kept_secret_key(path: Path) -> str:
    """The key in `path`, made on first use. Two processes starting together end up with the same key."""
    try:
        return path.read_text(encoding="ascii").strip()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        raise ImproperlyConfigured(f"The key file {path} cannot be read ({error.strerror}).") from error
    fresh = path.with_suffix(f".{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh.touch(mode=0o600)
        fresh.write_text(secrets.token_urlsafe(50), encoding="ascii")
        with suppress(FileExistsError):
            os.link(fresh, path)  # atomic: exactly one of several starters wins
        fresh.unlink()
    except OSError as error:
        raise ImproperlyConfigured(
            f"OpenVibe keeps its data in {path.parent}, which cannot be written ({error.strerror}). "
            "Make it writable, or set OPENVIBE_VAR to a folder that is."
        ) from error
    return path.read_text(encoding="ascii").strip()
