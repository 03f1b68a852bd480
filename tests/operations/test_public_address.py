"""What `manage.py doctor --url` says of a public address that is not as it should be."""

import ssl
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from django.test import Client
from pytest_django.fixtures import Settings

from openvibe.runner.public_address import SEND_HTTPS, PublicAddress, diagnose_address
from tests.operations.processes import PATIENCE, free_port
from tests.operations.public_server import Answer, PublicServer, public_server

SIGN_IN = "/accounts/login/"
EVENT_STREAM = {"Content-Type": "text/event-stream"}
COMPRESSED = {**EVENT_STREAM, "Content-Encoding": "gzip"}
AWAY = {"Location": "https://sso.example/"}
HTTPS = {"x-forwarded-proto": "https", "host": "vibe.example"}


@pytest.fixture
def in_production(settings: Settings) -> None:
    settings.SECURE_SSL_REDIRECT = settings.SESSION_COOKIE_SECURE = settings.CSRF_COOKIE_SECURE = True
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    settings.ALLOWED_HOSTS = ["vibe.example"]


def page(headers: dict[str, str]) -> Answer:
    """The page to sign in at, as this OpenVibe gives it to such a request."""
    answer = Client(headers=headers).get(SIGN_IN)
    cookies = {"Set-Cookie": answer.cookies["csrftoken"].OutputString()} if answer.cookies else {}
    return Answer(answer.content, answer.status_code, cookies)


@pytest.fixture
def server(tmp_path: Path, in_production: None, db: None) -> Iterator[PublicServer]:
    """One with which all is well."""
    answers = {
        "GET /healthz": Answer(b"ok\n"),
        f"GET {SIGN_IN}": page(HTTPS),
        f"POST {SIGN_IN}": page(HTTPS),
        "GET /static/css/app.css": Answer(headers={"Content-Type": "text/css"}),
        "GET /healthz/events/": Answer(b"data: ok\n\n", headers=EVENT_STREAM),
    }
    with public_server(tmp_path, answers, protocols=["h2", "http/1.1"]) as running:
        yield running


def diagnose(
    url: str, tls: ssl.SSLContext | None = None, stream_seconds: float = PATIENCE
) -> dict[str, tuple[str, str]]:
    """State and advice by subject."""
    address = PublicAddress(url, tls=tls, answer_seconds=PATIENCE, stream_seconds=stream_seconds)
    return {subject: (state, advice) for subject, state, advice in diagnose_address(address)}


def problems(server: PublicServer) -> dict[str, str]:
    """State and advice in one text, by subject; only of what is not well. Of a stream that is held nothing comes."""
    is_held = any(answer.is_held for answer in server.answers.values())
    results = diagnose(server.url, server.tls, stream_seconds=0.2 if is_held else PATIENCE)
    return {subject: f"{state} {advice}" for subject, (state, advice) in results.items() if advice}


def test_where_all_is_well_each_check_says_so(server: PublicServer) -> None:
    results = diagnose(server.url, server.tls)
    assert [state for state, advice in results.values() if advice or "not known" in state] == []
    assert list(results) == ["address", "page", "static files", "cookies", "forms", "event stream", "HTTP/2"]


@pytest.mark.parametrize(
    ("request_line", "answer", "subject", "words"),
    [
        ("GET /healthz", Answer(status=502), "address", "Start OpenVibe"),
        ("GET /healthz", Answer(b"Welcome to nginx!"), "address", "not as OpenVibe does"),
        ("GET /healthz", Answer(status=301, headers=AWAY), "address", "OPENVIBE_PUBLIC_URL"),
        (f"GET {SIGN_IN}", Answer(status=301, headers={"Location": SIGN_IN}), "page", SEND_HTTPS),
        (f"GET {SIGN_IN}", Answer(status=302, headers=AWAY), "page", "leads to https://sso"),
        (f"GET {SIGN_IN}", Answer(status=500), "page", "The log of OpenVibe"),
        ("GET /static/css/app.css", Answer(status=404), "static files", "Static files are OpenVibe's, too"),
        ("GET /healthz/events/", Answer(headers=EVENT_STREAM, is_held=True), "event stream", "proxy_buffering off"),
        ("GET /healthz/events/", Answer(headers=EVENT_STREAM), "event stream", "ends before its first event"),
        ("GET /healthz/events/", Answer(headers=COMPRESSED), "event stream", "compressed"),
        ("GET /healthz/events/", Answer(status=404), "event stream", "answers 404"),
    ],
)
def test_what_is_wrong_is_said_with_what_to_do(
    server: PublicServer, request_line: str, answer: Answer, subject: str, words: str
) -> None:
    server.answers[request_line] = answer
    said = problems(server)
    assert list(said) == [subject]
    assert words in said[subject]


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({"host": "vibe.example"}, "X-Forwarded-Proto: https"),
        ({"host": "vibe.example", "x-forwarded-proto": "http", "sec-fetch-site": "none"}, "pass on the header"),
        ({**HTTPS, "host": "other.example"}, "OPENVIBE_ALLOWED_HOSTS"),
    ],
)
def test_what_our_own_page_says_is_said_again(server: PublicServer, headers: dict[str, str], words: str) -> None:
    server.answers[f"GET {SIGN_IN}"] = page(headers)
    said = problems(server)
    assert list(said) == ["page"]
    assert words in said["page"]


def test_a_form_of_another_origin_names_the_setting(server: PublicServer) -> None:
    browser = Client(enforce_csrf_checks=True, headers=HTTPS)
    refusal = browser.post(SIGN_IN, headers={"origin": "https://vibe.example:8443"})
    server.answers[f"POST {SIGN_IN}"] = Answer(refusal.content, refusal.status_code)
    assert "OPENVIBE_CSRF_TRUSTED_ORIGINS" in problems(server)["forms"]


def test_cookies_that_go_over_http_are_named(server: PublicServer, settings: Settings) -> None:
    settings.CSRF_COOKIE_SECURE = False
    server.answers[f"GET {SIGN_IN}"] = page(HTTPS)
    assert problems(server) == {
        "cookies": "csrftoken would go over HTTP, too. Set OPENVIBE_PRODUCTION=1 and start it again."
    }


class Healthy(BaseHTTPRequestHandler):
    """Answers as the health check does, over plain HTTP."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"ok\n")

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_plain_http_is_no_fault_on_the_machine_itself() -> None:
    with HTTPServer(("127.0.0.1", 0), Healthy) as plain:
        Thread(target=plain.handle_request, daemon=True).start()
        address = PublicAddress(f"http://127.0.0.1:{plain.server_port}")
        assert address.health() == (f"{address.origin} answers.", "")
        address.close()


def test_a_proxy_without_http2_is_told_of(tmp_path: Path) -> None:
    with public_server(tmp_path, {"GET /healthz": Answer(b"ok\n")}, protocols=["http/1.1"]) as server:
        assert "six connections" in problems(server)["HTTP/2"]


def test_where_nothing_answers_it_says_why_and_asks_no_more(server: PublicServer) -> None:
    nowhere = diagnose(f"https://localhost:{free_port()}")
    assert {subject: advice for subject, (_, advice) in nowhere.items()} == {"address": "Start the proxy."}
    unknown_authority = diagnose(server.url)
    assert list(unknown_authority) == ["address"]
    assert "its certificate is not good: self-signed" in unknown_authority["address"][0]
    without_tls = diagnose(server.url.replace("https", "http"))
    assert without_tls["address"][1]
