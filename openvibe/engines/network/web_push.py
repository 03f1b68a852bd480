"""Web Push: messages that only one browser can read, and the server's signature that its push service asks for.

Encryption by RFC 8291 (`aes128gcm` of RFC 8188, one record), the signature by RFC 8292 (VAPID). Both are a few calls of
`cryptography` and PyJWT: the packages made for it bring a resolver of names, or have no wheels."""

import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

import jwt
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

MAX_PAYLOAD_BYTES = 3_993
"""What fits into the 4,096 bytes that every push service takes (RFC 8030, 7.2)."""
SIGNATURE_AGE = timedelta(hours=12)
"""How long a signature holds; RFC 8292 allows a day."""
AUTH_BYTES, SALT_BYTES, RECORD_SIZE = 16, 16, 4_096
_LAST_RECORD = b"\x02"  # RFC 8188: the delimiter of the last record


class BadBrowserKey(ValueError):
    """A browser's key that is none."""


def encode_base64url(content: bytes) -> str:
    """Base64url without padding, as all of Web Push writes it."""
    return urlsafe_b64encode(content).rstrip(b"=").decode()


def decode_base64url(text: str) -> bytes:
    """The bytes; raises BadBrowserKey."""
    try:
        return urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    except ValueError as error:
        raise BadBrowserKey("A key is written in base64url.") from error


@dataclass(frozen=True)
class BrowserKeys:
    """The keys that a browser gives away with its address: a point of P-256 (65 bytes) and a secret (16 bytes)."""

    point: bytes
    auth: bytes


def read_browser_keys(p256dh: str, auth: str) -> BrowserKeys:
    """The keys as browsers write them. Raises BadBrowserKey for what is no point of the curve, or no secret."""
    keys = BrowserKeys(decode_base64url(p256dh), decode_base64url(auth))
    _load_point(keys.point)
    if len(keys.auth) != AUTH_BYTES:
        raise BadBrowserKey(f"The secret of a browser has {AUTH_BYTES} bytes.")
    return keys


def encrypt(
    payload: bytes,
    keys: BrowserKeys,
    *,
    private_key: ec.EllipticCurvePrivateKey | None = None,
    salt: bytes | None = None,
) -> bytes:
    """The body of a push, which this browser alone decrypts; key and salt are new for each unless a test gives them.
    Raises ValueError for a payload of more than MAX_PAYLOAD_BYTES."""
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise ValueError(f"A push has at most {MAX_PAYLOAD_BYTES:,} bytes.")
    private_key = private_key or ec.generate_private_key(ec.SECP256R1())
    salt = salt or secrets.token_bytes(SALT_BYTES)
    point = public_point(private_key)
    shared = private_key.exchange(ec.ECDH(), _load_point(keys.point))
    secret = _derive(shared, keys.auth, b"WebPush: info\0" + keys.point + point, 32)
    content_key = _derive(secret, salt, b"Content-Encoding: aes128gcm\0", 16)
    nonce = _derive(secret, salt, b"Content-Encoding: nonce\0", 12)
    head = salt + RECORD_SIZE.to_bytes(4, "big") + bytes([len(point)]) + point
    return head + AESGCM(content_key).encrypt(nonce, payload + _LAST_RECORD, None)


def signature_header(private_key: ec.EllipticCurvePrivateKey, *, endpoint: str, contact: str, now: datetime) -> str:
    """`Authorization` for a push to `endpoint`: who sends it, and how its operator is reached (`mailto:` or https)."""
    parts = urlsplit(endpoint)
    claims = {"aud": f"{parts.scheme}://{parts.netloc}", "exp": int((now + SIGNATURE_AGE).timestamp()), "sub": contact}
    token = jwt.encode(claims, private_key, algorithm="ES256")
    return f"vapid t={token}, k={encode_base64url(public_point(private_key))}"


def new_private_key() -> str:
    """A key of a server's own: the 32 bytes of its number, base64url."""
    number = ec.generate_private_key(ec.SECP256R1()).private_numbers().private_value
    return encode_base64url(number.to_bytes(32, "big"))


def load_private_key(text: str) -> ec.EllipticCurvePrivateKey:
    """The key that `new_private_key` wrote. Raises ValueError."""
    return ec.derive_private_key(int.from_bytes(decode_base64url(text), "big"), ec.SECP256R1())


def public_point(private_key: ec.EllipticCurvePrivateKey) -> bytes:
    """The public key, uncompressed: what browsers call `applicationServerKey`."""
    return private_key.public_key().public_bytes(
        serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
    )


def _load_point(point: bytes) -> ec.EllipticCurvePublicKey:
    try:
        return ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    except ValueError as error:
        raise BadBrowserKey("The key of a browser is a point of P-256.") from error


def _derive(secret: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    return HKDF(hashes.SHA256(), length, salt, info).derive(secret)
