"""A dialogue with an agent in a thread: what a worker keeps of each prompt, and the answers, without a model."""

from datetime import datetime

from django.db import transaction

from agents.models import Agent, Run
from agents.prompts.assembler.assemble import Prompt
from agents.prompts.snapshots.store import store_snapshot
from openvibe.chat.models import Message
from openvibe.chat.services import create_reply, finish_reply
from tests.bench.corpus import BenchWorkspace


def store_prompt(agent: Agent, request: Message, prompt: Prompt) -> None:
    """What a run keeps of its prompt: the next one reads there what was recalled."""
    run = Run.objects.create(
        workspace_id=agent.workspace_id,
        agent=agent,
        thread=request.thread,
        trigger=request,
        requested_by=request.author,
        task=prompt.task,
        state=Run.State.DONE,
    )
    store_snapshot(run, prompt)


def answer_request(world: BenchWorkspace, request: Message, text: str, *, at: datetime | None = None) -> None:
    """The agent's reply, said to the end; `at`: when, UTC."""
    with transaction.atomic():
        reply = create_reply(
            thread=request.thread, author=world.vibe.participant, client_id=f"answer-{request.seq}", at=at
        )
        finish_reply(reply=reply, body=text, state=Message.State.COMPLETE)
