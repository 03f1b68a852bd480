"""The tool calls of one run, each executed and kept on record; people are asked where a call waits for them."""

from dataclasses import dataclass, field, replace
from time import perf_counter

from django.db import transaction
from django.utils import timezone

from agents.agent.access import visible_to
from agents.agent.audience import save_sources
from agents.agent.models import RUNS, Run, ToolCall
from agents.runs.previous_attempts import request_of, was_stopped_since
from agents.runs.store import PartialReply, wait_for_approval
from agents.runs.thoughts import emit_step
from agents.tools.toolbox import Toolbox
from agents.tools.values import ToolOutcome
from memory.models import Approval
from memory.services import record_trust_check, request_approval
from openvibe.base.problems import Problem
from openvibe.chat.models import Message
from openvibe.engines.llm.tokens import count_tokens
from openvibe.engines.llm.transcripts import clean_name, one_line
from openvibe.engines.llm.values import ToolCallRequest

CALL_MAY_QUOTE = "A message was edited or deleted meanwhile, which this call may quote. Look again at what stands now."
STOPPED_CALL_MESSAGE = "Somebody stopped the answer after they approved this call, so it was not made. Ask for it anew."
DENIED_CALL_MESSAGE = "People denied this very call. Go on without it."

MAX_REASON_CHARS = 2_000
"""Characters of what the agent said before a call that asks people, its newest words: they tell what it is for."""

BULKY_RESULT_TOKENS = 2_000
"""Tokens from which on a result is a reason to compact."""


@dataclass
class CallExecutor:
    """The executor of the calls of one attempt, fenced by it: a call of a run that another attempt has by now raises
    JobLost."""

    run: Run
    reply: Message
    answer: PartialReply
    had_bulky_result: bool = False
    trust_refusals: dict[str, None] = field(default_factory=dict)

    def execute(
        self,
        toolbox: Toolbox,
        call: ToolCallRequest,
        round_number: int,
        refusal: ToolOutcome | None,
        approval: Approval | None = None,
        provider_fields: str = "",
    ) -> ToolOutcome:
        """Executes the call unless there is a `refusal`, with its record. `approval`: people granted this very call.
        `provider_fields`: as the record keeps them.

        What a tool of ours changes and the record stand together or not at all. A remote call is on record before it
        is sent, so that no other attempt takes it for one that was never made.
        """
        start_time, is_approved = perf_counter(), approval is not None
        with transaction.atomic():
            current = RUNS.lock_owned(self.run)
            outcome = refusal or toolbox.check(call, is_approved=is_approved)
            if outcome is None and not toolbox.is_remote(call):
                outcome = toolbox.execute(call, is_approved=is_approved)
            if outcome is not None and outcome.decision == ToolCall.Decision.WAITS and outcome.approval is None:
                outcome, approval = self._request_approval(toolbox, call, outcome)
            row = self._create_call(toolbox, call, round_number, approval, provider_fields)
            if outcome is not None:
                _finish_call(row, outcome, start_time)
                self._react_to(outcome, current)
            emit_step(self.run)
        if outcome is None:
            outcome = toolbox.execute(call, is_approved=is_approved)
            with transaction.atomic():  # what came of it is true, whoever has the run by now
                _finish_call(row, outcome, start_time)
                emit_step(self.run)
        self.had_bulky_result = self.had_bulky_result or row.result_tokens > BULKY_RESULT_TOKENS
        return outcome

    def settle(self, toolbox: Toolbox, row: ToolCall) -> ToolOutcome:
        """Executes the call that waited, once, if people approved it, did not stop the run since, and its agent may
        still make it."""
        approval, call, refusal = row.approval, request_of(row), None
        if approval is None or approval.state != Approval.State.GRANTED:
            refusal = toolbox.refuse(call, _denial(approval))
        elif approval.decided_at and was_stopped_since(self.run, approval.decided_at):
            refusal = toolbox.refuse(call, STOPPED_CALL_MESSAGE)
        elif not row.arguments:
            refusal = toolbox.refuse(call, CALL_MAY_QUOTE)
        return self.execute(toolbox, call, 1, refusal, approval, row.provider_fields)

    def _create_call(
        self,
        toolbox: Toolbox,
        call: ToolCallRequest,
        round_number: int,
        approval: Approval | None,
        provider_fields: str,
    ) -> ToolCall:
        tool = toolbox.tools.get(call.name)
        row = ToolCall.objects.create(
            run=self.run,
            attempt=self.run.attempt,
            round=round_number,
            call_id=call.id,
            name=call.name,
            arguments=call.arguments,
            provider_fields=provider_fields,
            effect=tool.effect if tool else "",
            decision=ToolCall.Decision.ALLOWED,
            approval=approval,
            finished_at=None,
        )
        if tool is not None and tool.is_remote:
            save_sources(row, toolbox.sources(call))
        return row

    def _request_approval(
        self, toolbox: Toolbox, call: ToolCallRequest, outcome: ToolOutcome
    ) -> tuple[ToolOutcome, Approval | None]:
        """Asks people about this very call; one that they denied in this run is not asked about again."""
        denied_calls = self.run.tool_calls.filter(approval__state=Approval.State.DENIED)
        if denied_calls.filter(name=call.name, arguments=call.arguments).exists():
            return toolbox.refuse(call, DENIED_CALL_MESSAGE), None
        reason = self.answer.text.strip()[-MAX_REASON_CHARS:]
        access = visible_to(self.run.agent)
        try:
            approval = request_approval(
                thread=self.run.thread, by=access, what=f"Use {call.name}", reason=reason, reuse_pending=False
            )
        except Problem as problem:
            return toolbox.refuse(call, problem.message), None
        return replace(outcome, approval=approval), approval

    def _react_to(self, outcome: ToolOutcome, current: Run) -> None:
        """What a call means for its run, in the transaction that holds it as `current`."""
        if outcome.trust_refusal:
            self._remember_refusal(outcome.trust_refusal)
        if outcome.approval is not None:
            wait_for_approval(current, self.reply, self.answer, outcome.approval)

    def _remember_refusal(self, refusal: str) -> None:
        """One episode of a run, however often and whatever it was refused; in our words, not in those of the call."""
        self.trust_refusals[refusal] = None
        record_trust_check(
            agent_id=self.run.agent.participant_id,
            thread=self.run.thread,
            subject=f"run:{self.run.pk}",
            summary=f"Refused in “{self.run.thread.title}”: {'; '.join(self.trust_refusals)}.",
        )


def _finish_call(row: ToolCall, outcome: ToolOutcome, start_time: float) -> None:
    """Writes down what came of a call, in the caller's transaction. `start_time`: reading of `perf_counter`."""
    row.decision, row.why, row.result = outcome.decision, outcome.why, outcome.result
    row.result_tokens = count_tokens(outcome.result)
    row.milliseconds, row.finished_at = round((perf_counter() - start_time) * 1000), timezone.now()
    row.save(update_fields=["decision", "why", "result", "result_tokens", "milliseconds", "finished_at"])
    save_sources(row, outcome.sources)


def _denial(approval: Approval | None) -> str:
    """The sentence that tells the model and people that people denied a call."""
    who = clean_name(approval.decided_by.label) if approval and approval.decided_by else "Somebody"
    note = f" Note: {one_line(approval.note)}" if approval and approval.note else ""
    return f"{who} denied this call.{note}"
