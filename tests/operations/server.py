"""One `manage.py serve`, started and listened to."""

import http.client
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.operations.processes import PATIENCE, free_port, python, wait_until


class Serving:
    """One `manage.py serve` and everything it said."""

    def __init__(self, var: Path, port: int, **extra: str) -> None:
        self.port = port
        settings = {"OPENVIBE_WORKER_CONCURRENCY": "1", **extra}
        self.process = python("manage.py", "serve", "--port", str(port), var=var, **settings)
        self.said: list[str] = []
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        self.said.extend(iter(self.process.stdout.readline, ""))

    @property
    def text(self) -> str:
        return "".join(self.said)

    def wait_for(self, words: str) -> None:
        """Waits until it has said something."""

        def it_did() -> bool:
            assert self.process.poll() is None or words in self.text, "it ended"
            return words in self.text

        try:
            wait_until(it_did, f"{words!r}")
        except AssertionError as error:
            raise AssertionError(f"{error}; so far it said:\n{self.text}") from None

    def status(self, path: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        finally:
            connection.close()

    def interrupt(self) -> int:
        """What Ctrl-C does; answers the exit code."""
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(PATIENCE)
        self._reader.join(10)
        return code


@contextmanager
def serving(var: Path, **extra: str) -> Iterator[Serving]:
    """A `serve` that answers; `extra` settings go into its environment."""
    serve = Serving(var, free_port(), **extra)
    serve.wait_for("OpenVibe is ready")
    yield serve
