"""The command lines that are known, by name: how each is started, with the Agent Client Protocol and without."""

import shutil
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

KNOWN_SECONDS, UNKNOWN_SECONDS = 90.0, 15.0
"""How long a command that is known to speak the protocol may take to say so (its adapter may have to come from npm),
and one that is not."""


@dataclass(frozen=True)
class Launch:
    """`forms`: command lines that may speak the protocol, tried one after another; `plain`: the one that reads a text
    and prints its answer."""

    name: str
    forms: tuple[tuple[str, ...], ...]
    plain: tuple[str, ...]
    env: Mapping[str, str]
    mode: str = ""
    wait_seconds: float = UNKNOWN_SECONDS

    @property
    def is_known(self) -> bool:
        """Whether it is in the table, and one of its forms is there."""
        return self.wait_seconds == KNOWN_SECONDS and bool(self.forms)


def find_launch(command: Sequence[str], *, is_plain: bool = False, is_acp: bool = False) -> Launch:
    """How this command is started: as the table has it where it is known by its name, else as it stands. `is_acp`: it
    is sure to speak the protocol."""
    first, *own = command
    name = Path(first).name
    rows = known_commands()
    row = rows.get(name) or next((each for each in rows.values() if [name] in each["acp"]), None)
    if row is None:
        wait_seconds = KNOWN_SECONDS if is_acp else UNKNOWN_SECONDS
        return Launch(name, () if is_plain else (tuple(command),), tuple(command), {}, wait_seconds=wait_seconds)
    forms = [_fill(form, first, own) for form in row["acp"] if shutil.which(first if form[0] == name else form[0])]
    if {"acp", "--acp", "--experimental-acp"} & {*own}:  # written out already
        forms = [tuple(command)]
    plain = _fill(row.get("plain", [name, "{own}"]), first, own)
    asks = {"env": row.get("env", {}), "mode": row.get("mode", "")}
    return Launch(name, () if is_plain else tuple(forms), plain, wait_seconds=KNOWN_SECONDS, **asks)


def known_commands() -> dict[str, dict[str, Any]]:
    """The rows of `commands.toml`, by the names of their commands."""
    return tomllib.loads(files("openvibe_client").joinpath("commands.toml").read_text(encoding="utf-8"))


def _fill(form: Sequence[str], first: str, own: Sequence[str]) -> tuple[str, ...]:
    """The form with the command as it was written, which may be a path, and the operator's own arguments."""
    words = [word for part in form for word in (own if part == "{own}" else [part])]
    is_own_command = words[0] == Path(first).name
    return (first if is_own_command else words[0], *words[1:])
