"""Steps that an agent elsewhere reports: shown at its reply, each once, bounded, and only of its own run."""

from typing import Any

import pytest

from agents.models import Agent, Run, RunStep
from agents.runs.external.lifecycle import begin_external_run
from agents.runs.lifecycle import retry_run, stop_run
from openvibe.base.models import Event
from openvibe.chat.models import Channel, Message, Thread
from openvibe.chat.services import delete_message
from openvibe.workspaces.models import Member
from tests import factories
from tests.api.client import Api
from tests.api.conftest import Enter
from tests.api.test_external_runs import api, question, reed, run, write
from tests.factories import access, say, signed_in

__all__ = ["api", "question", "reed", "run"]

LOOK = {
    "key": "look-1",
    "kind": "tool",
    "tool": "diary",
    "text": "Looked into the diary",
    "arguments": '{"q": "roses"}',
}


def report(api: Api, run: Run, attempt: object = 1, **body: object) -> tuple[int, Any]:
    answer = api.post(f"runs/{run.pk}/steps/", {"attempt": attempt, **body})
    given = answer.json()
    return answer.status_code, given["state"] if answer.status_code < 400 else given["code"]


def test_a_step_is_shown_and_changed_under_its_key(api: Api, ana: Member, run: Run, question: Message) -> None:
    assert report(api, run, **LOOK, state="running") == (201, "running")
    assert report(api, run, **LOOK, state="running") == (200, "running")
    page = signed_in(ana).get(f"/w/{ana.workspace.slug}/m/{question.pk}/", headers={"HX-Request": "true"})
    assert "Looked into the diary" in page.content.decode()
    assert report(api, run, **LOOK, state="done", result="In March.", seconds=2.5) == (200, "done")
    assert Event.objects.filter(kind="run_step", message_id=question.pk).count() == 2

    write(api, run, 0, "In March.")
    steps = signed_in(ana).get(f"/w/{ana.workspace.slug}/runs/{run.pk}/steps/", headers={"HX-Request": "true"})
    for words in ("Looked into the diary", "roses", "In March.", "2 s"):
        assert words in steps.content.decode()
    (event,) = [each for each in api.get(f"runs/{run.pk}/").json()["events"] if each["step"]]
    assert (event["kind"], event["step"]["result"], event["step"]["seconds"]) == ("tool", "In March.", 2.5)


def test_what_it_thinks_is_the_reasoning_of_its_run(api: Api, run: Run) -> None:
    assert api.get(f"runs/{run.pk}/").json()["reasoning"] is None
    assert report(api, run, key="t", kind="thought", text="Roses, sk-abcdefghij0123456789ABCDEF.", seconds=3) == (
        201,
        "done",
    )
    reasoning = api.get(f"runs/{run.pk}/").json()["reasoning"]
    assert (reasoning["text"], reasoning["seconds"], reasoning["is_thinking"]) == ("Roses, [secret removed].", 3, False)
    assert reasoning["tokens"] > 3


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"kind": "tool", "tool": "x", "key": ""}, 400),
        ({"kind": "tool", "tool": "x", "key": "k" * 101}, 400),
        ({"kind": "dream", "text": "x"}, 400),
        ({"kind": "tool"}, 400),
        ({"kind": "note"}, 400),
        ({"kind": "note", "text": "n" * 20_001}, 400),
        ({"kind": "thought", "text": "n" * 100_001}, 400),
        ({"kind": "tool", "tool": "x", "arguments": "n" * 20_001}, 400),
        ({"kind": "tool", "tool": "x", "result": "\x00"}, 400),
        ({"kind": "note", "text": "x", "seconds": -1}, 400),
        ({"kind": "note", "text": "x", "seconds": 1e9}, 400),
        ({"kind": "note", "text": "x", "seconds": "nan"}, 400),
        ({"kind": "note", "text": "x", "state": "gone"}, 400),
        ({"kind": "note", "text": "x", "attempt": 2}, 409),
    ],
)
def test_bad_steps_are_refused(api: Api, run: Run, body: dict[str, Any], status: int) -> None:
    assert report(api, run, **{"key": "k", **body})[0] == status
    assert not RunStep.objects.exists()


def test_a_key_keeps_its_kind_and_a_run_has_so_many(api: Api, run: Run) -> None:
    assert report(api, run, key="k", kind="note", text="Looks.")[0] == 201
    assert report(api, run, key="k", kind="thought", text="Hm.") == (409, "other_kind")
    rows = [RunStep(run=run, attempt=1, key=f"n{n}", kind="note", text="x") for n in range(199)]
    RunStep.objects.bulk_create(rows)
    assert report(api, run, key="more", kind="note", text="x") == (409, "too_many_steps")
    assert report(api, run, key="k", kind="note", text="Still looks.")[0] == 200


def test_only_its_own_run_while_it_is_under_way(
    api: Api, ana: Member, run: Run, channel: Channel, by_token: Enter
) -> None:
    other = factories.make_agent(ana, "moss", channel=channel)
    assert report(by_token(other.participant), run, **LOOK)[0] == 404
    assert report(by_token(ana.participant), run, **LOOK)[0] == 403
    stop_run(run=run, by=access(ana))
    assert report(api, run, **LOOK) == (409, "run_over")
    assert not RunStep.objects.exists()


def test_another_attempt_begins_without_the_steps_of_the_one_before(
    api: Api, ana: Member, reed: Agent, run: Run, question: Message
) -> None:
    report(api, run, **LOOK)
    stop_run(run=run, by=access(ana))
    retry_run(run=run, by=access(ana))
    begin_external_run(agent=reed, message=question)
    assert not RunStep.objects.exists()
    assert report(api, run, **LOOK) == (409, "run_over")
    assert report(api, run, attempt=2, **LOOK)[0] == 201


def test_a_deleted_message_takes_what_was_reported(api: Api, ana: Member, run: Run, thread: Thread) -> None:
    report(api, run, **LOOK, result="Tulip.")
    delete_message(message=say(thread, ana, "Tulip."), by=access(ana))
    assert RunStep.objects.values_list("text", "arguments", "result").get() == ("", "", "")
