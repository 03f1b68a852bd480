"""The restarts of services: pauses by a clock of the test's own."""

import pytest

from openvibe.engines.serving.supervisor import MAX_PAUSE_SECONDS, STEADY_SECONDS, Restarts


def ended(restarts: Restarts, *, lived: float, code: int = 1) -> tuple[Restarts, float]:
    """Starts the service when it is due, lets it live so long and end; returns it with the pause before its next
    start."""
    now = restarts.started_at if restarts.restart_at is None else restarts.restart_at
    restarts = restarts.after_start(now).after_exit(now + lived, code)
    assert restarts.restart_at is not None
    return restarts, restarts.restart_at - (now + lived)


def test_pauses_grow_to_a_minute_and_no_end_is_the_last() -> None:
    restarts, pauses = Restarts(started_at=0.0), []
    for _ in range(5_000):
        restarts, pause = ended(restarts, lived=59.0)
        pauses.append(pause)
    assert pauses[:8] == [0.5, 1, 2, 4, 8, 16, 32, MAX_PAUSE_SECONDS]
    assert set(pauses[8:]) == {MAX_PAUSE_SECONDS}
    assert restarts.consecutive_exits == 5_000


def test_after_a_steady_run_the_pause_is_short_again() -> None:
    restarts = Restarts(started_at=0.0)
    for _ in range(6):
        restarts, _ = ended(restarts, lived=1.0, code=-9)
    assert (restarts.consecutive_exits, restarts.exit_code) == (6, -9)
    restarts, pause = ended(restarts, lived=STEADY_SECONDS + 1)
    assert (restarts.consecutive_exits, pause) == (1, 0.5)


@pytest.mark.parametrize(("lived", "is_steady"), [(0.0, False), (STEADY_SECONDS, False), (STEADY_SECONDS + 0.1, True)])
def test_it_settles_once_it_ran_for_a_while(lived: float, is_steady: bool) -> None:
    restarts, _ = ended(Restarts(started_at=0.0), lived=1.0)
    assert not restarts.is_steady(1e9)  # it does not run
    assert restarts.restart_at is not None
    running = restarts.after_start(restarts.restart_at)
    assert running.is_steady(running.started_at + lived) == is_steady
    assert running.after_steady_run().consecutive_exits == 0
