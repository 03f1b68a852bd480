"""Runs whose model calls tools, as these tests tell of them."""

import json
from collections.abc import Callable, Sequence

from django.db import connection

from agents.models import Run
from agents.runs.executor import execute_run
from openvibe.chat.models import Message, Thread
from openvibe.engines.llm.values import ChatMessage, ToolCallRequest
from openvibe.workspaces.models import Member
from tests.engines.llm.scripted_client import RecordedCall, ScriptedAnswer, ScriptedModel, ScriptedReply
from tests.factories import say

LOG = ("log_progress", {"checkpoint": "Bed 1 is mulched"})


class WorkerDied(BaseException):
    """No code of ours catches it: what is not committed by now is gone."""


def calling(*calls: tuple[str, object], text: str = "") -> ScriptedAnswer:
    """The model calls these tools at once; arguments are an object, or text as it stands."""
    return ScriptedAnswer(
        text,
        tuple(
            ToolCallRequest(f"call_{at}", name, args if isinstance(args, str) else json.dumps(args))
            for at, (name, args) in enumerate(calls)
        ),
    )


def meanwhile(change: Callable[[], object], said: ScriptedAnswer) -> ScriptedReply:
    """Something changes while the model speaks, which it does in a thread, so in a connection, of its own."""

    def speak(_: Sequence[ChatMessage]) -> ScriptedAnswer:
        change()
        connection.close()
        return said

    return speak


def ask(thread: Thread, by: Member, body: str = "@vibe when do I prune?") -> Run:
    return Run.objects.get(trigger=say(thread, by, body))


def told(run: Run, *replies: ScriptedReply) -> ScriptedModel:
    """Carries the run out with a model that says this, and reads the run again."""
    model = ScriptedModel(replies)
    execute_run(run.pk, client=model)
    run.refresh_from_db()
    return model


def reply_of(run: Run) -> Message:
    assert run.reply is not None
    return run.reply


def results(call: RecordedCall) -> list[str]:
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
