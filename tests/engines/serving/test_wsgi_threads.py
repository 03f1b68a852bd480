"""How answers come from the threads of the pages to the server's event loop."""

import asyncio
import threading
from collections.abc import Callable, Iterator, MutableMapping
from io import BytesIO
from typing import Any

import pytest
from django.core.handlers.exception import convert_exception_to_response
from django.core.handlers.wsgi import WSGIRequest
from django.db import OperationalError
from django.http import FileResponse, HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.test import RequestFactory

from openvibe.engines.serving import wsgi_threads
from openvibe.engines.serving.wsgi_threads import UPLOAD_KEY, WholeStreamMiddleware, WsgiThreads

Message = MutableMapping[str, Any]
PATIENCE = 10.0


def test_a_whole_answer_leaves_its_thread_before_it_is_sent() -> None:
    answer = HttpResponse(b"words", status=201, headers={"X-One": "1"})

    messages = asyncio.run(drive(answer, on_send=lambda _: answer.closed))

    assert [(message["type"], was_closed) for message, was_closed in messages] == [
        ("http.response.start", True),
        ("http.response.body", True),
    ]
    assert messages[0][0]["status"] == 201
    assert (b"x-one", b"1") in messages[0][0]["headers"]
    assert messages[1][0]["body"] == b"words"


def test_what_is_streamed_leaves_its_thread_before_it_is_sent_and_of_what_fails_nothing_is_sent() -> None:
    pieces_made: list[str] = []

    def pieces(*, fail: bool) -> Iterator[str]:
        for number in range(3):
            pieces_made.append(f"{number}")
            yield f"{number}"
        if fail:
            raise RuntimeError("broken half-way")

    messages = asyncio.run(drive(StreamingHttpResponse(pieces(fail=False)), on_send=lambda _: len(pieces_made)))
    assert [(message.get("body"), count) for message, count in messages] == [(None, 3), (b"012", 3)]
    failing = StreamingHttpResponse(pieces(fail=True))
    events: list[tuple[Message, object]] = []
    with pytest.raises(RuntimeError, match="half-way"):
        asyncio.run(drive(failing, on_send=lambda _: None, messages=events))
    assert events == []  # not even a head that says all is well


def test_an_export_whose_database_ends_half_way_is_answered_503() -> None:
    """The answer was "Internal server error", as nothing of ours hears what fails between the view and the socket."""

    def pieces() -> Iterator[str]:
        yield "topic"
        raise OperationalError("server closed the connection unexpectedly")

    export = WholeStreamMiddleware(lambda _: StreamingHttpResponse(pieces()))
    request = RequestFactory().get("/api/v1/threads/1/export/")
    answer: Any = convert_exception_to_response(export)(request)
    assert (answer.status_code, answer["Retry-After"].isdigit()) == (503, True)


def test_the_head_of_an_event_stream_needs_no_file() -> None:
    """The probe's stream is answered before any other middleware."""
    answer = FileResponse(iter(()))

    messages = asyncio.run(drive(answer, on_send=lambda _: None))

    assert [message.get("body") for message, _ in messages] == [None, b""]


@pytest.mark.parametrize("kind", ["generator", "file"])
def test_what_is_large_is_read_block_by_block_as_it_is_sent(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wsgi_threads, "BLOCK_BYTES", 4)
    file = BytesIO(b"0123456789")
    answer = FileResponse(file) if kind == "file" else StreamingHttpResponse(iter(["012", "345", "6789"]))
    read: list[int] = []

    messages = asyncio.run(drive(answer, on_send=lambda _: read.append(file.tell() if not file.closed else -1)))

    assert [message.get("body") for message, _ in messages] == [None, b"0123", b"4567", b"89", b""]
    assert [message.get("more_body", False) for message, _ in messages] == [False, True, True, True, False]
    if kind == "file":
        assert read == [4, 4, 8, 10, 10]
        assert file.closed


def test_a_file_is_closed_when_its_reader_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wsgi_threads, "BLOCK_BYTES", 4)
    file = BytesIO(b"0123456789")

    def go_away(message: Message) -> None:
        if message.get("body"):
            raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        asyncio.run(drive(FileResponse(file), on_send=go_away))
    assert file.closed


def test_a_header_cannot_pass_for_a_proxys_and_a_query_may_be_any_bytes() -> None:
    seen: dict[str, Any] = {}
    headers = [(b"x-forwarded-for", b"192.0.2.1"), (b"x_forwarded_for", b"198.51.100.7")]
    request = {"headers": headers, "query_string": "q=Rosé".encode()}

    asyncio.run(drive(HttpResponse(), on_send=lambda _: None, request=request, seen=seen))

    assert seen["HTTP_X_FORWARDED_FOR"] == "192.0.2.1"
    assert WSGIRequest(seen).GET["q"] == "Rosé"


async def drive(
    answer: HttpResponseBase,
    *,
    on_send: Callable[[Message], object],
    messages: list[tuple[Message, object]] | None = None,
    request: dict[str, Any] | None = None,
    seen: dict[str, Any] | None = None,
) -> list[tuple[Message, object]]:
    """What was sent of an answer, each with what `on_send` said then; it is made on another thread."""
    loop_thread, messages = threading.get_ident(), [] if messages is None else messages

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        assert threading.get_ident() != loop_thread
        (seen if seen is not None else {}).update(environ)
        WholeStreamMiddleware(lambda _: answer)(HttpRequest())
        start_response(f"{answer.status_code} {answer.reason_phrase}", list(answer.items()))
        return answer

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        messages.append((message, on_send(message)))

    scope = {"method": "GET", "path": "/", "query_string": b"", "http_version": "1.1", "headers": []}
    scope |= request or {}
    pages = WsgiThreads(application, threads=1)
    try:
        async with asyncio.timeout(PATIENCE):
            await pages(scope, receive, send)
    finally:
        pages.executor.shutdown()
    return messages


def test_uploads_leave_threads_for_the_others() -> None:
    """Fifty uploads of 2 MB made a small page wait for twelve seconds."""
    may_end, under_way = threading.Event(), threading.Semaphore(0)
    upload_threads: list[int] = []
    done: list[str] = []

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        if environ["REQUEST_METHOD"] == "POST":
            upload_threads.append(threading.get_ident())
            under_way.release()
            assert may_end.wait(PATIENCE)
        start_response("200 OK", [])
        return HttpResponse()

    async def crowd() -> None:
        pages = WsgiThreads(application, threads=4)

        async def ask(method: str, *, is_upload: bool) -> None:
            async def receive() -> Message:
                return {"type": "http.request"}

            async def send(message: Message) -> None:
                if message["type"] == "http.response.start":
                    done.append(method)

            scope = {"method": method, "path": "/", "query_string": b"", "http_version": "1.1", "headers": []}
            await pages({**scope, UPLOAD_KEY: is_upload}, receive, send)

        try:
            async with asyncio.timeout(PATIENCE):
                uploads = [asyncio.ensure_future(ask("POST", is_upload=True)) for _ in range(8)]
                await asyncio.to_thread(under_way.acquire)
                await asyncio.gather(*(ask("GET", is_upload=False) for _ in range(5)))
                assert (done, len(upload_threads)) == (["GET"] * 5, 1)
                may_end.set()
                await asyncio.gather(*uploads)
        finally:
            may_end.set()
            pages.executor.shutdown()

    asyncio.run(crowd())
    assert done == ["GET"] * 5 + ["POST"] * 8
