"""The request (P1): what every section is told (`PromptRequest`), the message asked with, and how it ends the
prompt."""

from dataclasses import dataclass
from datetime import datetime

from agents.assembler.items import data_block, format_minute, make_item, shorten_message
from agents.assembler.queries import ThreadContext
from agents.assembler.stack import MIN_REQUEST_TOKENS, TaskBudget
from agents.assembler.values import AtomicGroup, Item, SectionCandidates, TrustLabel
from agents.models import Agent
from agents.soul import TaskType
from openvibe.chat.models import Message
from openvibe.llm.tokens import TokenCounter
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant


@dataclass(frozen=True)
class RequestMessage:
    """The request: a stored message, or text not sent yet."""

    text: str
    author: Participant | None
    at: datetime
    message: Message | None = None

    @property
    def before(self) -> int | None:
        """History is what stands before this seq; all of the thread for text not sent yet."""
        return self.message.seq if self.message else None


@dataclass(frozen=True)
class PromptRequest:
    """What every gathering function needs to know."""

    agent: Agent
    access: Access
    thread: ThreadContext
    task: TaskType
    asked: RequestMessage
    counter: TokenCounter
    budget: TaskBudget


def author_trust(author_kind: str, *, is_own: bool) -> TrustLabel:
    """Members' messages and the agent's own are semi-trusted; imports and other agents' text are not trusted."""
    return "semi_trusted" if is_own or author_kind == Participant.Kind.MEMBER else "untrusted"


# --- P1 -----------------------------------------------------------------------------------------------------
def request_candidates(request: PromptRequest, room: int) -> SectionCandidates:
    """The request whole, or its head and tail when it needs more than `room` tokens. It ends the prompt.

    The message stands exactly as it will stand in the history of the next prompt, which therefore begins alike.
    """
    message = request.asked
    ref = str(message.before) if message.message else "draft"
    author = message.author.name if message.author else "somebody"
    is_own = message.author is None or message.author.pk == request.agent.participant_id
    trust = author_trust(message.author.kind if message.author else "", is_own=is_own)

    def make_request_item(text: str) -> Item:
        block = data_block(text, source="message", ref=ref, author=author, trust=trust, time=format_minute(message.at))
        return make_item(
            request.counter,
            section="request",
            key=f"message:{message.message.pk}" if message.message else "draft",
            text=block,
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
    return SectionCandidates("P1", "request", (AtomicGroup((entry,)),), required=True)
