"""OpenVibe as on several machines: an outside PostgreSQL with a password, Redis as broker, and web, worker and beat
processes that share nothing but the two and a secret key, behind nginx."""

import http.client
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from openvibe.runner.postgres.server import server_user, start_program
from tests.operations.installation_template import prepare
from tests.operations.processes import ROOT, environment, free_port, wait_until

PASSWORD = "only this machine"
READY = {
    "worker1": "ready.",
    "web1": "Started worker",
    "worker2": "ready.",
    "web2": "Started worker",
    "beat": "Starting",
}
"""What each says when it serves."""
FURNISH = """
import io, json, django; django.setup()
from django.core.management import call_command
call_command("demo", if_empty=True, url="", stdout=io.StringIO())
from agents.models import Agent
from openvibe.api.services import issue_token
from openvibe.chat.models import Thread
from openvibe.workspaces.models import Member
from openvibe.workspaces.queries import member_access
ana = Member.objects.select_related("participant").first()
thread = Thread.objects.visible_to(member_access(ana)).first()
_, secret = issue_token(participant=ana.participant, name="steady", scopes=["read", "write"])
print(json.dumps({"token": secret, "thread": thread.pk, "agent": Agent.objects.order_by("pk").first().handle}))
"""
NGINX_TEMPORARY = """
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
"""
NGINX = """
daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/nginx.log;
events {{ worker_connections 256; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  upstream openvibe {{ {servers} }}
  server {{
    listen 127.0.0.1:{port};
    client_max_body_size 26m;
    location / {{
      proxy_pass http://openvibe;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-Proto http;
    }}
    location ~ /events/$ {{
      proxy_pass http://openvibe;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $http_host;
      proxy_buffering off;
      proxy_read_timeout 1h;
    }}
  }}
}}
"""


def program(name: str) -> str:
    """Path of a program of the system or of a wheel; empty when there is none."""
    wheel = find_spec(f"{name}_wheel")
    packed = [
        path for place in (wheel and wheel.submodule_search_locations) or () for path in Path(place).glob("bin/*")
    ]
    folders = [Path(sys.executable).parent, *packed, *os.get_exec_path(), "/usr/sbin"]
    return shutil.which(name, path=os.pathsep.join(map(str, folders))) or ""


def missing_programs() -> list[str]:
    return [name for name in ("redis-server", "nginx") if not program(name)]


@dataclass
class Part:
    """One process of the cluster and all that it starts; killed and started again like a machine."""

    name: str
    command: list[str]
    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def start(self) -> None:
        self.folder.mkdir(exist_ok=True)
        self.log.write_bytes(b"")
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                cwd=ROOT,
                env=environment(self.folder, **self.settings),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self) -> None:
        if self.process:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def wait_for(self, words: str) -> None:
        """Waits until it has said something since it was started."""
        try:
            wait_until(lambda: words in self.log.read_text(errors="replace"), f"{self.name} says {words!r}")
        except AssertionError as error:
            raise AssertionError(f"{error}; so far:\n{self.log.read_text(errors='replace')[-4000:]}") from None


@dataclass
class Cluster:
    """What runs, by name; `call` asks the proxy, `rows` the database."""

    parts: dict[str, Part]
    port: int
    conninfo: str
    token: str
    thread: int
    agent: str

    def connect(self, timeout: float = 10) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, bytes]:
        """Status and body; (0, b"") when nobody answered."""
        connection = self.connect()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named |= {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None, named)
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException):
            return 0, b""
        finally:
            connection.close()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.conninfo) as connection:
            return connection.execute(query).fetchall()


@contextmanager
def outside_postgresql(folder: Path, dump: Path) -> Iterator[tuple[str, str]]:
    """A server on TCP that asks for a password, with OpenVibe's tables: its `DATABASE_URL` and libpq's string."""
    folder.mkdir()
    prepare(folder, dump)
    home, port = folder / "postgres", free_port()
    (home / "data/pg_hba.conf").write_text("local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
    user = server_user(home)
    options = {"listen_addresses": "127.0.0.1", "port": str(port), "unix_socket_directories": str(home)}
    settings = [f"--{name}={value}" for name, value in options.items()]
    server = start_program(user, home / "outside.log", "postgres", "-D", str(home / "data"), *settings)
    owner = make_conninfo(host=str(home), port=port, user="openvibe", dbname="openvibe")
    try:
        wait_until(lambda: accepts(owner), "the outside PostgreSQL")
        with psycopg.connect(owner) as connection:
            connection.execute(f"ALTER ROLE openvibe PASSWORD '{PASSWORD}'")
        url = f"postgres://openvibe:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{port}/openvibe"
        yield url, make_conninfo(host="127.0.0.1", port=port, user="openvibe", password=PASSWORD, dbname="openvibe")
    finally:
        server.send_signal(signal.SIGQUIT)
        server.wait()


def accepts(conninfo: str) -> bool:
    with suppress(psycopg.OperationalError), psycopg.connect(conninfo):
        return True
    return False


def parts_of(folder: Path, database_url: str, port: int) -> dict[str, Part]:
    """What runs beside the database, by name; nginx answers at `port`."""
    redis_port = free_port()
    settings = {
        "DATABASE_URL": database_url,
        "CELERY_BROKER_URL": f"redis://127.0.0.1:{redis_port}/0",
        "OPENVIBE_SECRET_KEY": secrets.token_urlsafe(60),
        "OPENVIBE_WEB_PROCESSES": "1",
        "OPENVIBE_WORKER_CONCURRENCY": "2",
    }
    web_ports = {"web1": free_port(), "web2": free_port()}
    servers = " ".join(f"server 127.0.0.1:{each} max_fails=1 fail_timeout=1s;" for each in web_ports.values())
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, port=port, servers=servers))
    web = [sys.executable, "manage.py", "serve", "--only", "web", "--port"]
    celery = [sys.executable, "-m", "celery", "--app", "openvibe.celery"]
    worker = [*celery, "worker", "--loglevel", "INFO", "--without-gossip", "--without-mingle", "--hostname"]
    redis = [program("redis-server"), "--port", str(redis_port), "--bind", "127.0.0.1", "--save", ""]
    commands = {
        "redis": redis,
        **{name: [*web, str(each)] for name, each in web_ports.items()},
        **{name: [*worker, f"{name}@%h"] for name in ("worker1", "worker2")},
        "beat": [*celery, "beat", "--pidfile", "", "--loglevel", "INFO"],
        "nginx": [program("nginx"), "-c", str(folder / "nginx.conf"), "-p", str(folder)],
    }
    return {name: Part(name, command, folder / name, settings) for name, command in commands.items()}


@contextmanager
def cluster(folder: Path, dump: Path) -> Iterator[Cluster]:
    """Two web processes, two workers and one beat; all of them answer."""
    with outside_postgresql(folder / "database", dump) as (url, conninfo):
        port = free_port()
        parts = parts_of(folder, url, port)
        try:
            for part in parts.values():
                part.start()
            made = environment(folder / "web1", **parts["web1"].settings)
            furnished = subprocess.run([sys.executable, "-c", FURNISH], cwd=ROOT, env=made, capture_output=True)
            assert furnished.returncode == 0, furnished.stderr.decode()[-4000:]
            for name, words in READY.items():
                parts[name].wait_for(words)
            yield Cluster(parts, port, conninfo, **json.loads(furnished.stdout))
        finally:
            for part in parts.values():
                part.kill()
