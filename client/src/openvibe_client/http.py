"""Calls of the API: one kept connection a thread, errors as they are told, and patience with a server that is away."""

import json
import random
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import urlencode, urlsplit

VERSION = "0.1.0"
MAX_ANSWER_BYTES = 50_000_000
TRIES, PATIENT_TRIES = 6, 16
"""Ten seconds, and a minute: by then a server that is away takes the agent for silent."""
AWAY = (429, 502, 503, 504)
"""Nothing was done, says the server: the same call may be sent again."""
NETWORK_ERRORS = (OSError, HTTPException)


class ApiError(Exception):
    """What the server refused: `code` is stable, `detail` a sentence for people. Status 0: it did not answer."""

    def __init__(self, status: int, code: str, detail: str, retry_after: float = 0.0) -> None:
        super().__init__(f"{detail} ({status} {code})" if status else detail)
        self.status, self.code, self.detail, self.retry_after = status, code, detail, retry_after

    @property
    def is_away(self) -> bool:
        """Whether the server, or what stands before it, could not answer now."""
        return self.status in (0, *AWAY)


class Unanswered(Exception):
    """The connection broke. `is_sent`: the server may have done what it was asked."""

    def __init__(self, reason: str, *, is_sent: bool) -> None:
        super().__init__(reason)
        self.is_sent = is_sent


def backoff_seconds(failures: int, *, first: float = 0.3, longest: float = 30.0) -> float:
    """How long to wait after so many failures in a row: doubled each time, and not the same for everybody."""
    bound: float = min(longest, first * 2.0 ** min(failures, 16))
    return random.uniform(bound / 2, bound)


class Api:
    """The API of one OpenVibe, with one token, or with None for what needs none. Threads may share it."""

    def __init__(self, url: str, token: str | None, *, timeout: float = 30.0) -> None:
        parts = urlsplit(url if "//" in url else f"https://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is no address: http:// or https://, and a host.")
        if token is not None and not (token.isascii() and token.isprintable() and token):
            raise ValueError("That is no token. It begins with ovk_.")
        self._host, self._port, self._is_secure = parts.hostname, parts.port, parts.scheme == "https"
        self._root = parts.path.rstrip("/") + "/api/v1/"
        own = {"Authorization": f"Bearer {token}"} if token else {}
        self._headers = {"User-Agent": f"openvibe-client/{VERSION}", **own}
        self._timeout = timeout
        self._kept = threading.local()

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: dict[str, str | int] | None = None,
        headers: dict[str, str] | None = None,
        is_repeatable: bool | None = None,
        tries: int = TRIES,
    ) -> Any:
        """The decoded answer of `METHOD /api/v1/<path>`; None when it has no body. Raises ApiError.

        Sent again while the server is away. Where the connection broke after the call was sent, only when it
        `is_repeatable`: GET and PUT are, and POST where the API takes an `Idempotency-Key`, which it then gets.
        """
        is_repeatable = method in ("GET", "PUT") if is_repeatable is None else is_repeatable
        sent = {**self._headers, "Accept": "application/json", **(headers or {})}
        if is_repeatable and method == "POST":
            sent.setdefault("Idempotency-Key", str(uuid.uuid4()))
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            sent["Content-Type"] = "application/json"
        target = self._root + path + (f"?{urlencode(query)}" if query else "")
        for failures in range(tries):
            is_last = failures == tries - 1
            try:
                return self._call_once(method, target, data, sent, is_kept=is_repeatable)
            except Unanswered as error:
                if is_last or (error.is_sent and not is_repeatable):
                    raise ApiError(0, "no_answer", f"{self._host} did not answer: {error}.") from None
                time.sleep(backoff_seconds(failures, longest=5.0))
            except ApiError as error:
                if is_last or not (error.status in AWAY or error.code == "in_progress"):
                    raise
                time.sleep(max(backoff_seconds(failures, longest=5.0), error.retry_after))
        raise AssertionError("tries is at least 1")

    def _call_once(
        self, method: str, target: str, data: bytes | None, headers: dict[str, str], *, is_kept: bool
    ) -> Any:
        connection: HTTPConnection | None = getattr(self._kept, "connection", None) if is_kept else None
        is_sent = False
        try:
            if connection is None:
                connection = self.connect(self._timeout)
            is_sent = True
            connection.request(method, target, data, headers)
            response = connection.getresponse()
            text = response.read(MAX_ANSWER_BYTES + 1)
        except NETWORK_ERRORS as error:
            self._keep(None, connection)
            raise Unanswered(f"{type(error).__name__}: {error}", is_sent=is_sent) from None
        self._keep(connection if not response.will_close and len(text) <= MAX_ANSWER_BYTES else None, connection)
        return decode_answer(response, text)

    def connect(self, timeout: float) -> HTTPConnection:
        kind = HTTPSConnection if self._is_secure else HTTPConnection
        connection = kind(self._host, self._port, timeout=timeout)
        connection.connect()
        return connection

    def _keep(self, kept: HTTPConnection | None, used: HTTPConnection | None) -> None:
        if used is not None and kept is not used:
            used.close()
        earlier: HTTPConnection | None = getattr(self._kept, "connection", None)
        if earlier is not None and earlier is not kept and earlier is not used:
            earlier.close()
        self._kept.connection = kept

    def close(self) -> None:
        """Closes this thread's connection."""
        self._keep(None, getattr(self._kept, "connection", None))

    def forward(self, path: str, data: bytes, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        """The answer to a POST beside the API, with this token: status, headers, body. Raises Unanswered."""
        try:
            with closing(self.connect(self._timeout)) as connection:
                target = self._root.removesuffix("api/v1/") + path
                connection.request("POST", target, data, {**headers, **self._headers})
                response = connection.getresponse()
                return response.status, dict(response.getheaders()), response.read(MAX_ANSWER_BYTES)
        except NETWORK_ERRORS as error:
            raise Unanswered(f"{type(error).__name__}: {error}", is_sent=True) from None

    def lines(
        self, path: str, *, query: list[tuple[str, str]], headers: dict[str, str], silence: float
    ) -> Iterator[bytes]:
        """Lines of an answer that does not end. Raises ApiError when it is refused, Unanswered when it breaks or
        nothing came for `silence` seconds."""
        sent = {**self._headers, "Accept": "text/event-stream", **headers}
        try:
            with closing(self.connect(silence)) as connection:
                connection.request("GET", f"{self._root}{path}?{urlencode(query)}", headers=sent)
                response = connection.getresponse()
                if response.status != 200:
                    decode_answer(response, response.read(100_000))
                if not response.getheader("Content-Type", "").startswith("text/event-stream"):
                    message = "The answer is no event stream. Is this the address of OpenVibe?"
                    raise ApiError(response.status, "no_stream", message)
                while line := response.readline():
                    yield line
        except NETWORK_ERRORS as error:
            raise Unanswered(f"{type(error).__name__}: {error}", is_sent=True) from None


def decode_answer(response: HTTPResponse, text: bytes) -> Any:
    """The JSON of a 2xx. Raises ApiError for everything else, whatever it holds."""
    problem = {}
    try:
        decoded = json.loads(text) if text else None
        if 200 <= response.status < 300:
            return decoded
        problem = decoded if isinstance(decoded, dict) else {}
    except ValueError:
        if 200 <= response.status < 300:
            raise ApiError(
                response.status, "no_json", "The answer is no JSON. Is this the address of OpenVibe?"
            ) from None
    wait = response.getheader("Retry-After", "")
    raise ApiError(
        response.status,
        str(problem.get("code", "http")),
        str(problem.get("detail", f"The server answered {response.status} {response.reason}.")),
        float(wait) if wait.isascii() and wait.isdigit() else 0.0,
    )
