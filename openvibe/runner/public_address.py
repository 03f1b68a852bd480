"""What people meet at the public address: asked as a browser asks, through whatever proxy stands in front."""

import html
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import cached_property
from urllib.parse import urljoin, urlsplit

import httpx2

from openvibe.engines.serving.proxy_headers import THIS_MACHINE

Diagnosis = tuple[str, str]
"""The state of one thing, and the next step; that is empty when all is well."""

ANSWER_SECONDS = 5.0
STREAM_SECONDS = 4.0
"""How long the first event may take. The server holds the stream open for longer (`openvibe.base.health`)."""
MAX_REDIRECTS = 5
BROWSER_HEADERS = {"User-Agent": "OpenVibe doctor", "Accept": "text/html", "Sec-Fetch-Site": "none"}
SIGN_IN_PATH = "/accounts/login/"
HEALTH_PATH = "/healthz"
STREAM_PATH = "/healthz/events/"
_EXPLANATION = re.compile(r"<h1>(.*?)</h1>\s*<p>(.*?)</p>", re.DOTALL)
"""A pattern of the explanation on our own pages that say what is wrong."""
_STYLESHEET = re.compile(r'href="(/static/[^"]+\.css)"')
_FORM_KEY = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')

PASS_ON = "Have the proxy pass on every path of this host as it is."
SEND_HTTPS = "Have the proxy send X-Forwarded-Proto: https; where HTTPS ends further out, have it pass on that header."
DO_NOT_BUFFER = (
    "Have the proxy neither buffer nor compress paths that end in /events/ or begin with /v1/ "
    "(nginx: proxy_buffering off)."
)


class PublicAddress:
    """One address, such as https://vibe.example.org, and what it answers. `tls` says whom to trust, by default the
    authorities that the system knows. Every question ends within ANSWER_SECONDS, or raises httpx2.HTTPError.
    Raises ValueError for what is no such address."""

    def __init__(
        self,
        url: str,
        *,
        tls: ssl.SSLContext | None = None,
        answer_seconds: float = ANSWER_SECONDS,
        stream_seconds: float = STREAM_SECONDS,
    ) -> None:
        parts = urlsplit(url if "://" in url else f"https://{url}")
        self.is_https = parts.scheme == "https"
        self.host, self.port = parts.hostname or "", parts.port or (443 if self.is_https else 80)
        if parts.scheme not in ("http", "https") or not self.host.encode("idna") or re.search(r"\s", self.host):
            raise ValueError(f"no address of a server: {url}")
        self._stays_here = not self.is_https and bool(THIS_MACHINE.fullmatch(parts.netloc))
        self.origin = f"{parts.scheme}://{parts.netloc}"
        self.tls = tls or ssl.create_default_context()
        self._answer_seconds, self._stream_seconds = answer_seconds, stream_seconds
        self._client = httpx2.Client(
            base_url=self.origin, headers=BROWSER_HEADERS, timeout=answer_seconds, verify=self.tls, trust_env=False
        )

    def close(self) -> None:
        self._client.close()

    def health(self) -> Diagnosis:
        """Whether OpenVibe answers there at all, and over HTTPS."""
        try:
            response = self._client.get(HEALTH_PATH)
        except httpx2.HTTPError as error:
            return self._diagnose_silence(error)
        if response.status_code in (502, 503, 504):
            advice = "Start OpenVibe, and have the proxy pass requests on to its port."
            return f"the proxy does not reach OpenVibe (status {response.status_code}).", advice
        if location := response.headers.get("Location", ""):
            return f"{self.origin} leads to {location}.", "Ask that address, and set OPENVIBE_PUBLIC_URL to it."
        if response.text != "ok\n":
            return f"{HEALTH_PATH} answers {response.status_code}, and not as OpenVibe does.", PASS_ON
        if not (self.is_https or self._stays_here):
            advice = "Put a proxy with HTTPS in front, and set OPENVIBE_PRODUCTION=1."
            return f"{self.origin} answers, and everybody between here and there can read along.", advice
        return f"{self.origin} answers.", ""

    def _diagnose_silence(self, error: httpx2.HTTPError) -> Diagnosis:
        for cause in _causes(error):
            if isinstance(cause, ssl.SSLCertVerificationError):
                advice = (
                    f"Give the proxy a certificate for {self.host} with its whole chain; SSL_CERT_FILE names your own."
                )
                return f"its certificate is not good: {cause.verify_message}.", advice
            if isinstance(cause, ssl.SSLError):
                return f"it does not speak TLS ({cause.reason}).", "Have the proxy serve HTTPS on that port."
            if isinstance(cause, socket.gaierror):
                return f"{self.host} has no address.", "Enter the name in the DNS."
            if isinstance(cause, ConnectionRefusedError):
                return f"nothing listens on port {self.port}.", "Start the proxy."
        if isinstance(error, httpx2.TimeoutException):
            advice = f"Open port {self.port} of the firewall, and look whether the proxy hangs."
            return f"no answer within {self._answer_seconds:g} s.", advice
        return f"no answer: {error}.", "The log of the proxy says more."

    @cached_property
    def _sign_in_page(self) -> httpx2.Response | Diagnosis:
        """The page, or why there is none."""
        path, visited = SIGN_IN_PATH, list[str]()
        while len(visited) <= MAX_REDIRECTS:
            response = self._client.get(path)
            location = urljoin(str(response.url), response.headers.get("Location", ""))
            if not response.is_redirect:
                return response
            if location in (str(response.url), *visited):
                return f"{path} leads to itself, for ever.", SEND_HTTPS
            if not location.startswith(f"{self.origin}/"):
                return f"{path} leads to {location}.", "Ask that address, and set OPENVIBE_PUBLIC_URL to it."
            visited.append(str(response.url))
            path = location
        return f"{path} is the {MAX_REDIRECTS}th redirect.", PASS_ON

    def page(self) -> Diagnosis:
        """Whether a page comes, and no redirect without end."""
        page = self._sign_in_page
        if not isinstance(page, httpx2.Response):
            return page
        if page.status_code != 200 or not _FORM_KEY.search(page.text):
            return _explain(page, f"{SIGN_IN_PATH} answers {page.status_code}, and not as OpenVibe does.")
        return f"{SIGN_IN_PATH} is there.", ""

    def static_file(self) -> Diagnosis:
        """Whether what a page needs is there, too."""
        text = page.text if isinstance(page := self._sign_in_page, httpx2.Response) else ""
        if not (stylesheet := _STYLESHEET.search(text)):
            return "not known without a page.", ""
        response = self._client.get(stylesheet[1])
        if response.status_code != 200 or "text/css" not in response.headers.get("Content-Type", ""):
            return f"{stylesheet[1]} answers {response.status_code}.", f"{PASS_ON} Static files are OpenVibe's, too."
        return f"{stylesheet[1]} is there.", ""

    def cookies(self) -> Diagnosis:
        """Whether cookies go over HTTPS alone."""
        cookies = page.headers.get_list("Set-Cookie") if isinstance(page := self._sign_in_page, httpx2.Response) else []
        if not cookies:
            return "not known without a page.", ""
        open_names = [cookie.partition("=")[0] for cookie in cookies if "; secure" not in cookie.lower()]
        if open_names and not self._stays_here:
            return f"{', '.join(open_names)} would go over HTTP, too.", "Set OPENVIBE_PRODUCTION=1 and start it again."
        return "they stay on this machine." if open_names else "they go over HTTPS alone.", ""

    def form(self) -> Diagnosis:
        """Whether a form is taken that comes from this address: an empty sign-in, which tries nobody's password."""
        text = page.text if isinstance(page := self._sign_in_page, httpx2.Response) else ""
        if not (key := _FORM_KEY.search(text)):
            return "not known without a page.", ""
        headers = {"Origin": self.origin, "Referer": f"{self.origin}{SIGN_IN_PATH}", "Sec-Fetch-Site": "same-origin"}
        response = self._client.post(SIGN_IN_PATH, data={"csrfmiddlewaretoken": key[1]}, headers=headers)
        if response.status_code != 200:
            return _explain(response, f"a form is answered {response.status_code}.")
        return "they are taken.", ""

    def event_stream(self) -> Diagnosis:
        """Whether an event arrives while its stream goes on."""
        timeout = httpx2.Timeout(self._answer_seconds, read=self._stream_seconds)
        started_at = time.monotonic()
        try:
            with self._client.stream("GET", STREAM_PATH, timeout=timeout) as response:
                if response.headers.get("Content-Type", "") != "text/event-stream":
                    return f"{STREAM_PATH} answers {response.status_code} and no events.", PASS_ON
                if response.headers.get("Content-Encoding", "identity") != "identity":
                    return "its events are compressed, so they wait for one another.", DO_NOT_BUFFER
                with suppress(StopIteration):
                    next(response.iter_raw())
                    return f"an event is here after {time.monotonic() - started_at:.2f} s.", ""
        except httpx2.ReadTimeout:
            return f"an event is held back for more than {self._stream_seconds:g} s.", DO_NOT_BUFFER
        return "the stream ends before its first event.", DO_NOT_BUFFER

    def http2(self) -> Diagnosis:
        """Whether browsers may send many requests over one connection."""
        if not self.is_https:
            return "not asked for without HTTPS.", ""
        self.tls.set_alpn_protocols(["h2", "http/1.1"])
        with (
            socket.create_connection((self.host, self.port), timeout=self._answer_seconds) as connection,
            self.tls.wrap_socket(connection, server_hostname=self.host) as secured,
        ):
            protocol = secured.selected_alpn_protocol()
        if protocol == "h2":
            return "spoken.", ""
        advice = "Switch HTTP/2 on in the proxy: over HTTP/1.1 a browser opens six connections, and each tab holds one."
        return "not spoken.", advice


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error:
        yield error
        error = error.__cause__ or error.__context__


def _explain(response: httpx2.Response, state: str) -> Diagnosis:
    """What one of our own pages says is wrong; else `state`."""
    if explanation := _EXPLANATION.search(response.text):
        title, words = (html.unescape(re.sub(r"\s+", " ", part)).strip() for part in explanation.groups())
        return f"the answer says: {title}.", words
    return state, PASS_ON if response.status_code < 500 else "The log of OpenVibe says more."


CHECKS: dict[str, Callable[[PublicAddress], Diagnosis]] = {
    "address": PublicAddress.health,
    "page": PublicAddress.page,
    "static files": PublicAddress.static_file,
    "cookies": PublicAddress.cookies,
    "forms": PublicAddress.form,
    "event stream": PublicAddress.event_stream,
    "HTTP/2": PublicAddress.http2,
}


def diagnose_address(address: PublicAddress) -> Iterator[tuple[str, str, str]]:
    """Subject, state and next step of each check; of the first alone where nothing answers."""
    with closing(address):
        for subject, check in CHECKS.items():
            try:
                state, advice = check(address)
            except (httpx2.HTTPError, OSError) as error:
                state, advice = f"no answer: {error or type(error).__name__}.", "The log of the proxy says more."
            yield subject, state, advice
            if subject == "address" and advice and address.is_https:
                return
