"""Streams of events as endpoints write them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openvibe.engines.network.event_stream import Event, EventStream
from tests.examples import examples

ONE, TWO = '{"text": "one"}', '{"text": "zwei 🌱"}'
BOTH = [Event(json.loads(ONE)), Event(json.loads(TWO))]


def read(*chunks: bytes) -> tuple[list[Event], EventStream]:
    stream = EventStream()
    return list(stream.read(chunks)), stream


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
    plain = Event({"error": {"message": "plain"}}, "error")
    assert events == [Event({"a": 1}, "start"), plain, Event({}, "a"), Event({}, "b")]
    assert not stream.is_done


def test_an_error_in_a_field_of_its_own_is_an_event_of_that_name() -> None:
    assert read(f"data: {ONE}\n\nerror: {TWO}\n\n".encode())[0] == [BOTH[0], Event(json.loads(TWO), "error")]
    assert read(f"data: {ONE}\nerror: {TWO}".encode())[0] == [BOTH[0], Event(json.loads(TWO), "error")]


def test_one_whole_object_is_one_event() -> None:
    whole = json.dumps({"text": "two\nlines \u2028 🌱"}, indent=2, ensure_ascii=False)
    for body in (whole, f"\ufeff \r\n{whole}\r\n", whole.replace("\n", "\r\n")):
        events, stream = read(body.encode())
        assert (events, stream.is_done) == ([Event(json.loads(whole))], False)


def test_what_is_cut_off_is_no_event() -> None:
    for body in (b'data: {"te', b": wait\n\n", b"event: ping\n\n", b'retry: 1\n\ndata: {"text": "o\n'):
        events, stream = read(body)
        assert (events, stream.is_silent, stream.is_done) == ([], True, False)
    events, stream = read(f'data: {ONE}\n\ndata: {{"te'.encode())
    assert (events, stream.is_silent) == (BOTH[:1], False)


@pytest.mark.parametrize("end", ["\n\n", "\n", ""])
def test_the_word_that_ends_a_stream_is_noticed(end: str) -> None:
    events, stream = read(f"data: {ONE}\n\ndata: [DONE]{end}".encode())
    assert (events, stream.is_done) == (BOTH[:1], True)
    assert read(f"data: [DONE]\n\ndata: {ONE}\n\n".encode())[0] == [], "and nothing comes after it"
    assert not read(b'data: {"text": "[DONE]"}\n\n')[1].is_done


@pytest.mark.parametrize(
    "body", [b"", b"\n\n", b"<html>\n\n</html>", b"model is loading", b"[1]", b"null", b"\xff\xfe"]
)
def test_what_is_no_stream_has_no_events(body: bytes) -> None:
    events, stream = read(body)
    assert (events, stream.is_silent) == ([], False)


def test_each_event_is_there_at_once() -> None:
    def chunks() -> Iterator[bytes]:
        yield f"data: {ONE}\n\n".encode()
        pytest.fail("the first event has to wait for the second")

    assert next(EventStream().read(chunks())) == BOTH[0]


@pytest.mark.parametrize("data", ["1", "null", '"words"', '[{"text": "one"}]'])
def test_data_that_are_no_object_say_nothing(data: str) -> None:
    assert read(f"data: {data}\n\ndata: {ONE}\n\n".encode())[0] == BOTH[:1]


@pytest.mark.parametrize("data", ['{"text": "o', "\ufffd", "\ufffd {}", "{" * 10_000])
def test_data_that_are_no_json_are_not_passed_over(data: str) -> None:
    with pytest.raises((ValueError, RecursionError)):
        read(f"data: {data}\n\ndata: {ONE}\n\n".encode())


@settings(max_examples=examples(100), deadline=None)
@given(st.data())
def test_how_a_stream_is_cut_into_chunks_changes_nothing(data: st.DataObject) -> None:
    lines = ["data: " + ONE, "data: " + TWO, "data: x", "event: a", "", "", ": c", "id: 1", "data:", "{", "\ufeff"]
    ends = st.sampled_from(["\n", "\r\n", "\r"])
    body = "".join(line + data.draw(ends) for line in data.draw(st.lists(st.sampled_from(lines)))).encode()
    cuts = sorted(data.draw(st.sets(st.integers(0, len(body)))))
    pieces = [body[start:end] for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    assert read_until_garbage(pieces) == read_until_garbage([body])


def read_until_garbage(chunks: list[bytes]) -> list[Event | str]:
    events: list[Event | str] = []
    try:
        for event in EventStream().read(chunks):
            events.append(event)  # noqa: PERF402  what came before the garbage counts
    except ValueError as error:
        events.append(str(error))
    return events
