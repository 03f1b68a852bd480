"""The official `openai` package, tamed: a client over a guarded connection, its errors as ModelErrors without a key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import openai

from openvibe.llm.endpoint_errors import DECODE_ERRORS, ErrorReport, connection_error, no_answer_error, read_error
from openvibe.llm.errors import BadAnswer, ModelError, ModelUnavailable
from openvibe.llm.event_stream import EventStream
from openvibe.llm.http_client import Connection, ResponseHead, open_http_client
from openvibe.llm.loading import loading_error

SDK_ERRORS = (openai.OpenAIError, *DECODE_ERRORS)
_OUTPUT_LIMIT_NAMES = ("max_tokens", "max_completion_tokens")


@contextmanager
def open_client(
    connection: Connection, *, read_timeout: float, total_seconds: float, events: EventStream | None = None
) -> Iterator[tuple[openai.OpenAI, ResponseHead]]:
    """A client for one call, which never retries, and the head of what it is answered, through `events` if given.

    What goes wrong leaves as one of SDK_ERRORS.
    """
    with open_http_client(connection, read_timeout=read_timeout, total_seconds=total_seconds, events=events) as (
        http,
        head,
    ):
        sdk = openai.OpenAI(
            base_url=connection.base_url,
            api_key=connection.api_key or "none",
            max_retries=0,
            timeout=http.timeout,
            http_client=http,
        )
        sdk.organization = sdk.project = None  # the package takes them from the environment
        yield sdk, head


def to_model_error(error: Exception, *, key: str, head: ResponseHead) -> ModelError:
    """The ModelError for anything that can go wrong in a call."""
    if isinstance(error, openai.APIStatusError):
        if loading := loading_error(error.status_code, head.text):
            return loading
        return _report(error, error.status_code, error.response.headers.get("retry-after")).to_model_error(key)
    if failure := connection_error(error):
        return failure
    if isinstance(error, openai.APIConnectionError):
        return ModelUnavailable("The model endpoint cannot be reached, or it broke off its answer.")
    if isinstance(error, openai.APIError) and not isinstance(error, openai.APIResponseValidationError):
        return _report(error, 200, None).to_model_error(key)  # inside a stream
    default = BadAnswer("The endpoint answered with something that is not a chat completion.")
    return no_answer_error(head, key, default)


def other_output_limit_name(error: Exception) -> str | None:
    """The name the endpoint wants the output limit to be called by, where it complains of that."""
    if not isinstance(error, openai.BadRequestError) or error.param not in _OUTPUT_LIMIT_NAMES:
        return None
    other = _OUTPUT_LIMIT_NAMES[1 - _OUTPUT_LIMIT_NAMES.index(error.param)]
    return other if other in error.message else None


def refuses_stream_options(error: Exception) -> bool:
    """Whether the endpoint does not know how to say in a stream what was used."""
    is_refusal = isinstance(error, openai.BadRequestError | openai.UnprocessableEntityError)
    return is_refusal and "stream_options" in str(error)


def _report(error: openai.APIError, status: int, retry_after: str | None) -> ErrorReport:
    """What the endpoint itself said: of an answer that is no JSON only what it said inside of a stream."""
    if isinstance(error.body, str) and status != 200:
        try:
            body = json.loads(error.response.text) if isinstance(error, openai.APIStatusError) else None
        except ValueError:
            body = None
        report = read_error(body, status) if isinstance(body, dict) else ErrorReport(status)
        return replace(report, retry_after=retry_after)
    return replace(read_error(error.body, status), retry_after=retry_after)
