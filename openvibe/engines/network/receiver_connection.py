"""POSTs to an address that somebody entered: checked at connect, no redirects, an end in time whatever answers.

The connection to a receiver stays open from one delivery to the next. Its name is looked up and checked for each, and
another connection is made where it stands for another address by then."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from socket import SHUT_RDWR, socket
from typing import Any

import httpx2

from openvibe.engines.network.ssrf_guard import AddressRefused, GuardedTransport
from openvibe.engines.text.masking import mask_secrets

MAX_SECONDS = 10.0
MAX_RESPONSE_CHARACTERS = 500
MAX_RESPONSE_BYTES = 4_096
TIMEOUT_MESSAGE = "No whole answer came in time."
NO_HTTP = "It answered nothing, or something that is no HTTP."
NEW_SOCKET_EVENTS = ("connection.connect_tcp.complete", "connection.start_tls.complete")


@dataclass(frozen=True)
class AttemptResult:
    """What came of one attempt. `status` is None where nothing answered; `error` is empty where all went well.

    `retry_after`: the header of that name, as it came; empty without one."""

    status: int | None
    text: str
    error: str
    milliseconds: int
    retry_after: str = ""


class ReceiverConnection:
    """The way to one receiver, for one thread at a time. Nothing that it answers is kept, as cookies are."""

    def __init__(self, url: str, *, allow_private: bool, seconds: float = MAX_SECONDS) -> None:
        self._url, self._seconds = url, seconds
        self._transport = GuardedTransport(allow_private=allow_private, total_seconds=seconds)
        timeout = httpx2.Timeout(seconds, connect=seconds / 2)
        self._client = httpx2.Client(transport=self._transport, timeout=timeout, trust_env=False)
        self._sockets: list[socket] = []
        self._is_reused = False
        self._retry_after = ""
        self._retry_after = ""

    def close(self) -> None:
        self._client.close()

    def post(self, body: bytes, headers: dict[str, str]) -> AttemptResult:
        """Sends it once, within the `seconds` in all. Raises nothing: whatever went wrong stands in `error`.

        Where a connection that was open turns out to be closed by now, it is sent over a new one."""
        start_time = time.monotonic()
        with self._deadline():
            self._retry_after = ""
            status, response_body, error = self._send(body, headers, start_time)
            if status is None and error and self._is_reused and time.monotonic() - start_time < self._seconds:
                status, response_body, error = self._send(body, headers, start_time)
        text = response_body[:MAX_RESPONSE_BYTES].decode(errors="replace").replace("\x00", "")
        masked_text = mask_secrets(text)[:MAX_RESPONSE_CHARACTERS]
        milliseconds = round((time.monotonic() - start_time) * 1000)
        return AttemptResult(status, masked_text, error[:300], milliseconds, self._retry_after)

    def _send(self, body: bytes, headers: dict[str, str], start_time: float) -> tuple[int | None, bytes, str]:
        """The status, how the answer begins, and what went wrong."""
        status, response_body, error = None, b"", ""
        self._is_reused = True
        self._client.cookies.clear()
        remaining = self._seconds - (time.monotonic() - start_time)
        self._transport.restart_limit(remaining)
        options: dict[str, Any] = {"content": body, "headers": headers, "extensions": {"trace": self._trace}}
        try:
            with self._client.stream("POST", self._url, **options) as response:
                status = response.status_code
                self._retry_after = response.headers.get("retry-after", "")[:100]
                error = "" if response.is_success else _refusal(response)
                with suppress(httpx2.HTTPError, OSError):  # the status says it all, however the body ends
                    for chunk in response.iter_raw():
                        response_body += chunk
                        if len(response_body) >= MAX_RESPONSE_BYTES:
                            break
        except AddressRefused as refusal:
            self._is_reused, error = False, str(refusal)
        except httpx2.TimeoutException:
            self._is_reused, error = False, TIMEOUT_MESSAGE
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as failure:
            is_late = time.monotonic() - start_time >= self._seconds
            error = TIMEOUT_MESSAGE if is_late else _failure(failure)
        return status, response_body, error

    def _trace(self, name: str, info: dict[str, Any]) -> None:
        """Notes, called by the client, that a new connection begins, or has a socket."""
        if name == "connection.connect_tcp.started":
            self._is_reused = False
        elif name in NEW_SOCKET_EVENTS and "return_value" in info:
            self._sockets = [each for each in self._sockets if each.fileno() >= 0]
            self._sockets.append(info["return_value"].get_extra_info("socket"))

    @contextmanager
    def _deadline(self) -> Iterator[None]:
        """Ends its connections when time is up, however steadily one drips."""

        def end() -> None:
            for each in self._sockets:
                with suppress(OSError):
                    each.shutdown(SHUT_RDWR)

        timer = threading.Timer(self._seconds, end)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


def _failure(failure: Exception) -> str:
    """The failure in words, never with words of the receiver's, which may repeat what it was told: they stand in `text`
    alone."""
    if isinstance(failure, httpx2.RemoteProtocolError):
        return NO_HTTP
    return f"Nothing answered there: {mask_secrets(str(failure)) or type(failure).__name__}"


def _refusal(response: httpx2.Response) -> str:
    if response.is_redirect:
        return f"It answered {response.status_code}. Redirects are not followed: enter the address it leads to."
    return f"It answered {response.status_code}. Only an answer of 200 to 299 is taken as received."
