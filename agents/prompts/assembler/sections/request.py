"""The request (P1): what every section is given (`PromptRequest`), where it is asked, and how it ends the prompt.

The last message is the question and nothing else, in its own words: who asks, when, and its number are fields of the
situation right before it. A member's words need no fence, since the message of a user is the place of who asks; what
would open or close a fence is escaped in them as everywhere, so they pass for nothing but words. What nobody here
vouches for (another agent's words, an import) stands in a fence also where it is asked."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import wraps
from typing import Any, NamedTuple, TypeVar

from django.db.models import QuerySet

from agents.agent.models import Agent
from agents.agent.soul import TaskType
from agents.prompts.assembler.items import (
    Item,
    SectionCandidates,
    TrustLabel,
    format_minute,
    make_item,
    section_candidates,
    shorten_message,
)
from agents.prompts.assembler.stack import MIN_REQUEST_TOKENS, TaskBudget
from openvibe.base.problems import Missing
from openvibe.chat.models import Message, Thread
from openvibe.chat.queries import AccessQuery
from openvibe.engines.database.compiled_queries import row_columns
from openvibe.engines.llm.tokens import TokenCounter
from openvibe.engines.llm.transcripts import bare_text, message_line, request_block
from openvibe.engines.text.masking import mask_secrets
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant

NO_WORDS = "(The request has no words.)"


class ThreadContext(NamedTuple):
    """The place that a prompt is written for: the thread, its channel, its workspace."""

    thread_id: int
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
    parent_instructions: str | None = None
    """The instructions, for a dive, of the thread it started in."""
    dive_source_id: int | None = None
    """The message, for a dive, that it started from."""
    channel_id: int = 0
    parent_id: int | None = None
    direct_participant_id: int | None = None
    """One of the two participants that direct messages are between."""
    channel_tools: list[str] | None = None
    """What the channel lets agents use (`openvibe.chat.services.agent_tools`); None: all."""

    def allows_tool(self, name: str) -> bool:
        return self.channel_tools is None or name in self.channel_tools


def read_thread(access: Access, thread_id: int) -> ThreadContext:
    """The place, as it is now. Raises Missing where the agent may not see the thread."""
    for row in _visible_thread.rows(access, thread_id):
        context = ThreadContext._make(row)
        return context._replace(budgets=json.loads(context.budgets))
    raise Missing


@AccessQuery
def _visible_thread(access: Access, thread_id: int) -> QuerySet[Any, Any]:
    threads = Thread.objects.visible_to(access).filter(pk=thread_id).order_by()
    return threads.values_list(
        *row_columns(
            ThreadContext,
            thread_id="pk",
            channel_name="channel__name",
            channel_description="channel__description",
            channel_instructions="channel__instructions",
            workspace_name="workspace__name",
            workspace_description="workspace__description",
            workspace_instructions="workspace__instructions",
            budgets="workspace__budgets",
            parent_instructions="parent__instructions",
            dive_source_id="dive__source",
            direct_participant_id="channel__first_participant",
            channel_tools="channel__agent_tools",
        )
    )


@dataclass(frozen=True)
class RequestMessage:
    """The request: a stored message, or text not sent yet."""

    text: str
    author: Participant | None
    sent_at: datetime
    row: Message | None = None


@dataclass(frozen=True)
class PromptRequest:
    """What every section is given: who answers what, where, in how many tokens."""

    agent: Agent
    access: Access
    thread: ThreadContext
    task: TaskType
    message: RequestMessage
    counter: TokenCounter
    budget: TaskBudget
    has_small_window: bool = False
    """Whether the model reads so little that its prompt leaves out what it could not use (`stack.SMALL_WINDOW`)."""
    reads: dict[Callable[..., Any], Any] = field(default_factory=dict, compare=False, repr=False)
    """What was read of the database for this prompt (`read_once`), a copy with another budget included."""

    @property
    def asker_id(self) -> int:
        """The participant who asks; 0 where nobody is known."""
        return self.message.author.pk if self.message.author else 0

    @property
    def end_seq(self) -> int:
        """History is what stands before this seq: all of the thread for text not sent yet."""
        return self.message.row.seq if self.message.row else self.thread.last_seq + 1


Rows = TypeVar("Rows")


def read_once(read: Callable[[PromptRequest], Rows]) -> Callable[[PromptRequest], Rows]:
    """Decorates what several sections read: asked for once in a prompt, so that all of them go by the same rows."""

    @wraps(read)
    def known_rows(request: PromptRequest) -> Rows:
        if known_rows not in request.reads:
            request.reads[known_rows] = read(request)
        rows: Rows = request.reads[known_rows]
        return rows

    return known_rows


def author_trust(author_kind: str, *, is_own: bool) -> TrustLabel:
    """Members' messages and the agent's own are semi-trusted; imports and other agents' text are not trusted."""
    return "semi_trusted" if is_own or author_kind == Participant.Kind.MEMBER else "untrusted"


def request_candidates(request: PromptRequest, room: int) -> SectionCandidates:
    """The request whole, or its head and tail when it needs more than `room` tokens."""
    message, time = request.message, format_minute(request.message.sent_at)
    ref = str(message.row.seq) if message.row else "draft"
    author = message.author.label if message.author else "somebody"
    is_own = message.author is None or message.author.pk == request.agent.participant_id
    trust = author_trust(message.author.kind if message.author else "", is_own=is_own)

    def make_request_item(text: str) -> Item:
        words = mask_secrets(text)
        fenced = request_block(message_line(ref, author, words, note=time), trust) if trust == "untrusted" else ""
        return make_item(
            request.counter,
            section="request",
            key=f"message:{message.row.pk}" if message.row else "draft",
            text=fenced or bare_text(words) or NO_WORDS,
            trust=trust,
            source="request",
            author=author,
            ref=ref,
        )

    entry, room = make_request_item(message.text), max(room, MIN_REQUEST_TOKENS)
    limit = room
    while entry.tokens > room and limit > 16:
        limit = min(limit - 16, limit * room // max(entry.tokens, 1)) if limit < room else room - 80
        entry = make_request_item(shorten_message(message.text, limit, request.counter, ref=ref))
    return section_candidates("request", [entry], required=True)
