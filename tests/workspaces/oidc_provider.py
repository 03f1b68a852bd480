"""A provider of OpenID Connect on loopback, small enough to read: whoever asks is signed in as `claims`."""

import base64
import hmac
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any, ClassVar
from urllib.parse import parse_qs

from tests.http_server import serve_http

CLIENT = {"client_id": "openvibe", "secret": "a secret of at least thirty-two bytes"}


def signed_token(claims: dict[str, Any]) -> str:
    """RFC 7519, HS256."""
    parts = [json.dumps(part).encode() for part in ({"alg": "HS256", "typ": "JWT"}, claims)]
    words = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts)
    signature = hmac.digest(CLIENT["secret"].encode(), words, "sha256")
    return (words + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")).decode()


class Provider(BaseHTTPRequestHandler):
    claims: ClassVar[dict[str, Any]] = {}
    changes: ClassVar[dict[str, Any]] = {}
    calls: ClassVar[list[str]] = []

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"  # type: ignore[attr-defined]

    def answer(self, body: object) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        self.calls.append(self.path)
        if self.path == "/userinfo":
            return self.answer(self.changes.get("userinfo", self.claims))
        names = {"token_endpoint": "token", "userinfo_endpoint": "userinfo", "authorization_endpoint": "authorize"}
        addresses = {name: f"{self.issuer}/{path}" for name, path in names.items()}
        document = {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys", **addresses}
        changes = {name: value for name, value in self.changes.items() if name != "userinfo"}
        return self.answer(self.changes.get("document") or document | changes)

    def do_POST(self) -> None:
        self.calls.append(self.path)
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        assert form["code"] == ["a-code"]
        assert form["code_verifier"][0]
        assert form["client_secret"] == [CLIENT["secret"]]
        token = {**self.claims, "iss": self.issuer, "aud": CLIENT["client_id"], "exp": int(time.time()) + 60}
        self.answer({"access_token": "t", "token_type": "Bearer", "id_token": signed_token(token)})

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@contextmanager
def provider_serving(**claims: Any) -> Iterator[tuple[type[Provider], str]]:
    """The provider, to be changed, and its address."""
    kind = type("TestProvider", (Provider,), {"claims": claims, "changes": {}, "calls": []})
    with serve_http(kind) as server:
        yield kind, f"http://127.0.0.1:{server.server_port}"
