"""Makes `.venv` with the locked dependencies: `bootstrap_venv.py run|multilingual|test|browser [--this-python]`.

Standard library alone: runs on the system's Python, before anything is installed. Each way this can fail ends in a
sentence that says what to do. With `--this-python` the environment is one of the Python that runs this; else it may be
one of a faster build of the same version."""

import fcntl
import hashlib
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "installed.json"
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
SYSTEM_FOLDERS = ("/usr/bin", "/usr/local/bin", "/opt/homebrew/bin")
MAX_SPEED_RATIO = 0.9
"""What another build may take, in parts of this one's time, to be preferred."""

BUILD = f"{sys.implementation.cache_tag}{sys.abiflags} {platform.machine()} {sys.maxsize}"
"""What the locked packages are chosen for, but for the patch level."""

# Prints the seconds of the quickest of a few turns; fails where a virtual environment could not be made, or would be of
# another kind: PyPy, 32 bits, without the GIL.
SPEED_TEST = """
import ensurepip, platform, sys, time

build = f"{sys.implementation.cache_tag}{sys.abiflags} {platform.machine()} {sys.maxsize}"
assert build == sys.argv[1], build

code = compile("for number in range(30_000): counts[number & 255] = counts.get(number & 255, 0) + 1", "", "exec")
seconds = []
for _ in range(9):
    started = time.perf_counter()
    exec(code, {"counts": {}})
    seconds.append(time.perf_counter() - started)
print(min(seconds))
"""
# What pip says, and what that means for the person in front of it.
ERROR_HINTS = (
    ("No space left", "The disk is full. Free about 1 GB and run it again."),
    (
        "Read-only file system",
        f"{VENV} cannot be written: its disk is read-only. Put OpenVibe into a folder you may write to, with about "
        "1 GB free, and run it again.",
    ),
    ("do not match the hashes", "A package differs from the locked one. `pip cache purge` and run it again."),
    (
        "No matching distribution",
        f"A locked package has no ready-made file for the Python of {VENV} on {platform.platform()}. {PROMISE}: "
        "`make PYTHON=python3.12 …`.",
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
    expected = lock_fingerprint(profile)
    is_other = this_python and venv_python() not in (None, os.path.realpath(sys.executable))
    if read_stamp().get(profile) == expected and is_runnable(PYTHON) and not is_other:
        return
    if is_other or not is_runnable(PYTHON, "-m", "pip", "--version"):
        make_venv(sys.executable if this_python else fastest_python())
    print(f"Installing the locked dependencies ({LOCK_FILES[profile]}) …", flush=True)
    command = [str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--quiet"]
    command += ["--only-binary", ":all:", "--require-hashes", "-r", str(ROOT / LOCK_FILES[profile])]
    pip = subprocess.run(command, capture_output=True, text=True)
    if pip.returncode != 0:
        fail_with_hint(pip.stdout + pip.stderr)
    fingerprints = {
        included_profile: lock_fingerprint(included_profile) for included_profile in INCLUDED_PROFILES[profile]
    }
    STAMP.write_text(json.dumps(fingerprints if profile == "test" else {**read_stamp(), **fingerprints}))


def make_venv(python: str) -> None:
    """A new virtual environment of this Python."""
    package = f"python3.{sys.version_info.minor}-venv"  # Debian and Ubuntu package it apart
    missing_venv_hint = (
        f"Python's venv module is missing. On Debian and Ubuntu: `sudo apt-get install {package}`, then run it again."
    )
    if python == sys.executable and importlib.util.find_spec("ensurepip") is None:
        if os.geteuid() != 0 or not shutil.which("apt-get"):
            fail(missing_venv_hint)
        print(f"Installing {package} …", flush=True)
        apt("update")
        if not apt_install(package):
            fail(missing_venv_hint)
    which = "" if python == sys.executable else f" with {python}, a faster build of this Python"
    print(f"Creating .venv{which} …", flush=True)
    venv = subprocess.run([python, "-m", "venv", "--clear", str(VENV)], capture_output=True, text=True)
    if venv.returncode == 0:
        return
    output = venv.stdout + venv.stderr
    shutil.rmtree(VENV, ignore_errors=True)
    if python != sys.executable:
        make_venv(sys.executable)
        return
    if "ensurepip" in output:
        fail(missing_venv_hint)
    fail_with_hint(output)


def venv_python() -> str | None:
    """Path of the Python that `.venv` was made with; None where it does not say."""
    path = venv_setting("executable")
    return os.path.realpath(path) if path else None


def venv_setting(name: str) -> str:
    """What `.venv` says of itself in `pyvenv.cfg`; empty where it does not."""
    with suppress(OSError, ValueError):
        for line in (VENV / "pyvenv.cfg").read_text().splitlines():
            key, _, value = line.partition("=")
            if key.strip() == name:
                return value.strip()
    return ""


def fastest_python() -> str:
    """The Python that runs this, or another build of its version in the system's folders that is clearly faster.

    What version managers compile is often built without the optimisations that distributions build with: the same code
    takes a tenth longer, a loop a third.
    """
    name = f"python3.{sys.version_info.minor}"
    builds = [path for folder in SYSTEM_FOLDERS if os.path.exists(path := f"{folder}/{name}")]
    if os.path.realpath(sys.executable) in map(os.path.realpath, builds):
        return sys.executable  # one of the system's already
    seconds = {python: speed_test_seconds(python) for python in (sys.executable, *builds)}
    fastest = min(seconds, key=seconds.__getitem__)
    return fastest if seconds[fastest] < MAX_SPEED_RATIO * seconds[sys.executable] else sys.executable


def speed_test_seconds(python: str) -> float:
    """Infinite for one that does not run it."""
    with suppress(OSError, ValueError, subprocess.SubprocessError):
        command = [python, "-I", "-c", SPEED_TEST, BUILD]
        test = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
        return float(test.stdout)
    return float("inf")


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
    if not find_browser():
        install_browser()
    if shutil.which("apt-get") and not shutil.which(HEADLESS_SHELL):
        apt_install(HEADLESS_SHELL)


def install_browser() -> None:
    if sys.platform == "darwin" and shutil.which("brew"):
        print("Installing Chromium with Homebrew …", flush=True)
        if subprocess.run(["brew", "install", "--cask", "chromium"]).returncode == 0:
            return
    elif shutil.which("apt-get"):
        print("Installing Chromium with apt-get …", flush=True)
        apt("update")
        if apt_install("chromium") or apt_install("chromium-browser"):
            return
    fail(
        "The browser tests need Chromium, and it could not be installed here. Install it (Debian: `sudo "
        "apt-get install chromium`, macOS: `brew install --cask chromium`), or set OPENVIBE_CHROMIUM to one."
    )


def apt_install(package: str) -> bool:
    return apt("install", "-y", "--no-install-recommends", package)


def apt(*arguments: str) -> bool:
    """Whether apt-get did it: as root, or through a sudo that asks nothing."""
    prefix: list[str] = []
    if os.geteuid() != 0:
        if not shutil.which("sudo") or subprocess.run(["sudo", "-n", "true"], capture_output=True).returncode != 0:
            return False
        prefix = ["sudo", "-n"]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    return subprocess.run([*prefix, "apt-get", "-qq", *arguments], env=environment, capture_output=True).returncode == 0


def lock_fingerprint(profile: str) -> str:
    """Changes with the lock and with the Python it was installed for, which need not be the one that runs this."""
    lock = (ROOT / LOCK_FILES[profile]).read_bytes()
    return hashlib.sha256(lock + venv_setting("version").encode() + str(VENV).encode()).hexdigest()


def read_stamp() -> dict[str, str]:
    """What the stamp in `.venv` says was installed; nothing when there is none."""
    with suppress(OSError, ValueError, TypeError):
        return dict(json.loads(STAMP.read_text()))
    return {}


def is_runnable(python: Path, *arguments: str) -> bool:
    """Whether this Python starts, and ends well with these arguments."""
    try:
        return subprocess.run([str(python), *(arguments or ("-c", ""))], capture_output=True).returncode == 0
    except OSError:
        return False


def fail(text: str) -> NoReturn:
    raise SystemExit(f"\n{text}")


def fail_with_hint(output: str) -> NoReturn:
    """Ends with what pip's or venv's words mean, or with their last lines."""
    for pattern, hint in ERROR_HINTS:
        if pattern.lower() in output.lower():  # pip shouts about hashes
            fail(hint)
    fail(
        "The dependencies could not be installed. The last words were:\n" + "\n".join(output.strip().splitlines()[-8:])
    )


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
