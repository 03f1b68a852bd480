"""How many files a process may have open."""

import resource
from collections.abc import Iterator

import pytest

from openvibe.chat.live.hub import MAX_STREAMS, max_streams
from openvibe.engines.serving.file_limit import open_file_limit, raise_file_limit

SOFT = 1000


@pytest.fixture
def hard() -> Iterator[int]:
    """Beginning with few, as a shell does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (SOFT, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_it_is_raised_as_far_as_the_system_allows_and_never_lowered(hard: int) -> None:
    assert raise_file_limit(SOFT - 1) == open_file_limit() == SOFT
    assert raise_file_limit(SOFT + 1) == open_file_limit() == min(SOFT + 1, hard)


@pytest.mark.usefixtures("hard")
def test_streams_leave_half_of_it_to_pages() -> None:
    assert max_streams() == SOFT // 2
    raise_file_limit(3 * MAX_STREAMS)
    assert max_streams() == min(MAX_STREAMS, open_file_limit() // 2)
