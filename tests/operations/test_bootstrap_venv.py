"""The choice of the Python that `.venv` is made with. Pythons are shell scripts here: they say how fast they are, and
make a folder."""

import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from openvibe.runner import bootstrap_venv
from openvibe.runner.bootstrap_venv import ensure_packages, fastest_python, speed_test_seconds, venv_python
from tests.operations.processes import ROOT

FAKE_PYTHON = """#!/bin/sh
case "$*" in
  "-m venv --clear "*)
    rm -rf "$4" && mkdir -p "$4/bin" && cp "$0" "$4/bin/python" && echo "executable = $0" > "$4/pyvenv.cfg" ;;
  "-I -c "*) {says} ;;
esac
"""


@dataclass(frozen=True)
class Machine:
    """`own`: the Python that runs the script; others stand in the system's folders."""

    own: Path
    folders: tuple[Path, Path]
    venv: Path

    def add(self, folder: int, says: str) -> Path:
        return make_python(self.folders[folder] / self.own.name, says)


def make_python(path: Path, says: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(FAKE_PYTHON.format(says=says))
    path.chmod(0o755)
    return path


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    minor = sys.version_info.minor
    own = make_python(tmp_path / "compiled" / f"python3.{minor}", "echo 0.0030")
    machine = Machine(own, (tmp_path / "first", tmp_path / "second"), tmp_path / ".venv")
    monkeypatch.setattr(sys, "executable", str(own))
    monkeypatch.setattr(bootstrap_venv, "SYSTEM_FOLDERS", tuple(map(str, machine.folders)))
    monkeypatch.setattr(bootstrap_venv, "VENV", machine.venv)
    monkeypatch.setattr(bootstrap_venv, "PYTHON", machine.venv / "bin" / "python")
    monkeypatch.setattr(bootstrap_venv, "STAMP", machine.venv / "installed.json")
    return machine


def test_a_faster_build_of_the_same_version_is_taken(machine: Machine) -> None:
    machine.add(0, "echo 0.0024")
    faster = machine.add(1, "echo 0.0021")
    assert fastest_python() == str(faster)
    ensure_packages("run")
    assert venv_python() == str(faster)


@pytest.mark.parametrize(
    "says",
    [
        "echo 0.0029",
        "echo 0.0040",
        "exit 1",
        "echo 0.0010; exit 1",
        "echo nan",
        "echo No module named ensurepip >&2; exit 1",
        "echo ready",
    ],
)
def test_one_that_is_hardly_faster_or_does_not_work_is_not(machine: Machine, says: str) -> None:
    machine.add(0, says)
    assert fastest_python() == str(machine.own)


def test_a_system_without_another_one_takes_what_there_is(machine: Machine) -> None:
    assert fastest_python() == str(machine.own)


def test_one_of_the_systems_is_compared_with_no_other(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    own = machine.add(0, "echo 0.0030")
    machine.add(1, "echo 0.0010")
    monkeypatch.setattr(sys, "executable", str(own))
    assert fastest_python() == str(own)


def test_an_environment_that_is_there_stays(machine: Machine) -> None:
    ensure_packages("run")
    machine.add(0, "echo 0.0010")
    (machine.venv / "installed.json").write_text("{}")
    ensure_packages("run")
    assert venv_python() == str(machine.own)


def test_what_is_installed_stays_whichever_patch_level_asks(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two people, or a service and its administrator, have another `python3` each."""
    machine.add(0, "echo 0.0010")
    ensure_packages("run")
    assert "Installing" in capsys.readouterr().out
    monkeypatch.setattr(platform, "python_version", lambda: "3.11.99")
    ensure_packages("run")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("[Errno 30] Read-only file system", r"its disk is read-only\. Put OpenVibe into a folder"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.", "differs from the locked one"),
        ("No matching distribution found", r"no ready-made file for the Python of .*\.venv on .*: `make PYTHON="),
    ],
)
def test_why_a_package_cannot_be_installed_is_said(machine: Machine, reason: str, words: str) -> None:
    ensure_packages("run")
    (machine.venv / "installed.json").unlink()
    refuse = f"case $2 in pip) test $3 = --version || {{ echo '{reason}'; exit 1; }};; esac"
    (machine.venv / "bin/python").write_text(f"#!/bin/sh\n{refuse}\n")
    with pytest.raises(SystemExit, match=words):
        ensure_packages("run")


def test_a_python_that_was_named_is_taken_whatever_was_there(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    faster = machine.add(0, "echo 0.0010")
    ensure_packages("run")
    assert venv_python() == str(faster)
    ensure_packages("run", this_python=True)
    assert venv_python() == str(machine.own)
    named = make_python(machine.own.parents[1] / "named" / "python", "echo 0.0030")
    monkeypatch.setattr(sys, "executable", str(named))
    ensure_packages("run", this_python=True)
    assert venv_python() == str(named)


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


REAL = sys.executable
PRETEND = """
{real} -I -c "import platform, sys
{words}
$3" "$4"
"""


@pytest.mark.parametrize(
    "words",
    [
        "sys.implementation.cache_tag = 'pypy311-pp73'",
        "sys.abiflags = 't'",
        "sys.maxsize = 2**31 - 1",
        "platform.machine = lambda: 'riscv64'",
    ],
)
def test_one_for_which_packages_are_others_is_not(machine: Machine, words: str) -> None:
    assert speed_test_seconds(str(machine.add(0, PRETEND.format(real=REAL, words="")))) < 10
    assert speed_test_seconds(str(machine.add(0, PRETEND.format(real=REAL, words=words)))) == float("inf")


def test_one_that_makes_no_environment_is_passed_over(machine: Machine) -> None:
    faster = machine.add(0, "echo 0.0010")
    faster.write_text(faster.read_text().replace("rm -rf", "exit 1; rm -rf"))
    ensure_packages("run")
    assert venv_python() == str(machine.own)


def test_a_damaged_environment_is_made_anew(machine: Machine) -> None:
    (machine.venv / "bin").mkdir(parents=True)
    (machine.venv / "pyvenv.cfg").write_bytes(b"executable = \xff")
    (machine.venv / "installed.json").write_text("[1]")
    ensure_packages("run", this_python=True)
    assert venv_python() == str(machine.own)


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
    (tmp_path / "python3.12").symlink_to(REAL)
    done = make("-n", "setup", path=f"{tmp_path}:{os.environ['PATH']}")
    assert "\npython3.12 -I openvibe/runner/bootstrap_venv.py run" in done.stdout
    assert (tmp_path / "asked").read_text().split() == ["python3", "python3.13"]
