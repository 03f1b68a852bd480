"""What `.venv` is made with and when. Python is a shell script here, which makes a folder and writes down what it was
asked for."""

import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from openvibe.runner import bootstrap_venv
from openvibe.runner.bootstrap_venv import LOCK_FILES, ensure_packages, venv_setting
from tests.operations.processes import ROOT

FAKE_PYTHON = """#!/bin/sh
case "$*" in
  "-m venv --clear "*)
    rm -rf "$4" && mkdir -p "$4/bin" && cp "$0" "$4/bin/python" && echo "executable = $0" > "$4/pyvenv.cfg" ;;
  "-m uv --version") test -e {folder}/uv ;;
  "-m pip install "*) cat > {folder}/uv; echo "$*" >> {folder}/asked ;;
  "-m uv pip install "*) echo "$*" >> {folder}/asked; {fails} ;;
esac
"""


@dataclass(frozen=True)
class Machine:
    """`own`: the Python that runs the script; it writes into `folder`."""

    own: Path
    venv: Path
    folder: Path

    def installs(self) -> list[str]:
        """The locks that uv was asked to install, in order, since the last time."""
        asked = self.folder / "asked"
        lines = asked.read_text().splitlines() if asked.exists() else []
        asked.write_text("")
        return [Path(line.split("--requirement ")[1].split()[0]).name for line in lines if " uv " in line]

    def make_python(self, name: str, fails: str = ":") -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(FAKE_PYTHON.format(folder=self.folder, fails=fails))
        path.chmod(0o755)
        return path


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(tmp_path / "own/python", tmp_path / ".venv", tmp_path)
    monkeypatch.setattr(sys, "executable", str(machine.make_python("own/python")))
    monkeypatch.setattr(bootstrap_venv, "VENV", machine.venv)
    return machine


@pytest.mark.parametrize("profile", LOCK_FILES)
def test_each_set_is_installed_once(machine: Machine, profile: str) -> None:
    ensure_packages(profile)
    ensure_packages(profile)
    assert machine.installs() == [LOCK_FILES[profile]]


def test_the_set_of_the_tests_holds_the_others(machine: Machine) -> None:
    for profile in ("test", "run", "multilingual"):
        ensure_packages(profile)
    assert machine.installs() == ["requirements-dev.txt"]


def test_uv_itself_is_the_locked_one_with_its_hashes(machine: Machine) -> None:
    ensure_packages("run")
    first, *_ = (machine.folder / "asked").read_text().splitlines()
    assert first == "-m pip install --quiet --only-binary :all: --require-hashes --requirement /dev/stdin"
    first, *hashes = (machine.folder / "uv").read_text().splitlines()
    assert first.startswith("uv==")
    assert len(hashes) > 10
    assert all("--hash=sha256:" in line for line in hashes)


def test_a_changed_lock_is_installed_into_what_is_there(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ensure_packages("run")
    (machine.venv / "of the first").touch()
    monkeypatch.setattr(bootstrap_venv, "ROOT", tmp_path)
    (tmp_path / "requirements.txt").write_text("another==1\n")
    ensure_packages("run")
    assert machine.installs() == ["requirements.txt", "requirements.txt"]
    assert (machine.venv / "of the first").exists()


def test_what_is_installed_stays_whichever_patch_level_asks(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two people, or a service and its administrator, have another `python3` each."""
    ensure_packages("run")
    assert "Installing" in capsys.readouterr().out
    monkeypatch.setattr(platform, "python_version", lambda: "3.11.99")
    monkeypatch.setattr(sys, "executable", str(machine.make_python("another/python")))
    ensure_packages("run")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("[Errno 30] Read-only file system", r"its disk is read-only\. Put OpenVibe into a folder"),
        ("failed to create directory: Permission denied (os error 13)", r"Make it yours \(`chown`\)"),
        ("failed to copy file: No space left on device (os error 28)", "The disk is full"),
        ("error: Hash mismatch for `anyio==4.9.0`", "differs from the locked one"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.", "differs from the locked one"),
        ("No solution found when resolving dependencies", r"no ready-made file for the Python of .*: `make PYTHON="),
        ("invalid peer certificate: UnknownIssuer", "certificate is not trusted here"),
        ("error sending request for url: operation timed out", "did not answer in time"),
        ("error sending request for url: dns error", "cannot be reached. Check the network"),
        ("Something new.", "could not be installed. The last words were:\nSomething new."),
    ],
)
def test_why_a_package_cannot_be_installed_is_said(machine: Machine, reason: str, words: str) -> None:
    machine.make_python("own/python", fails=f"echo '{reason}' >&2; exit 2")
    with pytest.raises(SystemExit, match=words):
        ensure_packages("run")
    machine.make_python(".venv/bin/python")
    ensure_packages("run")
    assert machine.installs() == ["requirements.txt", "requirements.txt"], "no more than that is done again"


def test_what_was_killed_half_way_is_made_anew(machine: Machine) -> None:
    machine.make_python("own/python", fails="kill -9 $$")
    with pytest.raises(SystemExit, match="could not be installed"):
        ensure_packages("run")
    (machine.venv / "half a package").touch()
    machine.make_python("own/python")
    ensure_packages("run")
    assert not (machine.venv / "half a package").exists()


def test_a_python_without_venv_says_how_to_install_it(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.own.write_text("#!/bin/sh\necho ensurepip is not available\nexit 1\n")
    monkeypatch.setenv("PATH", str(machine.folder))  # no apt-get, no sudo
    with pytest.raises(SystemExit, match=r"`sudo apt-get install python3\.\d+-venv`, then run it again"):
        ensure_packages("run")
    assert not machine.venv.exists()


def test_a_python_that_was_named_is_taken_whatever_was_there(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    ensure_packages("run")
    named = machine.make_python("named/python")
    monkeypatch.setattr(sys, "executable", str(named))
    ensure_packages("run")
    assert venv_setting("executable") == str(machine.own)
    ensure_packages("run", this_python=True)
    assert venv_setting("executable") == str(named)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ({"sys.version_info": (3, 10, 14)}, "This is CPython"),
        ({"sys.version_info": (3, 15, 0)}, "This is CPython"),
        ({"sys.implementation.name": "pypy"}, "This is CPython"),  # `platform` still tells the real one here
        ({"sys.abiflags": "t"}, "without the global interpreter lock"),
        ({"sys.platform": "darwin", "platform.machine": lambda: "x86_64"}, "This is a Python for"),
        ({"sys.platform": "linux", "platform.machine": lambda: "riscv64"}, "This is a Python for"),
        ({"sys.platform": "win32", "platform.machine": lambda: "AMD64"}, "This is a Python for"),
        ({"sys.maxsize": 2**31 - 1}, "This is a Python for"),
        (
            {"sys.platform": "linux", "sysconfig.get_config_var": lambda _: "cpython-312-x86_64-linux-musl"},
            "C library is musl",
        ),
    ],
)
def test_a_machine_without_ready_made_files_is_told_before_anything_is_installed(
    names: dict[str, object], words: str, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in names.items():
        monkeypatch.setattr(name, value)
    with pytest.raises(SystemExit, match=rf"{words}.* OpenVibe runs with Python 3\.11 to 3\.14 on Linux .*ARM64"):
        bootstrap_venv.main(["run"])
    assert not machine.venv.exists()


@pytest.mark.parametrize(("system", "name"), [("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64")])
@pytest.mark.parametrize("minor", [11, 12, 13, 14])
def test_a_promised_machine_is_not_refused(system: str, name: str, minor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", system)
    monkeypatch.setattr("platform.machine", lambda: name)
    monkeypatch.setattr("sys.version_info", (3, minor, 2))
    assert bootstrap_venv.unsupported() == ""


@pytest.mark.parametrize("damage", ["pyvenv.cfg", "installed.json", "bin/python"])
def test_a_damaged_environment_is_made_anew(machine: Machine, damage: str) -> None:
    ensure_packages("run")
    (machine.venv / damage).write_bytes(b"executable = \xff")
    ensure_packages("run", this_python=True)
    assert venv_setting("executable") == str(machine.own)
    ensure_packages("run")
    assert machine.installs() == ["requirements.txt", "requirements.txt"]


@pytest.mark.parametrize("target", ["", "nowhere", ".venv"])
def test_what_is_no_folder_is_left_to_its_owner(machine: Machine, target: str) -> None:
    machine.venv.symlink_to(target) if target else machine.venv.write_text("")
    with pytest.raises(SystemExit, match=rf"is no folder, .* Remove it \(`rm {machine.venv}`\)"):
        ensure_packages("run")
    assert os.path.lexists(machine.venv)


def make(*arguments: str, path: str = os.environ["PATH"]) -> subprocess.CompletedProcess[str]:
    """Nothing of a `make test` that runs this goes with it."""
    return subprocess.run(["make", *arguments], cwd=ROOT, env={"PATH": path}, capture_output=True, text=True)


@pytest.mark.parametrize("name", ["/no/python", "/etc/hostname", "true", "false", "/no folder/python"])
def test_a_named_python_that_is_none_is_said(name: str) -> None:
    done = make(f"PYTHON={name}", "python")
    assert done.returncode == 2
    assert done.stderr.startswith(f"OpenVibe needs Python 3.11 to 3.14: {name} is none. Install it (Debian: ")


def test_a_python3_that_is_none_is_asked_once_and_passed_over(tmp_path: Path) -> None:
    for name in ("python3", "python3.13"):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {name} >> {tmp_path}/asked\necho This is not installed.\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "python3.12").symlink_to(sys.executable)
    done = make("-n", "setup", path=f"{tmp_path}:{os.environ['PATH']}")
    assert "\npython3.12 -I openvibe/runner/bootstrap_venv.py run" in done.stdout
    assert (tmp_path / "asked").read_text().split() == ["python3", "python3.13"]
