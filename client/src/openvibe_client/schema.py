"""What the API gives, as far as this package reads it. A test holds these fields against the schema."""

from typing import Any, TypedDict


class Participant(TypedDict):
    handle: str
    name: str
    kind: str


class Message(TypedDict):
    id: int
    thread: int
    author: Participant
    kind: str
    state: str
    body: str


class Thread(TypedDict):
    id: int
    parent: int | None
    following_agents: list[str]


class Dive(TypedDict):
    thread: int
    agent: Participant


class Run(TypedDict):
    id: int
    attempt: int
    state: str


class ToolCall(TypedDict):
    id: str
    name: str
    arguments: str


class PromptMessage(TypedDict):
    role: str
    content: str
    tool_calls: list[ToolCall]
    tool_call_id: str | None


class Tool(TypedDict):
    name: str
    description: str
    parameters: dict[str, Any]


class Assembled(TypedDict):
    messages: list[PromptMessage]
    tools: list[Tool]
    tokens: int


class Block(TypedDict):
    label: str
    content: str
    version: int
    etag: str


class Episode(TypedDict):
    id: int
    kind: str
    summary: str
    learning: str
    thread: int | None
    message: int | None
