"""What a model's provider wants back, in a run that is taken up again, and when it is forgotten."""

from dataclasses import replace
from typing import Any

from agents.agent.models.run import ERASED_FIELDS
from agents.archive.tables import archived_tables
from agents.models import Agent, Run, ToolCall
from agents.runs.executor import execute_run
from agents.runs.lifecycle import retry_run
from openvibe.chat.models import Thread
from openvibe.chat.services import delete_message
from openvibe.engines.llm.errors import AuthRefused
from openvibe.engines.llm.protocol import ModelStream
from openvibe.engines.llm.values import StreamEnd
from openvibe.workspaces.models import Member
from tests.agents.runs.scripted_runs import LOG, ask, calling, is_whole
from tests.engines.llm.scripted_client import ScriptedModel, ScriptedReply
from tests.factories import access, say

READ = ("memory", {"action": "status"})


class SigningModel(ScriptedModel):
    """Signs every answer and its first call."""

    def stream(self, *args: Any, **options: Any) -> ModelStream:
        for piece in super().stream(*args, **options):
            if isinstance(piece, StreamEnd) and piece.completion.tool_calls:
                first, *others = piece.completion.tool_calls
                calls = (replace(first, provider_fields={"signature": "c2ln"}), *others)
                fields = {"reasoning": f"Thought {len(self.calls)}"}
                piece = StreamEnd(replace(piece.completion, tool_calls=calls, provider_fields=fields))
            yield piece


def signed(run: Run, *replies: ScriptedReply) -> SigningModel:
    model = SigningModel(replies)
    execute_run(run.pk, client=model)
    run.refresh_from_db()
    return model


def retried(run: Run, by: Member, *replies: ScriptedReply) -> SigningModel:
    ToolCall.objects.filter(name=LOG[0]).update(effect="acts")  # what acts is told to the next attempt
    retry_run(run=run, by=access(by))
    return signed(run, *replies)


def test_a_run_that_is_taken_up_again_gives_back_what_it_was_given(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    signed(run, calling(READ, LOG), calling(LOG), AuthRefused("No."))
    assert run.state == "failed"
    model = retried(run, ana, "In March.")
    messages = model.calls[0].messages
    answers = [message for message in messages if message.tool_calls]
    assert is_whole(messages)
    assert [message.provider_fields for message in answers] == [{"reasoning": "Thought 1"}, {"reasoning": "Thought 2"}]
    assert [call.provider_fields for message in answers for call in message.tool_calls] == [
        {"signature": "c2ln"},
        {},
        {"signature": "c2ln"},
    ]
    assert "Call it again" in messages[-4].content
    assert not ToolCall.objects.exclude(provider_fields="").exists(), "forgotten once the run is done"


def test_they_are_erased_with_a_message_and_the_calls_are_told(ana: Member, vibe: Agent, thread: Thread) -> None:
    said = say(thread, ana, "The vault code is tulip.")
    run = ask(thread, ana)
    signed(run, calling(LOG), AuthRefused("No."))
    assert "Thought 1" in ToolCall.objects.get().provider_fields
    delete_message(message=said, by=access(ana))
    assert ToolCall.objects.get().provider_fields == ERASED_FIELDS
    model = retried(run, ana, "In March.")
    messages = model.calls[0].messages
    assert not any(message.tool_calls or message.provider_fields for message in messages)
    assert "it answered:" in messages[-1].content


def test_they_are_shown_and_exported_nowhere(ana: Member, vibe: Agent, thread: Thread) -> None:
    table = next(table for table in archived_tables() if table.model is ToolCall)
    assert "provider_fields" not in [field.name for field in table.fields()]


def test_what_does_not_fit_is_told(ana: Member, vibe: Agent, thread: Thread) -> None:
    """A signature of a megabyte in a small window: the answer comes, and the prompt stays within its budget."""
    run = ask(thread, ana)
    huge = {"signature": "QUJD" * 250_000}

    class HugeSignature(SigningModel):
        def stream(self, *args: Any, **options: Any) -> ModelStream:
            for piece in super().stream(*args, **options):
                if isinstance(piece, StreamEnd) and piece.completion.tool_calls:
                    piece = StreamEnd(replace(piece.completion, provider_fields=huge))
                yield piece

    model = HugeSignature([calling(LOG), "In March."])
    execute_run(run.pk, client=model)
    run.refresh_from_db()
    assert run.state == "done", run.error
    last = model.calls[-1].messages
    assert not any(message.provider_fields for message in last)
    assert "Logged as progress" in last[-1].content
    assert all(step["tokens"] < 40_000 for step in run.steps if step["kind"] == "called")
