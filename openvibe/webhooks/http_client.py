"""One POST to an address that somebody entered: checked at connect, no redirects, an end in time whatever answers."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from socket import SHUT_RDWR, socket
from typing import Any

import httpx2

from openvibe.base.masking import mask_secrets
from openvibe.base.ssrf_guard import AddressRefused, GuardedTransport
from openvibe.webhooks.models import MAX_RESPONSE_CHARACTERS

MAX_SECONDS = 10.0
MAX_RESPONSE_BYTES = 4_096
TIMEOUT_MESSAGE = "No whole answer came in time."
NO_HTTP = "It answered nothing, or something that is no HTTP."


@dataclass(frozen=True)
class AttemptResult:
    """What came of one attempt. `status` is None where nothing answered; `error` is empty where all went well."""

    status: int | None
    text: str
    error: str
    milliseconds: int


def post(
    url: str, body: bytes, headers: dict[str, str], *, allow_private: bool, seconds: float = MAX_SECONDS
) -> AttemptResult:
    """Send it once, within so many `seconds` in all. Raises nothing: whatever went wrong stands in `error`."""
    start_time, status, response_body, error = time.monotonic(), None, b"", ""
    transport = GuardedTransport(allow_private=allow_private, total_seconds=seconds)
    timeout = httpx2.Timeout(seconds, connect=seconds / 2)
    try:
        with (
            httpx2.Client(transport=transport, timeout=timeout, trust_env=False) as client,
            _deadline(seconds) as trace,
            client.stream("POST", url, content=body, headers=headers, extensions={"trace": trace}) as response,
        ):
            status = response.status_code
            error = "" if response.is_success else _refusal(response)
            with suppress(httpx2.HTTPError, OSError):  # the status says it all, however the body ends
                for chunk in response.iter_raw():
                    response_body += chunk
                    if len(response_body) >= MAX_RESPONSE_BYTES:
                        break
    except AddressRefused as refusal:
        error = str(refusal)
    except httpx2.TimeoutException:
        error = TIMEOUT_MESSAGE
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as failure:
        is_late = time.monotonic() - start_time >= seconds
        error = TIMEOUT_MESSAGE if is_late else _failure(failure)
    text = response_body[:MAX_RESPONSE_BYTES].decode(errors="replace").replace("\x00", "")
    masked_text = mask_secrets(text)[:MAX_RESPONSE_CHARACTERS]
    return AttemptResult(status, masked_text, error[:300], round((time.monotonic() - start_time) * 1000))


def _failure(failure: Exception) -> str:
    """Never with words of the receiver's, which may repeat what it was told: they stand in `text` alone."""
    if isinstance(failure, httpx2.RemoteProtocolError):
        return NO_HTTP
    return f"Nothing answered there: {mask_secrets(str(failure)) or type(failure).__name__}"


def _refusal(response: httpx2.Response) -> str:
    if response.is_redirect:
        return f"It answered {response.status_code}. Redirects are not followed: enter the address it leads to."
    return f"It answered {response.status_code}. Only an answer of 200 to 299 is taken as received."


@contextmanager
def _deadline(seconds: float) -> Iterator[Callable[[str, dict[str, Any]], None]]:
    """A trace of the client's; ends its connection when time is up, however steadily it drips."""
    sockets: list[socket] = []

    def trace(name: str, info: dict[str, Any]) -> None:
        if name == "connection.connect_tcp.complete" and "return_value" in info:
            sockets.append(info["return_value"].get_extra_info("socket"))

    def end() -> None:
        for each in sockets:
            with suppress(OSError):
                each.shutdown(SHUT_RDWR)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield trace
    finally:
        timer.cancel()
