"""Other endpoints write summaries where one cannot; what a circuit breaker left alone goes on at once after *Resume* or
a *Test*."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django.fixtures import DjangoCaptureOnCommitCallbacks, Settings

from agents.models import Agent
from memory.plugins.compaction import execute_compaction, find_pause, request_compaction
from memory.plugins.lcm.models import EndpointFailures, Summary
from memory.plugins.lcm.pause import MAX_FAILURES, summary_endpoints
from memory.plugins.lcm.provider import LcmProvider
from memory.plugins.models import Compaction
from openvibe.chat.models import Thread
from openvibe.engines.llm.endpoints.endpoints import CIRCUIT_BREAKER, try_endpoint
from openvibe.engines.llm.models import Endpoint
from openvibe.workspaces.models import Member
from tests.engines.llm.factories import EndpointFactory
from tests.memory.plugins.lcm.compactions import TEXT
from tests.memory.plugins.lcm.factories import pause_endpoint, session_of, told
from tests.memory.task_queue import Sent, take_sent

DOWN = {"kind": "openai", "base_url": "http://127.0.0.1:9/v1", "model": "m"}


@pytest.fixture
def long(thread: Thread, ana: Member, vibe: Agent, settings: Settings) -> Thread:
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    told(thread, ana.participant, *[f"{at}. {TEXT * 12}" for at in range(60)])
    return thread


def endpoint(ana: Member, name: str, **fields: object) -> Endpoint:
    created: Endpoint = EndpointFactory.create(workspace=ana.workspace, name=name, **{"kind": "offline"} | fields)
    return created


def put_to_rest(row: Endpoint) -> None:
    Endpoint.objects.filter(pk=row.pk).update(failures=5, rests_until=timezone.now() + timedelta(seconds=50))


def compacted(thread: Thread) -> Compaction:
    compaction = request_compaction(thread=thread, trigger=Compaction.Trigger.THRESHOLD)
    assert compaction is not None
    execute_compaction(compaction.pk)
    compaction.refresh_from_db()
    return compaction


def test_endpoints_are_asked_in_their_order_and_none_twice(ana: Member) -> None:
    endpoint(ana, "Fallback", is_fallback=True, **{**DOWN, "model": "f"})
    endpoint(ana, "Third", summary_rank=3, **{**DOWN, "model": "c"})
    endpoint(ana, "Second", summary_rank=2, **{**DOWN, "model": "b"})
    endpoint(ana, "Twin", is_default=True, **{**DOWN, "model": "b"})
    first = endpoint(ana, "First", is_for_summaries=True, **{**DOWN, "model": "a"})
    assert [one.name for one in summary_endpoints(ana.workspace.pk)] == ["First", "Second", "Third", "Fallback"]
    first.is_for_summaries = False
    first.save()
    assert [one.name for one in summary_endpoints(ana.workspace.pk)] == ["Twin", "Third", "Fallback"]


@pytest.mark.parametrize("role", [{"summary_rank": 2}, {"is_fallback": True}])
def test_another_endpoint_is_tried_before_a_failure_and_a_pause(
    long: Thread, ana: Member, role: dict[str, object]
) -> None:
    first = endpoint(ana, "First", is_default=True, **DOWN)
    endpoint(ana, "Other", **role)
    for _ in range(MAX_FAILURES + 1):
        compaction = compacted(long)
        assert compaction.state in ("done", "nothing")
        told(long, ana.participant, *[TEXT * 12] * 30)
    assert set(Summary.objects.values_list("model", flat=True)) == {"offline"}
    assert EndpointFailures.objects.get(endpoint=first).failures >= 1
    assert find_pause(long.workspace_id) is None


def test_a_breakers_refusal_is_no_failure_of_the_thread(long: Thread, ana: Member) -> None:
    first = endpoint(ana, "First", is_default=True, **DOWN)
    put_to_rest(first)
    compaction = request_compaction(thread=long, trigger=Compaction.Trigger.THRESHOLD)
    assert compaction is not None
    for _ in range(4):
        delay = execute_compaction(compaction.pk)
        assert delay is not None
        assert delay <= 61
        compaction.refresh_from_db()
        assert compaction.state == "queued"
    assert not EndpointFailures.objects.filter(failures__gt=0).exists()


def test_resume_closes_the_breaker_and_takes_up_what_waits_and_what_failed(
    long: Thread, ana: Member, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    first = endpoint(ana, "First", is_default=True)
    put_to_rest(first)
    waiting = request_compaction(thread=long, trigger=Compaction.Trigger.THRESHOLD)
    assert waiting is not None
    assert execute_compaction(waiting.pk)
    client = Client()
    client.force_login(ana.user)
    take_sent()
    with django_capture_on_commit_callbacks(execute=True):
        answer = client.post(f"/w/{ana.workspace.slug}/t/{long.pk}/memory/resume/", headers={"HX-Request": "true"})
    assert "Compaction goes on." in answer.content.decode()
    first.refresh_from_db()
    assert (first.failures, first.rests_until) == (0, None)
    waiting.refresh_from_db()
    assert waiting.sent_at <= timezone.now()
    assert Sent("memory.compact", (waiting.pk,), later=False) in take_sent(), "at once, not when it was due"
    execute_compaction(waiting.pk)
    waiting.refresh_from_db()
    assert waiting.state == "done"


def test_resume_lifts_pause_and_breaker_of_every_endpoint(long: Thread, ana: Member) -> None:
    both = [endpoint(ana, "First", is_default=True), endpoint(ana, "Second", summary_rank=2, **DOWN)]
    for row in both:
        put_to_rest(row)
        pause_endpoint(row)
    assert find_pause(long.workspace_id) is not None
    assert LcmProvider().resume_compaction(long.workspace_id, None)
    assert find_pause(long.workspace_id) is None
    assert not Endpoint.objects.exclude(failures=0, rests_until=None).exists()
    assert not LcmProvider().resume_compaction(long.workspace_id, None), "nothing is left to resume"


def test_it_pauses_only_where_no_endpoint_is_left_and_the_thread_says_so(
    long: Thread, ana: Member, vibe: Agent
) -> None:
    first = endpoint(ana, "First", is_default=True, **DOWN)
    session = session_of(long, vibe.participant)
    pause_endpoint(first)
    assert find_pause(long.workspace_id) is not None
    assert "paused" in LcmProvider().stats(session).note
    endpoint(ana, "Second", summary_rank=2)
    assert find_pause(long.workspace_id) is None
    assert "paused" not in LcmProvider().stats(session).note
    assert compacted(long).state == "done"


def test_a_test_that_succeeds_closes_the_breaker_and_takes_up_what_waits(
    long: Thread, ana: Member, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    first = endpoint(ana, "First", is_default=True)
    put_to_rest(first)
    waiting = request_compaction(thread=long, trigger=Compaction.Trigger.THRESHOLD)
    assert waiting is not None
    assert execute_compaction(waiting.pk)
    stale_row = Endpoint.objects.get(pk=first.pk)
    take_sent()
    with django_capture_on_commit_callbacks(execute=True):
        assert try_endpoint(endpoint=stale_row).ok
    first.refresh_from_db()
    assert first.rests_until is None
    with CIRCUIT_BREAKER.guard(first):
        pass
    assert Sent("memory.compact", (waiting.pk,), later=False) in take_sent()


def test_the_form_keeps_each_place_for_one_model(ana: Member) -> None:
    endpoint(ana, "Second", summary_rank=2)
    other = endpoint(ana, "Other")
    client = Client()
    client.force_login(ana.user)
    address = f"/w/{ana.workspace.slug}/settings/models/{other.pk}/"
    fields = {
        "name": "Other",
        "kind": "offline",
        "context_window": 32_000,
        "output_reserve": 2_000,
        "timeout_seconds": 60,
    }
    page = client.post(address, {**fields, "summary_rank": "2"}).content.decode()
    assert "Second stands in at this place already." in page
    page = client.post(address, {**fields, "summary_rank": "3", "is_for_summaries": "on"}).content.decode()
    assert "It writes the summaries already." in page
    assert client.post(address, {**fields, "summary_rank": "3"}).status_code == 302
    other.refresh_from_db()
    assert other.summary_rank == 3
