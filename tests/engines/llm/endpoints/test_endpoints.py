from __future__ import annotations

import re
from threading import Event
from typing import Any
from urllib.parse import parse_qsl

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from pytest_django.fixtures import Settings

from agents.connect.endpoint_forms import EndpointForm
from agents.connect.presets import PRESETS
from openvibe.engines.llm.endpoints import endpoints
from openvibe.engines.llm.endpoints.endpoints import CLIENT_FACTORIES, client_for, fetch_models, try_endpoint
from openvibe.engines.llm.errors import ModelTimeout, ModelUnavailable
from openvibe.engines.llm.models import MAX_TIMEOUT_SECONDS, Endpoint
from openvibe.engines.llm.offline.offline import OPENING
from openvibe.workspaces.models import Member
from tests.engines.llm.conformance import PROMPT
from tests.engines.llm.model_server import Answer, serving

KEY = "sk-canary-0123456789"


def endpoint(ana: Member, **values: Any) -> Endpoint:
    defaults = {"name": "Garden", "base_url": "https://93.184.216.34/v1", "model": "gpt-4o-mini", "api_key": KEY}
    return Endpoint(workspace=ana.workspace, **(defaults | values))


def problems(row: Endpoint) -> dict[str, list[str]]:
    """What saving it in a form would say, by field."""
    try:
        row.full_clean()
    except ValidationError as error:
        return error.message_dict
    return {}


def test_a_good_endpoint_can_be_saved_and_shows_only_the_end_of_its_key(ana: Member) -> None:
    row = endpoint(ana)
    row.full_clean()
    row.save()
    assert row.key_hint == "…6789"
    assert endpoint(ana, api_key="").key_hint == ""
    assert endpoint(ana, api_key="short").key_hint == "…"
    assert "canary" not in repr(row)


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"base_url": ""}, "base_url"),
        ({"model": ""}, "model"),
        ({"base_url": "http://127.0.0.1:11434/v1"}, "base_url"),
        ({"base_url": "http://2130706433/"}, "base_url"),
        ({"base_url": "ftp://93.184.216.34/"}, "base_url"),
        ({"base_url": "https://ana:secret@93.184.216.34/"}, "base_url"),
        ({"api_key": "two\nlines"}, "api_key"),
        ({"api_key": "schlüssel"}, "api_key"),
        ({"context_window": 1_000, "output_reserve": 100}, "context_window"),
        ({"context_window": 4_000, "output_reserve": 4_000}, "output_reserve"),
        ({"timeout_seconds": 0}, "timeout_seconds"),
        ({"price_in": "-1"}, "price_in"),
        ({"kind": "oracle"}, "kind"),
    ],
)
def test_what_cannot_work_is_refused_at_its_field(ana: Member, values: dict[str, Any], field: str) -> None:
    assert list(problems(endpoint(ana, **values))) == [field]


def test_the_operator_can_allow_private_addresses(ana: Member, settings: Settings) -> None:
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    assert not problems(endpoint(ana, base_url="http://127.0.0.1:11434/v1"))


def test_an_offline_endpoint_needs_neither_address_nor_model(ana: Member) -> None:
    assert not problems(endpoint(ana, kind="offline", base_url="", model="", api_key=""))


def test_a_workspace_has_one_default_and_each_name_once(ana: Member, cleo: Member) -> None:
    endpoint(ana, is_default=True).save()
    endpoint(cleo, is_default=True).save()
    for values in ({"name": "Other", "is_default": True}, {"is_default": False}):
        with pytest.raises(IntegrityError), transaction.atomic():
            endpoint(ana, **values).save()


def test_the_database_refuses_an_endpoint_without_address(ana: Member) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        endpoint(ana, base_url="").save()


def test_every_kind_has_a_client_and_no_endpoint_means_offline(ana: Member) -> None:
    assert set(CLIENT_FACTORIES) == set(Endpoint.Kind.values)
    assert client_for(None).model == "offline"
    assert client_for(endpoint(ana, kind="offline")).complete(PROMPT).text.startswith(OPENING)
    assert client_for(endpoint(ana)).model == "gpt-4o-mini"


def test_trying_an_endpoint_tells_what_it_said(ana: Member, settings: Settings) -> None:
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    with serving(Answer("Hello there!"), Answer(status=401)) as server:
        row = endpoint(ana, base_url=server.base_url)
        row.save()
        good, trial = try_endpoint(endpoint=row), try_endpoint(endpoint=row)
    assert (good.ok, good.message, good.model) == (True, "Hello there!", "gpt-4o-mini")
    assert good.seconds > 0
    assert re.fullmatch(
        r"gpt-4o-mini answered: \d+\.\d s, \d+ tokens read \(0 from its cache\), 2 answered\.", good.summary
    )
    assert not trial.ok
    assert "enter another key" in trial.message
    assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"


def test_a_test_waits_no_longer_than_whoever_pressed_it(
    ana: Member, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    assert endpoints.TRY_SECONDS_LIMIT <= 45
    monkeypatch.setattr(endpoints, "TRY_SECONDS_LIMIT", 0.2)
    never = Event()
    with serving(Answer("Hello there!", hold=never)) as server:
        row = endpoint(ana, base_url=server.base_url, timeout_seconds=3_600)
        row.save()
        trial = try_endpoint(endpoint=row)
        never.set()
    assert "in time" in trial.message
    assert (trial.ok, row.timeout_seconds) == (False, 3_600)


@pytest.mark.parametrize(
    ("operator", "words"),
    [
        ({}, "nothing came for|it had 1 second, the limit of this endpoint"),
        ({"MODEL_TOTAL_SECONDS": 0.2}, "it had 0.2 seconds, which is what OPENVIBE_MODEL_TOTAL_SECONDS allows"),
        (
            {"MODEL_FIRST_ANSWER_SECONDS": 0.2},
            "nothing came for 0.2 seconds, which is what OPENVIBE_MODEL_FIRST_ANSWER_",
        ),
    ],
)
def test_one_limit_counts_and_is_named(ana: Member, settings: Settings, operator: dict[str, Any], words: str) -> None:
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    assert settings.MODEL_FIRST_ANSWER_SECONDS == settings.MODEL_TOTAL_SECONDS == MAX_TIMEOUT_SECONDS
    for name, value in operator.items():
        setattr(settings, name, value)
    never = Event()
    with serving(Answer("Hello there!", hold=never)) as server:
        row = endpoint(ana, base_url=server.base_url, timeout_seconds=1)
        row.save()
        with pytest.raises(ModelTimeout, match=words):
            list(client_for(row).stream(PROMPT))
        never.set()


def test_a_limit_above_the_operators_is_refused_where_it_is_entered(ana: Member, settings: Settings) -> None:
    settings.MODEL_TOTAL_SECONDS, settings.MODEL_FIRST_ANSWER_SECONDS = 300, 90
    settings.ALLOWED_ENDPOINT_HOSTS = ["gpu-box"]
    fields = EndpointForm.Meta.fields
    row = endpoint(ana, base_url="http://gpu-box:8080/v1", timeout_seconds=600)
    row.save()
    stored = {name: value for name in fields if (value := getattr(row, name, "")) not in (None, False, "")}
    form = EndpointForm(stored | {"timeout_seconds": 301}, instance=row)
    assert "at most 300 seconds (OPENVIBE_MODEL_TOTAL_SECONDS)" in form.errors["timeout_seconds"][0]
    text = str(form["timeout_seconds"].help_text)
    assert "At most 300 (OPENVIBE_MODEL_TOTAL_SECONDS)" in text
    assert "90 seconds (OPENVIBE_MODEL_FIRST_ANSWER_SECONDS)" in text
    row.refresh_from_db()
    assert EndpointForm(stored | {"name": "Another"}, instance=row).is_valid(), "what was stored before may stay"


def test_models_are_fetched_for_an_endpoint_that_is_not_saved_yet(ana: Member, settings: Settings) -> None:
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    with serving(Answer("small large small")) as server:
        for kind in ("openai", "anthropic"):
            assert fetch_models(endpoint=endpoint(ana, kind=kind, base_url=server.base_url)).models == [
                "large",
                "small",
            ]
    with serving(Answer(body=b"<html>"), Answer(status=404)) as server:
        for words in ("web page", "no such address"):
            result = fetch_models(endpoint=endpoint(ana, base_url=server.base_url))
            assert result.models == []
            assert words in result.message
            assert "can be typed" in result.message
    assert "no list" in fetch_models(endpoint=endpoint(ana, kind="offline")).message
    settings.ALLOW_PRIVATE_ENDPOINTS = False
    assert "own network" in fetch_models(endpoint=endpoint(ana, base_url=server.base_url)).message


def test_a_preset_fills_what_an_endpoint_needs_but_key_and_model(ana: Member, settings: Settings) -> None:
    settings.ALLOWED_ENDPOINT_HOSTS = ["localhost"]
    for preset in PRESETS:
        values = dict(parse_qsl(preset.query))
        assert set(problems(endpoint(ana, model="", **values))) == {"model"}


def test_an_endpoint_that_slipped_in_is_still_not_called(ana: Member) -> None:
    with serving(Answer("Hello there!")) as server:
        row = endpoint(ana, base_url=server.base_url)
        row.save()
        trial = try_endpoint(endpoint=row)
    assert not trial.ok
    assert "own network" in trial.message
    assert server.asked == []


def test_a_failing_endpoint_rests_until_it_is_changed(ana: Member, settings: Settings) -> None:
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    with serving(Answer(status=401)) as server:
        row = endpoint(ana, base_url=server.base_url)
        row.save()
        for _ in range(7):
            tried = _say(row)
        assert len(server.asked) == 5
        assert "tried again in" in tried
        row.api_key = "sk-another-0123456789"
        row.save()
        _say(row)
        assert len(server.asked) == 6


def _say(row: Endpoint) -> str:
    try:
        return client_for(row).complete(PROMPT).text
    except ModelUnavailable as error:
        return str(error)
    except Exception as error:
        return repr(error)
