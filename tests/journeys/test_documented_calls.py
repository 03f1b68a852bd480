"""The samples of docs/api.md, run as they stand, from top to bottom in one shell."""

import re
import subprocess
from pathlib import Path
from secrets import token_hex

from tests.journeys.installation import Installation
from tests.journeys.test_outside_agent import MAKE_REED
from tests.journeys.test_run_recovery import API_PAUSE, messages
from tests.operations.processes import wait_until

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
PLACEHOLDER = "ovk_…"


def test_the_samples_of_the_page_on_the_api_run_as_they_stand(installation: Installation, tmp_path: Path) -> None:
    """The samples, but for the agent's name, the address, the tokens, and how long it listens."""
    agent = f"reed-{token_hex(3)}"  # others have a @reed
    installation.shell(MAKE_REED.replace('handle="reed"', f'handle="{agent}"'))
    script = "\n".join(re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL))
    ana, token = (installation.token(handle, "read,write,memory") for handle in ("ana", agent))
    assert script.count(PLACEHOLDER) == 2
    script = script.replace(PLACEHOLDER, ana, 1).replace(PLACEHOLDER, token)
    for stands_here, here in {
        "http://127.0.0.1:8000": installation.url,
        "--max-time 60": "--max-time 1",
        "@reed": f"@{agent}",
    }.items():
        assert script.count(stands_here) == 1
        script = script.replace(stands_here, here)
    command = ["bash", "-euo", "pipefail", "-c", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Name the rose." in done.stdout
    (run,) = installation.api("GET", f"runs/?agent={agent}", ana)["results"]
    assert installation.api("GET", f"messages/{run['reply']}/", ana)["body"] == "In March, before the buds."

    def is_answered_by_vibe() -> bool:
        said = messages(installation, ana, run["thread"])
        return any(each["author"]["handle"] == "vibe" and each["state"] == "complete" for each in said)

    wait_until(is_answered_by_vibe, "Vibe's answer", pause=API_PAUSE)
