"""The address of a model server as people write it, as base URLs of its API."""

from __future__ import annotations

import re
from ipaddress import ip_address
from urllib.parse import urlsplit, urlunsplit

_BARE = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::\d{1,5})?(?:/[!-~]*)?\Z")
_VISIBLE = re.compile(r"[!-~]+\Z")
_OPERATIONS = re.compile(
    r"/(?:chat/completions|completions|responses|messages|embeddings|models|api|api/(?:chat|generate|tags|show|v0/models))"
    r"/*\Z"
)
_OWN_NETWORK = (".local", ".lan", ".internal", ".localdomain", ".home.arpa", ".intranet", ".corp")


def base_urls(text: str) -> tuple[str, ...]:
    """The base URLs at which the API may stand, the likeliest first: `gpu-box:8080` is `http://gpu-box:8080/v1`, or
    without its end.

    An operation at the end (`/chat/completions`) is no part of it. What cannot be read is returned as it is.
    """
    text = text.strip()
    if bare := _BARE.match(text):
        text = f"{_scheme(bare[1])}://{text}"
    try:
        if not _VISIBLE.match(text):  # which reading it would mend in silence
            return (text,)
        parts = urlsplit(text)
    except ValueError:
        return (text,)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
        return (text,)
    path = _OPERATIONS.sub("", parts.path).rstrip("/")
    as_written = urlunsplit((parts.scheme, parts.netloc, path, "", ""))
    if not path:
        return (f"{as_written}/v1", as_written)
    return (as_written,) if re.search(r"/v\d[a-z0-9]*(?:/|\Z)", path) else (as_written, f"{as_written}/v1")


def _scheme(host: str) -> str:
    """Servers of one's own network rarely speak HTTPS; to others no key goes in the clear unless somebody says so."""
    name = host.strip("[]").lower()
    try:
        is_own = ip_address(name).is_private
    except ValueError:
        is_own = "." not in name or name.endswith(_OWN_NETWORK)
    return "http" if is_own else "https"
