"""Streams of events as endpoints write them, and as the vendors' packages read them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openvibe.engines.network.event_stream import Event, EventStream
from tests.examples import examples

ONE, TWO = '{"text": "one"}', '{"text": "zwei 🌱"}'
BOTH = [("", ONE), ("", TWO)]


def read(*chunks: bytes) -> tuple[list[tuple[str, str]], EventStream]:
    """Names and data of the events, read back as strictly as the packages do."""
    stream = EventStream(lambda event: event)
    written = b"".join(stream.read(chunks)).decode()
    assert not written or written.endswith("\n\n")
    return list(parse(written)), stream


def parse(written: str) -> Iterator[tuple[str, str]]:
    for block in written.removesuffix("\n\n").split("\n\n") if written else ():
        fields = [line.split(": ", 1) for line in block.split("\n")]
        assert {name for name, _ in fields} <= {"event", "data"}
        data = [value for name, value in fields if name == "data"]
        assert data
        yield "".join(value for name, value in fields if name == "event"), "\n".join(data)


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    "text",
    [
        "data: ONE\n\ndata: TWO\n\n",
        "\n\ndata:ONE\n\ndata: TWO\n\n\n\n",
        "\ufeffdata: ONE\n\ndata: TWO\n\n",
        ": wait\n\n: wait\n\ndata: ONE\n\n: wait\n\ndata: TWO\n\n: wait\n\n",
        "id: 1\nretry: 9\n\nid: 2\ndata: ONE\n\nid: 3\n\n: wait\n\ndata: TWO\nid: 4\n\n",
        "event: ping\n\ndata:\n\ndata: ONE\n\nevent: ping\ndata:\n\ndata: TWO\n\n",
        "data: ONE\ndata: TWO\n",
        "data: ONE\n\ndata: TWO",
    ],
)
def test_events_are_whole_and_nothing_else_is_left(text: str, line_end: str) -> None:
    body = text.replace("ONE", ONE).replace("TWO", TWO).replace("\n", line_end).encode()
    assert read(body)[0] == BOTH
    assert read(*(body[at : at + 1] for at in range(len(body))))[0] == BOTH, "byte by byte"


def test_names_and_data_of_several_lines_are_kept() -> None:
    body = 'event: start\ndata: {"a":\ndata:  1}\n\ndata: plain\n\nevent: a\ndata: {}\nevent: b\ndata: {}\n\n'
    events, stream = read(body.encode())
    assert events == [("start", '{"a":\n 1}'), ("error", '{"error": {"message": "plain"}}'), ("a", "{}"), ("b", "{}")]
    assert not stream.is_done


def test_an_error_in_a_field_of_its_own_is_an_event_of_that_name() -> None:
    assert read(f"data: {ONE}\n\nerror: {TWO}\n\n".encode())[0] == [("", ONE), ("error", TWO)]
    assert read(f"data: {ONE}\nerror: {TWO}".encode())[0] == [("", ONE), ("error", TWO)]


def test_one_whole_object_is_one_event() -> None:
    whole = json.dumps({"text": "two\nlines \u2028 🌱"}, indent=2, ensure_ascii=False)
    for body in (whole, f"\ufeff \r\n{whole}\r\n", whole.replace("\n", "\r\n")):
        ((name, data),), stream = read(body.encode())
        assert (name, json.loads(data), stream.is_done) == ("", json.loads(whole), False)


def test_what_is_cut_off_is_no_event() -> None:
    for body in (b'data: {"te', b": wait\n\n", b"event: ping\n\n", b'retry: 1\n\ndata: {"text": "o\n'):
        events, stream = read(body)
        assert (events, stream.is_silent, stream.is_done) == ([], True, False)
    events, stream = read(f'data: {ONE}\n\ndata: {{"te'.encode())
    assert (events, stream.is_silent) == ([("", ONE)], False)


@pytest.mark.parametrize("end", ["\n\n", "\n", ""])
def test_the_word_that_ends_a_stream_is_noticed(end: str) -> None:
    events, stream = read(f"data: {ONE}\n\ndata: [DONE]{end}".encode())
    assert (events, stream.is_done) == ([("", ONE), ("", "[DONE]")], True)
    assert not read(b'data: {"text": "[DONE]"}\n\n')[1].is_done


@pytest.mark.parametrize(
    "body", [b"", b"\n\n", b"<html>\n\n</html>", b"model is loading", b"[1]", b"null", b"\xff\xfe"]
)
def test_what_is_no_stream_has_no_events(body: bytes) -> None:
    events, stream = read(body)
    assert (events, stream.is_silent) == ([], False)


def test_each_event_is_written_as_the_vendor_has_it_and_at_once() -> None:
    def chunks() -> Iterator[bytes]:
        yield f"data: {ONE}\n\n".encode()
        pytest.fail("the first event has to wait for the second")

    stream = EventStream(lambda event: Event(event.data.upper(), "start"))
    assert next(stream.read(chunks())) == b'event: start\ndata: {"TEXT": "ONE"}\n\n'


@settings(max_examples=examples(100), deadline=None)
@given(st.data())
def test_how_a_stream_is_cut_into_chunks_changes_nothing(data: st.DataObject) -> None:
    lines = ["data: " + ONE, "data: " + TWO, "data: x", "event: a", "", "", ": c", "id: 1", "data:", "{", "\ufeff"]
    ends = st.sampled_from(["\n", "\r\n", "\r"])
    body = "".join(line + data.draw(ends) for line in data.draw(st.lists(st.sampled_from(lines)))).encode()
    cuts = sorted(data.draw(st.sets(st.integers(0, len(body)))))
    pieces = [body[start:end] for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    assert read(*pieces)[0] == read(body)[0]
