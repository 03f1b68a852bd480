"""OpenVibe as on several machines: an outside PostgreSQL with a password, Redis or RabbitMQ as broker, and web, worker
and beat processes that share nothing but the two and a secret key, behind nginx. Whatever ends is started again after
a pause, as the documented units and containers do it."""

import http.client
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from openvibe.engines.database.embedded.server import PROGRAM_ENVIRONMENT, SystemUser, program_path, server_user
from tests.operations.installation_template import prepare
from tests.operations.processes import ROOT, environment, free_port, wait_until

PASSWORD = "only this machine"
RESTART_SECONDS = 2.0
"""The pause before a restart, as `RestartSec=` of the documented units."""
READY = {
    "web1": "Started worker",
    "web2": "Started worker",
    "worker1": "ready.",
    "worker2": "ready.",
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
    """Path of a program of the system or of a wheel; empty when there is none. Debian's own start of RabbitMQ becomes
    another user, so what it starts comes first."""
    wheel = find_spec(f"{name}_wheel")
    packed = [
        path for place in (wheel and wheel.submodule_search_locations) or () for path in Path(place).glob("bin/*")
    ]
    folders = [Path(sys.executable).parent, *packed, "/usr/lib/rabbitmq/bin", *os.get_exec_path(), "/usr/sbin"]
    return shutil.which(name, path=os.pathsep.join(map(str, folders))) or ""


def missing_programs() -> list[str]:
    return [name for name in ("redis-server", "nginx", "rabbitmq-server", "epmd") if not program(name)]


@dataclass
class Part:
    """One process of the cluster and all that it starts. `keep` starts it again whenever it ends."""

    name: str
    command: list[str]
    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    user: SystemUser = field(default_factory=SystemUser)
    starts: int = 0
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def start(self) -> None:
        self.folder.mkdir(exist_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                cwd=ROOT,
                env=environment(self.folder, **self.settings),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                user=self.user.uid,
                group=self.user.gid,
                extra_groups=None if self.user.uid is None else [],
            )
        self.starts += 1

    def keep(self, stopped: threading.Event) -> None:
        """Keeps it running until `stopped`: waits for its end, and starts it again after a pause."""
        while not stopped.is_set():
            assert self.process is not None
            self.process.wait()
            if not stopped.wait(RESTART_SECONDS):
                self.start()

    def kill(self) -> None:
        """The process and all that it started, as when the machine loses its power."""
        if self.process:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def wait_for(self, words: str, times: int = 1) -> None:
        """Waits until it has said something so many times."""
        try:
            wait_until(
                lambda: self.log.read_text(errors="replace").count(words) >= times, f"{self.name} says {words!r}"
            )
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


@dataclass
class Database:
    """A PostgreSQL on TCP that asks for a password: its process, its `DATABASE_URL`, and libpq's string."""

    part: Part
    url: str
    conninfo: str


def outside_postgresql(folder: Path, dump: Path) -> Database:
    """A server with OpenVibe's tables, running."""
    folder.mkdir()
    prepare(folder, dump)
    home, port = folder / "postgres", free_port()
    (home / "data/pg_hba.conf").write_text("local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
    options = {"listen_addresses": "127.0.0.1", "port": str(port), "unix_socket_directories": str(home)}
    arguments = ["-D", str(home / "data"), *(f"--{name}={value}" for name, value in options.items())]
    command = [str(program_path("postgres")), *arguments]
    part = Part("database", command, folder, dict(PROGRAM_ENVIRONMENT), server_user(home))
    part.start()
    owner = make_conninfo(host=str(home), port=port, user="openvibe", dbname="openvibe")
    wait_until(lambda: accepts(owner), "the outside PostgreSQL")
    with psycopg.connect(owner) as connection:
        connection.execute(f"ALTER ROLE openvibe PASSWORD '{PASSWORD}'")
    url = f"postgres://openvibe:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{port}/openvibe"
    conninfo = make_conninfo(host="127.0.0.1", port=port, user="openvibe", password=PASSWORD, dbname="openvibe")
    return Database(part, url, conninfo)


def accepts(conninfo: str) -> bool:
    with suppress(psycopg.OperationalError), psycopg.connect(conninfo):
        return True
    return False


@dataclass
class Broker:
    """What carries jobs: its processes, the broker itself last, and its `CELERY_BROKER_URL`."""

    parts: list[Part]
    url: str


def redis(folder: Path) -> Broker:
    """Keeps nothing on disk: what waited in it is lost with it."""
    port = free_port()
    command = [program("redis-server"), "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    return Broker([Part("broker", command, folder / "broker")], f"redis://127.0.0.1:{port}/0")


def rabbitmq(folder: Path) -> Broker:
    """A node with its data, its cookie and its port mapper (epmd) to itself, beside whatever node the machine runs."""
    home = folder / "broker"
    home.mkdir()
    (home / "plugins").write_text("[].\n")
    port, epmd_port, node_port = free_port(), free_port(), free_port()
    (home / "rabbitmq.conf").write_text(f"listeners.tcp.1 = 127.0.0.1:{port}\n")
    mapper = {"ERL_EPMD_PORT": str(epmd_port), "ERL_EPMD_ADDRESS": "127.0.0.1"}
    settings = {
        **mapper,
        "HOME": str(home),
        "ERL_CRASH_DUMP": str(home / "crash"),
        "RABBITMQ_NODENAME": f"openvibe-{port}@localhost",
        "RABBITMQ_DIST_PORT": str(node_port),
        "RABBITMQ_MNESIA_BASE": str(home / "data"),
        "RABBITMQ_LOG_BASE": str(home / "logs"),
        "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        "RABBITMQ_CONFIG_FILE": str(home / "rabbitmq.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "plugins"),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
    }
    epmd = Part("epmd", [program("epmd"), "-port", str(epmd_port), "-address", "127.0.0.1"], folder / "epmd")
    broker = Part("broker", [program("rabbitmq-server")], home, settings)
    return Broker([epmd, broker], f"amqp://guest:guest@127.0.0.1:{port}//")


def services(folder: Path, database_url: str, broker_url: str, port: int) -> list[Part]:
    """What runs beside database and broker, by the commands that the documentation gives; nginx answers at `port`."""
    settings = {
        "DATABASE_URL": database_url,
        "CELERY_BROKER_URL": broker_url,
        "OPENVIBE_SECRET_KEY": secrets.token_urlsafe(60),
        "OPENVIBE_WEB_PROCESSES": "1",
        "OPENVIBE_WORKER_CONCURRENCY": "2",
    }
    web_ports = {"web1": free_port(), "web2": free_port()}
    servers = " ".join(f"server 127.0.0.1:{each} max_fails=1 fail_timeout=1s;" for each in web_ports.values())
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, port=port, servers=servers))
    web = [sys.executable, "manage.py", "serve", "--only", "web", "--port"]
    celery = [sys.executable, "-m", "celery", "-A", "openvibe.celery"]
    commands = {
        **{name: [*web, str(each)] for name, each in web_ports.items()},
        **{name: [*celery, "worker", "--loglevel", "INFO"] for name in ("worker1", "worker2")},
        "beat": [*celery, "beat", "--pidfile", "", "--loglevel", "INFO"],
        "nginx": [program("nginx"), "-c", str(folder / "nginx.conf"), "-p", str(folder)],
    }
    return [Part(name, command, folder / name, settings) for name, command in commands.items()]


@contextmanager
def cluster(folder: Path, dump: Path, make_broker: Callable[[Path], Broker]) -> Iterator[Cluster]:
    """Two web processes, two workers and one beat; all of them answer, and each is started again when it ends."""
    database, broker, port = outside_postgresql(folder / "database", dump), make_broker(folder), free_port()
    started = [*broker.parts, *services(folder, database.url, broker.url, port)]
    parts, stopped = {part.name: part for part in [database.part, *started]}, threading.Event()
    keepers = list[threading.Thread]()
    try:
        for part in started:
            part.start()
        made = environment(folder / "web1", **parts["web1"].settings)
        furnished = subprocess.run([sys.executable, "-c", FURNISH], cwd=ROOT, env=made, capture_output=True)
        assert furnished.returncode == 0, furnished.stderr.decode()[-4000:]
        for name, words in READY.items():
            parts[name].wait_for(words)
        for part in parts.values():
            keepers.append(threading.Thread(target=part.keep, args=[stopped], daemon=True))
            keepers[-1].start()
        yield Cluster(parts, port, database.conninfo, **json.loads(furnished.stdout))
    finally:
        stopped.set()
        for part in parts.values():
            part.kill()
        for keeper in keepers:
            keeper.join()
        for part in parts.values():
            part.kill()  # what a keeper started at that moment
