"""A stream that waits can be ended at any moment, even at the one it is woken."""

import asyncio

import pytest

from openvibe.chat.api.event_frames import ApiFrames
from openvibe.chat.live.subscriber import StreamSubscriber
from openvibe.chat.live.viewers import Viewer


@pytest.mark.parametrize("turns", range(6))
def test_a_cancellation_that_comes_with_the_bell_is_not_lost(turns: int) -> None:
    async def woken_and_cancelled() -> tuple[bool, bool]:
        sleeper = StreamSubscriber(Viewer(1, 1), ApiFrames())
        sleeping = asyncio.create_task(sleeper.wait(60))
        for _ in range(3):
            await asyncio.sleep(0)
        sleeper.wakeup.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        accepted = sleeping.cancel()
        await asyncio.wait([sleeping])
        return accepted, sleeping.cancelled()

    accepted, cancelled = asyncio.run(woken_and_cancelled())

    assert accepted == cancelled
