"""Text that is encrypted in the database and plain in Python."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.core.exceptions import FieldError
from django.db import models

if TYPE_CHECKING:
    from django.db.models.lookups import Lookup

    _Text = models.TextField[str, str]
else:
    _Text = models.TextField

PREFIX = "enc1:"


class CannotDecrypt(Exception):
    """A stored secret was encrypted with a key this server does not have."""


def encrypt(text: str) -> str:
    """`enc1:` and the encrypted text; an empty text stays empty."""
    return PREFIX + _fernet().encrypt(text.encode()).decode("ascii") if text else ""


def decrypt(stored: str) -> str:
    """The text that `encrypt` was given. Raises CannotDecrypt."""
    if not stored:
        return ""
    try:
        if not stored.startswith(PREFIX):
            raise InvalidToken
        return _fernet().decrypt(stored.removeprefix(PREFIX)).decode()
    except (InvalidToken, ValueError) as error:
        raise CannotDecrypt(
            "A stored key cannot be decrypted: OPENVIBE_SECRET_KEY is not the one it was saved with. "
            "Start with the old key, or enter the endpoint's key anew."
        ) from error


class UnreadableSecret(str):
    """A secret that is read as an empty text, because no key of this server decrypts it; `stored` is written back as it
    was."""

    stored: str

    def __new__(cls, stored: str) -> UnreadableSecret:
        secret = super().__new__(cls)
        secret.stored = stored
        return secret

    def __getnewargs__(self) -> tuple[str]:
        return (self.stored,)


def secret_hint(secret: str, noun: str) -> str:
    """`…` and the last four characters; empty without a secret, `…` alone for a very short one; a sentence for one that
    cannot be read."""
    if isinstance(secret, UnreadableSecret):
        return f"enter the {noun} again"
    return f"…{secret[-4:]}" if len(secret) >= 12 else "…" if secret else ""


class EncryptedTextField(_Text):
    """A TextField stored as `enc1:…`. Encrypted with `settings.SECRET_KEY`; `SECRET_KEY_FALLBACKS` still decrypt.

    What none of them decrypts is an UnreadableSecret: its row can still be read, changed and mended.
    The same text is stored differently each time, so it can be looked up only by `isnull` and by being empty.
    """

    def get_prep_value(self, value: Any) -> Any:
        if isinstance(value, UnreadableSecret):
            return value.stored
        text = super().get_prep_value(value)
        return encrypt(text) if isinstance(text, str) else text

    def from_db_value(self, value: str | None, expression: object, connection: object) -> str | None:
        try:
            return None if value is None else decrypt(value)
        except CannotDecrypt:
            return UnreadableSecret(str(value))

    def get_lookup(self, lookup_name: str) -> type[Lookup[Any]] | None:
        if lookup_name not in ("isnull", "exact"):
            raise FieldError(f"{self.name} is encrypted: it cannot be looked up by {lookup_name}.")
        return super().get_lookup(lookup_name)


def reencrypt(stored: str, *, old_keys: Sequence[str]) -> str:
    """The same secret encrypted with `settings.SECRET_KEY`, as it was where it is already. Raises CannotDecrypt."""
    if not stored:
        return ""
    token = stored.removeprefix(PREFIX).encode()
    try:
        _fernet_for(settings.SECRET_KEY).decrypt(token)
        return stored
    except InvalidToken:
        pass
    if not old_keys:
        raise CannotDecrypt("It is encrypted with another key.")
    try:
        return encrypt(_fernet_for(*old_keys).decrypt(token).decode())
    except (InvalidToken, ValueError) as error:
        raise CannotDecrypt("None of the keys decrypts it.") from error


def _fernet() -> MultiFernet:
    return _fernet_for(settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)


@lru_cache(maxsize=4)
def _fernet_for(*keys: str) -> MultiFernet:
    return MultiFernet(
        [Fernet(urlsafe_b64encode(sha256(b"openvibe encrypted field\0" + key.encode()).digest())) for key in keys]
    )
