"""`/v1/models`, `/v1/chat/completions` and `/v1/responses`: look up, begin the turn, answer in the protocol's shape."""

import json
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from functools import partial
from typing import Any, cast

from django.db.models import Max
from django.http import HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response

from agents.agent.access import endpoint_for
from agents.agent.models import Agent, Run
from agents.openai_api.conversations import access_agent, asker_of, begin_turn, read_images
from agents.openai_api.formats import AnswerFormat, ChatFormat, Outcome, Piece, ResponseFormat, Thought, error_body
from agents.openai_api.options import IGNORED_HEADER, ignored_header, untaken_names
from agents.openai_api.replies import PendingAnswer, run_outcome
from agents.openai_api.requests import ClientRequest, parse_chat, parse_response, short_text
from openvibe.api.auth import BearerAuthentication, caller_of
from openvibe.api.parsers import BoundedJSONParser
from openvibe.api.problems import exception_handler
from openvibe.api.views import ApiView
from openvibe.base.models import Event
from openvibe.base.problems import Missing
from openvibe.chat.live.viewers import Viewer
from openvibe.chat.queries import participants_known_to
from openvibe.engines.llm.endpoints.adaptation_store import untaken_options
from openvibe.engines.serving.request_body import MAX_UPLOAD_BYTES
from openvibe.engines.serving.streams import DeferredAnswer, Send, deferred_response, stream_response
from openvibe.workspaces.decorators import request_access
from openvibe.workspaces.models import Participant

STATUS_OF_CODE = {"insufficient_quota": 429}


def openai_exception_handler(error: Exception, context: dict[str, Any]) -> Response:
    """What the API answers, in the shape that OpenAI's clients read."""
    response = exception_handler(error, context)
    problem = response.data
    status = STATUS_OF_CODE.get(problem["code"], response.status_code)
    code = {"bad_token": "invalid_api_key", "throttled": "rate_limit_exceeded"}.get(problem["code"], problem["code"])
    headers = {name: response[name] for name in ("Retry-After", "WWW-Authenticate") if name in response}
    return Response(error_body(problem["detail"], status, code, problem.get("field")), status=status, headers=headers)


class ClientJSONParser(BoundedJSONParser):
    """A parser with room for images, which clients send again with every turn."""

    max_bytes = MAX_UPLOAD_BYTES


class ClientView(ApiView):
    schema = None
    parser_classes = (ClientJSONParser,)
    authentication_classes = (BearerAuthentication,)

    def get_exception_handler(self) -> Callable[[Exception, dict[str, Any]], Response]:
        return openai_exception_handler


def _model(agent: Agent) -> dict[str, Any]:
    created = int(agent.created_at.timestamp())
    return {"id": f"@{agent.handle}", "object": "model", "created": created, "owned_by": agent.workspace.slug}


class Models(ClientView):
    def get(self, request: Request) -> Response:
        """The agents the caller may ask."""
        access = request_access(request)
        participant_ids = participants_known_to(access).order_by().values("pk")
        agents = Agent.objects.filter(
            workspace=access.workspace_id, participant__in=participant_ids, deactivated_at=None
        )
        if access.is_agent:
            agents = agents.filter(participant=access.participant_id)
        rows = agents.filter(answers_itself=False).select_related("participant", "workspace").order_by("pk")
        return Response({"object": "list", "data": [_model(agent) for agent in rows]})


class OneModel(ClientView):
    def get(self, request: Request, model: str) -> Response:
        """One of them."""
        return Response(_model(access_agent(request_access(request), model.removeprefix("@").lower())))


class ChatCompletions(ClientView):
    field_names = {"body": "messages"}

    def post(self, request: Request) -> HttpResponseBase:
        """An answer in a shape of chat completions."""
        client_request = parse_chat(request.data)
        return _answer(
            request,
            client_request,
            lambda run: ChatFormat(run.pk, f"@{run.agent.handle}", with_usage=client_request.with_usage),
        )


class Responses(ClientView):
    field_names = {"body": "input", "messages": "input"}

    def post(self, request: Request) -> HttpResponseBase:
        """An answer in a shape of responses."""
        client_request = parse_response(request.data)
        tools, previous = list(client_request.tools), client_request.continues
        return _answer(
            request, client_request, lambda run: ResponseFormat(run.pk, f"@{run.agent.handle}", tools, previous)
        )


def _answer(
    request: Request, client_request: ClientRequest, make_format: Callable[[Run], AnswerFormat]
) -> HttpResponseBase:
    """Begins the turn, and answers once its run does, without a thread that waits."""
    access, caller = request_access(request), caller_of(request)
    asker = asker_of(cast(Participant, caller.participant), access, client_request.user)
    agent = access_agent(access, client_request.handle)
    if request.headers.get("X-Stainless-Retry-Count", "0") not in ("", "0"):
        client_request = replace(client_request, is_resent=True)
    after = Event.objects.filter(workspace_id=access.workspace_id).aggregate(last=Max("position"))["last"] or 0
    images = read_images(client_request)  # decoded before any transaction
    run = begin_turn(asker, agent, _with_headers(client_request, request), images)
    ignored = ignored_header((*client_request.ignored, *_untaken(agent, client_request, request)))
    viewer = Viewer(access.workspace_id, access.participant_id, token_id=caller.token.pk if caller.token else None)
    pending = PendingAnswer(run.pk, run.thread_id, run.trigger_id, viewer, asker.speaker, after)
    outcome, answer_format = run_outcome(run.pk), make_format(run)
    if client_request.stream:
        is_whole = "response_format" in client_request.options
        send = partial(_send_events, pending, outcome, answer_format, is_whole=is_whole)
        response = stream_response(request._request, send)
    else:
        response = deferred_response(request._request, partial(_deferred_answer, pending, outcome, answer_format))
    if ignored:
        response.headers[IGNORED_HEADER] = ignored
    return response


def _untaken(agent: Agent, client_request: ClientRequest, request: Request) -> list[str]:
    """Names of fields that the agent's endpoint is known not to take."""
    if not client_request.options:
        return []
    untaken = untaken_options(endpoint_for(agent))
    return untaken_names(request.data, untaken & set(client_request.options))


def _with_headers(client_request: ClientRequest, request: Request) -> ClientRequest:
    """A conversation and a channel may be named by headers, too."""
    conversation, channel = (
        short_text(request.headers.get(name, ""), name) for name in ("X-OpenVibe-Conversation", "X-OpenVibe-Channel")
    )
    return replace(
        client_request,
        conversation=conversation or client_request.conversation,
        channel=channel or client_request.channel,
    )


async def _pieces(
    pending: PendingAnswer, early_outcome: Outcome | None, *, is_whole: bool = False
) -> AsyncGenerator[Piece, None]:
    """The pieces of an answer; those of a run that was over before anybody listened, all at once. `is_whole`: the
    answer of any, for it may be asked anew."""
    if early_outcome is None:
        async for piece in pending.pieces(is_whole=is_whole):
            yield piece
        return
    if early_outcome.thoughts:
        yield Thought(early_outcome.thoughts)
    if early_outcome.text and not early_outcome.error:
        yield early_outcome.text
    yield early_outcome


async def _send_events(
    pending: PendingAnswer, outcome: Outcome | None, answer_format: AnswerFormat, send: Send, *, is_whole: bool
) -> None:
    async for frame in answer_format.events(_pieces(pending, outcome, is_whole=is_whole)):
        await send({"type": "http.response.body", "body": frame, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _deferred_answer(
    pending: PendingAnswer, early_outcome: Outcome | None, answer_format: AnswerFormat
) -> DeferredAnswer:
    outcome = early_outcome or await pending.outcome()
    if outcome.error:
        return DeferredAnswer(
            outcome.status, json.dumps(error_body(outcome.error, outcome.status, outcome.code)).encode()
        )
    return DeferredAnswer(200, json.dumps(answer_format.whole(outcome), ensure_ascii=False).encode())


class NothingHere(ClientView):
    def check_parameters(self, request: Request) -> None:
        raise Missing("There is nothing at this address. Here are /v1/models, /v1/chat/completions and /v1/responses.")
