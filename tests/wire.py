"""What pages take from the network, as Chromium counts it."""

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import CDPSession

FETCH_ICONS = """() => Promise.all([...document.querySelectorAll("link[rel=icon], link[rel=manifest]")]
  .map((link) => fetch(link.href).then((answer) => answer.text())))"""
"""A browser with a window asks for them by itself."""


@dataclass
class Wire:
    """What a page took from the network: bytes of each answer with its headers, by address; streams of events apart."""

    sizes: dict[str, int] = field(default_factory=dict)
    urls: dict[str, str] = field(default_factory=dict)
    streams: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, cdp: CDPSession) -> "Wire":
        wire = cls()
        cdp.send("Network.enable")
        cdp.on("Network.requestWillBeSent", wire._on_request)
        cdp.on("Network.responseReceived", wire._on_response)
        cdp.on("Network.loadingFinished", lambda event: wire._add(event["requestId"], event["encodedDataLength"]))
        return wire

    def _on_request(self, event: dict[str, Any]) -> None:
        if redirect := event.get("redirectResponse"):
            self._add(event["requestId"], redirect["encodedDataLength"])
        self.urls[event["requestId"]] = event["request"]["url"]

    def _on_response(self, event: dict[str, Any]) -> None:
        if event["type"] == "EventSource":
            self.streams.add(event["requestId"])

    def _add(self, request: str, size: float) -> None:
        if request not in self.streams:
            path = urlsplit(self.urls.get(request, request)).path
            self.sizes[path] = self.sizes.get(path, 0) + int(size)

    def take(self) -> dict[str, int]:
        """What came since it was last asked."""
        sizes, self.sizes = self.sizes, {}
        return sizes
