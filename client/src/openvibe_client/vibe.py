"""A workspace as one of its agents meets it: mentions, context, memory, blocks, knowledge, work."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from openvibe_client.answer import Answer
from openvibe_client.events import Frame, iter_events
from openvibe_client.http import Api, ApiError
from openvibe_client.prompt_text import text_of
from openvibe_client.schema import Assembled, Block, Dive, Episode, Message, PromptMessage, Run, Thread, Tool


class Vibe:
    """`Vibe("https://vibe.example", "ovk_…")`; the token is an agent's whose *Answers itself* is ticked."""

    def __init__(self, url: str, token: str) -> None:
        self.api = Api(url, token)
        me = self.api.call("GET", "me/")
        self.handle: str = me["participant"]["handle"]
        self.is_agent: bool = me["participant"]["kind"] == "agent"
        self.blocks = Blocks(self.api)
        self.on_work_changed: Callable[[int], None] = lambda thread: None
        self._owes_all: dict[int, bool] = {}

    @classmethod
    def from_env(cls) -> "Vibe":
        """A client as OPENVIBE_URL and OPENVIBE_TOKEN say."""
        return cls(os.environ["OPENVIBE_URL"], os.environ["OPENVIBE_TOKEN"])

    def agent(self) -> dict[str, Any]:
        """The agent's settings: `answers_itself` says that a program elsewhere, such as this, answers for it, and no
        model of OpenVibe's; `run_minutes` and `permission_minutes` are its limits."""
        found: dict[str, Any] = self.api.call("GET", f"agents/{self.handle}/")
        return found

    def mentions(self, *, position_file: Path | None = None) -> Iterator["Mention"]:
        """What people say to this agent, for as long as the token holds: by its name, in its dives, and in threads it
        follows. What they want once more (*Retry*, *Regenerate*) is told again, and so is the draft of a dive's result
        that they ask for. Breaks in between are bridged.

        Returns once it listens: all that is said from then on is told. Raises ApiError when the token may not.

        With a `position_file`, what was said while nobody listened is told too: the file holds how far the one who
        asks for the next mention has come. What is answered already is not answered again (`Mention.answer`).
        What still waits for a program of this agent is told first, with or without one.
        """
        kinds = ("mention", "message_posted", "thread_changed", "work_changed")
        frames = iter_events(self.api, kinds=kinds, after=_read_position(position_file))
        opening = next(frames)
        if opening.kind:
            frames = chain([opening], frames)
        elif position_file is not None and opening.position:
            write_position(position_file, opening.position)
        return chain(self._waiting_mentions(opening.position), self._mentions_in(frames, position_file))

    def _waiting_mentions(self, position: int) -> list["Mention"]:
        """What people asked the agent for and no program of its has begun, the oldest first. An event after `position`
        that tells of one of them once more is answered already by then."""
        runs = sorted(self.rows("runs/", state="queued"), key=lambda run: int(run["id"]))
        messages = [self.message(run["trigger"]) for run in runs]
        return [Mention(self, message, position) for message in messages if message is not None]

    def message(self, pk: int) -> Message | None:
        """The message; None where it is not to be seen (any more)."""
        try:
            message: Message = self.api.call("GET", f"messages/{pk}/")
        except ApiError as error:
            if error.status != 404:
                raise
            return None
        return message

    def _mentions_in(self, frames: Iterator[Frame], position_file: Path | None) -> Iterator["Mention"]:
        for frame in frames:
            message: Message | None = frame.data.get("data")
            if frame.kind == "thread_changed":
                self._owes_all.pop(frame.data.get("thread") or 0, None)
            elif frame.kind == "work_changed":
                self.on_work_changed(frame.data.get("thread") or 0)
            elif (
                message
                and message["author"]["kind"] == "member"
                and (frame.kind == "mention" or (message["kind"] == "text" and self._owes_all_answers(message)))
            ):
                yield Mention(self, message, frame.position)
            if position_file is not None:
                write_position(position_file, frame.position)

    def _owes_all_answers(self, message: Message) -> bool:
        """Whether the agent answers all that people say there: it follows the thread, or the thread is its dive."""
        thread = message["thread"]
        if thread not in self._owes_all:
            try:
                row: Thread = self.api.call("GET", f"threads/{thread}/")
                dives = [] if row["parent"] is None else self._dives_from(row["parent"])
            except ApiError as error:
                if error.status != 404:
                    raise
                return False
            dive_agents = [dive["agent"]["handle"] for dive in dives if dive["thread"] == thread]
            self._owes_all[thread] = self.handle in (*row["following_agents"], *dive_agents)
        return self._owes_all[thread]

    def _dives_from(self, thread: int) -> list[Dive]:
        """The active dives that started in a thread: at most seven."""
        found: list[Dive] = self.api.call("GET", "dives/", query={"thread": thread, "state": "active"})["results"]
        return found

    def search_knowledge(self, query: str, **filters: str | int) -> Any:
        """Entries of the workspace's knowledge that bear on the query, the best first, with how much was left out."""
        return self.api.call("GET", "knowledge/search/", query={"q": query, **filters})

    def suggest_knowledge(self, topic: str, content: str, **fields: Any) -> Any:
        """Suggests an entry (from L2 on); a person decides."""
        body = {"topic": topic, "content": content, **fields}
        return self.api.call("POST", "knowledge/suggest/", body, is_repeatable=True)

    def lessons(self) -> list[Episode]:
        """What people disliked of its answers and nobody marked as applied yet, the newest first. It stands in the
        context, too."""
        return list(self.rows("episodes/", open="true", kind="feedback_received"))

    def rows(self, path: str, **query: str | int) -> Iterator[Any]:
        """All rows of a list, page by page: `vibe.rows("threads/", unread="true")`."""
        cursor: dict[str, str] = {}
        while True:
            page = self.api.call("GET", path, query={"limit": 100, **query, **cursor})
            yield from page["results"]
            if page["next"] is None:
                return
            cursor = {"cursor": page["next"]}


class Blocks:
    """The agent's context blocks: labelled texts that stand in each of its prompts."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def read(self, label: str) -> Block | None:
        """The block; None when there is none."""
        try:
            block: Block = self._api.call("GET", f"blocks/{label}/")
        except ApiError as error:
            if error.status != 404:
                raise
            return None
        return block

    def write(self, label: str, content: str) -> Block:
        """Makes the block say this. Raises ApiError 412 when somebody saved it meanwhile."""
        block = self.read(label)
        if block is None:
            made: Block = self._api.call("POST", "blocks/", {"label": label, "content": content}, is_repeatable=True)
            return made
        saved: Block = self._api.call(
            "PUT", f"blocks/{label}/", {"content": content}, headers={"If-Match": block["etag"]}
        )
        return saved

    def append(self, label: str, content: str) -> Block:
        """Adds to a block that is there."""
        block: Block = self._api.call("POST", f"blocks/{label}/append/", {"content": content})
        return block


@dataclass(frozen=True)
class Context:
    """What the agent is to read before it answers. `tokens` of the whole."""

    assembled: Assembled

    @property
    def tokens(self) -> int:
        return self.assembled["tokens"]

    @property
    def is_continuation(self) -> bool:
        """Whether it holds only what is new since the run that `after_run` named."""
        return bool(self.assembled.get("is_continuation"))

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages as chat models take them."""
        return [_chat_message(message) for message in self.assembled["messages"]]

    @property
    def tools(self) -> list[Tool]:
        """What the agent may call here, by the API."""
        return self.assembled["tools"]

    @property
    def text(self) -> str:
        """The context as one text, for what takes no messages. Each part says whose it is."""
        return text_of(self.assembled["messages"])


def _chat_message(message: PromptMessage) -> dict[str, Any]:
    chat: dict[str, Any] = {"role": message["role"], "content": message["content"]}
    if message["tool_calls"]:
        chat["tool_calls"] = [
            {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}
            for call in message["tool_calls"]
        ]
    if message["tool_call_id"] is not None:
        chat["tool_call_id"] = message["tool_call_id"]
    return chat


class Mention:
    """A message of a person that is meant for the agent."""

    def __init__(self, vibe: Vibe, message: Message, position: int = 0) -> None:
        self.vibe, self.message, self.position = vibe, message, position
        self._answer: Answer | None = None

    @property
    def id(self) -> int:
        return self.message["id"]

    @property
    def thread(self) -> int:
        return self.message["thread"]

    @property
    def author(self) -> str:
        return self.message["author"]["handle"]

    @property
    def text(self) -> str:
        return self.message["body"]

    def context(self, *, budget: int | None = None, model: str | None = None, after_run: int | None = None) -> Context:
        """What the agent is to read, within so many tokens. Inside `answer()` it is kept: people see what was read,
        and feedback in it counts as used; `after_run`: the run whose context was read last in a session that goes on,
        after which only what is new need be read. Raises Stopped when the answer is over."""
        limits = {"budget": budget, "model": model}
        if self._answer is None:
            body = {"thread": self.thread, "task": "mention", **limits}
            return Context(self.vibe.api.call("POST", "context/assemble/", body))
        return Context(self._answer.tell("POST", "context/", {**limits, "after_run": after_run}))

    def answer(self, *, run: Run | None = None) -> Answer:
        """The reply, to be written while people look on. `run`: one of this message's that is under way, to be gone on
        with."""
        self._answer = Answer(self, run=run)
        return self._answer

    def reply(self, text: str) -> None:
        """Answer at once."""
        with self.answer() as answer:
            answer.write(text)

    def memory(self, action: str, **arguments: Any) -> Any:
        """Calls the memory tool in this thread: `mention.memory("search", query="frost")`."""
        return self.vibe.api.call("POST", "memory/tool/", {"thread": self.thread, "action": action, **arguments})

    def work(self) -> list[dict[str, Any]]:
        """What this thread is working on: objective, constraints, plan, to-dos."""
        return list(self.vibe.rows("work/", thread=self.thread))

    def add_work(self, kind: str, text: str) -> Any:
        """Notes an item of work: `mention.add_work("todo", "Prune the roses")`."""
        body = {"thread": self.thread, "kind": kind, "text": text}
        return self.vibe.api.call("POST", "work/", body, is_repeatable=True)

    def log_progress(self, checkpoint: str, **fields: Any) -> Any:
        """Says in the thread's progress log how far things are."""
        body = {"thread": self.thread, "checkpoint": checkpoint, **fields}
        return self.vibe.api.call("POST", "progress/", body, is_repeatable=True)


def _read_position(path: Path | None) -> int | None:
    with suppress(OSError, ValueError):
        return None if path is None else int(path.read_text(encoding="ascii"))
    return None


def write_position(path: Path, position: int) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.new")
    draft.write_text(str(position), encoding="ascii")
    draft.replace(path)
