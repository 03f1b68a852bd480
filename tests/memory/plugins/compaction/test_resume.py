"""The end of a pause: once a failing endpoint is well again nobody has to wait: a test that succeeds, or Resume, lifts
the pause."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agents.models import Agent
from memory.plugins.base import Session
from memory.plugins.compaction import execute_compaction, find_pause, request_compaction, resume_compaction
from memory.plugins.lcm.compaction import compact_conversation
from memory.plugins.lcm.models import EndpointFailures, Summary
from memory.plugins.lcm.provider import LcmProvider
from memory.plugins.models import Compaction
from openvibe.base.problems import Conflict, Problem, Refused
from openvibe.chat.models import Thread
from openvibe.engines.llm.endpoints.endpoints import endpoint_answered, try_endpoint
from openvibe.engines.llm.errors import ModelUnavailable
from openvibe.engines.llm.models import Endpoint
from openvibe.workspaces.models import Member
from tests.admin.conftest import as_superuser
from tests.engines.llm.factories import EndpointFactory
from tests.engines.llm.scripted_client import ScriptedModel
from tests.factories import access, make_member, make_thread, signed_in
from tests.memory.plugins.lcm.compactions import BUDGET, GOOD, TEXT
from tests.memory.plugins.lcm.factories import session_of, told


@pytest.fixture
def long(thread: Thread, ana: Member, vibe: Agent) -> Thread:
    told(thread, ana.participant, *[f"{at}. {TEXT * 12}" for at in range(60)])
    return thread


@pytest.fixture
def endpoint(ana: Member) -> Endpoint:
    return EndpointFactory.create(workspace=ana.workspace, name="Gist", kind="offline", is_default=True)


@pytest.fixture
def paused(long: Thread, endpoint: Endpoint) -> Compaction:
    """The endpoint failed five times; a compaction failed because of it."""
    EndpointFailures.objects.create(
        workspace=long.workspace,
        endpoint=endpoint,
        failures=5,
        paused_until=timezone.now() + timedelta(minutes=20),
        last_error="It is away.",
    )
    compaction = request_compaction(thread=long, trigger=Compaction.Trigger.THRESHOLD)
    assert compaction is not None
    assert execute_compaction(compaction.pk) is None
    compaction.refresh_from_db()
    assert (compaction.state, Summary.objects.count()) == ("failed", 0)
    assert "rests until" in compaction.error
    return compaction


def finish(thread: Thread) -> None:
    """What was requested anew is executed, and makes summaries."""
    again = Compaction.objects.get(thread=thread, state="queued")
    execute_compaction(again.pk)
    again.refresh_from_db()
    assert again.state == "done"
    assert Summary.objects.exists()


def test_a_test_of_the_endpoint_that_succeeds_lifts_the_pause_at_once(long: Thread, paused: Compaction) -> None:
    endpoint = Endpoint.objects.get()
    assert find_pause(long.workspace_id) is not None
    assert try_endpoint(endpoint=endpoint).ok
    assert find_pause(long.workspace_id) is None
    finish(long)


def test_a_test_that_fails_leaves_the_pause(long: Thread, paused: Compaction) -> None:
    Endpoint.objects.update(kind="openai", base_url="http://127.0.0.1:9/v1", model="m")
    assert not try_endpoint(endpoint=Endpoint.objects.get()).ok
    assert find_pause(long.workspace_id) is not None


def test_a_test_of_another_endpoint_or_in_another_workspace_leaves_it(
    long: Thread, paused: Compaction, ana: Member
) -> None:
    other = EndpointFactory.create(workspace=ana.workspace, name="Other", kind="offline")
    elsewhere = EndpointFactory.create(workspace=make_member("Eve").workspace, name="Gist", kind="offline")
    for one in (other, elsewhere):
        endpoint_answered.send(sender=Endpoint, endpoint=one)
    assert find_pause(long.workspace_id) is not None


def test_the_admins_test_button_lifts_it(long: Thread, paused: Compaction, ana: Member) -> None:
    client = as_superuser(ana)
    address = reverse("admin:llm_endpoint_test_endpoint", args=[Endpoint.objects.get().pk])
    assert client.post(address).status_code == 302
    assert find_pause(long.workspace_id) is None
    finish(long)


def test_an_admin_resumes_on_the_page_which_says_why_it_rests(long: Thread, paused: Compaction, ana: Member) -> None:
    client, address = Client(), f"/w/{ana.workspace.slug}/t/{long.pk}/memory/"
    client.force_login(ana.user)
    page = client.get(address).content.decode()
    assert "Compaction is paused until" in page
    assert "It is away." in page
    assert "compaction-resume" in page
    answer = client.post(f"{address}resume/", headers={"HX-Request": "true"}).content.decode()
    assert "Compaction goes on." in answer
    assert "paused" not in answer
    second_page = client.post(f"{address}resume/", headers={"HX-Request": "true"}).content.decode()
    assert "Compaction is not paused." in second_page
    finish(long)


def test_what_waits_while_all_rest_says_so_and_gives_the_reason_once(
    long: Thread, paused: Compaction, ana: Member
) -> None:
    Compaction.objects.filter(pk=paused.pk).update(state="queued", finished_at=None, error="It is away.")
    page = signed_in(ana).get(f"/w/{ana.workspace.slug}/t/{long.pk}/memory/").content.decode()
    assert "A compaction waits for the end of the pause." in page
    assert (page.count("It is away."), "tried again in a moment" in page) == (1, False)


def test_members_see_that_it_rests_and_cannot_resume(long: Thread, paused: Compaction, dora: Member) -> None:
    client, address = Client(), f"/w/{dora.workspace.slug}/t/{long.pk}/memory/"
    client.force_login(dora.user)
    page = client.get(address).content.decode()
    assert "An admin can resume it" in page
    assert "compaction-resume" not in page
    assert client.post(f"{address}resume/").status_code == 403
    with pytest.raises(Refused, match="owners and admins"):
        resume_compaction(workspace_id=long.workspace_id, by=access(dora))
    assert find_pause(long.workspace_id) is not None


def test_an_admin_of_another_workspace_cannot_resume(long: Thread, paused: Compaction) -> None:
    with pytest.raises(Refused):
        resume_compaction(workspace_id=long.workspace_id, by=access(make_member("Eve", role="owner")))


def test_nothing_to_resume_is_said(long: Thread, ana: Member) -> None:
    with pytest.raises(Conflict, match="not paused"):
        resume_compaction(workspace_id=long.workspace_id, by=access(ana))


def test_a_pause_is_the_endpoints_whichever_thread_it_failed_in(long: Thread, ana: Member, vibe: Agent) -> None:
    other = make_thread(long.channel, ana, "Mulching")
    told(other, ana.participant, *[TEXT * 12] * 60)
    scripted_model = ScriptedModel([ModelUnavailable("It is away.")])
    sessions: list[Session] = [session_of(one, vibe.participant) for one in (long, other)]
    for turn in range(5):
        with pytest.raises(Problem, match="could not be made"):
            compact_conversation(sessions[turn % 2], BUDGET, full=False, config={}, client=scripted_model)
    for session in sessions:
        with pytest.raises(Problem, match="rests until"):
            compact_conversation(session, BUDGET, full=False, config={}, client=ScriptedModel([GOOD]))


def test_another_endpoint_is_asked_at_once(long: Thread, paused: Compaction, vibe: Agent, ana: Member) -> None:
    EndpointFactory.create(workspace=ana.workspace, name="Well", kind="offline", is_for_summaries=True)
    assert find_pause(long.workspace_id) is None
    assert LcmProvider().compact(session_of(long, vibe.participant), BUDGET).created
