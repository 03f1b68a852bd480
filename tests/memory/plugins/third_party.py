"""Memory plugins of other people's packages, installed the way pip installs them: files on the path."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import pytest

from memory.plugins import registry

SOUND = """
from memory.plugins.base import PluginSetting, integer_parser
from memory.plugins.simple import SimpleProvider

class Notebook(SimpleProvider):
    settings = (PluginSetting("messages", "How many.", "all", integer_parser(1, 100)),)

    def __init__(self, config):
        if config.get("messages") == 13:
            raise ValueError("thirteen is no number of messages")
        super().__init__(config)
"""
BROKEN = "raise RuntimeError('no such luck')\n"
NO_PLUGIN = "class Notebook:\n    def __init__(self, config):\n        pass\n"


@contextmanager
def hidden_packages() -> Iterator[None]:
    """Hides the packages with a memory plugin that are installed already, while it lasts; later ones are seen."""
    folders = {_folder(entry) for entry in entry_points(group=registry.ENTRY_POINT_GROUP)}

    def newer_entry_points(*, group: str) -> list[EntryPoint]:
        return [entry for entry in entry_points(group=group) if _folder(entry) not in folders]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "entry_points", newer_entry_points)
        registry.clear_plugin_cache()
        yield
    registry.clear_plugin_cache()


def _folder(entry: EntryPoint) -> Path | None:
    return Path(str(entry.dist.locate_file(""))) if entry.dist else None


@contextmanager
def installed_package(
    folder: Path, *, name: str = "acme/notebook", source: str = SOUND, provider: str = "Notebook"
) -> Iterator[str]:
    """Installs, while this lasts, a package that offers a memory plugin of this name; returns the name of its
    module."""
    module = "acme_notebook"
    (folder / f"{module}.py").write_text(source)
    record = folder / f"{module}-1.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (record / "entry_points.txt").write_text(f"[{registry.ENTRY_POINT_GROUP}]\n{name} = {module}:{provider}\n")
    sys.path.insert(0, str(folder))
    registry.clear_plugin_cache()
    try:
        yield module
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop(module, None)
        registry.clear_plugin_cache()
