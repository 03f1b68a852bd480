"""Cards of calls that agents elsewhere ask leave for, at the message and in *Work*, and the rules on the tools page."""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from agents.models import Agent, CallRule, Permission, Run
from agents.runs.external.lifecycle import ReportedUsage, append_words, begin_external_run, finish_external_run
from agents.runs.external.plans import replace_plan
from agents.runs.external.reported_steps import report_step
from agents.runs.permissions.requests import PermissionRequest, request_permission
from memory.work.models import Approval
from openvibe.chat.models import Channel, Message, Thread
from openvibe.chat.services import add_to_channel
from openvibe.workspaces.models import Member
from tests import factories
from tests.factories import access, say, signed_in

HTMX = {"HX-Request": "true"}


@pytest.fixture
def wren(ana: Member, channel: Channel) -> Agent:
    return factories.make_agent(ana, "wren", level=3, channel=channel, answers_itself=True)


@pytest.fixture
def question(ana: Member, wren: Agent, thread: Thread) -> Message:
    return say(thread, ana, "@wren mend the beds")


@pytest.fixture
def run(wren: Agent, question: Message) -> Run:
    return begin_external_run(agent=wren, message=question)


def ask(run: Run, key: str = "call-1", **facts: object) -> Approval:
    call = {"kind": "execute", "title": "Run the tests", "command": "pytest -q", **facts}
    permission, _ = request_permission(run=run, request=PermissionRequest(key=key, **call))  # type: ignore[arg-type]
    assert permission.approval is not None
    return permission.approval


def row(client: Client, message: Message) -> str:
    return client.get(f"/w/anas-garden/m/{message.pk}/", headers=HTMX).content.decode()


def test_the_card_stands_at_the_message(
    run: Run, question: Message, ana: Member, dora: Member, channel: Channel
) -> None:
    ask(run, key="plain")
    assert 'class="diff"' not in row(signed_in(ana), question)
    Permission.objects.all().delete()
    approval = ask(run, command="pytest <b> \u202e", diff="+<script>\n")
    shown, for_dora = row(signed_in(ana), question), row(signed_in(dora), question)
    assert "Wren is waiting for Ana or another member to decide: run a command" in shown
    assert "pytest &lt;b&gt; \\u202e" in shown
    assert "+&lt;script&gt;" in shown
    assert "Allow once" in shown
    assert "Allow once" in for_dora
    assert "Always for" not in for_dora
    signed_in(dora).post(
        f"/w/anas-garden/approvals/{approval.pk}/", {"granted": "yes", "from": "card", "note": "Do"}, headers=HTMX
    )
    assert (Permission.objects.get().state, Permission.objects.get().note) == ("allowed", "Do")
    assert "Allow once" not in row(signed_in(ana), question)


@pytest.mark.parametrize("has_words", [False, True])
def test_the_page_of_the_thread_shows_it_too_under_what_the_agent_wrote(
    run: Run, thread: Thread, ana: Member, has_words: bool
) -> None:
    if has_words:
        append_words(run=run, offset=0, words="I look at the beds.")
    ask(run, diff="+a\n")
    page = signed_in(ana).get(f"/w/anas-garden/t/{thread.pk}/")
    assert page.status_code == 200
    assert "Allow once" in page.content.decode()
    assert 'class="diff"' in page.content.decode()


def test_a_title_that_is_the_command_is_said_once(run: Run, question: Message, ana: Member) -> None:
    ask(run, title="pytest -q")
    assert "permission-title" not in row(signed_in(ana), question)
    ask(run, key="call-2", title="Run the tests", command="pytest -x")
    assert "permission-title" in row(signed_in(ana), question)


def test_a_reply_says_what_was_counted_where_its_agent_names_no_model(run: Run, ana: Member) -> None:
    append_words(run=run, offset=0, words="I looked at the beds.")
    usage = ReportedUsage(input_tokens=120, output_tokens=5)
    reply = finish_external_run(run=run, words="I looked at the beds.", usage=usage).reply
    assert reply is not None
    shown = row(signed_in(ana), reply)
    assert "wrote 5" in shown
    assert "run-model" not in shown


def test_guests_look_on_and_strangers_see_nothing(
    run: Run, question: Message, ben: Member, cleo: Member, channel: Channel, ana: Member
) -> None:
    approval = ask(run, diff="+a\n")
    add_to_channel(channel=channel, participant=ben.participant, by=access(ana))
    shown = row(signed_in(ben), question)
    assert "pytest -q" in shown
    assert "Allow once" not in shown
    assert signed_in(ben).post(f"/w/anas-garden/approvals/{approval.pk}/", {"granted": "yes"}).status_code == 403
    assert signed_in(ben).post(f"/w/anas-garden/approvals/{approval.pk}/always/", {}).status_code == 403
    assert signed_in(ben).get(f"/w/anas-garden/approvals/{approval.pk}/diff/").content == b"+a\n"
    for address in ("diff/", "always/", ""):
        path = f"/w/anas-garden/approvals/{approval.pk}/{address}"
        answer = signed_in(cleo).get(path) if address == "diff/" else signed_in(cleo).post(path, {"granted": "yes"})
        assert answer.status_code == 404


def test_a_long_change_says_what_is_not_shown(run: Run, question: Message, ana: Member) -> None:
    ask(run, kind="edit", command="", paths=("/etc/x", "a.py"), folder="/p", diff="+line\n" * 100_000)
    shown = row(signed_in(ana), question)
    assert shown.count('diff-add">') == 400
    assert "+100,000" in shown
    assert "outside its folder" in shown
    assert "is not kept and not shown" in shown
    assert len(shown) < 120_000


def test_always_is_an_admins_and_may_be_narrowed(run: Run, ana: Member, dora: Member) -> None:
    approval = ask(run)
    address = f"/w/anas-garden/approvals/{approval.pk}/always/"
    assert signed_in(dora).post(address, {"pattern": "pytest *"}).status_code == 403
    assert signed_in(ana).post(address, {"pattern": "make *"}).status_code == 400
    assert not CallRule.objects.exists()
    answer = signed_in(ana).post(address, {"pattern": "pytest *", "from": "card"}, headers=HTMX)
    assert "from now on" in answer.content.decode()
    assert CallRule.objects.get().pattern == "pytest *"


def test_work_shows_the_card_the_plan_and_what_was_decided(run: Run, thread: Thread, ana: Member) -> None:
    replace_plan(run=run, entries=[{"content": "<i>Look</i>", "status": "completed", "priority": "high"}])
    approval = ask(run)
    page = signed_in(ana).get(f"/w/anas-garden/t/{thread.pk}/work/").content.decode()
    assert "&lt;i&gt;Look&lt;/i&gt;" in page
    assert "1 of 1 done" in page
    assert "Always allow" in page
    signed_in(ana).post(f"/w/anas-garden/approvals/{approval.pk}/", {"granted": "no", "note": "Not now"})
    page = signed_in(ana).get(f"/w/anas-garden/t/{thread.pk}/work/").content.decode()
    assert "Not now" in page
    assert "pytest -q" in page


def test_files_that_were_changed_are_folded_under_the_reply(run: Run, question: Message, ana: Member) -> None:
    facts = {"text": "", "arguments": "", "result": "", "seconds": 0.0, "state": "done", "tool_kind": "edit"}
    for number in range(2):
        files = [{"path": "a<b>.py", "diff": "@@ -1 +1 @@\n-<old>\n+new\n"}, {"path": f"{number}.py", "diff": "+x\n"}]
        report_step(run=run, key=f"s{number}", kind="tool", tool="Edit", files=files, **facts)
    shown = row(signed_in(ana), question)
    assert "3 files changed" in shown
    fold = signed_in(ana).get(f"/w/anas-garden/runs/{run.pk}/files/", headers=HTMX).content.decode()
    assert "a&lt;b&gt;.py" in fold
    assert '<span class="diff-del">-&lt;old&gt;' in fold
    assert "+2" in fold
    assert "−2" in fold


def test_ten_cards_cost_as_many_statements_as_one(run: Run, question: Message, ana: Member) -> None:
    client = signed_in(ana)
    ask(run)
    row(client, question)
    with CaptureQueriesContext(connection) as one:
        row(client, question)
    for number in range(8):
        ask(run, key=f"k{number}", command=f"make {number}")
    with CaptureQueriesContext(connection) as many:
        row(client, question)
    assert len(one) == len(many)


def test_rules_are_made_on_the_tools_page(wren: Agent, ana: Member, dora: Member, channel: Channel) -> None:
    address = "/w/anas-garden/agents/wren/rules/"
    rule = {"kind": "edit", "effect": "allow", "pattern": "src/**", "channel": channel.pk}
    assert signed_in(dora).post(address, rule).status_code == 403
    bad = signed_in(ana).post(address, {**rule, "pattern": "../x"})
    assert bad.status_code == 422
    assert "no “..”" in bad.content.decode()
    assert 'value="../x"' in bad.content.decode()
    assert signed_in(ana).post(address, rule).status_code == 302
    page = signed_in(ana).get("/w/anas-garden/agents/wren/tools/").content.decode()
    assert "src/**" in page
    assert "Change a file" in page
    made = CallRule.objects.get()
    assert signed_in(dora).post(f"{address}{made.pk}/delete/").status_code == 403
    assert signed_in(ana).post(f"{address}{made.pk}/delete/").status_code == 302
    assert not CallRule.objects.exists()


def test_how_long_a_call_waits_is_a_setting(wren: Agent, ana: Member, channel: Channel) -> None:
    form = {"answers_itself": "True", "daily_token_budget": 1, "proactive_cooldown": 5, "channels": [channel.pk]}
    form |= {"is_active": "on", "permission_minutes": 0}
    assert signed_in(ana).post("/w/anas-garden/agents/wren/settings/", form).status_code == 422
    signed_in(ana).post("/w/anas-garden/agents/wren/settings/", {**form, "permission_minutes": 90})
    wren.refresh_from_db()
    assert wren.permission_minutes == 90
