"""A push service and browsers of the tests' own: a real HTTP server on 127.0.0.1, and the reader's half of RFC 8291."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

import jwt
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.db import connection

from openvibe.engines.network.web_push import decode_base64url, encode_base64url, public_point
from tests.http_server import serve_http


@dataclass(frozen=True)
class TestBrowser:
    """A browser with keys of its own. `decrypt` is written from the standard, not from what is tested."""

    __test__ = False

    private_key: ec.EllipticCurvePrivateKey
    auth: bytes

    @classmethod
    def new(cls) -> TestBrowser:
        return cls(ec.generate_private_key(ec.SECP256R1()), secrets.token_bytes(16))

    @property
    def p256dh(self) -> str:
        return encode_base64url(public_point(self.private_key))

    @property
    def auth_text(self) -> str:
        return encode_base64url(self.auth)

    def decrypt(self, body: bytes) -> bytes:
        """RFC 8188 2.1: salt, size of a record, length of the key's id, the id, records."""
        salt, id_length = body[:16], body[20]
        sender, record = body[21 : 21 + id_length], body[21 + id_length :]
        assert len(record) <= int.from_bytes(body[16:20], "big")
        point = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), sender)
        shared = self.private_key.exchange(ec.ECDH(), point)
        info = b"WebPush: info\x00" + public_point(self.private_key) + sender

        def derive(secret: bytes, salt: bytes, info: bytes, length: int) -> bytes:
            return HKDF(hashes.SHA256(), length, salt, info).derive(secret)

        secret = derive(shared, self.auth, info, 32)
        key = derive(secret, salt, b"Content-Encoding: aes128gcm\x00", 16)
        nonce = derive(secret, salt, b"Content-Encoding: nonce\x00", 12)
        plain = AESGCM(key).decrypt(nonce, record, None).rstrip(b"\x00")
        assert plain.endswith(b"\x02")
        return plain[:-1]


@dataclass(frozen=True)
class ReceivedPush:
    path: str
    headers: dict[str, str]
    body: bytes

    def claims(self, audience: str) -> dict[str, Any]:
        """What the sender signed, checked with the key that it shows."""
        token, key = (part.partition("=")[2] for part in self.headers["authorization"].partition(" ")[2].split(", "))
        shown = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), decode_base64url(key))
        return dict(jwt.decode(token, shown, algorithms=["ES256"], audience=audience))

    def read_by(self, browser: TestBrowser) -> dict[str, Any]:
        return dict(json.loads(browser.decrypt(self.body)))


Answer = tuple[int, dict[str, str]]


@dataclass
class PushService:
    """`answer` gives each push its status and headers; it may wait, as one that never answers does."""

    answer: Callable[[ReceivedPush], Answer] = lambda push: (201, {})
    received: list[ReceivedPush] = field(default_factory=list)
    port: int = 0

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def address(self, name: str) -> str:
        return f"{self.origin}/push/{name}"


@contextmanager
def serving_pushes() -> Iterator[PushService]:
    service = PushService()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            push = ReceivedPush(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            service.received.append(push)
            status, headers = service.answer(push)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": "0"}.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing on the terminal."""

    with serve_http(Handler) as server:
        service.port = server.server_port
        yield service


def number_events() -> None:
    """Numbers the events, as at a commit."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")
