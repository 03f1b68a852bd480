"""The doors of runs, and what a message shows of them."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from agents.agent.services import set_trust_level
from agents.models import Agent, Run
from agents.runs.executor import execute_run
from agents.runs.lifecycle import regenerate_run
from agents.runs.recovery import recover_runs
from agents.web.run_cards import RunCard, runs_by_message
from openvibe.api.models import SCOPES
from openvibe.api.services import issue_token
from openvibe.chat.models import Message, Thread
from openvibe.workspaces.models import Member, User
from tests.factories import access, say, signed_in

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


TRACE = """The command failed (exit code 1).
Traceback (most recent call last):
  File "/srv/reed.py", line 9, in <module>
    raise RuntimeError("<b>The bed is full.</b>")
RuntimeError: <b>The bed is full.</b>"""


def test_a_stack_trace_is_folded_behind_a_sentence_and_kept_whole(ana: Member, vibe: Agent, thread: Thread) -> None:
    message = say(thread, ana, "@vibe hello?")
    steps = [{"kind": "failed", "at": timezone.now().isoformat(), "attempt": 1, "error": TRACE}]
    Run.objects.filter(trigger=message).update(state="failed", error=TRACE, steps=steps, finished_at=timezone.now())
    run = Run.objects.get(trigger=message)
    browser, home = signed_in(ana), f"/w/{ana.workspace.slug}"
    sentence = "The command failed (exit code 1): RuntimeError: &lt;b&gt;The bed is full.&lt;/b&gt;"
    for path in (f"{home}/m/{message.pk}/", f"{home}/runs/{run.pk}/"):
        page = browser.get(path, headers=HTMX).content.decode()
        assert f'<span class="run-error">{sentence}</span>' in page
        assert page.count("/srv/reed.py") == 1, "behind Details, and nowhere else"
        folded = page.partition('id="run-error-')[2].partition("</details>")[0]
        assert "<summary>Details</summary>" in folded
        assert "/srv/reed.py" in folded
    profile = browser.get(f"{home}/agents/vibe/").content.decode()
    assert "/srv/reed.py" not in profile
    _, secret = issue_token(participant=ana.participant, name="tests", scopes=SCOPES)
    answer = Client(headers={"Authorization": f"Bearer {secret}"}).get(f"/api/v1/runs/{run.pk}/").json()
    assert answer["error"] == TRACE


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


def test_an_agent_elsewhere_is_waited_for_and_the_page_says_so(ana: Member, answered: Run, sent: list[int]) -> None:
    Agent.objects.update(answers_itself=True)
    page = f"/w/{ana.workspace.slug}/m/{answered.trigger_id}/"
    assert "runs elsewhere" not in signed_in(ana).get(page, headers=HTMX).content.decode()
    signed_in(ana).post(f"/w/{ana.workspace.slug}/runs/{answered.pk}/regenerate/", headers=HTMX)
    shown = signed_in(ana).get(page, headers=HTMX).content.decode()
    assert "runs elsewhere: the question waits for its program" in shown
    assert "not connected" not in shown
    assert "Stop Vibe" in shown

    Run.objects.filter(state="queued").update(heard_at=timezone.now() - timedelta(seconds=50))
    recover_runs()
    assert "Its program is not connected." in signed_in(ana).get(page, headers=HTMX).content.decode()

    Run.objects.filter(state="queued").update(heard_at=timezone.now() - timedelta(minutes=6))
    recover_runs()
    shown = signed_in(ana).get(page, headers=HTMX).content.decode()
    assert "did not begin within 5 min" in shown
    assert "Retry: let Vibe try again" in shown


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
        extras = runs_by_message(messages, access(ana))
    card = extras[answered.reply_id or 0]["run"]
    assert isinstance(card, RunCard)
    assert card.may_regenerate
    assert card.has_context
    assert (card.tokens_read, card.budget) == (answered.snapshot.tokens, answered.snapshot.budget)
    assert card.tokens_written == answered.output_tokens
    assert all("waiting" in extras[message.pk] for message in waiting)


def test_a_runs_page_and_the_api_tell_the_same_steps(ana: Member, cleo: Member, answered: Run) -> None:
    home = f"/w/{ana.workspace.slug}/runs/{answered.pk}/"
    page = signed_in(ana).get(home).content.decode()
    assert all(words in page for words in ("Ana asked", "Prompt assembled", "Asked the model", "Done", "Regenerate"))
    assert "<html" not in signed_in(ana).get(home, headers=HTMX).content.decode()
    _, token = issue_token(participant=ana.participant, name="t", scopes=SCOPES)
    data = Client().get(f"/api/v1/runs/{answered.pk}/", headers={"Authorization": f"Bearer {token}"}).json()
    kinds = [event["kind"] for event in data["events"]]
    assert kinds == ["queued", "claimed", "assembled", "called", "answered", "done"]
    assert float(data["cost"]) == 0
    assert signed_in(cleo).get(home).status_code == 404


def test_the_page_of_a_run_has_times_in_utc_wherever_the_reader_is(ana: Member, answered: Run) -> None:
    User.objects.filter(pk=ana.user_id).update(time_zone="Asia/Kathmandu")
    page = signed_in(ana).get(f"/w/{ana.workspace.slug}/runs/{answered.pk}/").content.decode()
    assert f"{answered.queued_at:%H:%M:%S} UTC" in page
    assert "+05:45" not in page


def test_the_page_of_a_run_acts_and_stays(ana: Member, answered: Run, sent: list[int]) -> None:
    home = f"/w/{ana.workspace.slug}/runs"
    response = signed_in(ana).post(f"{home}/{answered.pk}/regenerate/", {"on_run": "1"})
    assert response.headers["Location"] == f"{home}/{sent[0]}/"
    page = signed_in(ana).post(f"{home}/{sent[0]}/stop/", {"on_run": "1"}, headers=HTMX).content.decode()
    assert "Stopped by Ana" in page


def test_answers_point_at_each_other_and_keep_the_level_of_their_day(ana: Member, answered: Run) -> None:
    run = regenerate_run(run=answered, by=access(ana))
    execute_run(run.pk)
    set_trust_level(agent=answered.agent, by=access(ana), level=3, note="It does well")
    outside = Message.objects.create(
        thread=answered.thread, author=answered.agent.participant, body="I am at L3.", created_at=timezone.now()
    )
    set_trust_level(agent=answered.agent, by=access(ana), level=1, note="It does not")
    messages = list(Message.objects.select_related("author"))
    extras = runs_by_message(messages, access(ana))
    run.refresh_from_db()
    earlier, later = (extras[pk or 0]["run"] for pk in (answered.reply_id, run.reply_id))
    assert (earlier.version, earlier.earlier_version, earlier.later_version) == (1, None, run.reply_id)
    assert (later.version, later.earlier_version, later.later_version) == (2, answered.reply_id, None)
    assert [extras[pk or 0]["level"] for pk in (answered.reply_id, outside.pk)] == [2, 3]
    page = signed_in(ana).get(f"/w/{ana.workspace.slug}/t/{answered.thread_id}/").content.decode()
    assert 'aria-label="Earlier answer"' in page
    assert "“@vibe when do we prune the apple trees?”" in page
