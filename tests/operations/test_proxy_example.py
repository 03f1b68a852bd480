"""The nginx of docs/operations-install.md, as it stands there but for ports and paths."""

import http.client
import re
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from openvibe.runner.public_address import PublicAddress
from tests.operations.cluster import Part, program
from tests.operations.processes import ROOT, free_port, wait_until
from tests.operations.public_server import write_certificate

EXAMPLE = re.compile(r"With nginx:\n\n```\n(.*?)```", re.DOTALL)
CONFIGURATION = """
daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/nginx.log;
events {{ worker_connections 64; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  {example}
}}
"""


class Proxy:
    """nginx with the example, in front of `upstream`; its ports, and whom to trust."""

    def __init__(self, folder: Path, upstream: int) -> None:
        self.http, self.https, self.upstream = free_port(), free_port(), upstream
        write_certificate(folder / "vibe.pem")
        self.tls = ssl.create_default_context(cafile=str(folder / "vibe.pem"))
        found = EXAMPLE.search((ROOT / "docs/operations-install.md").read_text())
        assert found
        example = found[1]
        for words, here in {
            "listen 80;": f"listen 127.0.0.1:{self.http};",
            "listen 443 ": f"listen 127.0.0.1:{self.https} ",
            "/etc/ssl/vibe.example.org.pem": f"{folder}/vibe.pem",
            "/etc/ssl/vibe.example.org.key": f"{folder}/vibe.pem",
            "http://127.0.0.1:8000": f"http://127.0.0.1:{upstream}",
        }.items():
            assert words in example
            example = example.replace(words, here)
        (folder / "nginx.conf").write_text(CONFIGURATION.format(folder=folder, example=example))
        command = [program("nginx"), "-c", str(folder / "nginx.conf"), "-p", str(folder)]
        self.part = Part("nginx", command, folder / "nginx")

    def is_there(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.https)) == 0


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    running = Proxy(tmp_path, upstream=free_port())
    running.part.start()
    try:
        wait_until(running.is_there, "nginx")
        yield running
    finally:
        running.part.kill()


def test_plain_http_leads_to_https(proxy: Proxy) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", proxy.http)
    connection.request("GET", "/w/willow/?page=2", headers={"Host": "vibe.example.org"})
    answer = connection.getresponse()
    connection.close()
    assert (answer.status, answer.headers["Location"]) == (301, "https://vibe.example.org/w/willow/?page=2")


def test_while_openvibe_is_not_up_it_says_so(proxy: Proxy) -> None:
    connection = http.client.HTTPSConnection("localhost", proxy.https, context=proxy.tls)
    connection.request("GET", "/w/willow/events/")
    answer = connection.getresponse()
    assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
    assert answer.headers["Content-Type"] == "text/html"
    assert b"OpenVibe is being started" in answer.read()
    connection.close()
    assert "Start OpenVibe" in " ".join(PublicAddress(f"https://localhost:{proxy.https}", tls=proxy.tls).health())
