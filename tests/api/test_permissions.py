"""Calls that agents elsewhere ask leave for: decided by level and rules, or by people, once, and in time."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from agents.agent.call_rules import create_call_rule
from agents.agent.services import set_trust_level
from agents.models import Agent, AgentPlan, CallRule, Permission, Run, RunStep
from agents.prompts.snapshots.store import expire_records
from agents.runs.diffs import cut_diff, read_diff
from agents.runs.lifecycle import stop_run
from agents.runs.permissions.answers import allow_always
from agents.runs.permissions.requests import MAX_PERMISSIONS
from agents.runs.recovery import recover_runs
from memory.work.approvals import decide_approval
from memory.work.models import Approval
from openvibe.base.models import AuditRecord, Event
from openvibe.base.problems import Problem
from openvibe.chat.models import Channel, Message, Thread
from openvibe.chat.services import delete_message
from openvibe.workspaces.models import Member
from tests import factories
from tests.agents.factories import PermissionFactory
from tests.api.client import Api
from tests.api.conftest import Enter
from tests.api.test_external_runs import api, begin, finish, question, reed, run
from tests.factories import access, say

__all__ = ["api", "question", "reed", "run"]

RUN = {"kind": "execute", "title": "Run the tests", "command": "pytest -q"}


def ask(api: Api, run: Run, key: str = "call-1", attempt: int = 1, **body: object) -> tuple[int, dict[str, Any]]:
    answer = api.post(f"runs/{run.pk}/permissions/", {"attempt": attempt, "key": key, **RUN, **body})
    return answer.status_code, answer.json()


def look(api: Api, run: Run, key: str = "call-1") -> dict[str, Any]:
    answer = api.get(f"runs/{run.pk}/permissions/{key}/")
    assert answer.status_code == 200, answer.json()
    body: dict[str, Any] = answer.json()
    return body


def lift(agent: Agent, by: Member, level: int) -> None:
    set_trust_level(agent=agent, by=access(by), level=level, note="It does well")


@pytest.fixture
def operator(reed: Agent, ana: Member) -> Agent:
    lift(reed, ana, 3)
    return reed


def approval_of(answer: dict[str, Any]) -> Approval:
    return Approval.objects.get(pk=answer["approval"])


def test_below_l3_it_looks_and_does_nothing_else(api: Api, run: Run) -> None:
    status, looked = ask(api, run, kind="read", command="", paths=["beds.md"])
    assert (status, looked["state"], looked["approval"], looked["expires_at"]) == (201, "allowed", None, None)
    for kind in ("edit", "execute", "fetch", "switch_mode", "launch rockets"):
        status, denied = ask(api, run, key=kind, kind=kind)
        assert (status, denied["state"], denied["scope"]) == (201, "denied", "")
        assert "L2 Advisor" in denied["why"]
    assert not Approval.objects.exists()
    assert Permission.objects.get(key="launch rockets").kind == "other"


def test_a_person_allows_it_once(api: Api, run: Run, operator: Agent, ana: Member) -> None:
    before = Event.objects.filter(kind="work_changed").count()
    status, waiting = ask(api, run)
    assert (status, waiting["state"]) == (201, "waiting")
    assert Event.objects.filter(kind="work_changed").count() == before + 1
    assert ask(api, run) == (200, waiting)
    run.refresh_from_db()
    assert run.state == "reading", "heartbeats go on while it waits"

    decide_approval(approval=approval_of(waiting), by=access(ana), is_granted=True, note="Go on")

    allowed = look(api, run)
    assert (allowed["state"], allowed["scope"], allowed["note"]) == ("allowed", "once", "Go on")
    assert allowed["why"] == "Ana allowed this."
    assert Event.objects.filter(kind="work_changed").count() == before + 2
    assert Approval.objects.count() == 1
    assert ask(api, run, key="call-2")[1]["state"] == "waiting", "once is once"


def test_what_was_denied_is_not_asked_again(api: Api, run: Run, operator: Agent, ana: Member) -> None:
    waiting = ask(api, run)[1]
    decide_approval(approval=approval_of(waiting), by=access(ana), is_granted=False, note="Not on a Friday")
    denied = look(api, run)
    assert (denied["state"], denied["scope"], denied["note"]) == ("denied", "", "Not on a Friday")
    again = ask(api, run, key="call-2")[1]
    assert (again["state"], again["approval"]) == ("denied", None)
    assert ask(api, run, key="call-3", command="pytest")[1]["state"] == "waiting"


def test_always_makes_a_rule_for_this_channel(
    api: Api, run: Run, operator: Agent, ana: Member, channel: Channel, dora: Member
) -> None:
    approval = approval_of(ask(api, run)[1])
    with pytest.raises(Problem, match="Only owners and admins"):
        allow_always(approval_id=approval.pk, by=access(dora))
    for pattern, words in (("make *", "not about the call"), ("  ", "field is empty"), ("a\u200b", "cannot be seen")):
        with pytest.raises(Problem, match=words):
            allow_always(approval_id=approval.pk, by=access(ana), pattern=pattern)
    assert look(api, run)["state"] == "waiting"
    assert not CallRule.objects.exists()

    allow_always(approval_id=approval.pk, by=access(ana), pattern="pytest *")

    assert (look(api, run)["state"], look(api, run)["scope"]) == ("allowed", "always")
    rule = CallRule.objects.get()
    assert (rule.pattern, rule.effect, rule.channel, rule.made_by) == ("pytest *", "allow", channel, ana.participant)
    by_rule = ask(api, run, key="call-2", command="pytest -x")[1]
    assert (by_rule["state"], by_rule["scope"]) == ("allowed", "always")
    for command in ("pytest; rm -rf /", "pytest -q\nrm x", "pytest $(rm x)", "pytest \u202e"):
        assert ask(api, run, key=command[:100].replace("\n", " "), command=command)[1]["state"] == "waiting"
    assert Permission.objects.filter(rule=rule).count() == 2


def test_nobody_answers(api: Api, run: Run, operator: Agent) -> None:
    Agent.objects.filter(pk=operator.pk).update(permission_minutes=2)
    keys = ("by-reading", "by-asking", "by-the-sweep")
    for key in keys:
        ask(api, run, key=key, command=f"make {key}")
    wait = Permission.objects.get(key=keys[0])
    assert wait.expires_at is not None
    assert wait.expires_at - wait.created_at < timedelta(minutes=2, seconds=5)
    asked_at = timezone.now() - timedelta(minutes=2)
    Permission.objects.update(created_at=asked_at, expires_at=asked_at + timedelta(minutes=2))
    Agent.objects.filter(pk=operator.pk).update(permission_minutes=30)

    assert look(api, run, keys[0])["why"] == "Nobody answered within 2 min. So it is denied."
    status, answer = ask(api, run, key=keys[1], command=f"make {keys[1]}")
    assert (status, answer["state"]) == (200, "denied")
    recover_runs()
    assert [row.state for row in Permission.objects.all()] == ["denied"] * 3
    assert {row.state for row in Approval.objects.all()} == {"lapsed"}


@pytest.mark.parametrize("end", ["stop", "finish", "fail"])
def test_the_end_of_the_run_ends_the_asking(api: Api, run: Run, operator: Agent, ana: Member, end: str) -> None:
    waiting = ask(api, run)[1]
    if end == "stop":
        stop_run(run=run, by=access(ana))
    else:
        ended: dict[str, Any] = {"body": "Done."} if end == "finish" else {"error": "Broke off"}
        finish(api, run, **ended)
    approval = approval_of(waiting)
    assert (approval.state, look(api, run)["state"]) == ("lapsed", "denied")
    assert "The answer is over" in approval.note
    assert ask(api, run)[1]["state"] == "denied", "the same answer"
    status, late = ask(api, run, key="late")
    assert (status, late["code"]) == (409, "run_over")
    with pytest.raises(Problem, match="lapsed this already"):
        decide_approval(approval=approval, by=access(ana), is_granted=True)


def test_an_attempt_asks_anew(api: Api, run: Run, operator: Agent, question: Message) -> None:
    waiting = ask(api, run)[1]
    finish(api, run, error="Broke off")
    begin(api, question)
    status, anew = ask(api, run, attempt=2)
    assert (status, anew["state"]) == (201, "waiting")
    assert anew["approval"] != waiting["approval"]
    assert look(api, run)["approval"] == anew["approval"]
    assert ask(api, run, attempt=1)[0] == 409


def test_the_level_of_this_moment_decides(api: Api, run: Run, operator: Agent, ana: Member) -> None:
    create_call_rule(agent=operator, by=access(ana), kind="execute", effect="allow", pattern="")
    assert ask(api, run)[1]["state"] == "allowed"
    lift(operator, ana, 2)
    assert ask(api, run, key="call-2")[1]["state"] == "denied"
    lift(operator, ana, 4)
    assert ask(api, run, key="call-3", kind="delete")[1]["state"] == "allowed"
    assert ask(api, run, key="call-4", kind="fetch")[1]["state"] == "waiting"
    create_call_rule(agent=operator, by=access(ana), kind="execute", effect="deny", pattern="rm *")
    assert ask(api, run, key="call-5", command="cd x && rm y")[1]["state"] == "denied"


def test_a_rule_of_another_place_says_nothing_here(
    api: Api, run: Run, operator: Agent, ana: Member, thread: Thread
) -> None:
    other = factories.make_channel(ana, "elsewhere")
    create_call_rule(agent=operator, by=access(ana), kind="execute", effect="allow", channel_id=other.pk)
    assert ask(api, run)[1]["state"] == "waiting"
    create_call_rule(agent=operator, by=access(ana), kind="execute", effect="allow", thread_id=thread.pk)
    assert ask(api, run, key="call-2")[1]["state"] == "allowed"


def test_what_is_sent_is_bounded_and_shown_as_it_is(api: Api, run: Run, operator: Agent) -> None:
    diff = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n" + "-old\n+new\n" * 100_000
    status, waiting = ask(
        api, run, kind="edit", command="ls \u202egnp.exe\u200b", paths=["/p/a\u2028.py"], diff=diff, folder="/p"
    )
    assert (status, waiting["state"]) == (201, "waiting")
    kept = Permission.objects.get()
    assert kept.command == "ls \\u202egnp.exe\\u200b"
    assert kept.paths == ["a\\u2028.py"]
    assert (kept.added, kept.removed) == (100_000, 100_000)
    assert len(kept.diff) <= 200_000
    assert kept.unkept_lines == 200_003 - kept.diff.count("\n")
    ask(api, run, key="secret", command="curl -H sk-abcdefghij0123456789ABCDEF x")
    assert "sk-abc" not in Permission.objects.get(key="secret").command


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"key": "k" * 10_000}, "key"),
        ({"key": ""}, "key"),
        ({"kind": ""}, "kind"),
        ({"kind": "k" * 41}, "kind"),
        ({"title": None}, "title"),
        ({"command": "x" * 20_001}, "command"),
        ({"paths": ["a"] * 51}, "paths"),
        ({"paths": "a"}, "paths"),
        ({"paths": ["a" * 1_001]}, "paths.0"),
        ({"command": "a\x00b"}, "command"),
        ({"attempt": 0}, "attempt"),
    ],
)
def test_what_cannot_be_taken_is_said(api: Api, run: Run, body: dict[str, object], field: str) -> None:
    status, problem = ask(api, run, **body)  # type: ignore[arg-type]
    assert status == 400
    assert problem["field"] == field
    assert not Permission.objects.exists()


def test_a_run_asks_a_bounded_number_of_times(api: Api, run: Run, operator: Agent) -> None:
    PermissionFactory.create_batch(MAX_PERMISSIONS - 1, run=run)
    assert ask(api, run, key="last")[0] == 201
    status, problem = ask(api, run, key="beyond")
    assert (status, problem["code"]) == (409, "too_many_permissions")
    assert "1,000" in problem["detail"]


def test_at_most_ten_wait_at_a_time(api: Api, run: Run, operator: Agent) -> None:
    answers = [ask(api, run, key=f"k{number}", command=f"make {number}")[1] for number in range(11)]
    assert [answer["state"] for answer in answers] == ["waiting"] * 10 + ["denied"]
    assert "10 approvals wait" in answers[10]["why"]


def test_only_the_agent_of_the_run_asks_in_it(
    api: Api, run: Run, operator: Agent, ana: Member, by_token: Enter, channel: Channel
) -> None:
    ask(api, run)
    other = factories.make_agent(ana, "scout", channel=channel)
    assert ask(by_token(other.participant), run, key="x")[0] == 404
    assert ask(by_token(ana.participant), run, key="x")[0] == 403
    assert by_token(ana.participant).get(f"runs/{run.pk}/permissions/call-1/").status_code == 403
    assert api.get(f"runs/{run.pk}/permissions/never/").status_code == 404
    key = "call/a b?ü"
    ask(api, run, key=key, kind="read")
    assert api.get(f"runs/{run.pk}/permissions/call%2Fa%20b%3F%C3%BC/").json()["key"] == key


def test_what_was_decided_is_on_record(api: Api, run: Run, operator: Agent, ana: Member) -> None:
    rule = create_call_rule(agent=operator, by=access(ana), kind="execute", effect="allow", pattern="pytest *")
    ask(api, run, key="look", kind="read")
    ask(api, run, key="rule")
    waiting = ask(api, run, key="person", command="make secret-garden")[1]
    decide_approval(approval=approval_of(waiting), by=access(ana), is_granted=False, note="No")
    records = list(AuditRecord.objects.filter(action="tools").order_by("id"))
    assert [(row.actor, row.after) for row in records] == [
        ("Ana (@ana)", "allow: execute pytest *"),
        ("a rule of @reed", "allowed always"),
        ("Ana (@ana)", "denied"),
    ]
    assert f"rule {rule.pk}" in records[1].note
    assert all("secret-garden" not in f"{row.subject}{row.note}{row.after}" for row in records)
    events = [e for e in api.get(f"runs/{run.pk}/").json()["events"] if e["kind"] == "permission"]
    assert [event["text"] for event in events] == [
        *("Was allowed: Run the tests", "Was allowed: Run the tests", "Asked people: Run the tests"),
        "Was denied: Run the tests",
    ]
    assert events[3]["detail"] == "Ana denied this. Note: No"
    assert events[2]["permission"]["command"] == "make secret-garden"


def test_texts_leave_with_a_deleted_message(
    api: Api, run: Run, operator: Agent, ana: Member, thread: Thread, question: Message
) -> None:
    told = say(thread, ana, "The gate code is 4711")
    ask(api, run, key="done", kind="read", title="Read about the gate code is 4711", paths=["gate.md"])
    waiting = ask(api, run, command="echo 4711")[1]
    entries = [{"content": "Mulch"}, {"content": "The gate code is 4711"}]
    api.call("PUT", f"runs/{run.pk}/plan/", {"attempt": 1, "entries": entries})
    files = [{"path": "gate.md", "diff": "+4711\n"}]
    api.post(f"runs/{run.pk}/steps/", {"attempt": 1, "key": "s", "kind": "tool", "tool": "edit", "files": files})

    delete_message(message=told, by=access(ana))

    assert not Permission.objects.with_text().exists()
    assert not RunStep.objects.with_text().exists()
    answer = look(api, run)
    assert (answer["state"], approval_of(waiting).state) == ("denied", "lapsed")
    assert "4711" not in approval_of(waiting).what + approval_of(waiting).reason


def test_texts_are_kept_for_a_time(api: Api, run: Run, operator: Agent) -> None:
    ask(api, run, kind="read", paths=["a"], diff="+a\n")
    Permission.objects.update(created_at=timezone.now() - timedelta(days=400))
    expire_records()
    assert not Permission.objects.with_text().exists()
    assert (Permission.objects.get().state, Permission.objects.get().added) == ("allowed", 1)


def test_rules_are_made_over_the_api(
    api: Api, operator: Agent, ana: Member, dora: Member, by_token: Enter, channel: Channel
) -> None:
    admin, member = by_token(ana.participant), by_token(dora.participant)
    body = {"kind": "edit", "effect": "allow", "pattern": "src/**", "channel": channel.pk}
    assert member.post("agents/reed/rules/", body).status_code == 403
    made = admin.post("agents/reed/rules/", body)
    assert made.status_code == 201, made.json()
    assert made.json()["pattern"] == "src/**"
    again = admin.post("agents/reed/rules/", {**body, "effect": "deny"})
    assert (again.json()["id"], again.json()["effect"]) == (made.json()["id"], "deny")
    for bad, field in (({"pattern": "../x"}, "pattern"), ({"kind": "launch"}, "kind"), ({"effect": "maybe"}, "effect")):
        assert admin.post("agents/reed/rules/", {**body, **bad}).status_code == 400
        assert admin.post("agents/reed/rules/", {**body, **bad}).json()["field"] == field
    assert [rule["kind"] for rule in member.get("agents/reed/rules/").json()["results"]] == ["edit"]
    assert [rule["kind"] for rule in api.get("agents/reed/rules/").json()["results"]] == ["edit"]
    address = f"agents/reed/rules/{made.json()['id']}/"
    assert member.delete(address).status_code == 403
    assert admin.delete(address).status_code == 204
    assert admin.delete(address).status_code == 404


def test_always_over_the_api(api: Api, run: Run, operator: Agent, ana: Member, dora: Member, by_token: Enter) -> None:
    waiting = ask(api, run)[1]
    address = f"approvals/{waiting['approval']}/always/"
    assert by_token(dora.participant).post(address, {}).status_code == 403
    granted = by_token(ana.participant).post(address, {"note": "Fine"})
    assert (granted.status_code, granted.json()["scope"]) == (200, "always")
    assert CallRule.objects.get().pattern == "pytest -q"
    assert by_token(ana.participant).post(address, {}).status_code == 409


def test_its_plan_stands_in_the_thread(api: Api, run: Run, thread: Thread) -> None:
    entries = [{"content": "Look", "status": "completed", "priority": "high"}, {"content": "Mulch\nthe \u202ebeds"}]
    told = api.call("PUT", f"runs/{run.pk}/plan/", {"attempt": 1, "entries": entries})
    assert told.status_code == 200, told.json()
    assert told.json()["entries"][1] == {"content": "Mulch the \\u202ebeds", "status": "pending", "priority": "medium"}
    assert AgentPlan.objects.get().thread == thread
    for bad in ([{"content": "x"}] * 101, [{"content": "x" * 501}], [{"content": "x", "status": "lost"}], "x"):
        assert api.call("PUT", f"runs/{run.pk}/plan/", {"attempt": 1, "entries": bad}).status_code == 400
    api.call("PUT", f"runs/{run.pk}/plan/", {"attempt": 1, "entries": []})
    assert not AgentPlan.objects.exists()
    finish(api, run, body="Done.")
    assert api.call("PUT", f"runs/{run.pk}/plan/", {"attempt": 1, "entries": entries}).status_code == 409


def test_a_step_tells_of_the_files_it_changed(api: Api, run: Run) -> None:
    long = "@@ -1 +1 @@\n" + "-a\n+b\n" * 20_000
    files = [
        {"path": "a.py", "diff": long},
        {"path": "b.py", "diff": "+x\n", "added": 7},
        *[{"path": "c", "diff": long}] * 8,
    ]
    body = {"attempt": 1, "key": "s", "kind": "tool", "tool": "Edit", "tool_kind": "edit", "files": files}
    step = api.post(f"runs/{run.pk}/steps/", body).json()
    assert (step["tool_kind"], len(step["files"])) == ("edit", 10)
    first, second, *_, last = step["files"]
    assert (first["added"], first["removed"], second["added"], second["removed"]) == (20_000, 20_000, 7, 0)
    assert len(first["diff"]) <= 20_000
    assert first["unkept_lines"] == 40_001 - first["diff"].count("\n")
    assert (last["diff"], last["added"]) == ("", 20_000)
    kept = api.post(f"runs/{run.pk}/steps/", {**body, "files": [], "state": "done"}).json()
    assert len(kept["files"]) == 10
    too_many = api.post(f"runs/{run.pk}/steps/", {**body, "files": [{"path": "x"}] * 51})
    assert too_many.status_code == 400


def test_diffs_are_read_line_by_line() -> None:
    diff = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1 @@\n same\n--- gone\n+++ new\n"
    assert [line.kind for line in read_diff(diff)] == ["file", "file", "file", "hunk", "same", "del", "add"]
    assert read_diff("") == ()
    cut = cut_diff(diff, 60)
    assert (cut.added, cut.removed, cut.unkept_lines) == (1, 1, 2)
    assert cut_diff("+" * 100, 10).text == "+" * 10
    assert cut_diff("", 10) == ("", 0, 0, 0)
