"""The doors of runs, and what a message shows of them."""

import pytest
from pytest_django import DjangoAssertNumQueries

from agents.models import Agent, Run
from agents.web.runs import RunCard, runs_by_message
from openvibe.chat.models import Message, Thread
from openvibe.workspaces.models import Member
from tests.agents.web.conftest import signed_in
from tests.factories import access, say

HTMX = {"HX-Request": "true"}


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Runs that were handed to a worker."""
    runs: list[int] = []
    monkeypatch.setattr("agents.web.runs.enqueue_run_on_commit", runs.append)
    return runs


def test_a_waiting_run_can_be_stopped(ana: Member, vibe: Agent, thread: Thread) -> None:
    message = say(thread, ana, "@vibe hello?")
    run = Run.objects.get(trigger=message)
    page = signed_in(ana).get(f"/w/{ana.workspace.slug}/m/{message.pk}/", headers=HTMX).content.decode()
    assert "Stop Vibe" in page
    fragment = signed_in(ana).post(f"/w/{ana.workspace.slug}/runs/{run.pk}/stop/", headers=HTMX).content.decode()
    assert "stopped before it answered" in fragment
    assert "Retry" in fragment


def test_a_failed_run_shows_its_reason_and_is_sent_again(
    ana: Member, vibe: Agent, thread: Thread, sent: list[int]
) -> None:
    message = say(thread, ana, "@vibe hello?")
    Run.objects.filter(trigger=message).update(state="failed", error="The model did not answer in time.")
    run = Run.objects.get(trigger=message)
    page = signed_in(ana).get(f"/w/{ana.workspace.slug}/m/{message.pk}/", headers=HTMX).content.decode()
    assert "The model did not answer in time." in page
    signed_in(ana).post(f"/w/{ana.workspace.slug}/runs/{run.pk}/retry/", headers=HTMX)
    run.refresh_from_db()
    assert (run.state, sent) == ("queued", [run.pk])


def test_regenerating_keeps_the_answer_and_sends_a_new_run(ana: Member, answered: Run, sent: list[int]) -> None:
    response = signed_in(ana).post(f"/w/{ana.workspace.slug}/runs/{answered.pk}/regenerate/")
    assert response.status_code == 302
    new = Run.objects.get(regenerates=answered)
    assert answered.reply_id is not None
    assert sent == [new.pk]
    assert Message.objects.filter(pk=answered.reply_id).exists()


def test_what_is_over_cannot_be_retried(ana: Member, answered: Run) -> None:
    response = signed_in(ana).post(f"/w/{ana.workspace.slug}/runs/{answered.pk}/retry/", headers=HTMX)
    assert response.status_code == 409


@pytest.mark.parametrize("who", ["ben", "cleo"])
def test_foreign_runs_are_unknown(who: str, ana: Member, answered: Run, request: pytest.FixtureRequest) -> None:
    stranger: Member = request.getfixturevalue(who)
    client = signed_in(stranger)
    for home in {ana.workspace.slug, stranger.workspace.slug}:
        for verb in ("stop", "retry", "regenerate"):
            assert client.post(f"/w/{home}/runs/{answered.pk}/{verb}/").status_code == 404
        assert client.get(f"/w/{home}/runs/{answered.pk}/context/").status_code == 404
        assert client.get(f"/w/{home}/t/{answered.thread_id}/preview/?text=@vibe").status_code == 404
        assert client.get(f"/w/{home}/t/{answered.thread_id}/preview/vibe/").status_code == 404


def test_one_query_whatever_the_number_of_runs(
    ana: Member, answered: Run, thread: Thread, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    waiting = [say(thread, ana, f"@vibe and {n}?") for n in range(3)]
    messages = list(Message.objects.select_related("author"))
    with django_assert_num_queries(1):
        found = runs_by_message(messages, access(ana))
    shown = found[answered.reply_id or 0]["run"]
    assert isinstance(shown, RunCard)
    assert shown.may_regenerate
    assert shown.has_context
    assert all("waiting" in found[message.pk] for message in waiting)
