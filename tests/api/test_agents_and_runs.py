"""Prompts, runs, feedback and SOULs over the API."""

import tomllib

import pytest
from django.conf import settings

from agents.models import Agent, Run
from agents.runs.executor import execute_run
from memory.episodes.models import Episode
from openvibe.base.models import AuditRecord
from openvibe.chat.models import Message, Thread
from openvibe.engines.llm.values import ToolCallRequest
from openvibe.workspaces.models import Member
from tests import factories
from tests.api.client import Api, is_problem
from tests.api.conftest import Enter
from tests.engines.llm.scripted_client import ScriptedAnswer, ScriptedModel


@pytest.fixture
def api(ana: Member, by_token: Enter) -> Api:
    return by_token(ana.participant)


@pytest.fixture
def question(ana: Member, vibe: Agent, thread: Thread) -> Message:
    factories.say(thread, ana, "Roses are pruned in late winter.")
    return factories.say(thread, ana, "@vibe when do I prune the roses?")


def answered(question: Message) -> Run:
    """The run of a question, carried out by the offline model."""
    run = Run.objects.get(trigger=question)
    execute_run(run.pk)
    run.refresh_from_db()
    return run


def test_an_agent_assembles_its_own_prompt(vibe: Agent, thread: Thread, question: Message, by_token: Enter) -> None:
    agent = by_token(vibe.participant, ("read",))
    prompt = agent.post("context/assemble/", {"thread": thread.pk, "task": "mention"}).json()

    assert set(prompt) >= {"messages", "tools", "tokens", "budget", "layers", "dropped", "prefix_shared"}
    assert prompt["messages"][0]["role"] == "system"
    assert "prune the roses" in prompt["messages"][-1]["content"]
    assert sum(layer["tokens"] for layer in prompt["layers"]) == prompt["tokens"] <= prompt["budget"]
    assert agent.post("context/assemble/", {"thread": thread.pk, "task": "mention"}).json() == prompt


def test_an_agent_is_not_told_the_topics_it_may_not_read(
    api: Api, ana: Member, vibe: Agent, thread: Thread, by_token: Enter
) -> None:
    factories.make_entry(ana, "Layoffs in March", "The layoffs cost ten roses.", visibility="restricted")
    body = {"thread": thread.pk, "task": "mention", "request": "What do the layoffs in March cost?"}

    (own,) = by_token(vibe.participant).post("context/assemble/", body).json()["dropped"]
    (admins,) = api.post("context/assemble/", {**body, "agent": "vibe"}).json()["dropped"]
    assert (own["source"], own["author"], own["reason"]) == ("knowledge", "", "trust L2")
    assert admins["source"] == "knowledge: Layoffs in March"


def test_an_admin_assembles_for_an_agent_with_text_and_budget(
    api: Api, ana: Member, vibe: Agent, thread: Thread, question: Message
) -> None:
    body = {"thread": thread.pk, "task": "mention", "agent": "@vibe", "request": "And tulips?"}
    full = api.post("context/assemble/", body).json()
    small = api.post("context/assemble/", {**body, "budget": 1_800}).json()

    assert "And tulips?" in full["messages"][-1]["content"]
    assert small["tokens"] <= small["budget"] == 1_800
    assert Message.objects.filter(body__contains="tulips").count() == 0
    assert is_problem(api.post("context/assemble/", {**body, "budget": 1}), 400, "budget_too_small")
    assert is_problem(api.post("context/assemble/", {**body, "task": "dance"}), 400, "bad_task")
    assert is_problem(api.post("context/assemble/", {**body, "request": " "}), 400, "empty")
    assert is_problem(api.post("context/assemble/", {"thread": thread.pk, "task": "mention"}), 400, "required")


def test_an_agent_cannot_assemble_for_another(
    ana: Member, vibe: Agent, thread: Thread, question: Message, by_token: Enter
) -> None:
    factories.make_agent(ana, "fern", channel=thread.channel)
    body = {"thread": thread.pk, "task": "mention", "agent": "fern"}

    assert is_problem(by_token(vibe.participant).post("context/assemble/", body), 403, "not_allowed")


def test_a_run_is_followed_and_what_it_saw_is_read(api: Api, vibe: Agent, question: Message, by_token: Enter) -> None:
    waiting = api.get("runs/").json()["results"][0]
    assert (waiting["state"], waiting["agent"], waiting["trigger"]) == ("queued", "vibe", question.pk)
    assert is_problem(api.get(f"runs/{waiting['id']}/context/"), 409, "nothing_read")

    run = answered(question)
    data = api.get(f"runs/{run.pk}/").json()
    saw = api.get(f"runs/{run.pk}/context/").json()

    assert (data["state"], data["reply"]) == ("done", run.reply_id)
    assert data["input_tokens"] > 0
    assert saw["kept"]
    assert saw["hidden_count"] == 0
    assert "when do I prune" in saw["messages"][-1]["content"]
    assert saw["tokens"] <= saw["budget"]
    assert by_token(vibe.participant).get(f"runs/{run.pk}/context/").json()["tokens"] == saw["tokens"]
    assert [r["id"] for r in api.get("runs/?state=done&agent=vibe").json()["results"]] == [run.pk]
    assert api.get("runs/?state=failed").json()["results"] == []


def test_a_deleted_message_is_gone_from_what_a_run_saw(api: Api, question: Message) -> None:
    run = answered(question)
    first = Message.objects.get(thread=question.thread, seq=1)
    api.delete(f"messages/{first.pk}/")

    assert "late winter" not in api.get(f"runs/{run.pk}/context/").content.decode()


def test_stop_and_retry(api: Api, vibe: Agent, question: Message, by_token: Enter) -> None:
    run = Run.objects.get()
    stopped = api.post(f"runs/{run.pk}/stop/").json()
    assert stopped["state"] == "stopped"
    assert api.post(f"runs/{run.pk}/stop/").json()["state"] == "stopped"

    assert is_problem(by_token(vibe.participant).post(f"runs/{run.pk}/retry/"), 403, "not_allowed")
    second_response = api.post(f"runs/{run.pk}/retry/")
    assert (second_response.status_code, second_response.json()["state"]) == (202, "queued")
    assert is_problem(api.post(f"runs/{run.pk}/retry/"), 409, "not_failed")


def test_feedback_reaches_the_next_prompt_and_leaves_it_when_applied(
    api: Api, ana: Member, vibe: Agent, thread: Thread, question: Message, by_token: Enter
) -> None:
    run, agent = answered(question), by_token(vibe.participant)
    response = api.post("feedback/", {"message": run.reply_id, "verdict": "down", "text": "Name the month"})
    factories.say(thread, ana, "@vibe and now?")

    def prompt() -> str:
        body = {"thread": thread.pk, "task": "mention"}
        return "".join(m["content"] for m in agent.post("context/assemble/", body).json()["messages"])

    remembered = agent.get("episodes/?open=true").json()["results"]
    assert response.status_code == 201
    assert [row["summary"] for row in remembered] == ["Name the month"]
    assert remembered[0]["message"] == run.reply_id
    assert "Name the month" in prompt()
    assert is_problem(agent.post(f"episodes/{remembered[0]['id']}/applied/"), 403, "not_allowed")

    data = api.post(f"episodes/{remembered[0]['id']}/applied/").json()

    assert data["applied_how"] == "person"
    assert "Name the month" not in prompt()
    assert is_problem(api.post(f"episodes/{data['id']}/applied/"), 409, "settled")


def test_a_second_verdict_changes_the_first(api: Api, question: Message) -> None:
    reply = answered(question).reply_id
    api.post("feedback/", {"message": reply, "verdict": "down", "tags": ["inaccurate"]})
    api.post("feedback/", {"message": reply, "verdict": "up"})

    verdicts = api.get("feedback/").json()["results"]
    assert [(row["message"], row["verdict"], row["tags"]) for row in verdicts] == [(reply, "up", [])]
    assert Episode.objects.get(kind="feedback_received").applied_how == "withdrawn"


def test_feedback_is_for_agents_messages(api: Api, question: Message) -> None:
    assert is_problem(api.post("feedback/", {"message": question.pk, "verdict": "up"}), 403, "not_allowed")


def test_episodes_of_one_agent_are_for_admins(api: Api, dora: Member, question: Message, by_token: Enter) -> None:
    reply = answered(question).reply_id
    api.post("feedback/", {"message": reply, "verdict": "down", "text": "Shorter"})

    assert len(api.get("episodes/?agent=vibe").json()["results"]) == 1
    assert api.get("episodes/?agent=other").json()["results"] == []
    assert is_problem(by_token(dora.participant).get("episodes/?agent=vibe"), 403, "not_allowed")


def test_a_soul_is_saved_on_the_version_it_was_read_at(api: Api, vibe: Agent, by_token: Enter) -> None:
    path = "agents/vibe/soul/"
    read = api.get(path)
    body = {"source": factories.SOUL.format(name="Vibe").replace("team", "gardeners"), "note": "Plainer"}
    saved = api.call("PUT", path, body, If_Match=read["ETag"])

    assert (read["ETag"], saved["ETag"]) == ('"1"', '"2"')
    assert "gardeners" in saved.json()["source"]
    assert [version["number"] for version in saved.json()["versions"]] == [2, 1]
    assert is_problem(api.call("PUT", path, body, If_Match=read["ETag"]), 412, "stale")
    assert is_problem(api.call("PUT", path, body), 428, "if_match_required")
    wrong = api.call("PUT", path, {**body, "source": "identity: [oops"}, If_Match='"2"')
    assert is_problem(wrong, 400, "bad_soul")
    assert "line" in wrong.json()["detail"]
    assert by_token(vibe.participant).get(path).status_code == 200


def test_agents_are_listed_with_level_and_soul(api: Api, vibe: Agent) -> None:
    agent = {"id": vibe.pk, "handle": "vibe", "name": "Vibe", "level": 2, "active": True, "soul": 1}
    own = {"answers_itself": False, "daily_token_budget": vibe.daily_token_budget, "effort": ""}
    own |= {"run_minutes": 240, "permission_minutes": 15}
    assert api.get("agents/").json()["results"] == [agent | own]
    assert api.get("agents/vibe/").json()["handle"] == "vibe"


def test_a_run_tells_what_it_called_and_what_it_waits_for(api: Api, question: Message) -> None:
    run = Run.objects.get(trigger=question)
    ask = ToolCallRequest("c1", "request_approval", '{"what": "Order bulbs"}')
    execute_run(run.pk, client=ScriptedModel([ScriptedAnswer("May I?", (ask,))]))
    run.refresh_from_db()
    data = api.get(f"runs/{run.pk}/").json()
    assert (data["state"], data["approval"]) == ("waiting_approval", run.approval_id)
    (call,) = api.get(f"runs/{run.pk}/context/").json()["tool_calls"]
    assert (call["name"], call["decision"], call["arguments"]) == ("request_approval", "waits", ask.arguments)
    assert api.get("runs/?state=waiting_approval").json()["results"][0]["id"] == run.pk


def test_an_admin_sets_the_trust_level_with_a_note(ana: Member, vibe: Agent, by_token: Enter) -> None:
    api = by_token(ana.participant)

    assert api.patch("agents/vibe/", {"level": 3, "note": "Good answers"}).json()["level"] == 3
    assert [(one.level_before, one.level_after, one.note) for one in vibe.trust_changes.all()] == [
        (2, 3, "Good answers")
    ]
    assert is_problem(api.patch("agents/vibe/", {"level": 4, "note": " "}), 400, "no_note")
    assert is_problem(api.patch("agents/vibe/", {"level": 5, "note": "More"}), 400, "invalid")
    assert is_problem(api.patch("agents/vibe/", {"level": 4}), 400, "invalid")
    assert is_problem(api.patch("agents/vibe/", {"note": "More"}), 400, "invalid")
    assert is_problem(by_token(ana.participant, ("write",)).patch("agents/vibe/", {}), 403, "missing_scope")


def test_an_admin_deactivates_an_agent_and_brings_it_back(
    ana: Member, ben: Member, vibe: Agent, by_token: Enter
) -> None:
    api, own = by_token(ana.participant), by_token(vibe.participant)
    assert api.patch("agents/vibe/", {"active": True}).json()["active"]
    assert not api.patch("agents/vibe/", {"active": False}).json()["active"]
    vibe.refresh_from_db()
    assert (vibe.is_active, own.get("me/").status_code) == (False, 401)
    assert api.patch("agents/vibe/", {"active": False, "daily_token_budget": 7}).json()["daily_token_budget"] == 7
    assert api.patch("agents/vibe/", {"active": True}).json()["active"]
    assert own.get("me/").status_code == 200
    changes = AuditRecord.objects.filter(subject="@vibe", after__in=("active", "deactivated")).order_by("pk")
    assert [change.after for change in changes] == ["deactivated", "active"]
    assert by_token(ben.participant).patch("agents/vibe/", {"active": False}).status_code in (403, 404)
    assert is_problem(by_token(vibe.participant).patch("agents/vibe/", {"active": False}), 403, "not_allowed")
    assert is_problem(api.patch("agents/vibe/", {"active": "perhaps"}), 400, "invalid")


def test_me_tells_the_version_that_is_released(ana: Member, by_token: Enter) -> None:
    project = tomllib.loads((settings.BASE_DIR / "pyproject.toml").read_text())["project"]

    assert by_token(ana.participant).get("me/").json()["version"] == project["version"]


def test_who_writes_its_answers_and_what_it_may_use_are_settings_of_the_api(ana: Member, vibe: Agent, api: Api) -> None:
    """A person who runs an agent elsewhere sets it up without the app; what is left out stays. The audit log has it."""
    before = api.get("agents/vibe/").json()
    assert (before["answers_itself"], before["daily_token_budget"]) == (False, vibe.daily_token_budget)
    assert api.patch("agents/vibe/", {"answers_itself": True}).json() == {**before, "answers_itself": True}
    after = api.patch("agents/vibe/", {"daily_token_budget": 7}).json()
    assert after == {**before, "answers_itself": True, "daily_token_budget": 7}
    changes = AuditRecord.objects.filter(subject="@vibe").order_by("pk").values_list("before", "after")
    budget = f"{vibe.daily_token_budget:,} tokens a day"
    assert list(changes)[-2:] == [("answered here", "answered elsewhere"), (budget, "7 tokens a day")]
    assert is_problem(api.patch("agents/vibe/", {"daily_token_budget": -1}), 400, "invalid")
    assert is_problem(api.patch("agents/vibe/", {"answers_itself": "perhaps"}), 400, "invalid")
