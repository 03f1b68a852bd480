"""What one reading finds: plain values, as prompts need them."""

from datetime import datetime
from typing import Any, NamedTuple


class Remembered(NamedTuple):
    """An episode as prompts read it. `is_usable`: the audience of this thread may know where it was learned."""

    pk: int
    kind: str
    text: str
    giver: str
    from_feedback: bool
    created_at: datetime
    is_usable: bool


class Window(NamedTuple):
    """What an endpoint says about its model. Sizes in tokens."""

    model: str
    context_window: int
    output_reserve: int


class Place(NamedTuple):
    """Where a prompt is for: the thread, its channel, its workspace."""

    thread_id: int
    channel_id: int
    title: str
    instructions: str
    last_seq: int
    channel_name: str
    channel_description: str
    channel_instructions: str
    workspace_name: str
    workspace_description: str
    workspace_instructions: str
    budgets: Any
    dive_source_id: int | None = None
    """Of a dive: the message it started from."""


class Carried(NamedTuple):
    """A context block that says something."""

    pk: int
    label: str
    description: str
    content: str
    readonly: bool = False


class Notes(NamedTuple):
    """What the agent noted about the asker."""

    pk: int
    person_id: int
    person: str
    content: str


class Work(NamedTuple):
    """A row of the thread's open work."""

    pk: int
    kind: str
    text: str
    data: Any
    author: str
    author_id: int
    author_kind: str


class Asking(NamedTuple):
    """An approval: what it is for, and who decided."""

    pk: int
    what: str
    state: str
    requested_by: str
    decided_by: str
    note: str
    at: str


class Logged(NamedTuple):
    """A line of the progress log."""

    pk: int
    checkpoint: str
    changed: str
    evidence: str
    open_issues: str
    next_action: str
    author: str
    author_id: int
    author_kind: str
    at: str


class Observed(NamedTuple):
    """What a tool answered in an earlier run here. `is_changed`: a message was edited or deleted since."""

    pk: int
    name: str
    arguments: str
    result: str
    at: str
    is_changed: bool


class Published(NamedTuple):
    """The result of a dive of this thread."""

    message_id: int
    seq: int
    headline: str
    publisher: str
    at: str


class Found(NamedTuple):
    """All of one reading."""

    place: Place
    default_endpoint: Window | None
    plugin: tuple[str, dict[str, Any]]
    episodes: list[Remembered]
    blocks: list[Carried]
    notes: list[Notes]
    work: list[Work]
    approvals: list[Asking]
    progress: list[Logged]
    observed: list[Observed]
    skills: list[str]
    tools_before: list[str] | None
    results: list[Published]
    knows_anything: bool
