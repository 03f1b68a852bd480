"""Runs whose model calls tools, as these tests tell of them."""

import json
from collections.abc import Callable, Sequence

from django.db import connection

from agents.models import Run
from agents.runs.carrying import carry_out
from openvibe.chat.models import Message, Thread
from openvibe.llm.scripted import Call, Reply, Say, ScriptedModel
from openvibe.llm.values import ChatMessage, ToolCall
from openvibe.workspaces.models import Member
from tests.factories import say

LOG = ("log_progress", {"checkpoint": "Bed 1 is mulched"})


class WorkerDied(BaseException):
    """No code of ours catches it: what is not committed by now is gone."""


def calling(*calls: tuple[str, object], text: str = "") -> Say:
    """The model calls these tools at once; arguments are an object, or text as it stands."""
    return Say(
        text,
        tuple(
            ToolCall(f"call_{at}", name, args if isinstance(args, str) else json.dumps(args))
            for at, (name, args) in enumerate(calls)
        ),
    )


def meanwhile(change: Callable[[], object], said: Say) -> Reply:
    """Something changes while the model speaks, which it does in a thread, so in a connection, of its own."""

    def speak(_: Sequence[ChatMessage]) -> Say:
        change()
        connection.close()
        return said

    return speak


def ask(thread: Thread, by: Member, body: str = "@vibe when do I prune?") -> Run:
    return Run.objects.get(trigger=say(thread, by, body))


def told(run: Run, *replies: Reply) -> ScriptedModel:
    """Carry the run out with a model that says this, and read the run again."""
    model = ScriptedModel(replies)
    carry_out(run.pk, client=model)
    run.refresh_from_db()
    return model


def reply_of(run: Run) -> Message:
    assert run.reply is not None
    return run.reply


def results(call: Call) -> list[str]:
    """What tools answered, as the model was told."""
    return [message.content for message in call.messages if message.role == "tool"]


def is_whole(messages: Sequence[ChatMessage]) -> bool:
    """Whether every call is followed by its results, and every result has its call."""
    expected: list[str | None] = []
    for message in messages:
        if message.role == "tool":
            if not expected or expected.pop(0) != message.tool_call_id:
                return False
        elif expected:
            return False
        else:
            expected = [call.id for call in message.tool_calls]
    return not expected
