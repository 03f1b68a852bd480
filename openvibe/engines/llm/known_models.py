"""What is known of models without asking anybody: one data file, `known_models.toml`, read once. No Django."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

DATA_FILE = Path(__file__).with_name("known_models.toml")
ABILITIES = frozenset(("tools", "images", "reasoning"))
_TAGS = (":latest", ":free", ":nitro", ":floor", ":exacto", ":thinking", ":batch")


@dataclass(frozen=True)
class KnownModel:
    """A row of the file. Sizes in tokens, prices in US dollars per million tokens, None where nobody says.

    `window`: prompt and answer together; `prompt`: the most of it that a prompt may have. `family` is the provider
    whose addresses the sizes and prices hold at; `abilities` (ABILITIES) hold wherever the model is served.
    """

    family: str
    patterns: tuple[str, ...]
    window: int
    prompt: int | None = None
    output: int | None = None
    price_in: Decimal | None = None
    price_out: Decimal | None = None
    abilities: frozenset[str] = frozenset()

    def usable_window(self, reserve: int) -> int:
        """The window to set where so many tokens are kept for the answer."""
        return self.window if self.prompt is None else min(self.window, self.prompt + reserve)


@dataclass(frozen=True)
class KnownModels:
    """The file: when and where it was read, whose addresses are whose, and its rows in their order."""

    date: date
    source: str
    hosts: Mapping[str, tuple[str, ...]]
    models: tuple[KnownModel, ...]


@cache
def known_models() -> KnownModels:
    data = tomllib.loads(DATA_FILE.read_text(encoding="utf-8"), parse_float=Decimal)
    rows = tuple(
        KnownModel(**{**row, "patterns": tuple(row["patterns"]), "abilities": frozenset(row["abilities"])})
        for row in data["models"]
    )
    hosts = {family: tuple(names) for family, names in data["hosts"].items()}
    return KnownModels(data["date"], " ".join(data["source"].split()), hosts, rows)


@cache
def find_model(name: str) -> KnownModel | None:
    """The row about a model of this name, wherever it is served."""
    name = clean_model_name(name)
    return next((row for row in known_models().models if any(fnmatchcase(name, each) for each in row.patterns)), None)


def find_hosted_model(name: str, base_url: str) -> KnownModel | None:
    """The same, where it is its own provider who serves it: only there its window and prices hold."""
    host = urlsplit(base_url).hostname or ""
    row = find_model(name)
    return row if row is not None and host in known_models().hosts[row.family] else None


def clean_model_name(name: str) -> str:
    """The name as patterns know it: `openai/gpt-oss-120b`, `models/gemini-2.5-pro` and `qwen3:latest` without what
    stands around it."""
    name = name.strip().lower().rsplit("/", 1)[-1]
    for tag in _TAGS:
        name = name.removesuffix(tag)
    return name
