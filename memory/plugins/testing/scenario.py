"""The scenario of a rule: a workspace with two conversations, everything in the test's database, nothing shared."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction
from django.db.utils import InternalError

from memory.plugins.base import ContextEntry, MemoryProvider, Session
from openvibe.base.problems import Problem
from openvibe.chat.models import Channel, Message, Thread
from openvibe.engines.llm.tokens import count_tokens
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant, Workspace

MakeProvider = Callable[[], MemoryProvider]

UNLIMITED_BUDGET = 1_000_000
"""A budget that everything fits."""


class RuleViolation(AssertionError):
    """A promise that was not kept, as a sentence for the plugin's author."""


def require(condition: object, message: str) -> None:
    if not condition:
        raise RuleViolation(message)


def expect_problem(action: Callable[[], object], message: str) -> Problem:
    """The Problem that the action raises; RuleViolation when it raises none."""
    try:
        action()
    except Problem as problem:
        return problem
    raise RuleViolation(message)


@contextmanager
def forbid_writes(message: str) -> Iterator[None]:
    """Whatever writes or locks in here breaks the promise: the database refuses it."""
    try:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL transaction_read_only = on")
            yield
            transaction.set_rollback(True)
    except InternalError as error:
        raise RuleViolation(f"{message} ({error})") from error


@dataclass(frozen=True)
class Scenario:
    """Two threads of one workspace, an agent that sees both, two people. `make` makes the plugin's provider anew."""

    make: MakeProvider
    thread: Thread
    other: Thread
    elsewhere: Thread
    agent: Participant
    ana: Participant
    ben: Participant

    def session(self, thread: Thread | None = None, *, level: int = 3, **more: Any) -> Session:
        """The agent's; level 1 and 2 read no dive results."""
        access = Access(
            workspace_id=self.agent.workspace_id,
            participant_id=self.agent.pk,
            is_agent=True,
            level=level,
            reads_public_channels=True,
            reads_dive_results=level >= 3,
        )
        return Session((thread or self.thread).pk, access, **more)

    def recall(
        self,
        provider: MemoryProvider,
        thread: Thread | None = None,
        *,
        budget: int = UNLIMITED_BUDGET,
        tail: int = 20,
        **more: Any,
    ) -> list[ContextEntry]:
        """What the plugin assembles of the agent's session."""
        return provider.assemble(self.session(thread, **more), budget, tail)

    def say(self, *texts: str, thread: Thread | None = None, by: Participant | None = None, **more: Any) -> list[int]:
        """Messages written past the plugin, as people and agents write them; their numbers."""
        return self.write([{"body": text, "author": by or self.ana, **more} for text in texts], thread=thread)

    def write(self, rows: Sequence[dict[str, Any]], thread: Thread | None = None) -> list[int]:
        """Rows of the chat table, in order."""
        messages = [Message(thread=thread or self.thread, token_count=count_tokens(row["body"]), **row) for row in rows]
        Message.objects.bulk_create(messages)
        return list(
            Message.objects.filter(pk__in=[row.pk for row in messages]).order_by("seq").values_list("seq", flat=True)
        )

    def talk(self, messages: int, *, thread: Thread | None = None) -> list[int]:
        """A conversation of Ana and the agent, each message different and with a token of its own."""
        first = (thread or self.thread).messages.count()
        return self.write(self.talk_rows(first, messages), thread=thread)

    def talk_rows(self, first: int, messages: int) -> list[dict[str, Any]]:
        """Rows of such a conversation, where `first` messages were written before."""
        return [
            {
                "body": f"Message{n} about bed {n % 7}: " + " ".join(f"rose{n}x{word}" for word in range(12)),
                "author": self.agent if n % 2 else self.ana,
            }
            for n in range(first + 1, first + messages + 1)
        ]

    def tool_rows(self, name: str, first: int = 0, *, between: int = 0) -> list[dict[str, Any]]:
        """Rows of a call, messages in between, its result, where `first` messages were written before."""
        call, result = (
            {"body": body, "author": self.agent, "kind": kind, "call_id": name}
            for body, kind in ((f"call {name}", "tool_call"), (f"result of {name}", "tool_result"))
        )
        return [call, *self.talk_rows(first + 1, between), result]


def create_scenario(make: MakeProvider) -> Scenario:
    home, foreign = Workspace.objects.bulk_create(
        Workspace(name=name, slug=name) for name in ("conformance", "elsewhere")
    )
    ana, ben, agent = Participant.objects.bulk_create(
        Participant(workspace=home, kind=kind, handle=name.lower(), name=name)
        for kind, name in (("member", "Ana"), ("member", "Ben"), ("agent", "Fern"))
    )
    garden, foreign_garden = Channel.objects.bulk_create(
        Channel(workspace=workspace, name="garden") for workspace in (home, foreign)
    )
    thread, other, elsewhere = Thread.objects.bulk_create(
        Thread(workspace=channel.workspace, channel=channel, title=title)
        for channel, title in ((garden, "Roses"), (garden, "Beans"), (foreign_garden, "Far"))
    )
    return Scenario(make, thread, other, elsewhere, agent, ana, ben)


def ordinals(entries: Sequence[ContextEntry]) -> list[int]:
    return [entry.ordinal for entry in entries]


def covered_ordinals(entries: Sequence[ContextEntry]) -> set[int]:
    """The numbers of the messages that entries stand for."""
    return {number for entry in entries for number in range(entry.ordinal, entry.last + 1)}


def total_cost(entries: Sequence[ContextEntry]) -> int:
    return sum(entry.cost for entry in entries)
