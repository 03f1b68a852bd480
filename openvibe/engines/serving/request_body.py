"""A request's body: how large it may be, files included, and that it is here before a thread is taken for it. Threads
are few, and whoever sends drop by drop would keep one from all others."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import AsyncExitStack, asynccontextmanager
from tempfile import SpooledTemporaryFile
from typing import IO, Any, NamedTuple

from django.core.exceptions import RequestDataTooBig
from django.core.files.uploadhandler import FileUploadHandler

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]

MAX_UPLOAD_BYTES = 26 * 1024 * 1024
"""The most bytes of a request with files: five of the largest, and what is written beside them."""
IN_MEMORY_BYTES = 256 * 1024
"""The most bytes in memory of a body; what is longer waits on disk. 4,096 connections hold 1 GB at most."""
BLOCK_BYTES, BLOCK_SECONDS = 256 * 1024, 30.0
"""The pace: so much of a body comes in so many seconds, or it is given up: 9 kB a second are enough."""
MAX_ON_DISK = 64
"""Bodies of one process at a time: together they take 1.7 GB at most. The next wait with what they send, and are
refused when none of these is done in time."""
PLACE_SECONDS = 30.0
UPLOAD_BYTES = 64 * 1024
"""A body of more takes one of the few places for uploads (`wsgi_threads`): its files are parsed, counted and indexed,
a second for 2 MB of text, and whoever only looks at a page must not stand behind fifty of those."""
MAX_READ_BYTES = 4 * MAX_UPLOAD_BYTES
"""The number of bytes that are read, the end for nothing, of a body that is too large: who still sends hears no
answer."""


class ClientGone(Exception):
    """A client that was gone before all of its request was here. Half of a text must not pass for the whole."""


class Overloaded(Exception):
    """A server that has no room for another large body: as many as it takes are under way, and none was done in
    time."""


class ReceivedBody(NamedTuple):
    """A body that is here: what gives its events, and its size in bytes, at most MAX_UPLOAD_BYTES."""

    receive: Receive
    size: int


class RequestBodies:
    """Reads the bodies of one process's requests. One that is too large lacks its end, and is refused for its length by
    whoever reads it."""

    def __init__(
        self,
        *,
        block_seconds: float = BLOCK_SECONDS,
        max_on_disk: int = MAX_ON_DISK,
        place_seconds: float = PLACE_SECONDS,
    ) -> None:
        self._block_seconds = block_seconds
        self._place_seconds = place_seconds
        self._places_on_disk = asyncio.Semaphore(max_on_disk)

    @asynccontextmanager
    async def read(self, receive: Receive) -> AsyncIterator[ReceivedBody]:
        """Gives events of the same request once its body is here. Raises TimeoutError when the next block does not come
        in time, Overloaded, ClientGone, and OSError when the disk is full."""
        with SpooledTemporaryFile(max_size=IN_MEMORY_BYTES) as body:
            async with AsyncExitStack() as place:
                await self._fill(body, receive, place)
                size = body.tell()
                body.seek(0)
                is_read = False

                async def receive_next() -> Message:
                    nonlocal is_read
                    if is_read:
                        return await receive()
                    block = body.read(IN_MEMORY_BYTES)
                    is_read = body.tell() == size
                    return {"type": "http.request", "body": block, "more_body": not is_read}

                yield ReceivedBody(receive_next, size)

    async def _fill(self, body: SpooledTemporaryFile[bytes], receive: Receive, place: AsyncExitStack) -> None:
        size, has_more = 0, True
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self._block_seconds) as limit:
            while has_more and size <= MAX_READ_BYTES:
                event = await receive()
                if event["type"] == "http.disconnect":
                    raise ClientGone
                part, has_more = event.get("body", b""), event.get("more_body", False)
                if size <= IN_MEMORY_BYTES < size + len(part):
                    limit.reschedule(None)  # it is not the sender who is late
                    await self._take_place(place)
                    limit.reschedule(loop.time() + self._block_seconds)
                if size // BLOCK_BYTES < (size + len(part)) // BLOCK_BYTES:
                    limit.reschedule(loop.time() + self._block_seconds)
                size += len(part)
                if size <= MAX_UPLOAD_BYTES:
                    body.write(part)

    async def _take_place(self, place: AsyncExitStack) -> None:
        try:
            async with asyncio.timeout(self._place_seconds):
                await place.enter_async_context(self._places_on_disk)
        except TimeoutError as problem:
            raise Overloaded from problem


class BoundedUploadHandler(FileUploadHandler):
    """Refuses a request that says it is larger, before any of it is read; else the handlers after it keep the files."""

    def handle_raw_input(
        self,
        input_data: IO[bytes],
        meta: Mapping[str, Any],
        content_length: int,
        boundary: str,
        encoding: str | None = None,
    ) -> None:
        if content_length > MAX_UPLOAD_BYTES:
            raise RequestDataTooBig(f"A request with files has at most {MAX_UPLOAD_BYTES:,} bytes.")

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes:
        return raw_data

    def file_complete(self, file_size: int) -> None:
        return None
