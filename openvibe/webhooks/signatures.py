"""Signatures of deliveries, by the rules of Standard Webhooks: who sent what, and when.

A secret is `whsec_` and the key in base64. Secrets that were made before hold no base64; what is signed with them is
signed as it was then."""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Iterable, Sequence

SECRET_PREFIX = "whsec_"
KEY_BYTES = 32


def make_secret() -> str:
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()


def is_standard(secret: str) -> bool:
    """Whether libraries of Standard Webhooks can read the secret."""
    return _key_of(secret) is not None


def signature_headers(keys: Sequence[str], *, delivery_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers that say who sent `body`, one signature for each of the secrets. `timestamp`: seconds since 1970."""
    standard = [key for secret in keys if (key := _key_of(secret)) is not None]
    earlier = [secret.encode() for secret in keys if not is_standard(secret)]
    headers: dict[str, str] = {}
    if standard:
        payload = f"{delivery_id}.{timestamp}.".encode() + body
        signatures = (base64.b64encode(digest).decode() for digest in _digests(standard, payload))
        headers |= {
            "webhook-id": delivery_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
        }
    if earlier:
        digests = _digests(earlier, f"{timestamp}.".encode() + body)
        signature = ",".join((f"t={timestamp}", *(f"v1={digest.hex()}" for digest in digests)))
        headers |= {"OpenVibe-Delivery": delivery_id, "OpenVibe-Signature": signature}
    return headers


def _digests(keys: Iterable[bytes], payload: bytes) -> list[bytes]:
    return [hmac.new(key, payload, hashlib.sha256).digest() for key in keys]


def _key_of(secret: str) -> bytes | None:
    try:
        return base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except binascii.Error:
        return None
