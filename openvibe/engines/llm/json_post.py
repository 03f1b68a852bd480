"""One request to an endpoint: JSON goes out, and whatever goes wrong leaves as a ModelError without a key.

Nothing is tried again here, no redirect is followed, and no words of the server pass but as `endpoint_errors` reads
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx2

from openvibe.engines.llm.endpoint_errors.cold_starts import loading_error
from openvibe.engines.llm.endpoint_errors.endpoint_errors import (
    DECODE_ERRORS,
    connection_error,
    no_answer_error,
    read_response,
)
from openvibe.engines.llm.errors import BadAnswer, EmptyAnswer
from openvibe.engines.llm.http_client import Connection, api_root, open_http_client
from openvibe.engines.network.http_client import ResponseHead


@contextmanager
def post_json(
    connection: Connection,
    path: str,
    body: Mapping[str, Any],
    *,
    read_timeout: float,
    total_seconds: float,
    is_anthropic: bool = False,
    no_answer: str = "The endpoint answered with something that is not a chat completion.",
) -> Iterator[httpx2.Response]:
    """The response, a success that is still to be read. What the reader trips over, and a BadAnswer that quotes no
    report, becomes what was sent in place of an answer, or else `no_answer`. Times as in `open_http_client`."""
    root, headers = api_root(connection, is_anthropic=is_anthropic)
    head, key = ResponseHead(), connection.api_key
    try:
        with (
            open_http_client(connection, read_timeout=read_timeout, total_seconds=total_seconds) as (http, head),
            http.stream("POST", f"{root}{path}", json=body, headers=headers) as response,
        ):
            if not response.is_success:
                response.read()
                loading = loading_error(response.status_code, head.text)
                raise loading or read_response(response).to_model_error(key)
            yield response
    except DECODE_ERRORS as error:
        raise connection_error(error) or no_answer_error(head, key, BadAnswer(no_answer)) from None
    except BadAnswer as error:
        if error.report or isinstance(error, EmptyAnswer):
            raise
        raise no_answer_error(head, key, error) from None
