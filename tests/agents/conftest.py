"""Agents with folders of their own."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

WriteFile = Callable[..., Path]


@pytest.fixture
def home(settings: Settings, tmp_path: Path) -> Path:
    """The folder that agents' folders stand in."""
    settings.HOME = tmp_path / "home"
    folder = tmp_path / "home" / "workspaces"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def skill(home: Path) -> WriteFile:
    """Writes a skill: `skill("pruning", "# Pruning\\nIn March.")`, for @vibe unless said otherwise."""

    def write(name: str, text: str, *, folder: str = "vibe") -> Path:
        path = home / folder / "skills" / name / "SKILL.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write
