"""`openvibe run` at its end: what it heard and did not begin is not lost."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from openvibe_client.answer import Answer
from openvibe_client.run import Runner
from openvibe_client.sessions import Sessions
from openvibe_client.vibe import Mention, Vibe

PATIENCE = 60.0  # seconds; a deadline for slow machines


class LongAnswers:
    """Answers one message for as long as it runs."""

    name, keeps_sessions = "long", True

    def __init__(self) -> None:
        self.begun, self.ended = threading.Event(), threading.Event()

    def answer(self, mention: Mention, answer: Answer, *, is_resumed: bool = False) -> None:
        self.begun.set()
        self.ended.wait(PATIENCE)

    def wake(self, thread: int) -> None:
        return

    def end(self, *, is_leaving: bool) -> None:
        self.ended.set()


class BusyRunner(Runner):
    """Takes a message without a server."""

    def _answer(self, mention: Mention, run: Any, *, is_prompted: bool) -> str:
        self.answerer.answer(mention, cast(Answer, None))
        return "failed"


class InterruptedVibe:
    """Three messages of one thread, and Ctrl-C while the first is answered."""

    handle = "reed"

    def __init__(self, answers: LongAnswers) -> None:
        self.answers = answers

    def mentions(self, *, position_file: Path) -> Iterator[Mention]:
        return self._mentions(position_file)

    def _mentions(self, position_file: Path) -> Iterator[Mention]:
        for position in (7, 8, 12):
            message: Any = {"id": position, "thread": 1, "body": "Hi", "author": {"handle": "ana"}}
            yield Mention(cast(Vibe, self), message, position)
        assert self.answers.begun.wait(PATIENCE)
        position_file.write_text("12", encoding="ascii")
        raise KeyboardInterrupt


def test_what_waits_at_the_end_is_told_to_the_next_start(tmp_path: Path) -> None:
    sessions, answers = Sessions(tmp_path / "reed.json"), LongAnswers()
    with pytest.raises(KeyboardInterrupt):
        BusyRunner(cast(Vibe, InterruptedVibe(answers)), sessions, answers, log=lambda line: None).run()
    assert sessions.position_file.read_text(encoding="ascii") == "7"


def test_sessions_are_kept_for_their_command_and_one_process_has_them(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path / "state" / "reed.json")
    assert sessions.take()
    assert not Sessions(sessions.path).take()
    sessions.begin(run=5, message=7, attempt=1)
    sessions.set(3, "claude", "s-1", run=5)
    assert (sessions.get(3, "claude"), sessions.get(3, "codex"), sessions.get(4, "claude")) == (
        ("s-1", 5),
        ("", None),
        ("", None),
    )
    assert Sessions(sessions.path).under_way() == {"5": {"message": 7, "attempt": 1, "is_prompted": True}}
    sessions.end(5)
    assert sessions.under_way() == {}
    assert sessions.path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("text", ["", "{", '{"3": {"preset": "claude", "session": "s"}}', "[]", '{"threads": 3}'])
def test_a_state_file_of_an_older_form_or_none_at_all_begins_anew(tmp_path: Path, text: str) -> None:
    (tmp_path / "reed.json").write_text(text)
    sessions = Sessions(tmp_path / "reed.json")
    assert (sessions.get(3, "claude"), sessions.under_way()) == (("", None), {})
    sessions.set(3, "claude", "s-1", run=5)
    assert sessions.get(3, "claude") == ("s-1", 5)
