"""`manage.py serve`, which `make run` calls: everything OpenVibe needs, in one terminal, until Ctrl-C."""

import errno
import fcntl
import http.client
import io
import os
import signal
import socket
import threading
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import Error, connection, connections

from openvibe.engines.serving.logs import json_line
from openvibe.engines.serving.service_states import forget_service_states, write_service_states
from openvibe.engines.serving.static_files import collect_static_files
from openvibe.engines.serving.supervisor import ServiceCannotStart, Supervisor, set_process_name, stop_orphans
from openvibe.runner.backup import unfinished_restore
from openvibe.runner.bootstrap import prepare_database
from openvibe.runner.database_guard import database_guard
from openvibe.runner.services import build_services, preload, run_web
from openvibe.settings.environment import public_url, unknown_variable_words, unknown_variables

WILDCARD_HOSTS = ("0.0.0.0", "::")


class Command(BaseCommand):
    help = "Serves web, worker and scheduler on one port until Ctrl-C, preparing the database first."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--port", type=int, default=settings.ENV.port, help="default: %(default)s, or PORT")
        parser.add_argument("--host", default=settings.ENV.host, help="default: %(default)s, or OPENVIBE_HOST")
        parser.add_argument(
            "--only",
            choices=("web",),
            help="this part alone, where the others run elsewhere (compose.yaml); `migrate` prepares the database",
        )

    def handle(self, *_arguments: Any, host: str, port: int, only: str | None, **_options: Any) -> None:
        for name, nearest in unknown_variables(os.environ).items():
            self.stderr.write(self.style.WARNING(unknown_variable_words(name, nearest)))
        if unfinished := unfinished_restore():
            raise CommandError(unfinished)
        settings.PUBLIC_URL = public_url(settings.ENV.model_copy(update={"port": port}))  # --port need not be PORT
        self.check(tags=["addresses"])  # all checks would read every model and address: `manage.py check` does
        if only:
            self.serve_web(host, port)
        else:
            self.serve_everything(host, port)

    def serve_web(self, host: str, port: int) -> None:
        """The web processes alone, until told to stop."""
        check_port(host, port)
        try:
            collect_static_files()
        except OSError as error:
            raise CommandError(unwritable_words(error)) from error
        preload()
        run_web(host, port, is_alone=True)

    def serve_everything(self, host: str, port: int) -> None:
        """Database, web processes and workers, until told to stop."""
        is_embedded = settings.DATABASES["default"]["ENGINE"] == "openvibe.engines.database.embedded"
        guard = database_guard(settings.VAR) if is_embedded else nullcontext()
        own_url = f"http://{display_host(host)}:{port}/"
        url = f"{settings.PUBLIC_URL}/" if settings.ENV.production else own_url
        with serve_lock(settings.VAR, url) as lock_file, stop_on_signal() as stop, guard:
            if orphan_count := stop_orphans(lock_file):
                self.write_line(f"An earlier run was killed; {orphan_count} processes it left behind were stopped.")
            check_port(host, port)
            ready = f"{url}\n{self.prepare_installation(url)}"
            if settings.ENV.production:  # the address is the proxy's
                ready += f"\nIt listens on {host}, port {port}."
            supervisor = Supervisor(build_services(host, port), write_line=self.write_line, report=write_service_states)
            try:
                if not stop.is_set():
                    preload()
                    supervisor.start()
                    self.supervise(supervisor, stop, host=host, port=port, ready=ready)
            except ServiceCannotStart as error:
                raise CommandError(f"OpenVibe stops: {error}") from error
            finally:
                supervisor.stop()
                forget_service_states()
        self.write_line("OpenVibe has stopped. Everything is kept for the next start.")

    def prepare_installation(self, url: str) -> str:
        """Database, static files and first content; answers what to show about signing in at `url`.

        In a process of its own: neither its memory nor its connections and threads are there when services are forked.
        """
        self.write_line("Preparing the database …")
        try:
            connection.ensure_connection()  # an embedded server runs until this process ends
        except Error as error:
            raise CommandError(f"The database cannot be used: {error}") from error
        finally:
            connections.close_all()
        receiving, sending = Pipe(duplex=False)
        process = get_context("fork").Process(target=send_preparation, args=(url, sending))
        process.start()
        sending.close()
        try:
            sign_in, problem = receiving.recv()
        except EOFError:
            raise CommandError("The preparation ended early; what it said stands above.") from None
        finally:
            process.join()
        if problem:
            raise CommandError(problem)
        return str(sign_in)

    def supervise(self, supervisor: Supervisor, stop: threading.Event, *, host: str, port: int, ready: str) -> None:
        """Keeps the services running until told to stop, and says once that they answer: `ready`.

        Raises ServiceCannotStart where pages never come: what is set wrong is said, not tried for ever. Once they came,
        whatever dies is started again.
        """
        is_announced = False
        while not stop.is_set():
            supervisor.watch(0.2)
            if is_announced:
                continue
            supervisor.check_first_start("web")
            if is_serving(host, port):
                is_announced = True
                self.write_line(f"\nOpenVibe is ready: {ready}\nCtrl-C stops it.\n")
        self.write_line("Stopping …")

    def write_line(self, text: str) -> None:
        with suppress(OSError):  # when nobody reads any more, or the disk of the log is full, keep serving
            if settings.ENV.production:
                text = text if text.startswith("{") else json_line(text.strip(), service="supervisor")
            self.stdout.write(text)
            self.stdout.flush()


def send_preparation(url: str, receiver: Connection) -> None:
    """Prepares everything and sends what to show about signing in, and what went wrong; one of them is empty."""
    set_process_name("setup")
    output = io.StringIO()
    try:
        prepare_database()
        collect_static_files()
        is_logged = settings.ENV.production  # a log is kept and read by others: it holds no password
        call_command("demo", if_empty=True, url=url, no_password=is_logged, stdout=output)
    except Error as error:
        receiver.send(("", f"The database cannot be used: {error}"))
    except OSError as error:
        receiver.send(("", unwritable_words(error)))
    except CommandError as error:
        receiver.send(("", str(error)))
    else:
        receiver.send((output.getvalue().strip(), ""))


def unwritable_words(error: OSError) -> str:
    return f"{settings.VAR} cannot be written: {error}. Set OPENVIBE_VAR to another folder."


@contextmanager
def serve_lock(var: Path, url: str = "") -> Iterator[Path]:
    """Holds the lock that lets one `serve` run per `var` folder, and gives its file, which names the process and where
    it answers; `manage.py demo` reads that.

    Processes forked from this one inherit the open file, not the lock.
    """
    path = var.resolve() / "serve.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        with suppress(PermissionError):  # made by an earlier version; what served from it before is OpenVibe's own
            passable = 0o701 if os.geteuid() == 0 else 0o700  # root's PostgreSQL runs as somebody else
            path.parent.chmod(path.parent.stat().st_mode & passable)
    except OSError as error:
        raise CommandError(
            f"OpenVibe keeps its data in {var}, which cannot be written ({error.strerror}). "
            "Make it writable, or set OPENVIBE_VAR to a folder that is."
        ) from error
    try:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            holder_pid = os.read(descriptor, 32).partition(b"\n")[0].decode() or "unknown"
            raise CommandError(
                f"OpenVibe already runs from {var} (process {holder_pid}). Stop that one with Ctrl-C, "
                "or set OPENVIBE_VAR and PORT to run another beside it."
            ) from error
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n{url}\n".encode())
        yield path
    finally:
        os.close(descriptor)


@contextmanager
def stop_on_signal() -> Iterator[threading.Event]:
    """An event that Ctrl-C, a closed terminal and `kill` set instead of what they do otherwise; under `nohup` a closed
    terminal does nothing."""
    stop = threading.Event()
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
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
    except UnicodeError:  # an empty label, or one of more than 63 characters
        raise CommandError(f"{host} is no host name. Set OPENVIBE_HOST or --host to one of this machine.") from None
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
