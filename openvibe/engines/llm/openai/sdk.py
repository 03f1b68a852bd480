"""The official `openai` package, tamed: a client over a guarded connection, its errors as ModelErrors without a key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import openai

from openvibe.engines.llm.endpoint_errors.cold_starts import loading_error
from openvibe.engines.llm.endpoint_errors.endpoint_errors import (
    DECODE_ERRORS,
    connection_error,
    no_answer_error,
    read_error,
    read_response,
)
from openvibe.engines.llm.errors import BadAnswer, ModelError, ModelUnavailable
from openvibe.engines.llm.http_client import Connection, ResponseHead, open_http_client
from openvibe.engines.network.event_stream import EventStream

SDK_ERRORS = (openai.OpenAIError, *DECODE_ERRORS)


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
        return read_response(error.response).to_model_error(key)
    if failure := connection_error(error):
        return failure
    if isinstance(error, openai.APIConnectionError):
        return ModelUnavailable("The model endpoint cannot be reached, or it broke off its answer.")
    if isinstance(error, openai.APIError) and not isinstance(error, openai.APIResponseValidationError):
        return read_error(error.body).to_model_error(key)  # inside a stream
    default = BadAnswer("The endpoint answered with something that is not a chat completion.")
    return no_answer_error(head, key, default)
