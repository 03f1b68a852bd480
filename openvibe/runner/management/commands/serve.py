"""`manage.py serve`, which `make run` calls: everything OpenVibe needs, in one terminal, until Ctrl-C."""

import errno
import fcntl
import http.client
import io
import os
import signal
import socket
import sys
import threading
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import Error, connections

from openvibe.runner.bootstrap import collect_static_files, prepare_database
from openvibe.runner.supervisor import ServiceCrashLoop, Supervisor, stop_orphans

WILDCARD_HOSTS = ("0.0.0.0", "::")


class Command(BaseCommand):
    help = "Serves web, worker and scheduler on one port until Ctrl-C, preparing the database first."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--port", type=int, default=settings.ENV.port, help="default: %(default)s, or PORT")
        parser.add_argument("--host", default=settings.ENV.host, help="default: %(default)s, or OPENVIBE_HOST")

    def handle(self, *_arguments: Any, host: str, port: int, **_options: Any) -> None:
        self._lines = threading.Lock()
        with serve_lock(settings.VAR), stop_on_signal() as stop:
            if orphan_count := stop_orphans(settings.VAR):
                self.write_line(f"An earlier run was killed; {orphan_count} processes it left behind were stopped.")
            check_port(host, port)
            url = f"http://{display_host(host)}:{port}/"
            sign_in = self.prepare_installation(url)
            # Celery warns at length about running as root; in a container that is how it is.
            environment = {"PYTHONWARNINGS": "ignore:You're running the worker"} if os.geteuid() == 0 else {}
            services = build_services(host, port)
            supervisor = Supervisor(services, var=settings.VAR, write_line=self.write_line, environment=environment)
            try:
                if not stop.is_set():
                    supervisor.start()
                    self.supervise(supervisor, stop, host=host, port=port, sign_in=sign_in)
            except ServiceCrashLoop as error:
                raise CommandError(f"OpenVibe stops: {error}") from error
            finally:
                supervisor.stop()
        self.write_line("OpenVibe has stopped. Everything is kept for the next start.")

    def prepare_installation(self, url: str) -> str:
        """Database, static files and first content; answers what to show about signing in at `url`."""
        self.write_line("Preparing the database …")
        try:
            prepare_database()
            collect_static_files()
            demo_output = io.StringIO()
            call_command("demo", if_empty=True, url=url, stdout=demo_output)
        except Error as error:
            raise CommandError(f"The database cannot be used: {error}") from error
        except OSError as error:
            raise CommandError(
                f"{settings.VAR} cannot be written: {error}. Set OPENVIBE_VAR to another folder."
            ) from error
        finally:
            connections.close_all()
        return demo_output.getvalue().strip()

    def supervise(self, supervisor: Supervisor, stop: threading.Event, *, host: str, port: int, sign_in: str) -> None:
        """Until told to stop: keeps the services running, and says once where they answer."""
        announced = False
        while not stop.wait(0.2):
            supervisor.restart_exited()
            if not announced and is_serving(host, port):
                announced = True
                self.write_line(
                    f"\nOpenVibe is ready: http://{display_host(host)}:{port}/\n{sign_in}\nCtrl-C stops it.\n"
                )
        self.write_line("Stopping …")

    def write_line(self, text: str) -> None:
        """One whole line at a time, whoever speaks."""
        with self._lines, suppress(BrokenPipeError):  # when nobody reads any more, keep serving
            self.stdout.write(text)
            self.stdout.flush()


def build_services(host: str, port: int) -> dict[str, list[str]]:
    """The commands of what runs: the web server, the worker that carries out agents' runs, and the scheduler."""
    python, celery = sys.executable, ["-m", "celery", "--quiet", "--app", "openvibe.celery"]
    granian = ["-m", "granian", "--interface", "asgi", "--host", host, "--port", str(port), "--workers", "1"]
    granian_options = ["--log-level", "warning", "--respawn-failed-workers", "--workers-kill-timeout", "5"]
    granian_options += ["--backlog", "4096", "--backpressure", "4096"]  # each open page is a request that lasts
    worker_options = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "INFO"]
    beat_options = ["--schedule", str(settings.VAR / "beat.schedule"), "--pidfile", "", "--loglevel", "WARNING"]
    return {
        "web": [python, *granian, *granian_options, "openvibe.asgi:application"],
        "worker": [python, *celery, "worker", "--pool", "prefork", *worker_options],
        "beat": [python, *celery, "beat", *beat_options],
    }


@contextmanager
def serve_lock(var: Path) -> Iterator[None]:
    """Holds the lock that lets one `serve` run per `var` folder; the file names the process and nothing else."""
    try:
        var.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(var / "serve.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise CommandError(
            f"OpenVibe keeps its data in {var}, which cannot be written ({error.strerror}). "
            "Make it writable, or set OPENVIBE_VAR to a folder that is."
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder_pid = os.read(descriptor, 32).decode().strip() or "unknown"
            raise CommandError(
                f"OpenVibe already runs from {var} (process {holder_pid}). Stop that one with Ctrl-C, "
                "or set OPENVIBE_VAR and PORT to run another beside it."
            ) from error
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(descriptor)


@contextmanager
def stop_on_signal() -> Iterator[threading.Event]:
    """An event that Ctrl-C, a closed terminal and `kill` set instead of what they do otherwise."""
    stop = threading.Event()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    previous_handlers = [signal.signal(number, lambda *_: stop.set()) for number in numbers]
    try:
        yield stop
    finally:
        for number, handler in zip(numbers, previous_handlers, strict=True):
            signal.signal(number, handler)


def check_port(host: str, port: int) -> None:
    """Raises CommandError with a sentence when the port cannot be listened on."""
    if not 0 < port < 65_536:
        raise CommandError(f"{port} is no port; ports go from 1 to 65535.")
    try:
        address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        with socket.socket(address[0], socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address[4])
            probe.listen(1)
    except OSError as error:
        reasons = {errno.EADDRINUSE: "is used by another program", errno.EACCES: "needs special rights"}
        if error.errno not in reasons:
            raise CommandError(f"OpenVibe cannot listen on {host}, port {port}: {error}.") from error
        reason = f"Port {port} {reasons[error.errno]}."
        raise CommandError(f"{reason} Choose another: `make run PORT={8001 if port != 8001 else 8002}`.") from error


def is_serving(host: str, port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1" if host in WILDCARD_HOSTS else host, port, timeout=2)
    try:
        connection.request("GET", "/healthz", headers={"Host": f"localhost:{port}"})
        return connection.getresponse().status < 500
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def display_host(host: str) -> str:
    """A host as it reads in a URL a person opens."""
    if host in WILDCARD_HOSTS:
        return "localhost"
    return f"[{host}]" if ":" in host else host
