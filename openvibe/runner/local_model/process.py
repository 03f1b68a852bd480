"""Starts the server of a small model, waits until it answers, and ends it."""

import http.client
import os
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from openvibe.runner.local_model.weights import LocalModelError, SmallModel, prepare_server, prepare_weights

SCRIPT = Path(__file__).with_name("server.py")
LOAD_SECONDS = 120.0
STOP_SECONDS = 10.0
LAST_LINES = 12


class ServedModel:
    """A server that answers at `base_url`; a context manager that ends it."""

    def __init__(self, process: subprocess.Popen[bytes], *, port: int, log: IO[bytes]) -> None:
        self.process = process
        self.port = port
        self._log = log

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def is_ready(self) -> bool:
        """Whether the weights are loaded. llama.cpp answers 503 until then."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def last_words(self) -> str:
        self._log.seek(0)
        return "\n".join(self._log.read().decode(errors="replace").splitlines()[-LAST_LINES:])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()
        self._log.close()


def serve_model(
    model: SmallModel, *, cache: Path, port: int, context: int, threads: int, offers_tools: bool = True
) -> ServedModel:
    """A server of this model that answers, downloaded first where need be; it ends with this process.

    `context`: tokens of a prompt and its answer. Raises LocalModelError.
    """
    _check_port(port)
    weights, server = prepare_weights(model, cache), prepare_server(cache)
    command = [sys.executable, str(SCRIPT), str(weights), "--name", model.name, "--port", str(port)]
    command += ["--context", str(context), "--threads", str(threads)]
    if not offers_tools:
        command.append("--without-tools")
    log = tempfile.TemporaryFile()  # noqa: SIM115
    environment = {**os.environ, "PYTHONPATH": str(server), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
    )
    served = ServedModel(process, port=port, log=log)
    try:
        _wait_until_ready(served)
    except BaseException:
        with suppress(OSError):
            served.__exit__(None, None, None)
        raise
    return served


def _check_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError):
            raise LocalModelError(
                f"Port {port} is taken, or is none. Name another: make local-model MODEL_PORT=8090."
            ) from None


def _wait_until_ready(served: ServedModel) -> None:
    deadline = time.monotonic() + LOAD_SECONDS
    while not served.is_ready():
        if served.process.poll() is not None:
            raise LocalModelError(f"The model's server ended at once. What it said:\n{served.last_words()}")
        if time.monotonic() > deadline:
            raise LocalModelError(f"The model did not load in {LOAD_SECONDS:.0f} s:\n{served.last_words()}")
        time.sleep(0.2)
