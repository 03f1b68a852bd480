"""Asks an agent's model to word a rule that a piece of feedback asks for."""

from agents.access import endpoint_for
from agents.models import Agent, Run
from agents.soul_rules import MAX_ANSWER_TOKENS, SoulRule, build_draft_prompt, parse_draft
from memory.models import Episode
from openvibe.base.problems import Problem
from openvibe.llm.endpoints import client_for
from openvibe.llm.errors import ModelError
from openvibe.llm.models import Endpoint
from openvibe.llm.protocol import ModelClient
from openvibe.llm.structured_output import UnparsableAnswer
from openvibe.workspaces.models import Spending
from openvibe.workspaces.services import meter_client


def drafting_endpoint(agent: Agent) -> Endpoint | None:
    """The endpoint that can word a rule; None for the offline model, which only quotes."""
    endpoint = endpoint_for(agent)
    return None if endpoint is None or endpoint.kind == Endpoint.Kind.OFFLINE else endpoint


def draft_rule(*, agent: Agent, episode: Episode, client: ModelClient | None = None) -> SoulRule:
    """The model's words for the rule; nothing is stored. Raises Problem, with what to do, where it gives none.

    `client` answers in place of the endpoint's own.
    """
    endpoint, feedback = drafting_endpoint(agent), episode.feedback
    if endpoint is None or feedback is None:
        raise Problem("There is no model to draft it. Write the rule yourself.", code="no_model", field="rule")
    run = Run.objects.filter(reply=feedback.message_id).select_related("trigger").first()
    question = run.trigger.body if run else ""
    prompt = build_draft_prompt(reason=episode.summary, question=question, answer=feedback.message.body)
    purpose = Spending.Purpose.REVIEW
    client = meter_client(
        client or client_for(endpoint), workspace_id=agent.workspace_id, purpose=purpose, agent_id=agent.participant_id
    )
    try:
        limit = min(MAX_ANSWER_TOKENS, endpoint.output_reserve)
        return parse_draft(client.complete(prompt, max_output_tokens=limit).text)
    except ModelError as error:
        raise Problem(f"The model gave no draft. {error} {error.advice}", code=error.code, field="rule") from None
    except UnparsableAnswer:
        words = "The model's answer is no rule. Try again, or write the rule yourself."
        raise Problem(words, code="no_draft", field="rule") from None
