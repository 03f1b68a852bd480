"""Makes `.venv` with the locked dependencies: `python3 openvibe/setup.py run|test|browser`. Standard library alone.

Runs on the system's Python, before anything is installed. Each way this can fail ends in a sentence that says what
to do.
"""

import fcntl
import hashlib
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "installed.json"
LOCKS = {"run": "requirements.txt", "test": "requirements-dev.txt"}
CONTAINS = {"run": ("run",), "test": ("run", "test")}
OLDEST = (3, 11)
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MAC_BROWSERS = ("/Applications/Chromium.app", "/Applications/Google Chrome.app")
# What pip says, and what that means for the person in front of it.
MEANINGS = (
    ("No space left", "The disk is full. Free about 1 GB and run it again."),
    ("do not match the hashes", "A package differs from the locked one. `pip cache purge` and run it again."),
    (
        "No matching distribution",
        f"A locked package has no ready-made file for Python {platform.python_version()} on {platform.platform()}. "
        "Python 3.11, 3.12 or 3.13 on Linux (x86-64, ARM64) or macOS will do: `make PYTHON=python3.12 …`.",
    ),
    ("name resolution", "The package index cannot be reached. Check the network and run it again."),
    ("ConnectionError", "The package index cannot be reached. Check the network and run it again."),
    ("timed out", "The package index did not answer in time. Check the network and run it again."),
    (
        "CERTIFICATE_VERIFY",
        "The package index's certificate is not trusted here. Install your system's CA certificates.",
    ),
    ("Permission denied", f"{VENV} cannot be written. Make it yours (`chown`), or remove it, and run it again."),
)


def main(arguments: list[str]) -> None:
    """`run` and `test` install what that needs, unless it is there; `browser` finds or installs a Chromium."""
    if sys.version_info < OLDEST:
        fail(f"This is Python {platform.python_version()}; OpenVibe needs 3.11 or later: `make PYTHON=python3.12 …`.")
    what = arguments[0] if arguments else ""
    if what == "browser":
        ensure_browser()
    elif what in LOCKS:
        with open(__file__, "rb") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)  # `make run` and `make test` started together take turns
            ensure_packages(what)
    else:
        fail("Say which: run, test or browser.")


def ensure_packages(what: str) -> None:
    """Brings `.venv` in line with the lock of `what`; does nothing when it is already."""
    wanted = fingerprint(what)
    if installed().get(what) == wanted and runs(PYTHON):
        return
    ensure_venv()
    say(f"Installing the locked dependencies ({LOCKS[what]}) …")
    command = [str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--quiet"]
    command += ["--only-binary", ":all:", "--require-hashes", "-r", str(ROOT / LOCKS[what])]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        fail_with_meaning(done.stdout + done.stderr)
    marks = {part: fingerprint(part) for part in CONTAINS[what]}
    STAMP.write_text(json.dumps(marks if what == "test" else {**installed(), **marks}))


def ensure_venv() -> None:
    """A virtual environment that runs; one whose Python has gone is made anew."""
    if runs(PYTHON) and subprocess.run([str(PYTHON), "-m", "pip", "--version"], capture_output=True).returncode == 0:
        return
    if importlib.util.find_spec("ensurepip") is None:
        install_venv_module()
    say("Creating .venv …")
    done = subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], capture_output=True, text=True)
    if done.returncode == 0:
        return
    said = done.stdout + done.stderr
    shutil.rmtree(VENV, ignore_errors=True)
    if "ensurepip" in said:
        fail(missing_venv_module())
    fail_with_meaning(said)


def install_venv_module() -> None:
    """Debian and Ubuntu package `venv` apart; as root it is installed, otherwise a sentence names the package."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        fail(missing_venv_module())
    package = f"python3.{sys.version_info.minor}-venv"
    say(f"Installing {package} …")
    if not apt_installs(package):
        fail(missing_venv_module())


def missing_venv_module() -> str:
    package = f"python3.{sys.version_info.minor}-venv"
    return (
        f"Python's venv module is missing. On Debian and Ubuntu: `sudo apt-get install {package}`, then run it again."
    )


def ensure_browser() -> None:
    """A Chromium for the browser tests: one that is there, or one from the system's package manager."""
    if os.environ.get("OPENVIBE_CHROMIUM") or any(map(shutil.which, BROWSERS)):
        return
    if any(os.path.exists(path) for path in MAC_BROWSERS):
        return
    if sys.platform == "darwin" and shutil.which("brew"):
        say("Installing Chromium with Homebrew …")
        if subprocess.run(["brew", "install", "--cask", "chromium"]).returncode == 0:
            return
    elif shutil.which("apt-get"):
        say("Installing Chromium with apt-get …")
        if apt_installs("chromium") or apt_installs("chromium-browser"):
            return
    fail(
        "The browser tests need Chromium, and it could not be installed here. Install it (Debian: `sudo "
        "apt-get install chromium`, macOS: `brew install --cask chromium`), or set OPENVIBE_CHROMIUM to one."
    )


def apt_installs(package: str) -> bool:
    """Whether apt-get installed the package: as root, or through a sudo that asks nothing."""
    prefix: list[str] = []
    if os.geteuid() != 0:
        if not shutil.which("sudo") or subprocess.run(["sudo", "-n", "true"], capture_output=True).returncode != 0:
            return False
        prefix = ["sudo", "-n"]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run([*prefix, "apt-get", "update", "-qq"], env=environment, capture_output=True)
    command = [*prefix, "apt-get", "install", "-y", "-qq", "--no-install-recommends", package]
    return subprocess.run(command, env=environment, capture_output=True).returncode == 0


def fingerprint(what: str) -> str:
    """Changes with the lock and with the Python it was installed for."""
    lock = (ROOT / LOCKS[what]).read_bytes()
    return hashlib.sha256(lock + platform.python_version().encode() + str(VENV).encode()).hexdigest()


def installed() -> dict[str, str]:
    """What the stamp in `.venv` says was installed; nothing when there is none."""
    try:
        found: dict[str, str] = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return {}
    return found


def runs(python: Path) -> bool:
    """Whether this Python starts."""
    try:
        return subprocess.run([str(python), "-c", ""], capture_output=True).returncode == 0
    except OSError:
        return False


def say(text: str) -> None:
    print(text, flush=True)


def fail(text: str) -> NoReturn:
    raise SystemExit(f"\n{text}")


def fail_with_meaning(said: str) -> NoReturn:
    """Ends with what pip's or venv's words mean, or with their last lines."""
    for words, meaning in MEANINGS:
        if words in said:
            fail(meaning)
    fail("The dependencies could not be installed. The last words were:\n" + "\n".join(said.strip().splitlines()[-8:]))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except OSError as problem:
        fail(
            f"{problem.filename or ROOT} cannot be used: {problem.strerror}. "
            "OpenVibe needs a folder it may write to, with about 1 GB free."
        )
    except KeyboardInterrupt:
        fail("Stopped. Run it again to go on.")
