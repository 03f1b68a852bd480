"""The way beyond one database: a workspace moves by archive to an installation with a database of its own, behind one
front."""

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.operations.cluster import NGINX_TEMPORARY, Part, program
from tests.operations.installation_template import furnish, prepare
from tests.operations.processes import PATIENCE, free_port, manage, python, wait_until
from tests.operations.server import Serving, serving

FRONT = """
daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/nginx.log;
events {{ worker_connections 64; }}
http {{
  access_log off; {temporary}
  map $host $openvibe {{
    willow.example 127.0.0.1:{first};
    beech.example  127.0.0.1:{second};
  }}
  server {{
    listen 127.0.0.1:{port};
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_set_header Host $host;
    proxy_set_header X-Forwarded-Proto http;
    location / {{ proxy_pass http://$openvibe; }}
    location ^~ /w/beech/ {{
      if ($host = willow.example) {{ return 302 http://beech.example/w/beech/; }}
      proxy_pass http://$openvibe;
    }}
  }}
}}
"""
MAKE_BEECH = """
import django; django.setup()
from openvibe.chat.services import create_channel, create_thread, post_message
from openvibe.workspaces.models import Member, User
from openvibe.workspaces.queries import member_access
from openvibe.workspaces.services import create_workspace
bo = create_workspace(name="Beech House", slug="beech", owner=User.objects.create_user("bo@example.org", name="Bo"))
by = member_access(bo)
thread = create_thread(channel=create_channel(by=by, name="gutters"), by=by, title="Gutters")
post_message(thread=thread, by=by, body="The gutters are cleaned in November.")
for number in range(30):
    post_message(thread=thread, by=by, body=f"Gutter {number}")
"""
ENTER = """
import json, sys, django; django.setup()
from openvibe.api.services import issue_token
from openvibe.chat.models import Thread
from openvibe.workspaces.models import Member, Workspace
from openvibe.workspaces.queries import member_access
member = Member.objects.select_related("participant").filter(workspace__slug=sys.argv[1]).first()
thread = Thread.objects.visible_to(member_access(member)).order_by("-last_seq").first()
_, secret = issue_token(participant=member.participant, name="steady", scopes=["read", "write"])
workspaces = list(Workspace.objects.order_by("slug").values_list("slug", flat=True))
print(json.dumps({"token": secret, "thread": thread.pk, "workspaces": workspaces}))
"""


def run_python(code: str, *arguments: str, var: Path) -> str:
    process = python("-c", code, *arguments, var=var)
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, output
    return output


def run_command(*arguments: str, var: Path) -> str:
    done = manage(*arguments, var=var)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Front:
    """nginx, which sends each host name to the installation of its workspace."""

    def __init__(self, folder: Path, first: Serving, second: Serving) -> None:
        self.port = free_port()
        places = {"folder": folder, "port": self.port, "first": first.port, "second": second.port}
        configuration = FRONT.format(temporary=NGINX_TEMPORARY.format(folder=folder), **places)
        (folder / "nginx.conf").write_text(configuration)
        self.part = Part("nginx", [program("nginx"), "-c", f"{folder}/nginx.conf", "-p", str(folder)], folder / "nginx")

    def call(
        self, host: str, method: str, path: str, token: str = "", body: object = None
    ) -> tuple[http.client.HTTPResponse, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        headers = {"Host": host, "Content-Type": "application/json"}
        headers |= {"Authorization": f"Bearer {token}"} if token else {}
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            response = connection.getresponse()
            text = response.read()
            return response, json.loads(text) if "json" in response.headers["Content-Type"] else text
        finally:
            connection.close()

    def is_there(self) -> bool:
        try:
            return self.call("willow.example", "GET", "/healthz")[0].status == 200
        except OSError:
            return False


@contextmanager
def front(folder: Path, first: Serving, second: Serving) -> Iterator[Front]:
    nginx = Front(folder, first, second)
    nginx.part.start()
    try:
        wait_until(nginx.is_there, "the front")
        yield nginx
    finally:
        nginx.part.kill()


def bodies(at: Front, host: str, place: dict[str, Any]) -> list[tuple[int, str]]:
    response, page = at.call(host, "GET", f"/api/v1/threads/{place['thread']}/messages/?limit=100", place["token"])
    assert response.status == 200, page
    return sorted((message["seq"], message["body"]) for message in page["results"])


def test_a_workspace_moves_to_a_database_of_its_own_behind_the_same_front(var: Path, migrated_dump: Path) -> None:
    first, second = var / "first", var / "second"
    for folder, fill in ((first, furnish), (second, prepare)):
        folder.mkdir(mode=0o755)
        fill(folder, migrated_dump)
    run_python(MAKE_BEECH, var=first)

    archive = str(var / "beech.zip")
    run_command("workspace", "export", archive, "--workspace", "beech", var=first)
    run_command("workspace", "import", archive, var=second)
    run_command("workspace", "delete", "beech", "--confirm", "Beech House", var=first)

    hosts = {"OPENVIBE_ALLOWED_HOSTS": "willow.example,beech.example"}
    with serving(first, **hosts) as one, serving(second, **hosts) as two, front(var, one, two) as at:
        willow = json.loads(run_python(ENTER, "willow", var=first))
        beech = json.loads(run_python(ENTER, "beech", var=second))
        assert (willow["workspaces"], beech["workspaces"]) == (["willow"], ["beech"])

        moved = bodies(at, "beech.example", beech)
        assert moved == [(1, "The gutters are cleaned in November."), *((n + 2, f"Gutter {n}") for n in range(30))]
        for host, place in (("willow.example", willow), ("beech.example", beech)):
            path = f"/api/v1/threads/{place['thread']}/messages/"
            response, message = at.call(host, "POST", path, place["token"], {"body": f"Said at {host}"})
            assert (response.status, message["body"]) == (201, f"Said at {host}")
            assert any(body == f"Said at {host}" for _, body in bodies(at, host, place))

        for host, place in (("willow.example", beech), ("beech.example", willow)):
            assert at.call(host, "GET", "/api/v1/me/", place["token"])[0].status == 401
        elsewhere, _ = at.call("willow.example", "GET", "/w/beech/t/1/")
        assert (elsewhere.status, elsewhere.headers["Location"]) == (302, "http://beech.example/w/beech/")
        assert (one.interrupt(), two.interrupt()) == (0, 0)
