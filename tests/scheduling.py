"""Which tests share a process when several run at once: those that share something dear to set up.

pytest-xdist's own groups go by a mark that it writes into the test's id; pytest 9.2 does not let it any more, silently.
"""

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

TOGETHER = (
    "tests/journeys/",  # one served installation and one Chromium
    "tests/operations/test_serve",  # seven processes each; one at a time is plenty
    "tests/api/test_access.py",  # one scene
    "tests/bench/test_benches.py",  # one scratch database
)


def together(nodeid: str) -> str:
    """The part of the suite a test runs with: itself, unless it is one of those that stay together."""
    return next((part for part in TOGETHER if nodeid.startswith(part)), nodeid)


class Together(LoadScopeScheduling):  # type: ignore[misc]
    def _split_scope(self, nodeid: str) -> str:
        return together(nodeid)
