"""What the client does when connections break: it goes on where it was, and says nothing twice."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from openvibe_client import Api, ApiError, Stopped, Vibe
from tests.http_server import serve_http

ME = {"participant": {"handle": "reed", "kind": "agent"}}
DROP = object()
"""The connection is closed without an answer."""


@dataclass
class Script:
    """What a server answers, by method and path: one after another, the last one for good."""

    answers: dict[str, list[Any]]
    asked: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)
    url: str = ""

    def bodies(self, call: str) -> list[Any]:
        return [body for name, _, body in self.asked if name == call]

    def headers(self, call: str) -> list[dict[str, str]]:
        return [headers for name, headers, _ in self.asked if name == call]


Serve = Callable[..., Script]


@pytest.fixture
def serve() -> Iterator[Serve]:
    servers = ExitStack()

    def start(**answers: list[Any]) -> Script:
        usual: dict[str, list[Any]] = {"GET me": [ME], "GET reed": [{"answers_itself": True, "run_minutes": 240}]}
        usual["GET runs"] = [{"results": [], "next": None}]
        script = Script({**usual, **{name.replace("_", " "): given for name, given in answers.items()}})

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                name = self.path.partition("?")[0].removeprefix("/api/v1/").strip("/").split("/")
                call = f"{self.command} {name[-1] if len(name) > 1 else name[0]}"
                script.asked.append((call, dict(self.headers), json.loads(data) if data else None))
                replies = script.answers[call]
                reply = replies.pop(0) if len(replies) > 1 else replies[0]
                status, body = reply if isinstance(reply, tuple) else (200, reply)
                self.close_connection = body is DROP or isinstance(body, bytes)
                if body is DROP:
                    return
                kind = "text/event-stream" if isinstance(body, bytes) else "application/json"
                text = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", kind)
                if not isinstance(body, bytes):
                    self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PATCH = answer  # noqa: N815 - the names http.server calls

            def log_message(self, format: str, *args: object) -> None:
                return

        script.url = f"http://127.0.0.1:{servers.enter_context(serve_http(Handler)).server_port}"
        return script

    with servers:
        yield start


def frame(position: int, text: str, author: str = "member", event: str = "mention", thread: int = 1) -> bytes:
    message = {"id": position, "thread": thread, "kind": "text", "body": text, "author": {"kind": author}}
    data = {"thread": thread, "data": message if event != "thread_changed" else None}
    return f"id: {position}\nevent: {event}\ndata: {json.dumps(data)}\n\n".encode()


def test_it_listens_on_where_it_was(serve: Serve, tmp_path: Path) -> None:
    gone = b"event: gone\ndata: {}\n\n"
    streams = [
        b": open\n\n" + frame(7, "one") + frame(8, "of an agent", "agent") + frame(9, "cut off")[:30],
        (503, {"code": "unavailable"}),
        frame(9, "two") + gone,
    ]
    script = serve(GET_events=streams)
    mentions = Vibe(script.url, "ovk_x").mentions(position_file=tmp_path / "position")
    assert [next(mentions).text, next(mentions).text] == ["one", "two"]
    with pytest.raises(ApiError, match="may not listen"):
        next(mentions)
    assert [headers.get("Last-Event-ID") for headers in script.headers("GET events")] == [None, "8", "8"]

    script.answers["GET events"] = [gone]
    with pytest.raises(ApiError):
        next(Vibe(script.url, "ovk_x").mentions(position_file=tmp_path / "position"))
    assert script.headers("GET events")[-1]["Last-Event-ID"] == "9"


def test_what_waited_for_it_is_told_first_and_once_when_it_is_heard_of_again(serve: Serve) -> None:
    asked = {"id": 5, "thread": 1, "kind": "text", "body": "waited", "author": {"kind": "member", "handle": "ana"}}
    script = serve(
        GET_events=[b"retry: 1000\nid: 6\n: open\n\n" + frame(7, "new")],
        GET_runs=[{"results": [{"id": 9, "trigger": 8}, {"id": 3, "trigger": 5}], "next": None}],
        GET_5=[asked],
        GET_8=[(404, {"code": "not_found"})],
    )
    mentions = Vibe(script.url, "ovk_x").mentions()
    first, second = next(mentions), next(mentions)
    assert [(first.text, first.position), second.text] == [("waited", 6), "new"]


def test_it_goes_on_from_where_the_stream_opened_when_it_breaks_before_the_first_event(serve: Serve) -> None:
    opened = b"retry: 1000\nid: 6\n: open\n\n"
    script = serve(GET_events=[opened, opened + b": still here\n\n", frame(7, "one")])
    assert next(Vibe(script.url, "ovk_x").mentions()).text == "one"
    assert [headers.get("Last-Event-ID") for headers in script.headers("GET events")] == [None, "6", "6"]


def test_what_is_said_before_it_heard_anything_is_told_to_the_next_start(serve: Serve, tmp_path: Path) -> None:
    gone = b"event: gone\ndata: {}\n\n"
    script = serve(GET_events=[b"retry: 1000\nid: 6\n: open\n\n" + gone, frame(7, "while it was away") + gone])
    for heard in ([], ["while it was away"]):
        texts: list[str] = []
        mentions = Vibe(script.url, "ovk_x").mentions(position_file=tmp_path / "position")
        with pytest.raises(ApiError, match="may not listen"):
            texts.extend(mention.text for mention in mentions)
        assert texts == heard
    assert [headers.get("Last-Event-ID") for headers in script.headers("GET events")] == [None, "6"]


def test_a_position_that_comes_without_an_event_is_kept(serve: Serve, tmp_path: Path) -> None:
    gone = b"event: gone\ndata: {}\n\n"
    opened = b"retry: 1000\nid: 6\n: open\n\n"
    script = serve(GET_events=[opened + b"id: 60\n: still here\n\n", gone, gone])
    for _ in range(2):
        with pytest.raises(ApiError, match="may not listen"):
            next(Vibe(script.url, "ovk_x").mentions(position_file=tmp_path / "position"))
    assert [headers.get("Last-Event-ID") for headers in script.headers("GET events")] == [None, "60", "60"]


def test_streams_that_were_open_and_broke_do_not_make_it_wait_longer_each_time(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    opened = b"retry: 1000\nid: 6\n: open\n\n"
    script = serve(GET_events=[opened, opened, opened, opened, frame(7, "one")])
    assert next(Vibe(script.url, "ovk_x").mentions()).text == "one"
    assert len(waits) == 4
    assert max(waits) <= 0.3


def test_it_hears_what_is_said_in_its_dives_and_in_threads_it_follows(serve: Serve) -> None:
    def thread(number: int, parent: int | None, *following: str) -> dict[str, Any]:
        return {"id": number, "parent": parent, "following_agents": following}

    posts = [
        frame(1, "to others", event="message_posted", thread=2),
        frame(2, "in its dive", event="message_posted", thread=3),
        frame(3, "in another's dive", event="message_posted", thread=4),
        frame(4, "again in its dive", event="message_posted", thread=3),
        frame(5, "", event="thread_changed", thread=2),
        frame(6, "now to it, too", event="message_posted", thread=2),
    ]
    dives = [{"thread": 3, "agent": {"handle": "reed"}}, {"thread": 4, "agent": {"handle": "vibe"}}]
    script = serve(
        GET_events=[b"".join(posts)],
        GET_2=[thread(2, None), thread(2, None, "reed")],
        GET_3=[thread(3, 1)],
        GET_4=[thread(4, 1)],
        GET_dives=[{"results": dives}],
    )
    mentions = Vibe(script.url, "ovk_x").mentions()
    heard = [next(mentions).text for _ in range(3)]
    assert heard == ["in its dive", "again in its dive", "now to it, too"]
    assert len(script.bodies("GET 3")) == 1


RUN = {"id": 5, "thread": 1, "attempt": 1, "state": "reading"}


def ask(script: Script) -> Any:
    script.answers["GET events"] = [frame(7, "@reed when?")]
    return next(Vibe(script.url, "ovk_x").mentions())


def test_words_whose_answer_was_lost_are_sent_again_from_where_they_were(serve: Serve) -> None:
    written = {"state": "writing", "reply": 6, "length": 3, "interrupt": False}
    script = serve(POST_runs=[DROP, (201, RUN)], PATCH_reply=[DROP, written], POST_finish=[{**RUN, "state": "done"}])
    with ask(script).answer() as reply:
        reply.write("In ")
        while not reply.reply:
            reply.check()
        reply.write("March.")
    keys = {headers["Idempotency-Key"] for headers in script.headers("POST runs")}
    assert (len(script.bodies("POST runs")), len(keys)) == (2, 1)
    first, second = script.bodies("PATCH reply")[:2]
    assert first == second == {"attempt": 1, "offset": 0, "body": "In "}
    assert script.bodies("POST finish")[-1]["body"] == "In March."
    assert reply.state == "done"


def test_steps_are_told_once_and_changed_under_their_key(serve: Serve) -> None:
    over = (409, {"code": "run_over", "detail": "This run is over."})
    script = serve(
        POST_runs=[(201, RUN)],
        POST_steps=[DROP, (201, {}), (200, {}), over],
        PATCH_reply=[{"state": "reading", "reply": None, "length": 0, "interrupt": False}],
        POST_finish=[{**RUN, "state": "stopped"}],
    )
    with ask(script).answer() as reply:
        key = reply.step("Looks\x00 into the diary", kind="tool", tool="diary", state="running", result="r" * 30_000)
        assert reply.step("Looked into the diary", kind="tool", tool="diary", key=key) == key
        with pytest.raises(Stopped):
            reply.step("Nobody waits.")
        reply.finish("In March.")
    first, again, changed, _ = script.bodies("POST steps")
    assert first == again
    assert (first["attempt"], first["text"], len(first["result"])) == (1, "Looks into the diary", 20_000)
    assert (changed["key"], changed["state"]) == (key, "done")


def test_what_people_say_meanwhile_is_asked_for_until_nothing_is_left_and_none_of_it_is_lost(serve: Serve) -> None:
    told = [[{"role": "user", "content": text}] for text in ("The ivy?", "And the moss?")]
    script = serve(
        POST_runs=[(201, RUN)],
        PATCH_reply=[{"state": "reading", "reply": None, "length": 0, "interrupt": False}],
        POST_heard=[DROP, *({"messages": messages} for messages in (*told, []))],
        POST_finish=[{**RUN, "state": "done"}],
    )
    with ask(script).answer() as reply:
        assert [message["content"] for message in reply.heard()] == ["The ivy?", "And the moss?"]
        reply.finish("In March.")
    lost, *others = [headers["Idempotency-Key"] for headers in script.headers("POST heard")]
    assert (others[0], len({lost, *others})) == (lost, 3)


def test_a_run_of_a_process_before_is_gone_on_with_after_the_words_that_stand_there(serve: Serve) -> None:
    resumed = {"state": "writing", "reply": 6, "length": 3, "interrupt": False, "attempt": 2}
    over = (409, {"code": "run_over", "detail": "This run is over."})
    script = serve(
        POST_resume=[resumed, over],
        GET_6=[{"id": 6, "body": "In "}],
        GET_5=[{**RUN, "state": "failed"}],
        PATCH_reply=[{**resumed, "length": 9}],
        POST_finish=[{**RUN, "state": "done"}],
    )
    mention = ask(script)
    with mention.answer(run=RUN) as reply:
        reply.write("March.")
    assert script.bodies("POST resume") == [{"attempt": 1}]
    assert [(body["attempt"], body["offset"]) for body in script.bodies("PATCH reply")] in ([], [(2, 3)])
    assert script.bodies("POST finish")[-1] == {
        **{"attempt": 2, "body": "In March.", "model": ""},
        **{"input_tokens": None, "output_tokens": None, "cached_tokens": None},
    }
    with mention.answer(run=RUN) as reply:
        reply.write("Nobody waits.")
    assert reply.state == "failed"


def test_what_was_deleted_meanwhile_is_passed_over(serve: Serve) -> None:
    deleted = (409, {"code": "deleted", "detail": "The answer was deleted."})
    script = serve(POST_runs=[(201, RUN)], PATCH_reply=[deleted], POST_finish=[deleted])
    with ask(script).answer() as reply:
        reply.write("In March.")
    assert reply.is_over


@pytest.mark.parametrize("code", ["answered", "deleted"])
def test_what_is_answered_already_is_passed_over(serve: Serve, code: str) -> None:
    script, reached = serve(POST_runs=[(409, {"code": code, "detail": "It is."})]), []
    mention = ask(script)
    with mention.answer() as reply:
        reached.append(reply.is_over)
        mention.context()
        reached.append("the model was asked")
    assert reached == [True]


def test_an_exception_is_told_and_goes_on(serve: Serve) -> None:
    script = serve(
        POST_runs=[(201, RUN)],
        PATCH_reply=[{"state": "writing", "reply": 6, "length": 3, "interrupt": False}],
        POST_finish=[{**RUN, "state": "failed"}],
    )
    reply = ask(script).answer()

    def answer() -> None:
        with reply:
            reply.write("In ")
            raise RuntimeError("no model")

    with pytest.raises(RuntimeError, match="no model"):
        answer()
    assert script.bodies("POST finish") == [{"attempt": 1, "error": "RuntimeError: no model"}]
    assert script.bodies("PATCH reply")[0]["body"] == "In "


def test_what_cannot_be_stored_does_not_keep_the_end_from_being_told(serve: Serve) -> None:
    """The server refuses NUL and halves of characters, such as Python has in names of files that are no UTF-8."""
    script = serve(POST_runs=[(201, RUN)], POST_finish=[{**RUN, "state": "failed"}, {**RUN, "state": "done"}])
    reply = ask(script).answer()
    reply.begin()
    reply.fail("No such file: caf\udce9\x00")
    with ask(script).answer() as reply:
        reply.finish("It is in caf\udce9\x00.")
    bodies = script.bodies("POST finish")
    assert [bodies[0]["error"], bodies[1]["body"]] == ["No such file: caf?", "It is in caf?."]


def test_a_server_that_is_away_for_longer_costs_no_answer(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    away = [(503, {"code": "unavailable"})] * 9
    script = serve(POST_runs=[*away, (201, RUN)], POST_finish=[*away, {**RUN, "state": "done"}])
    reply = ask(script).answer()
    reply.begin()
    reply.finish("In March.")
    assert (reply.state, len(script.bodies("POST finish"))) == ("done", 10)


def test_a_list_is_read_to_its_end(serve: Serve) -> None:
    pages = [{"results": [{"id": 1}, {"id": 2}], "next": "two"}, {"results": [{"id": 3}], "next": None}]
    script = serve(GET_work=list(pages), GET_episodes=list(pages))
    mention = ask(script)
    assert [row["id"] for row in mention.work()] == [row["id"] for row in mention.vibe.lessons()] == [1, 2, 3]


def test_what_may_not_be_repeated_is_sent_once(serve: Serve) -> None:
    script = serve(POST_tool=[DROP, {"result": "noted"}])
    api = Api(script.url, "ovk_x")
    with pytest.raises(ApiError, match="did not answer"):
        api.call("POST", "memory/tool/", {"action": "note"})
    assert len(script.bodies("POST tool")) == 1
    script.answers["GET me"] = [(200, b"<html>")]
    with pytest.raises(ApiError, match="no JSON"):
        api.call("GET", "me/")


def test_it_listens_before_the_first_mention_is_asked_for(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    opened = b"retry: 1000\nid: 6\n: open\n\n"
    script = serve(GET_events=[(503, {"code": "unavailable"}), b"event: busy\ndata: {}\n\n", opened, frame(7, "one")])
    mentions = Vibe(script.url, "ovk_x").mentions(position_file=tmp_path / "position")
    assert len(script.headers("GET events")) == 3, "until the stream is open"
    assert (tmp_path / "position").read_text(encoding="ascii") == "6"
    assert next(mentions).text == "one"
