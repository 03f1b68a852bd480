"""Signatures of deliveries: HMAC-SHA256 over `timestamp.body`, so that a receiver knows who sent what, and when."""

import hashlib
import hmac
import secrets
from collections.abc import Iterable

SECRET_PREFIX = "whsec_"


def make_secret() -> str:
    return SECRET_PREFIX + secrets.token_urlsafe(32)


def signature_header(keys: Iterable[str], timestamp: int, body: bytes) -> str:
    """`t=<seconds since 1970>,v1=<hex>`, with one `v1` for each of the secrets."""
    payload = f"{timestamp}.".encode() + body
    digests = (hmac.new(key.encode(), payload, hashlib.sha256).hexdigest() for key in keys)
    return ",".join((f"t={timestamp}", *(f"v1={digest}" for digest in digests)))
