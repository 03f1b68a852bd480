"""Nobody sees what they may not: every route × every caller × every kind of place, by token and by session.

A route without a row fails. What the caller may not see answers exactly as what does not exist.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

import pytest
from django.db import connection, transaction
from django.test import Client
from django.urls import URLPattern, URLResolver
from django.utils import timezone
from hypothesis import settings
from rest_framework.request import Request
from rest_framework.test import APIRequestFactory

from openvibe.api.models import Token
from openvibe.api.services import issue_token
from openvibe.urls import api_urlpatterns
from openvibe.workspaces.api.auth import MemberSession
from openvibe.workspaces.queries import participant_access
from tests.api.access_matrix import AGENTS, CALLERS, OUTSIDE, PEOPLE, PLACES, UNKNOWN, Scene, make_scene, may_see
from tests.api.client import Api, is_problem
from tests.factories import SOUL

pytestmark = pytest.mark.django_db
METHODS = ("get", "post", "put", "patch", "delete")
NOT_AGENTS = dict.fromkeys(AGENTS, 403)
OTHERS = {**NOT_AGENTS, "dora": 403}
OTHER_AGENTS = dict.fromkeys(("l2", "l3", "l4"), 403)
RESULT = {"headline": "In March", "bullets": ["One", "Two", "Three"]}
NOT_ITS_OWN = {**OTHER_AGENTS, "dora": 403}
ENDS = ("open", "elsewhere")
"""Places of which everybody sees one at most. By session they are enough: it leads to the token's access (tested)."""
MEMBERS_ONLY = {**NOT_AGENTS, "ben": 403}


@dataclass(frozen=True)
class Row:
    """What a route answers callers who may see the `thing` its address (or body) names; `but` for some of them."""

    path: str
    thing: str = ""
    status: int = 200
    but: dict[str, int] = field(default_factory=dict)
    body: dict[str, Any] | None = None
    headers: dict[str, str] = field(default_factory=dict)
    lists: str = ""
    public: bool = False
    refused_first: bool = False  # some are refused before anything is looked up

    def expected(self, caller: str) -> int:
        return self.but.get(caller, self.status)


ROWS = {
    "GET api-schema": Row("schema/", public=True),
    "GET api-docs": Row("docs/", public=True),
    "ANY api-not-here": Row("nothing/at/all/", public=True, status=404),
    "GET api-me": Row("me/"),
    "GET api-workspace": Row("workspace/"),
    "PATCH api-workspace": Row("workspace/", but=OTHERS | {"ben": 403}, body={"description": "A garden."}),
    "GET api-audit": Row("audit/"),
    "GET api-snippets": Row("snippets/"),
    "POST api-snippets": Row(
        "snippets/", status=201, but=OTHERS | {"ben": 403}, body={"name": "tone", "content": "Be brief."}
    ),
    "GET api-snippet": Row("snippets/1/", status=404),
    "PATCH api-snippet": Row("snippets/1/", status=404, body={"content": "Be kind."}, headers={"If_Match": '"1"'}),
    "DELETE api-snippet": Row("snippets/1/", status=404),
    "GET api-tokens": Row("tokens/", lists="token"),
    "POST api-tokens": Row("tokens/", status=201, body={"name": "x", "scopes": ["read"]}),
    "DELETE api-token": Row("tokens/{token}/", "token", 204),
    "GET api-imports": Row("imports/", but=OTHERS | {"ben": 403}),
    "POST api-imports": Row("imports/", status=415, body={}),
    "GET api-import": Row("imports/1/", status=404, but=OTHERS | {"ben": 403}),
    "GET api-import-account": Row("imports/1/account/", status=404, but=OTHERS | {"ben": 403}),
    "DELETE api-import-notes": Row("imports/notes/", status=204, but=NOT_AGENTS),
    "GET api-webhooks": Row("webhooks/"),
    "POST api-webhooks": Row(
        "webhooks/",
        status=201,
        but={"dora": 403, "ben": 403},
        body={"url": "https://93.184.216.34/", "kinds": ["mention"]},
    ),
    **{f"{method} api-webhook": Row("webhooks/1/", status=404, body={}) for method in ("GET", "PATCH", "DELETE")},
    "POST api-webhook-rotate": Row("webhooks/1/rotate/", status=404),
    "POST api-webhook-resume": Row("webhooks/1/resume/", status=404),
    "POST api-webhook-test": Row("webhooks/1/test/", status=404),
    "GET api-deliveries": Row("webhooks/1/deliveries/", status=404),
    "POST api-delivery-send": Row("webhooks/1/deliveries/1/send/", status=404),
    "GET api-channels": Row("channels/", lists="channel"),
    "POST api-channels": Row("channels/", status=201, but={**NOT_AGENTS, "ben": 403}, body={"name": "new"}),
    "GET api-channel": Row("channels/{channel}/", "channel"),
    "GET api-channel-effective": Row("channels/{channel}/effective/", "channel"),
    "PATCH api-channel": Row("channels/{channel}/", "channel", 200, OTHERS, body={"instructions": "Be brief."}),
    "GET api-notifications": Row("notifications/", but=NOT_AGENTS),
    "PATCH api-notifications": Row("notifications/", but=NOT_AGENTS, body={"level": "all"}),
    "GET api-do-not-disturb": Row("do-not-disturb/", but=NOT_AGENTS),
    "PATCH api-do-not-disturb": Row("do-not-disturb/", but=NOT_AGENTS, body={"until": None}),
    "GET api-channel-notifications": Row("channels/{channel}/notifications/", "channel", but=NOT_AGENTS),
    "PUT api-channel-notifications": Row(
        "channels/{channel}/notifications/", "channel", but=NOT_AGENTS, body={"level": "nothing"}
    ),
    "GET api-thread-notifications": Row("threads/{thread}/notifications/", "thread", but=NOT_AGENTS),
    "PUT api-thread-notifications": Row(
        "threads/{thread}/notifications/", "thread", but=NOT_AGENTS, body={"level": None}
    ),
    "GET api-people": Row("people/", lists="person"),
    "GET api-thread-effective": Row("threads/{thread}/effective/", "thread"),
    "GET api-thread-export": Row("threads/{thread}/export/", "thread", 200, NOT_AGENTS),
    "POST api-thread-read": Row("threads/{thread}/read/", "thread", body={"seq": 1}),
    "GET api-direct-messages": Row("direct-messages/"),
    "POST api-direct-messages": Row("direct-messages/", "agent", 201, NOT_AGENTS, body={"to": "{agent}"}),
    "GET api-threads": Row("threads/", lists="thread"),
    "POST api-threads": Row("threads/", "channel", 201, body={"channel": "{channel}", "title": "New"}),
    "GET api-thread": Row("threads/{thread}/", "thread"),
    "PATCH api-thread": Row("threads/{thread}/", "thread", 200, OTHERS, body={"title": "Newer"}),
    "GET api-messages": Row("threads/{thread}/messages/", "thread"),
    "GET api-messages-search": Row("threads/{thread}/search/?q=roses", "thread"),
    "POST api-messages": Row("threads/{thread}/messages/", "thread", 201, body={"body": "Hello"}),
    "GET api-message": Row("messages/{message}/", "message"),
    "PATCH api-message": Row("messages/{message}/", "message", 200, OTHERS, body={"body": "Changed"}),
    "DELETE api-message": Row("messages/{message}/", "message", 204, OTHERS),
    "GET api-sidebar": Row("sidebar/", but=NOT_AGENTS),
    "PATCH api-sidebar": Row("sidebar/", but=NOT_AGENTS, body={"order": "unread"}),
    "PUT api-channel-favourite": Row("channels/{channel}/favourite/", "channel", 204, NOT_AGENTS),
    "DELETE api-channel-favourite": Row("channels/{channel}/favourite/", "channel", 204, NOT_AGENTS),
    # A thread of a channel is none of direct messages.
    "PUT api-direct-favourite": Row("threads/{thread}/favourite/", "thread", 404),
    "DELETE api-direct-favourite": Row("threads/{thread}/favourite/", "thread", 404),
    "PUT api-channel-membership": Row("channels/{channel}/membership/", "channel", 204, MEMBERS_ONLY),
    "DELETE api-channel-membership": Row("channels/{channel}/membership/", "channel", 204),
    "GET api-saved": Row("saved/", but=NOT_AGENTS),
    "PUT api-message-saved": Row("messages/{message}/saved/", "message", 204, NOT_AGENTS),
    "DELETE api-message-saved": Row("messages/{message}/saved/", "message", 204, NOT_AGENTS),
    "GET api-reactions": Row("messages/{message}/reactions/", "message"),
    "POST api-reactions": Row("messages/{message}/reactions/", "message", 201, body={"emoji": "👍"}),
    "DELETE api-reactions": Row("messages/{message}/reactions/?emoji=👍", "message", 204),
    # For whoever may delete the message; nothing repeats it.
    "GET api-message-quotes": Row("messages/{message}/quotes/", "message", 200, dict.fromkeys(OTHERS, 404)),
    "DELETE api-message-quote": Row("messages/{message}/quotes/message/1/", "message", 404),
    "GET api-image": Row("images/{image}/", "image"),
    "PATCH api-image": Row("images/{image}/", "image", 200, OTHERS, body={"description": "A hedge"}),
    "GET api-image-content": Row("images/{image}/content/", "image"),
    "GET api-attachment": Row("attachments/{attachment}/", "attachment"),
    "GET api-attachment-content": Row("attachments/{attachment}/content/", "attachment"),
    "GET api-dives": Row("dives/", lists="dive"),
    # Only Cleo's agent is of a level that dives.
    "POST api-dives": Row("dives/", "message", 403, {"cleo": 201}, {"message": "{message}", "agent": "{agent}"}),
    "GET api-dive": Row("dives/{dive}/", "dive"),
    "GET api-dive-draft": Row("dives/{dive}/draft/", "dive"),
    "POST api-dive-draft": Row("dives/{dive}/draft/", "dive", 403, {"cleo": 202}),
    "POST api-dive-publish": Row("dives/{dive}/publish/", "dive", 201, OTHERS, RESULT),
    "POST api-dive-discard": Row("dives/{dive}/discard/", "dive", 200, OTHERS),
    "GET api-search": Row("search/?q=roses", lists="message"),
    "GET api-events": Row("events/", status=503),  # without the server of `make run`; who may not listen is told before
    "GET api-feedback": Row("feedback/", lists="feedback"),
    "POST api-feedback": Row(
        "feedback/", "message", 201, NOT_AGENTS, body={"message": "{reply}", "verdict": "down", "text": "Why?"}
    ),
    "GET api-sessions": Row("sessions/", lists="session"),
    "POST api-sessions": Row(
        "sessions/", "channel", 201, dict.fromkeys((*PEOPLE, "cleo"), 403), {"channel": "{channel}", "title": "Own"}
    ),
    "GET api-session": Row("sessions/{session}/", "session"),
    "PATCH api-session": Row("sessions/{session}/", "session", body={"info": {"kept": True}}),
    "GET api-session-messages": Row("sessions/{session}/messages/", "session"),
    "POST api-session-messages": Row(
        "sessions/{session}/messages/", "session", 201, body={"messages": [{"role": "user", "body": "Hello"}]}
    ),
    "GET api-schedules": Row("schedules/"),
    "POST api-schedules": Row(
        "schedules/",
        "thread",
        403,
        body={
            "agent": "{agent}",
            "thread": "{thread}",
            "name": "Noon",
            "cron": "0 12 * * *",
            "prompt": "Say what is open.",
        },
    ),
    "GET api-schedule": Row("schedules/1/", status=404),
    "PATCH api-schedule": Row("schedules/1/", status=404, body={"name": "One"}),
    "DELETE api-schedule": Row("schedules/1/", status=404),
    "POST api-schedule-stop": Row("schedules/1/stop/", status=404),
    "GET api-watches": Row("watches/"),
    "POST api-watches": Row("watches/", "channel", 403, body={"agent": "{agent}", "channel": "{channel}"}),
    "GET api-watch": Row("watches/1/", status=404),
    "PATCH api-watch": Row("watches/1/", status=404, body={"rest_minutes": 9}),
    "POST api-watch-stop": Row("watches/1/stop/", status=404),
    "GET api-episodes": Row("episodes/", lists="episode"),
    "POST api-episode-applied": Row("episodes/{episode}/applied/", "episode", 200, NOT_AGENTS),
    "POST api-episode-suggest": Row("episodes/{episode}/suggest/", "episode", 200, NOT_AGENTS),
    "GET api-proposals": Row("proposals/", lists="proposal"),
    "POST api-proposal-accept": Row("proposals/{proposal}/accept/", "proposal", 409, NOT_AGENTS),
    "POST api-proposal-reject": Row("proposals/{proposal}/reject/", "proposal", 409, NOT_AGENTS),
    "POST api-proposal-undo": Row("proposals/{proposal}/undo/", "proposal", 200, NOT_AGENTS),
    "GET api-memory-tool": Row("memory/tool/"),
    "POST api-memory-tool": Row("memory/tool/", "memory", 200, body={"thread": "{thread}", "action": "status"}),
    "GET api-memory-stats": Row("memory/stats/?thread={thread}", "memory"),
    "POST api-memory-compact": Row("memory/compact/", "memory", 202, body={"thread": "{thread}"}),
    "POST api-memory-resume": Row("memory/resume/", status=403, but={"ana": 409, "cleo": 409}),
    "GET api-memory-summary": Row("memory/summaries/999999/?thread={thread}", "memory", 404),
    "PATCH api-memory-summary": Row(
        "memory/summaries/999999/",
        "memory",
        404,
        body={"thread": "{thread}", "version": 1, "content": "They spoke of roses."},
    ),
    "GET api-compactions": Row("memory/compactions/", lists="compaction"),
    "GET api-compaction": Row("memory/compactions/{compaction}/", "compaction"),
    "GET api-work": Row("work/", lists="work"),
    "POST api-work": Row("work/", "thread", 201, body={"thread": "{thread}", "kind": "todo", "text": "Prune"}),
    "GET api-one-work": Row("work/{work}/", "work"),
    "PATCH api-one-work": Row("work/{work}/", "work", body={"state": "done"}, headers={"If_Match": '"1"'}),
    "POST api-work-decide": Row(
        "work/{work}/decide/", "work", 400, NOT_AGENTS, body={"confirmed": True}, headers={"If_Match": '"1"'}
    ),
    "DELETE api-one-work": Row("work/{work}/", "work", 204, headers={"If_Match": '"1"'}),
    "GET api-progress": Row("progress/", lists="progress"),
    "POST api-progress": Row("progress/", "thread", 201, body={"thread": "{thread}", "checkpoint": "Dug"}),
    "GET api-approvals": Row("approvals/", lists="approval"),
    "POST api-approvals": Row("approvals/", "thread", 201, body={"thread": "{thread}", "what": "Order more"}),
    "POST api-approval-decide": Row(
        "approvals/{approval}/decide/", "approval", 200, NOT_AGENTS, body={"granted": True}
    ),
    "GET api-knowledge": Row("knowledge/", lists="entry"),
    "POST api-knowledge": Row(
        "knowledge/", "message", 201, MEMBERS_ONLY, {"topic": "Roses", "content": "In sun.", "message": "{message}"}
    ),
    "POST api-knowledge-suggest": Row(
        "knowledge/suggest/",
        "message",
        201,
        {"l1": 403},
        {"topic": "Roses", "content": "In sun.", "message": "{message}"},
    ),
    "POST api-knowledge-import": Row(
        "knowledge/import/", "", 200, MEMBERS_ONLY, {"form": "csv", "text": "topic,content\nRoses,In sun.\n"}
    ),
    "GET api-knowledge-export": Row("knowledge/export/", "", 200, NOT_AGENTS),
    "GET api-knowledge-search": Row("knowledge/search/?q=roses"),
    "POST api-knowledge-similar": Row("knowledge/similar/", body={"text": "Roses"}),
    "GET api-knowledge-index": Row("knowledge/index/"),
    "GET api-contradictions": Row("knowledge/contradictions/", lists="contradiction"),
    "POST api-contradiction-settle": Row(
        "knowledge/contradictions/{contradiction}/settle/", "contradiction", 200, MEMBERS_ONLY, {"how": "both_hold"}
    ),
    "GET api-entry": Row("knowledge/{entry}/", "entry"),
    "PATCH api-entry": Row(
        "knowledge/{entry}/", "entry", 200, MEMBERS_ONLY, {"content": "Prune in May."}, {"If_Match": '"1"'}
    ),
    "GET api-entry-revisions": Row("knowledge/{entry}/revisions/", "entry", 200, NOT_AGENTS),
    "GET api-entry-uses": Row("knowledge/{entry}/uses/", "entry"),
    "POST api-entry-renew": Row("knowledge/{entry}/renew/", "entry", 200, MEMBERS_ONLY, {"expires_at": "90d"}),
    "POST api-entry-supersede": Row(
        "knowledge/{entry}/supersede/", "entry", 201, MEMBERS_ONLY, {"content": "Prune in May."}
    ),
    "POST api-entry-archive": Row("knowledge/{entry}/archive/", "entry", 200, MEMBERS_ONLY, {"note": "Old"}),
    "POST api-entry-restore": Row("knowledge/{entry}/restore/", "entry", 409, MEMBERS_ONLY),
    "POST api-entry-accept": Row("knowledge/{suggestion}/accept/", "suggestion", 200, MEMBERS_ONLY),
    "POST api-entry-reject": Row("knowledge/{suggestion}/reject/", "suggestion", 200, MEMBERS_ONLY),
    "POST api-entry-undo": Row("knowledge/{entry}/undo/", "entry", 409, MEMBERS_ONLY),
    "POST api-entry-flag": Row("knowledge/{entry}/flag/", "entry", 200, MEMBERS_ONLY, {"reason": "wrong"}),
    "GET api-runs": Row("runs/", lists="run"),
    "GET api-run": Row("runs/{run}/", "run"),
    "GET api-run-context": Row("runs/{run}/context/", "run", 409),
    "POST api-runs": Row(
        "runs/", "message", 403, body={"message": "{message}"}, refused_first=True
    ),  # none answers by itself
    "POST api-run-context": Row("runs/{run}/context/", "run", 403, body={"attempt": 1}),
    "PATCH api-run-reply": Row("runs/{run}/reply/", "run", 403, body={"attempt": 1, "offset": 0, "body": "Yes"}),
    "POST api-run-steps": Row(
        "runs/{run}/steps/", "run", 403, body={"attempt": 1, "key": "k", "kind": "note", "text": "Looks."}
    ),
    "POST api-run-permissions": Row(
        "runs/{run}/permissions/", "run", 403, body={"attempt": 1, "key": "k", "kind": "read", "title": "Look"}
    ),
    "GET api-run-permission": Row("runs/{run}/permissions/k/", "run", 403),
    "PUT api-run-plan": Row("runs/{run}/plan/", "run", 403, body={"attempt": 1, "entries": []}),
    "POST api-run-finish": Row("runs/{run}/finish/", "run", 403, body={"attempt": 1}),
    "POST api-run-stop": Row("runs/{run}/stop/", "run"),
    "POST api-run-heard": Row("runs/{run}/heard/", "run", 403, body={"attempt": 1}),
    "POST api-run-resume": Row("runs/{run}/resume/", "run", 403, body={"attempt": 1}),
    "POST api-run-interrupt": Row("runs/{run}/interrupt/", "run", 409, NOT_AGENTS),
    "POST api-run-retry": Row("runs/{run}/retry/", "run", 409, NOT_AGENTS),
    "POST api-run-regenerate": Row("runs/{run}/regenerate/", "run", 409, NOT_AGENTS),
    "POST api-assemble": Row(
        "context/assemble/", "prompt", 200, {"dora": 403}, {"thread": "{thread}", "task": "mention"}, refused_first=True
    ),
    "GET api-agents": Row("agents/", lists="agent"),
    "POST api-agents": Row(
        "agents/", status=201, but=OTHERS | {"ben": 403}, body={"name": "Reed", "purpose": "Reviews the shop"}
    ),
    "POST api-join-codes": Row("agents/{agent}/join-codes/", "agent", 409, OTHERS | {"l1": 403}, {"command": "goose"}),
    "POST api-join": Row("join/", public=True, status=400, body={"code": "7K3M-QX2P-9RTD"}),
    "GET api-agent": Row("agents/{agent}/", "agent"),
    "PATCH api-agent": Row("agents/{agent}/", "agent", 200, OTHERS | {"l1": 403}, {"level": 2, "note": "Good answers"}),
    "GET api-agent-cache": Row("agents/{agent}/cache/", "agent"),
    "GET api-agent-rules": Row("agents/{agent}/rules/", "agent", 200, {**NOT_AGENTS, "l1": 200}),
    "POST api-agent-rules": Row(
        "agents/{agent}/rules/", "agent", 201, OTHERS | {"l1": 403}, {"kind": "edit", "effect": "ask"}
    ),
    "DELETE api-agent-rule": Row(
        "agents/{agent}/rules/987654321/",
        "agent",
        404,  # a rule that there is not
        {**NOT_AGENTS, "l1": 404},
    ),
    "POST api-approval-always": Row(
        "approvals/{approval}/always/",
        "approval",
        404,  # it is about no call of an agent elsewhere
        OTHERS | {"l1": 403},
        {},
    ),
    "GET api-soul": Row("agents/{agent}/soul/", "agent", 200, {**OTHERS, "l1": 200}),
    "PUT api-soul": Row(
        "agents/{agent}/soul/",
        "agent",
        200,
        OTHERS,
        {"source": SOUL.format(name="L1"), "note": "Again"},
        {"If_Match": '"1"'},
    ),
    "POST api-soul-rules": Row(
        "agents/{agent}/soul/rules/",
        "agent",
        404,  # feedback that there is not
        OTHERS,
        {"feedback": [999_999], "rule": "Name the month", "note": "Always"},
        {"If_Match": '"1"'},
    ),
    "GET api-blocks": Row("blocks/?agent={agent}", "agent", 200, OTHER_AGENTS),
    "POST api-blocks": Row("blocks/?agent={agent}", "agent", 201, NOT_ITS_OWN, {"label": "new", "content": "New"}),
    "GET api-blocks-tools": Row("blocks/tools/?agent={agent}", "agent", 200, OTHER_AGENTS),
    "GET api-blocks-text": Row("blocks/text/?agent={agent}", "agent", 200, OTHER_AGENTS),
    "GET api-block": Row("blocks/notes/?agent={agent}", "agent", 200, OTHER_AGENTS),
    "PUT api-block": Row(
        "blocks/notes/?agent={agent}", "agent", 200, NOT_ITS_OWN, {"content": "Newer"}, {"If_Match": "{block}"}
    ),
    "DELETE api-block": Row("blocks/notes/?agent={agent}", "agent", 204, NOT_ITS_OWN),
    "POST api-block-append": Row("blocks/notes/append/?agent={agent}", "agent", 200, NOT_ITS_OWN, {"content": "More"}),
    "GET api-profile": Row("profile/?agent={agent}&person={person}", "agent", 200, NOT_ITS_OWN),
    "PUT api-profile": Row(
        "profile/?agent={agent}&person={person}",
        "agent",
        200,
        NOT_ITS_OWN,
        {"content": "Likes roses."},
        {"If_Match": '"0"'},
    ),
}
NAMING = [name for name, row in ROWS.items() if row.thing]
LISTING = [name for name, row in ROWS.items() if row.lists]
PLAIN = [name for name, row in ROWS.items() if not row.thing and not row.lists and not row.public]


@pytest.fixture(scope="module")
def scene(module_transaction: None) -> Scene:
    """A scene that is built once for all tests here; what a call changes is taken back (see `ask`)."""
    scene = make_scene()
    connection.check_constraints()  # else each test would end with checking all of it again
    return scene


class Entrance:
    """Lets the callers of a scene in, by token or, for people, by session."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        ways = [
            *((caller, way) for caller in CALLERS for way in self.ways(caller)),
            *((who, "token") for who in OUTSIDE),
        ]
        self._apis = {(caller, way): self._enter(caller, way) for caller, way in ways}

    def ways(self, caller: str) -> tuple[str, ...]:
        return ("token",) if caller in AGENTS else ("token", "session")

    def api(self, caller: str, way: str = "token") -> Api:
        return self._apis[caller, way]

    def _enter(self, caller: str, way: str) -> Api:
        if caller == "anonymous":
            return Api(Client(), {})
        if caller == "revoked":
            return Api(Client(), {"Authorization": f"Bearer {self.scene.revoked}"})
        if way == "session":
            client = Client()
            client.force_login(self.scene.members[caller].user)
            api = Api(client, {})
            api.get("me/")  # else each call on it would note the session's first use
            return api
        token, secret = issue_token(
            participant=self.scene.participant(caller),
            name="matrix",
            scopes=["read", "write", "memory", "knowledge", "admin"],
        )
        # Else a call on it would write that, and every call of a run that takes minutes.
        Token.objects.filter(pk=token.pk).update(last_used_at=timezone.now() + timedelta(days=1))
        return Api(Client(), {"Authorization": f"Bearer {secret}"})


@pytest.fixture(scope="module")
def entrance(scene: Scene) -> Entrance:
    return Entrance(scene)


@dataclass(frozen=True)
class Call:
    """One request, as it is sent. `headers` and `body` as JSON, so that the same call is the same key."""

    method: str
    path: str
    body: str
    headers: str

    def send(self, api: Api) -> Any:
        return api.call(self.method, self.path, json.loads(self.body), **json.loads(self.headers))


def call_of(name: str, ids: dict[str, int | str], caller: str = "") -> Call:
    """The row's call, with these ids in its address, body and headers."""
    row = ROWS[name]
    body = row.body and {
        key: ids[value[1:-1]] if isinstance(value, str) and value.startswith("{") else value
        for key, value in row.body.items()
    }
    if name == "POST api-assemble" and caller not in AGENTS:
        body = {**(body or {}), "agent": ids["agent"]}
    headers = {header: value.format(**ids) for header, value in row.headers.items()}
    return Call(method_of(name), row.path.format(**ids), json.dumps(body), json.dumps(headers))


def make_call(api: Api, name: str, ids: dict[str, int | str], caller: str = "") -> Any:
    """The answer to the row's call."""
    return call_of(name, ids, caller).send(api)


def method_of(name: str) -> str:
    return name.split()[0].replace("ANY", "GET")


class Ask(Protocol):
    def __call__(self, api: Api, name: str, ids: dict[str, int | str], caller: str = "") -> Any: ...


@pytest.fixture
def ask(scene: Scene, db: None) -> Ask:
    """The answer to a row's call. What it changed is taken back: what is refused or only read leaves nothing to take
    back. So the very same call has the same answer, and is sent once: several places may have one channel or agent."""
    untouched = transaction.savepoint()
    answers: dict[tuple[int, Call], Any] = {}

    def answer_of(api: Api, name: str, ids: dict[str, int | str], caller: str = "") -> Any:
        call = call_of(name, ids, caller)
        if (key := (id(api), call)) not in answers:
            answer = call.send(api)
            if call.method != "GET" and answer.status_code < 400:
                transaction.savepoint_rollback(untouched)
            if answer.streaming:
                return answer
            answers[key] = answer
        return answers[key]

    return answer_of


def routes(patterns: list[URLPattern | URLResolver]) -> Iterator[str]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            yield from routes(pattern.url_patterns)
            continue
        view = getattr(pattern.callback, "view_class", None)
        named = [method for method in METHODS if hasattr(view, method)]
        if view is None:
            named = ["get"]
        yield from (f"{method.upper()} {pattern.name}" for method in named or ["any"])


def test_every_route_has_a_row() -> None:
    assert set(routes(api_urlpatterns)) == set(ROWS)


@pytest.mark.parametrize("name", NAMING)
def test_seen_answers_and_unseen_is_unknown(scene: Scene, entrance: Entrance, ask: Ask, name: str) -> None:
    row = ROWS[name]
    named = "thread" if row.thing in ("prompt", "memory") else row.thing
    nowhere = {**scene.places["open"].ids(), named: UNKNOWN[named], "reply": UNKNOWN["reply"]}
    for caller in CALLERS:
        for way in entrance.ways(caller):
            api = entrance.api(caller, way)
            unknown = ask(api, name, nowhere, caller)
            assert unknown.status_code == 404 or (row.refused_first and unknown.status_code == 403), (caller, way)
            for place in PLACES if way == "token" or settings.get_current_profile_name() == "nightly" else ENDS:
                answer = ask(api, name, scene.places[place].ids(), caller)
                content = answer.getvalue()  # also of a stream
                where = (caller, way, place, content)
                if may_see(caller, row.thing, place):
                    assert answer.status_code == row.expected(caller), where
                else:
                    assert (answer.status_code, content) == (unknown.status_code, unknown.content), where


@pytest.mark.parametrize("name", LISTING)
def test_lists_hold_what_the_caller_sees_and_nothing_else(
    scene: Scene, entrance: Entrance, ask: Ask, name: str
) -> None:
    row = ROWS[name]
    column = "handle" if row.lists in ("agent", "person") else "id"
    for caller in CALLERS:
        columns = []
        for way in entrance.ways(caller):
            answer = ask(entrance.api(caller, way), name, UNKNOWN)
            assert answer.status_code == row.expected(caller) == 200, (caller, answer.content)
            columns.append({result[column] for result in answer.json()["results"]})
            for place in PLACES:
                listed = scene.places[place].ids()[row.lists] in columns[-1]
                assert listed == may_see(caller, row.lists, place), (caller, way, place)
        if row.lists != "token":  # the matrix itself makes one for each caller
            assert all(others == columns[0] for others in columns)


def test_the_rest_is_for_everybody_who_belongs(entrance: Entrance, ask: Ask) -> None:
    for name in PLAIN:
        for caller in CALLERS:
            for way in entrance.ways(caller):
                answer = ask(entrance.api(caller, way), name, UNKNOWN)
                assert answer.status_code == ROWS[name].expected(caller), (name, caller, way)


@pytest.mark.parametrize("caller", OUTSIDE)
def test_outside_nothing_can_be_asked(scene: Scene, entrance: Entrance, ask: Ask, caller: str) -> None:
    code = "bad_token" if caller == "revoked" else "not_authenticated"

    for name in (name for name, row in ROWS.items() if not row.public):
        for place in PLACES:
            answer = ask(entrance.api(caller), name, scene.places[place].ids())
            assert is_problem(answer, 401, code), name
            assert answer["WWW-Authenticate"].startswith("Bearer")


def test_what_is_public_says_nothing_of_anybody(entrance: Entrance, ask: Ask) -> None:
    for name in (name for name, row in ROWS.items() if row.public):
        answers = [ask(entrance.api(caller), name, UNKNOWN) for caller in ("anonymous", "ana", "l1")]

        assert [answer.status_code for answer in answers] == [ROWS[name].status] * 3, name
        assert len({answer.content for answer in answers}) == 1, name


@pytest.mark.parametrize("person", [*PEOPLE, "cleo"])
def test_a_session_leads_to_the_access_of_a_token(scene: Scene, person: str) -> None:
    member = scene.members[person]
    request = Request(APIRequestFactory().get("/"))
    request._request.user = member.user
    signed_in = MemberSession().authenticate(request)
    assert signed_in is not None
    caller, _ = signed_in

    assert (caller.participant, caller.access) == (member.participant, participant_access(member.participant))


def test_a_narrower_token_of_the_same_member_sees_the_same(scene: Scene, entrance: Entrance) -> None:
    full = entrance.api("dora")
    with transaction.atomic():
        _, secret = issue_token(participant=scene.participant("dora"), name="narrow", scopes=["read"])
        narrow = Api(Client(), {"Authorization": f"Bearer {secret}"})
        seen, seen_narrowly = full.get("threads/"), narrow.get("threads/")
        assert Token.objects.filter(name="narrow").exists()
        transaction.set_rollback(True)

    assert seen.status_code == 200
    assert seen.json() == seen_narrowly.json()
