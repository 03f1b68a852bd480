"""Makes `.venv` with the locked dependencies: `bootstrap_venv.py run|multilingual|test|browser [--this-python]`.

Standard library alone: runs on the system's Python, before anything is installed. `venv` makes the environment, `uv`
fills it. Each way this can fail ends in a sentence that says what to do."""

import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
LOCK_FILES = {
    "run": "requirements.txt",
    "multilingual": "requirements-multilingual.txt",
    "test": "requirements-dev.txt",
}
INCLUDED_PROFILES = {"run": ("run",), "multilingual": ("multilingual",), "test": ("run", "multilingual", "test")}
MIN_PYTHON, MAX_PYTHON = (3, 11), (3, 14)
PLATFORMS = {("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64")}
"""Systems and machines for which every locked package has a ready-made file; `make check` asks the package index."""
PROMISE = "OpenVibe runs with Python 3.11 to 3.14 on Linux (x86-64 or ARM64, with glibc) and on macOS (ARM)"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MAC_BROWSERS = (
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
HEADLESS_SHELL = "chromium-headless-shell"
STAMP = "installed.json"
"""The file in `.venv` that holds fingerprints of what is installed."""
VENV_PACKAGE = f"python3.{sys.version_info.minor}-venv"
ONLY_LOCKED = ("install", "--quiet", "--only-binary", ":all:", "--require-hashes", "--requirement")
ERROR_HINTS = {
    "ensurepip": "Python's venv module is missing. "
    f"On Debian and Ubuntu: `sudo apt-get install {VENV_PACKAGE}`, then run it again.",
    "No space left": "The disk is full. Free about 1 GB and run it again.",
    "Read-only file system": f"{VENV} cannot be written: its disk is read-only. "
    "Put OpenVibe into a folder you may write to, with about 1 GB free, and run it again.",
    "Permission denied": f"{VENV} cannot be written. Make it yours (`chown`), or remove it, and run it again.",
    "do not match the hashes|Hash mismatch": "A package differs from the locked one. "
    "Empty the caches (`pip cache purge`, `.venv/bin/uv cache clean`) and run it again.",
    "No matching distribution|No solution found": "A locked package has no ready-made file for the Python of "
    f"{VENV} on {platform.platform()}. {PROMISE}: `make PYTHON=python3.12 …`.",
    "certificate": "The package index's certificate is not trusted here. Install your system's CA certificates.",
    "timed out|timeout": "The package index did not answer in time. Check the network and run it again.",
    "name resolution|dns error|connect|sending request": "The package index cannot be reached. "
    "Check the network and run it again.",
}
"""What venv, pip and uv say, and what that means for the person in front of it."""


def main(arguments: list[str]) -> None:
    """`run`, `multilingual` and `test` install what that needs, unless it is there; `browser` sees to a Chromium."""
    if reason := unsupported():
        fail(f"{reason} {PROMISE}: `make PYTHON=python3.12 …`.")
    profile = arguments[0] if arguments else ""
    if profile == "browser":
        ensure_browser()
    elif profile in LOCK_FILES:
        with open(__file__, "rb") as lock_file:
            fcntl.flock(lock_file, fcntl.LOCK_EX)  # `make run` and `make test` started together take turns
            ensure_packages(profile, this_python="--this-python" in arguments)
    else:
        fail("Say which: run, multilingual, test or browser.")


def unsupported() -> str:
    """The reason why the locked packages have no ready-made files for this Python or this machine; "" where they
    have."""
    if not MIN_PYTHON <= sys.version_info[:2] <= MAX_PYTHON or sys.implementation.name != "cpython":
        return f"This is {platform.python_implementation()} {platform.python_version()}."
    if "t" in sys.abiflags:
        return f"This Python {platform.python_version()} was built without the global interpreter lock."
    if (sys.platform, platform.machine()) not in PLATFORMS or sys.maxsize < 2**32:
        return f"This is a Python for {sysconfig.get_platform()}."
    if sys.platform == "linux" and "musl" in (sysconfig.get_config_var("SOABI") or ""):
        return "This system's C library is musl (Alpine, for example)."
    return ""


def ensure_packages(profile: str, *, this_python: bool = False) -> None:
    """Brings `.venv` in line with the lock of `profile`; does nothing when it is already. With `this_python` it is one
    of the Python that runs this, whatever it was before."""
    if os.path.lexists(VENV) and not VENV.is_dir():
        fail(f"{VENV} is no folder, nor a link to one that is there. Remove it (`rm {VENV}`), and run it again.")
    python, unfinished = str(VENV / "bin" / "python"), VENV / "unfinished"
    made_with = venv_setting("executable")
    is_wanted = not this_python or os.path.realpath(made_with) == os.path.realpath(sys.executable)
    is_whole = made_with and is_wanted and not unfinished.exists() and ends_well(python, "-c", "")
    if is_whole and read_stamp().get(profile) == lock_fingerprint(profile):
        return
    if not is_whole or not ends_well(python, "-m", "pip", "--version"):
        make_venv()
    print(f"Installing the locked dependencies ({LOCK_FILES[profile]}) …", flush=True)
    if not ends_well(python, "-m", "uv", "--version"):
        uv = re.search(r"^uv==(.*\\\n)+.*\n", (ROOT / LOCK_FILES["test"]).read_text(), re.MULTILINE)
        check_ended_well(run(python, "-m", "pip", *ONLY_LOCKED, "/dev/stdin", text=uv.group() if uv else ""))
    unfinished.touch()
    done = run(python, "-m", "uv", "pip", *ONLY_LOCKED, str(ROOT / LOCK_FILES[profile]), "--python", python)
    if done.returncode >= 0:  # what is killed may leave half a package
        unfinished.unlink()
    check_ended_well(done)
    fingerprints = {included: lock_fingerprint(included) for included in INCLUDED_PROFILES[profile]}
    (VENV / STAMP).write_text(json.dumps({**read_stamp(), **fingerprints}))


def make_venv() -> None:
    """A new virtual environment of this Python. Debian and Ubuntu have `venv` in a package of its own, which is
    installed where that needs no password."""
    print("Creating .venv …", flush=True)
    command = (sys.executable, "-m", "venv", "--clear", str(VENV))
    done = run(*command)
    if done.returncode and "ensurepip" in done.stdout and apt("update") and apt_install(VENV_PACKAGE):
        done = run(*command)
    if done.returncode:
        shutil.rmtree(VENV, ignore_errors=True)
    check_ended_well(done)


def venv_setting(name: str) -> str:
    """What `.venv` says of itself in `pyvenv.cfg`; empty where it does not."""
    with suppress(OSError, ValueError):
        for line in (VENV / "pyvenv.cfg").read_text().splitlines():
            key, _, value = line.partition("=")
            if key.strip() == name:
                return value.strip()
    return ""


def lock_fingerprint(profile: str) -> str:
    """Changes with the lock and with the Python it was installed for, which need not be the one that runs this."""
    lock = (ROOT / LOCK_FILES[profile]).read_bytes()
    return hashlib.sha256(lock + venv_setting("version").encode() + str(VENV).encode()).hexdigest()


def read_stamp() -> dict[str, str]:
    """What the stamp in `.venv` says was installed; nothing when there is none."""
    with suppress(OSError, ValueError, TypeError):
        return dict(json.loads((VENV / STAMP).read_text()))
    return {}


def run(*command: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Runs it to its end; `stdout` holds all it said. uv trusts what the system does, and asks the index pip asks."""
    environment = {"UV_SYSTEM_CERTS": "1", **os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    if index := os.environ.get("PIP_INDEX_URL"):
        environment.setdefault("UV_DEFAULT_INDEX", index)
    return subprocess.run(
        command, input=text, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def ends_well(*command: str) -> bool:
    """Whether it starts, and ends with 0."""
    with suppress(OSError):
        return run(*command).returncode == 0
    return False


def find_browser(*preferred: str) -> str | None:
    """Path of a Chromium: what OPENVIBE_CHROMIUM names, else the first there is, of `preferred` before others."""
    installed = (*map(shutil.which, (*preferred, *BROWSERS)), *filter(os.path.exists, MAC_BROWSERS))
    return os.environ.get("OPENVIBE_CHROMIUM") or next(filter(None, installed), None)


def ensure_browser() -> None:
    """A Chromium for the browser tests: one that is there, or one from the system's package manager.

    Where that has Chromium's headless shell, too, it is installed beside it: the same engine draws the same pages in
    it for a fifth less of the processor's time.
    """
    if os.environ.get("OPENVIBE_CHROMIUM"):
        return
    if not find_browser() and not install_browser():
        fail(
            "The browser tests need Chromium, and it could not be installed here. Install it (Debian: `sudo "
            "apt-get install chromium`, macOS: `brew install --cask chromium`), or set OPENVIBE_CHROMIUM to one."
        )
    if shutil.which("apt-get") and not shutil.which(HEADLESS_SHELL):
        apt_install(HEADLESS_SHELL)


def install_browser() -> bool:
    print("Installing Chromium …", flush=True)
    if sys.platform == "darwin":
        return ends_well("brew", "install", "--cask", "chromium")
    return apt("update") and (apt_install("chromium") or apt_install("chromium-browser"))


def apt_install(package: str) -> bool:
    return apt("install", "-y", "--no-install-recommends", package)


def apt(*arguments: str) -> bool:
    """Whether apt-get did it: as root, or through a sudo that asks nothing."""
    prefix = () if os.geteuid() == 0 else ("sudo", "-n")
    return ends_well(*prefix, "apt-get", "-qq", *arguments)


def fail(text: str) -> NoReturn:
    raise SystemExit(f"\n{text}")


def check_ended_well(done: subprocess.CompletedProcess[str]) -> None:
    """Ends with what the words of pip, uv or venv mean, or with the last of them."""
    if done.returncode == 0:
        return
    for pattern, hint in ERROR_HINTS.items():
        if re.search(pattern, done.stdout, re.IGNORECASE):
            fail(hint)
    last_words = "\n".join(done.stdout.strip().splitlines()[-8:])
    fail(f"The dependencies could not be installed. The last words were:\n{last_words}")


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
