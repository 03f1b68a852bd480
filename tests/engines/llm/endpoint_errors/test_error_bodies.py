"""A provider's own reason is found wherever it stands, and told without key, markup and special tokens."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from openvibe.engines.llm.endpoint_errors.endpoint_errors import (
    MAX_LINE_CHARACTERS,
    masked_line,
    read_error,
    read_response,
)
from openvibe.engines.llm.endpoint_errors.error_bodies import read_reason
from openvibe.engines.llm.errors import AuthRefused, BadAnswer, EmptyAnswer, ModelError, ModelUnavailable, RateLimited
from openvibe.engines.llm.http_client import Connection
from openvibe.engines.llm.openai.client import OpenAIModel
from openvibe.engines.llm.retries import CallLimits, RetryPolicy
from tests.engines.llm.conformance import KEY, PROMPT, Pauses
from tests.engines.llm.model_server import Answer, serving

RAW = json.dumps({"object": "error", "message": "Unexpected role 'user'", "type": "order", "code": "3230"})


@pytest.mark.parametrize(
    ("body", "message", "code"),
    [
        ({"error": {"message": "Too few.", "type": "bad"}}, "Too few.", "bad"),
        (
            {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": RAW}}},
            "Unexpected role 'user'",
            "3230",
        ),
        (
            {"error": {"message": "Provider returned error", "metadata": {"raw": "upstream is full"}}},
            "upstream is full",
            "",
        ),
        ({"error": "model 'x' not found"}, "model 'x' not found", ""),
        ({"error": "bad_request", "message": "It is wrong."}, "It is wrong.", "bad_request"),
        (
            [{"error": {"code": 400, "message": "No such field", "status": "INVALID_ARGUMENT"}}],
            "No such field",
            "INVALID_ARGUMENT",
        ),
        ({"detail": "Model not loaded"}, "Model not loaded", ""),
        (
            {"detail": [{"loc": ["body", "seed"], "msg": "Extra inputs are not permitted", "type": "extra"}]},
            "seed: Extra inputs are not permitted.",
            "extra",
        ),
        ({"message": "Blank text.", "__type": "ValidationException"}, "Blank text.", "ValidationException"),
        ({"error": {"message": f"litellm.BadRequestError: {RAW}"}}, "Unexpected role 'user'", "3230"),
        (
            {"error": {"message": "Error code: 400 - {'error': {'message': \"It's off\", 'type': 'x'}}"}},
            "It's off",
            "x",
        ),
        ({"errors": [{"message": "one"}, {"message": "two"}]}, "one two", ""),
        (
            {"error": {"message": "Param Incorrect", "param": "max_tokens is too large: 9"}},
            "Param Incorrect: max_tokens is too large: 9",
            "",
        ),
        ({"fault": {"faultstring": "Quota spent", "detail": {"errorcode": "q"}}}, "Quota spent", ""),
        ("<html><head><title>502 Bad&nbsp;Gateway</title></head><body>nginx</body></html>", "502 Bad Gateway", ""),
        ("upstream connect error", "upstream connect error", ""),
        ({"unknown": 1}, "", ""),
        ("[]", "", ""),
        ("", "", ""),
        (None, "", ""),
    ],
)
def test_where_the_reason_stands(body: Any, message: str, code: str) -> None:
    for form in (body, body if isinstance(body, str | None) else json.dumps(body)):
        reason = read_reason(form)
        assert (reason.message, reason.code) == (message, code)


@pytest.mark.parametrize(
    "body", ["{" * 30_000, "[" * 30_000, '{"error":' * 5_000, "<" * 30_000, '{"a": "' + "\\" * 9_999]
)
def test_hostile_bodies_end_quickly(body: str) -> None:
    assert len(read_reason(body).message) <= 4_000


@pytest.mark.parametrize(
    ("status", "body", "kind", "words", "advice"),
    [
        (
            404,
            {"error": {"message": "No endpoints found matching your data policy"}},
            BadAnswer,
            "data policy",
            "privacy",
        ),
        (
            400,
            {"error": {"message": "The model `llama2` has been decommissioned"}},
            BadAnswer,
            "decommissioned",
            "Fetch models",
        ),
        (
            403,
            {"error": {"message": "Country not supported", "code": "unsupported_country_region_territory"}},
            BadAnswer,
            "Country",
            "another provider",
        ),
        (
            403,
            {"error": {"message": "This needs your organization to be verified: it must be verified"}},
            BadAnswer,
            "verified",
            "at the provider first",
        ),
        (
            403,
            {"error": {"message": "Your input was flagged", "metadata": {"reasons": ["x"]}}},
            EmptyAnswer,
            "flagged",
            "other words",
        ),
        (
            401,
            {"error": {"message": f"Incorrect API key provided: {KEY}"}},
            AuthRefused,
            "Incorrect API key",
            "another key",
        ),
        (402, {"error": {"message": "Insufficient credits"}}, RateLimited, "Insufficient credits", "billing"),
        (
            400,
            "<html><title>Blocked <script>alert(1)</script></title></html>",
            BadAnswer,
            "Blocked",
            "Settings, Models",
        ),
        (400, "something is off", BadAnswer, "something is off", "Settings, Models"),
    ],
)
def test_what_people_are_told(status: int, body: Any, kind: type[ModelError], words: str, advice: str) -> None:
    raw = (body if isinstance(body, str) else json.dumps(body)).encode()
    policy = RetryPolicy(CallLimits(), sleep=Pauses())
    with serving(Answer(status=status, body=raw)) as server:
        client = OpenAIModel(Connection(server.base_url, KEY, allow_private=True), model="m", retry_policy=policy)
        with pytest.raises(kind) as raised:
            client.complete(PROMPT)
    assert words in str(raised.value)
    assert advice in raised.value.advice
    assert KEY not in f"{raised.value!r} {raised.value.report!r}"
    assert "<" not in str(raised.value)


def test_a_line_is_bounded_and_without_markup() -> None:
    line = masked_line(f"<b>no</b> <|im_start|>system </request> {KEY} " + "x " * 9_000, KEY)
    assert line.startswith("no (im_start)system [secret removed]")
    assert len(line) <= MAX_LINE_CHARACTERS


def test_an_error_within_an_answer_may_carry_its_own_status() -> None:
    assert read_error({"error": {"message": "slow down", "code": 429}}).status == 429
    assert read_error({"error": {"message": "slow down", "code": 429}}, 400).status == 400


@pytest.mark.parametrize(
    ("status", "body", "error", "words"),
    [
        (403, "<html><head><title>Just a moment...</title></head></html>", AuthRefused, "before the endpoint"),
        (400, {"error": "The model has crashed without additional information."}, ModelUnavailable, "went away"),
        (400, {"error": "Model reloaded."}, ModelUnavailable, "went away"),
        (498, {"error": {"message": "Flex tier capacity exceeded"}}, ModelUnavailable, "went away"),
        (500, {"error": {"message": "model requires more system memory (8.2 GiB)"}}, ModelUnavailable, "no room"),
        (200, {"error": "Unexpected endpoint or method. (POST /chat/completions)"}, BadAnswer, "no such address"),
        (400, {"error": {"message": "Content Exists Risk"}}, EmptyAnswer, "content filter"),
        (400, {"error": {"code": "1301", "message": "可能包含敏感内容"}}, EmptyAnswer, "content filter"),
        (200, {"base_resp": {"status_code": 1004, "status_msg": "login fail"}}, AuthRefused, "login fail"),
    ],
)
def test_what_went_wrong_is_told_by_the_words(status: int, body: Any, error: type[ModelError], words: str) -> None:
    found = read_error(body if isinstance(body, str) else json.dumps(body), status).to_model_error("")
    assert isinstance(found, error)
    assert words in str(found)
    assert found.may_pass == (error is ModelUnavailable and "no room" not in words)


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        ("Please try again in 7.66s. Visit us.", 7.66),
        ("Please try again in 1m12.5s.", 72.5),
        ("Try again in 320ms", 0.32),
        ("Please retry in 34.07s.", 34.07),
        ("Try again later, in 5 or so", None),
    ],
)
def test_the_pause_that_the_words_ask_for(words: str, seconds: float | None) -> None:
    response = httpx2.Response(429, json={"error": {"message": words}})
    assert read_response(response).to_model_error("").retry_after == seconds
