"""Model servers on this machine: whether one answers at the port it usually has."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import urlsplit

from openvibe.llm.endpoints import fetch_models
from openvibe.llm.models import Endpoint
from openvibe.llm.presets import PRESETS, Preset, choose_model

SEARCH_SECONDS = 1
"""For each of them: what runs on this machine answers at once, and somebody waits."""
LOCAL_PRESETS = tuple(preset for preset in PRESETS if preset.is_local)


@dataclass(frozen=True)
class LocalServer:
    """One that answered, and the models it offers: perhaps none yet."""

    preset: Preset
    models: tuple[str, ...]

    @property
    def model(self) -> str:
        """The one to begin with."""
        return choose_model(self.models)


def find_local_servers(presets: Sequence[Preset] = LOCAL_PRESETS, *, own_port: str = "") -> list[LocalServer]:
    """Those that list models without a key, all asked at once. Only for superusers: it calls this machine.

    `own_port` is OpenVibe's own and left out. What answers otherwise, or not in time, is no model server.
    """
    others = [preset for preset in presets if str(urlsplit(preset.base_url).port) != own_port]
    if not others:
        return []
    with ThreadPoolExecutor(len(others)) as pool:
        servers = pool.map(_ask_server, others)
    return [server for server in servers if server is not None]


def _ask_server(preset: Preset) -> LocalServer | None:
    endpoint = Endpoint(kind=preset.kind, base_url=preset.base_url, allowed_address=preset.base_url)
    result = fetch_models(endpoint=endpoint, seconds=SEARCH_SECONDS)
    return LocalServer(preset, tuple(result.models)) if result.is_list else None
