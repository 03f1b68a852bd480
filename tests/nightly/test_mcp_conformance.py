"""The conformance suite of the Model Context Protocol, as its authors ship it: from npm, where that is here."""

import json
import shutil
import subprocess
from concurrent.futures import Executor
from pathlib import Path

import pytest

from agents.models import Agent
from openvibe.api.services import issue_token
from tests.agents.mcp.conftest import executor
from tests.operations.conformance_server import HANDLERS, NOT_OFFERED, over_http

__all__ = ["executor"]
SUITE = ("--package=node@22", "--package=@modelcontextprotocol/conformance@0.1.16")
"""The suite calls functions that Node has from version 22 on."""
SUITE_SECONDS = 900


@pytest.mark.django_db
@pytest.mark.skipif(shutil.which("npx") is None, reason="npm is not on this machine")
def test_the_door_passes_all_that_it_offers(executor: Executor, vibe: Agent, tmp_path: Path) -> None:
    """What it does not offer stands in the suite's own list of expected failures: one that passes fails here, too."""
    _, secret = issue_token(participant=vibe.participant, name="conformance", scopes=["read"])
    baseline = tmp_path / "expected.yml"
    baseline.write_text(json.dumps({"server": list(NOT_OFFERED)}))  # JSON is YAML, too
    with over_http(executor, secret, HANDLERS) as port:
        command = ["npx", "--yes", *SUITE, "--", "conformance", "server", "--url", f"http://127.0.0.1:{port}/mcp"]
        command += ["--suite", "all", "--expected-failures", str(baseline)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SUITE_SECONDS, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6_000:]
