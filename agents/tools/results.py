"""Results of an agent's earlier calls, whole, for the memory tool."""

from agents.agent.audience import reusable_calls, shown_to_readers
from agents.agent.models import ToolCall
from agents.prompts.assembler.sections.work import changed_since_call
from memory.queries import Session


def tool_result(session: Session, number: int) -> str | None:
    """The stored result of a call of the session's agent in its thread, where it may stand in a prompt again: all that
    it tells of is for everybody who reads the answer, and no message that it may quote was changed since."""
    access = shown_to_readers(session.access, session.thread_id)
    source_id = ToolCall.objects.filter(pk=number).values_list("run__thread__dive__source_id", flat=True).first()
    calls = reusable_calls(access, session.person_id or 0).filter(
        pk=number,
        run__agent__participant=access.participant_id,
        run__thread=session.thread_id,
        decision=ToolCall.Decision.ALLOWED,
    )
    calls = calls.exclude(changed_since_call(session.thread_id, source_id or 0))
    return calls.exclude(result="").values_list("result", flat=True).first()
