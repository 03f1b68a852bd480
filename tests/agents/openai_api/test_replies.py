"""An answer as it grows: what of it a client that streams is sent, what one that waits for all of it, and how both
learn that it goes on."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
from openai.types.chat import ChatCompletionChunk
from pytest_django.fixtures import Settings

from agents.models import Agent, Run, RunStep
from agents.openai_api.formats import ChatFormat, Outcome, Piece, ResponseFormat, Thought
from agents.openai_api.replies import PendingAnswer, ReplyFrames, run_outcome
from agents.runs.thoughts import STEP_CHANGED
from openvibe.chat.live.batch import EventBatch, LiveEvent
from openvibe.chat.live.viewers import Viewer
from openvibe.chat.models import Message, Thread
from openvibe.chat.services import create_reply, post_message
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member
from tests.factories import access, say

Line = dict[str, Any]


def ended(text: str, **more: Any) -> Line:
    return {"outcome": vars(Outcome(1, text, **more))}


def pending_answer(lines: Sequence[Line], monkeypatch: pytest.MonkeyPatch) -> PendingAnswer:
    """An answer of a run whose event stream has these lines."""

    async def read(self: PendingAnswer) -> AsyncGenerator[Line, None]:
        for line in lines:
            yield line

    monkeypatch.setattr(PendingAnswer, "_lines", read)
    return PendingAnswer(1, 1, 1, Viewer(1, 1), Access(workspace_id=1, participant_id=1), 0)


def all_pieces(pending: PendingAnswer, *, is_whole: bool = False) -> list[Piece]:
    async def read() -> list[Piece]:
        return [piece async for piece in pending.pieces(is_whole=is_whole)]

    return asyncio.run(read())


FENCED = [{"text": '```json\n{"name"'}, {"text": '```json\n{"name": 1}\n```'}, ended('{"name": 1}')]


def test_links_to_places_of_ours_are_whole_addresses_as_the_answer_grows_and_when_it_is_over(
    ana: Member, vibe: Agent, thread: Thread, settings: Settings
) -> None:
    settings.PUBLIC_URL = "https://vibe.example"
    body = "See [it](/w/willow/t/12/), then [Connect a model](/connect-model/)."
    told = body.replace("](/", "](https://vibe.example/")
    run = Run.objects.get(trigger=say(thread, ana, "@vibe where?"))
    reply = create_reply(thread=thread, author=vibe.participant, client_id=f"run:{run.pk}")
    frames, viewer = ReplyFrames(run.pk, thread.pk, run.trigger_id), Viewer(ana.workspace_id, ana.participant_id)
    where = (thread.channel_id, thread.pk, reply.pk)
    event = LiveEvent(1, "message_changed", *where, None, None, None, None, True, False)

    def shown(body: str) -> str:
        Message.objects.filter(pk=reply.pk).update(body=body)
        return str(
            json.loads(
                frames.frame(event, viewer, EventBatch(ana.workspace_id, 1, [event], wanted_ids=frozenset({reply.pk})))
            )["text"]
        )

    lengths = [body.index("w/willow"), body.index("12/)") + 3, body.index("), then") + 1, len(body) - 3, len(body)]
    assert [shown(body[:length]) for length in lengths] == [
        "See [it](",
        "See [it](",
        "See [it](https://vibe.example/w/willow/t/12/)",
        "See [it](https://vibe.example/w/willow/t/12/), then [Connect a model](",
        told,
    ]
    Run.objects.filter(pk=run.pk).update(state=Run.State.DONE, reply=reply)
    outcome = run_outcome(run.pk)
    assert outcome is not None
    assert outcome.text == told


def test_who_waits_for_all_of_an_answer_hears_nothing_of_what_it_was_before(monkeypatch: pytest.MonkeyPatch) -> None:
    pending = pending_answer(FENCED, monkeypatch)
    assert asyncio.run(pending.outcome()).text == '{"name": 1}'
    *words, outcome = all_pieces(pending, is_whole=True)
    assert (words, isinstance(outcome, Outcome)) == (['{"name": 1}'], True)


def test_who_was_told_words_that_do_not_stand_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    *_, outcome = all_pieces(pending_answer(FENCED, monkeypatch))
    assert isinstance(outcome, Outcome)
    assert outcome.code == "answer_restarted"


def test_thoughts_come_before_the_words_and_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        {},
        {"thoughts": "Roses"},
        {"thoughts": "Roses are"},
        {"text": "In"},
        ended("In May", thoughts="Roses are."),
    ]
    pieces = all_pieces(pending_answer(lines, monkeypatch))
    assert pieces[:-1] == [Thought(), Thought("Roses"), Thought(" are"), "In", Thought("."), " May"]


async def frames_of(answer_format: ChatFormat | ResponseFormat, pieces: Sequence[Piece]) -> list[bytes]:
    async def give() -> AsyncGenerator[Piece, None]:
        for piece in pieces:
            yield piece

    return [frame async for frame in answer_format.events(give())]


def test_a_chat_client_is_sent_thoughts_beside_the_answer() -> None:
    outcome = Outcome(1, "May", thoughts="Roses", output_tokens=9, reasoning_tokens=4)
    chat = ChatFormat(1, "@vibe", with_usage=True)
    frames = asyncio.run(frames_of(chat, [Thought(), Thought("Roses"), "May", outcome]))
    assert frames[1].startswith(b": ")
    chunks = [ChatCompletionChunk.model_validate_json(frame[6:]) for frame in (*frames[2:4], frames[-2])]
    assert (chunks[0].choices[0].delta.model_extra, chunks[1].choices[0].delta.content) == (
        {"reasoning_content": "Roses"},
        "May",
    )
    usage = chunks[2].usage
    assert usage is not None
    assert usage.completion_tokens_details is not None
    assert usage.completion_tokens_details.reasoning_tokens == 4
    message = chat.whole(outcome)["choices"][0]["message"]
    assert (message["content"], message["reasoning_content"]) == ("May", "Roses")
    assert "reasoning_content" not in chat.whole(Outcome(1, "May"))["choices"][0]["message"]


def test_a_response_goes_on_while_its_model_thinks() -> None:
    frames = asyncio.run(
        frames_of(ResponseFormat(1, "@vibe", [], ""), [Thought("Roses"), "May", Outcome(1, "May", reasoning_tokens=4)])
    )
    assert frames[2].startswith(b": ")
    assert b'"reasoning_tokens": 4' in frames[-1]


@pytest.mark.django_db
def test_thoughts_are_read_when_the_run_tells_of_a_step(ana: Member, vibe: Agent, thread: Thread) -> None:
    post_message(thread=thread, by=access(ana), body="@vibe when do I prune?")
    run = Run.objects.get(agent=vibe)
    RunStep.objects.create(run=run, key="thought:1:0", attempt=1, kind=RunStep.Kind.THOUGHT, text="Roses are", tokens=2)
    event = LiveEvent(
        1, STEP_CHANGED, thread.channel_id, thread.pk, run.trigger_id, None, None, None, None, True, False
    )
    frames = ReplyFrames(run.pk, thread.pk, run.trigger_id)
    viewer = Viewer(ana.workspace_id, ana.participant_id)
    assert frames.frame(event, viewer, EventBatch(ana.workspace_id, 1, [event])) == b'{"thoughts": "Roses are"}\n'
    Run.objects.filter(pk=run.pk).update(state=Run.State.STOPPED)
    outcome = run_outcome(run.pk)
    assert outcome is not None
    assert (outcome.thoughts, outcome.reasoning_tokens) == ("Roses are", 2)
