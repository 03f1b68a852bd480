"""What the API gives, as far as this package reads it. A test holds these fields against the schema."""

from typing import Any, TypedDict


class ParticipantOut(TypedDict):
    handle: str
    name: str
    kind: str


class MessageOut(TypedDict):
    id: int
    thread: int
    author: ParticipantOut
    kind: str
    state: str
    body: str


class RunOut(TypedDict):
    id: int
    thread: int
    attempt: int
    state: str


class ReplyStateOut(TypedDict):
    state: str
    reply: int | None
    length: int


class ToolCallOut(TypedDict):
    id: str
    name: str
    arguments: str


class PromptMessageOut(TypedDict):
    role: str
    content: str
    tool_calls: list[ToolCallOut]
    tool_call_id: str | None


class ToolOut(TypedDict):
    name: str
    description: str
    parameters: dict[str, Any]


class AssembledOut(TypedDict):
    messages: list[PromptMessageOut]
    tools: list[ToolOut]
    tokens: int


class BlockOut(TypedDict):
    label: str
    content: str
    version: int
    etag: str


class EpisodeOut(TypedDict):
    id: int
    kind: str
    summary: str
    learning: str
    thread: int | None
    message: int | None
