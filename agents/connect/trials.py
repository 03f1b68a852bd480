"""Trial questions: what an agent would answer with a SOUL that is not saved yet. Nothing of it stays: no agent, run,
message or memory; only its tokens count, against the workspace's budget."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from time import perf_counter
from uuid import uuid4

from django.db import transaction

from agents.agent.access import endpoint_for
from agents.agent.models import Agent
from agents.prompts.assembler.assemble import Prompt, assemble
from openvibe.base.problems import Problem
from openvibe.chat.models import Channel
from openvibe.chat.services import create_channel, create_thread
from openvibe.engines.llm.endpoints.endpoints import client_for
from openvibe.engines.llm.errors import ModelError
from openvibe.engines.llm.models import Endpoint
from openvibe.engines.text.cleaning import TextRefused, clean_body
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant, Spending
from openvibe.workspaces.services import meter_client

MAX_ANSWER_TOKENS, MAX_ANSWER_CHARACTERS = 600, 8_000
MAX_QUESTION_CHARACTERS = 2_000


@dataclass(frozen=True)
class TrialAnswer:
    """What the agent would say, and what it took; `cost` by the prices of its model, 0 where they are
    not known."""

    text: str
    model: str
    prompt_tokens: int
    output_tokens: int
    seconds: float
    cost: Decimal


def ask_on_trial(
    *, draft: Callable[[], Agent], channel: Channel | None, question: str, by: Access, asked_by: Participant
) -> TrialAnswer:
    """The answer of the agent that `draft` makes or changes, to a mention in a new thread of the channel (without one,
    of a channel made for it), without tools.

    What `draft` writes is rolled back before the model is asked. Raises what it raises, and Problem when the model does
    not answer.
    """
    question = _clean_question(question)
    with transaction.atomic():
        agent = draft()
        prompt = _assemble_in_new_thread(agent, channel, question, by, asked_by)
        endpoint = endpoint_for(agent)
        transaction.set_rollback(True)
    return _ask(prompt, endpoint, by.workspace_id)


def _clean_question(question: str) -> str:
    try:
        return clean_body(question, max_characters=MAX_QUESTION_CHARACTERS)
    except TextRefused as error:
        raise Problem(error.message, code=error.code, field="question") from None


def _assemble_in_new_thread(
    agent: Agent, channel: Channel | None, question: str, by: Access, asked_by: Participant
) -> Prompt:
    if channel is None:
        channel = create_channel(by=by, name=f"trial-{uuid4().hex[:8]}")
    channel.memberships.get_or_create(participant=agent.participant)
    thread = create_thread(channel=channel, by=by, title="A first question")
    return assemble(agent=agent, thread=thread, task="mention", request=question, asked_by=asked_by)


def _ask(prompt: Prompt, endpoint: Endpoint | None, workspace_id: int) -> TrialAnswer:
    client = meter_client(client_for(endpoint), workspace_id=workspace_id, purpose=Spending.Purpose.TRIALS)
    limit = min(MAX_ANSWER_TOKENS, endpoint.usable_reserve) if endpoint else MAX_ANSWER_TOKENS
    start_time = perf_counter()
    try:
        completion = client.complete(prompt.messages, max_output_tokens=limit)
    except ModelError as error:
        raise Problem(f"The model did not answer. {error} {error.advice}", code=error.code, field="endpoint") from None
    text = completion.text.strip()[:MAX_ANSWER_CHARACTERS]
    seconds = perf_counter() - start_time
    usage = completion.usage
    price_in, price_out = (endpoint.price_in, endpoint.price_out) if endpoint else (None, None)
    cost = (usage.input_tokens or prompt.tokens) * (price_in or Decimal()) + usage.output_tokens * (
        price_out or Decimal()
    )
    return TrialAnswer(text, client.model, prompt.tokens, usage.output_tokens, seconds, cost / 1_000_000)
