"""Whether the lock can be installed, from ready-made files alone, on every platform and Python that OpenVibe promises.

Run by `make check`: `python -m tests.operations.locked_platforms`. Asks the package index, as installing does; installs
nothing. The lock of the tests holds that of the product and of the multilingual embedder as well.
"""

import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from openvibe.runner.bootstrap_venv import LOCK_FILES, MAX_PYTHON, MIN_PYTHON, PLATFORMS, ROOT

UV_PLATFORMS = {
    ("linux", "x86_64"): "x86_64-manylinux_2_28",
    ("linux", "aarch64"): "aarch64-manylinux_2_28",
    ("darwin", "arm64"): "aarch64-apple-darwin",
}
PYTHONS = [f"3.{minor}" for minor in range(MIN_PYTHON[1], MAX_PYTHON[1] + 1)]


def resolve(lock: str, platform: tuple[str, str], python: str) -> str:
    """The reason why `lock` cannot be installed there, in the resolver's words; "" where it can."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "uv",
            "pip",
            "install",
            "--dry-run",
            "--quiet",
            "--no-deps",
            "--target",
            folder,
        ]
        command += ["--require-hashes", "--only-binary", ":all:", "-r", str(ROOT / lock)]
        command += ["--python-platform", UV_PLATFORMS[platform], "--python-version", python]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else ""


def check(lock: str) -> dict[str, str]:
    """The platforms and Pythons on which `lock` cannot be installed, each with the reason."""
    places = [(platform, python) for platform in sorted(PLATFORMS) for python in PYTHONS]
    with ThreadPoolExecutor(2) as threads:
        reasons = threads.map(lambda place: resolve(lock, *place), places)
    return {
        f"{' '.join(platform)}, Python {python}": reason
        for (platform, python), reason in zip(places, reasons, strict=True)
        if reason
    }


def main() -> None:
    lock = LOCK_FILES["test"]
    for place, reason in (failures := check(lock)).items():
        print(f"{lock} cannot be installed on {place}:\n{reason}")
    if failures:
        raise SystemExit(1)
    print(f"{lock}: ready-made files on {len(PLATFORMS)} platforms, Python {PYTHONS[0]} to {PYTHONS[-1]}.")


if __name__ == "__main__":
    main()
