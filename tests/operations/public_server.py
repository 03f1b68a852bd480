"""A server with HTTPS on this machine that answers what a test says, as the proxy before an installation would."""

import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.http_server import serve_http


@dataclass
class Answer:
    """`is_held`: the body follows when the server ends, not before."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    is_held: bool = False


@dataclass
class PublicServer:
    """`answers` are by method and path, such as `GET /healthz`; others are 404."""

    url: str
    tls: ssl.SSLContext
    answers: dict[str, Answer]


def write_certificate(path: Path) -> None:
    """A certificate of localhost that signs itself, and its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    path.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain) + certificate.public_bytes(pem))


@contextmanager
def public_server(folder: Path, answers: dict[str, Answer], *, protocols: list[str]) -> Iterator[PublicServer]:
    """Serves until the end; `protocols` are those of ALPN."""
    certificate, is_over = folder / "localhost.pem", threading.Event()
    write_certificate(certificate)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            self.rfile.read(length)
            answer = answers.get(f"{self.command} {self.path}", Answer(status=404))
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            if answer.is_held:
                is_over.wait()
            self.wfile.write(answer.body)

        do_POST = do_GET  # noqa: N815 - the base class names it so

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.set_alpn_protocols(protocols)
    with serve_http(Handler, host="localhost", tls=context) as server:
        try:
            url = f"https://localhost:{server.server_port}"
            yield PublicServer(url, ssl.create_default_context(cafile=str(certificate)), answers)
        finally:
            is_over.set()
