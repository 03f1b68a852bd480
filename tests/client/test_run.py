"""`openvibe run` at its end: what it heard and did not begin is not lost."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from openvibe_client.command import Command
from openvibe_client.presets import Preset
from openvibe_client.run import Options, Runner
from openvibe_client.sessions import Sessions
from openvibe_client.vibe import Mention, Vibe

PATIENCE = 60.0  # seconds; a deadline for slow machines


class LongCommand:
    """Runs until it is stopped."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def stop(self) -> None:
        self.ended.set()


class BusyRunner(Runner):
    """Answers one message for as long as it runs."""

    begun = threading.Event()

    def _answer(self, mention: Mention) -> str:
        command = LongCommand()
        self._commands.add(cast(Command, command))
        self.begun.set()
        command.ended.wait(PATIENCE)
        return "failed"


class InterruptedVibe:
    """Three messages of one thread, and Ctrl-C while the first is answered."""

    handle = "reed"

    def mentions(self, *, position_file: Path) -> Iterator[Mention]:
        return self._mentions(position_file)

    def _mentions(self, position_file: Path) -> Iterator[Mention]:
        for position in (7, 8, 12):
            message: Any = {"id": position, "thread": 1, "body": "Hi", "author": {"handle": "ana"}}
            yield Mention(cast(Vibe, self), message, position)
        assert BusyRunner.begun.wait(PATIENCE)
        position_file.write_text("12", encoding="ascii")
        raise KeyboardInterrupt


def test_what_waits_at_the_end_is_told_to_the_next_start(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path / "reed.json")
    options = Options(url="http://127.0.0.1", token="ovk_x", command=("cat",), preset=Preset("text"))
    with pytest.raises(KeyboardInterrupt):
        BusyRunner(cast(Vibe, InterruptedVibe()), sessions, options, log=lambda line: None).run()
    assert sessions.position_file.read_text(encoding="ascii") == "7"
