"""The doors: who gets in: tokens and browser sessions, until the very moment they do not."""

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.test import Client, override_settings
from django.utils import timezone

from agents.agent.services import deactivate_agent
from agents.models import Agent
from openvibe.api.models import Token
from openvibe.api.services import issue_token, revoke_token
from openvibe.base.models import AuditRecord
from openvibe.base.problems import Problem, Refused
from openvibe.chat.models import Thread
from openvibe.chat.services import add_to_channel, remove_from_channel
from openvibe.workspaces.models import Member
from openvibe.workspaces.services import add_member, create_workspace, remove_member, update_member_role
from tests import factories
from tests.api.client import Api, is_problem
from tests.api.conftest import Enter


def test_me_says_who_calls(ana: Member, vibe: Agent, by_token: Enter) -> None:
    me = by_token(ana.participant, ("read", "write")).get("me/").json()
    agent = by_token(vibe.participant, ("read",)).get("me/").json()

    assert (me["participant"]["handle"], me["role"], me["level"]) == ("ana", "owner", None)
    assert me["scopes"] == ["read", "write"]
    assert me["workspace"]["slug"] == ana.workspace.slug
    assert (agent["participant"]["kind"], agent["role"], agent["level"]) == ("agent", None, 2)


def test_only_the_hash_of_a_secret_is_kept(ana: Member) -> None:
    token, secret = issue_token(participant=ana.participant, name="script", scopes=["read"])

    stored = Token.objects.values().get(pk=token.pk)
    assert secret.startswith("ovk_")
    assert secret not in str(stored)
    assert stored["hint"] == secret[-4:]


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", "Bearer ovk_unknown", "Basic dTpw", "ovk_x", "Bearer ovk_\u00e9", "Bearer x ovk_y"],
)
def test_no_valid_token_is_401_with_a_challenge(db: None, nobody: Api, header: str) -> None:
    answer = nobody.get("me/", Authorization=header)

    assert is_problem(answer, 401, "bad_token")
    assert answer["WWW-Authenticate"].startswith("Bearer")
    assert is_problem(nobody.get("me/"), 401, "not_authenticated")


def test_a_token_ends_at_once_when_revoked_expired_or_its_owner_removed(
    ana: Member, dora: Member, vibe: Agent, by_token: Enter
) -> None:
    revoked, expired = by_token(dora.participant), by_token(dora.participant)
    member, agent = by_token(dora.participant), by_token(vibe.participant)
    assert all(api.get("me/").status_code == 200 for api in (revoked, expired, member, agent))

    assert revoked.token is not None
    assert expired.token is not None
    revoke_token(token=revoked.token)
    Token.objects.filter(pk=expired.token.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    remove_member(member=dora, by=factories.access(ana))
    deactivate_agent(agent=vibe, by=factories.access(ana))

    assert [api.get("me/").status_code for api in (revoked, expired, member, agent)] == [401] * 4


def test_tokens_that_an_admin_made_of_agents_end_when_she_is_none_any_more(
    ana: Member, dora: Member, vibe: Agent, nobody: Api
) -> None:
    update_member_role(member=dora, role="admin", by=factories.access(ana))
    secrets = [
        issue_token(participant=owner, name="x", scopes=["read"], made_by_id=dora.participant_id)[1]
        for owner in (dora.participant, vibe.participant)
    ]
    statuses = []
    for role in ("owner", "guest"):
        update_member_role(member=dora, role=role, by=factories.access(ana))
        statuses += [nobody.get("me/", Authorization=f"Bearer {secret}").status_code for secret in secrets]
    assert statuses == [200, 200, 200, 401]


def test_a_wrong_token_is_not_rescued_by_a_session(ana: Member, by_session: Enter) -> None:
    browser = by_session(ana)

    assert browser.get("me/").status_code == 200
    assert is_problem(browser.get("me/", Authorization="Bearer ovk_wrong"), 401, "bad_token")


def test_a_browser_writes_only_with_its_csrf_token(ana: Member) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(ana.user)
    browser = Api(client, {})
    response = browser.post("channels/", {"name": "roses"})
    client.cookies["csrftoken"] = "a" * 32

    assert is_problem(response, 403, "csrf")
    assert browser.post("channels/", {"name": "roses"}, X_CSRFToken="a" * 32).status_code == 201


def test_a_token_is_of_one_workspace_and_says_so_where_another_is_named(
    ana: Member, cleo: Member, thread: Thread, by_token: Enter
) -> None:
    add_member(workspace=cleo.workspace, user=ana.user)
    api, own, other = by_token(ana.participant), ana.workspace.slug, cleo.workspace.slug

    assert api.get(f"me/?workspace={own}").status_code == api.get("me/", X_Workspace=own).status_code == 200
    for slug in (other, "unknown"):
        for answer in (api.get(f"me/?workspace={slug}"), api.get("me/", X_Workspace=slug)):
            assert is_problem(answer, 400, "wrong_workspace")
            assert answer.json()["field"] == "workspace"
            assert own in answer.json()["detail"]
    answer = api.post(f"threads/{thread.pk}/messages/?workspace={own}", {"body": "Hello"}, X_Workspace=other)
    assert is_problem(answer, 400, "wrong_workspace")
    assert not thread.messages.exists()


def test_a_browser_in_two_workspaces_says_which(ana: Member, cleo: Member, by_session: Enter) -> None:
    browser = by_session(ana)
    add_member(workspace=cleo.workspace, user=ana.user)
    browser.headers = {}

    assert is_problem(browser.get("me/"), 400, "choose_workspace")
    there = browser.get("me/", X_Workspace=cleo.workspace.slug).json()
    here = browser.get(f"me/?workspace={ana.workspace.slug}").json()
    assert (there["role"], here["role"]) == ("member", "owner")
    assert is_problem(browser.get("me/", X_Workspace="unknown"), 404, "not_found")
    foreign = create_workspace(name="Foreign", owner=factories.make_user("Eve")).workspace
    assert is_problem(browser.get("me/", X_Workspace=foreign.slug), 404, "not_found")


def test_scopes_bound_what_a_token_does(ana: Member, thread: Thread, by_token: Enter) -> None:
    reader = by_token(ana.participant, ("read",))
    writer = by_token(ana.participant, ("write",))

    assert reader.get("channels/").status_code == 200
    assert is_problem(reader.post(f"threads/{thread.pk}/messages/", {"body": "Hi"}), 403, "missing_scope")
    assert writer.post(f"threads/{thread.pk}/messages/", {"body": "Hi"}).status_code == 201
    assert is_problem(writer.get("channels/"), 403, "missing_scope")
    assert is_problem(reader.get("episodes/"), 403, "missing_scope")
    assert is_problem(reader.post("tokens/", {"name": "x", "scopes": ["read"]}), 403, "missing_scope")


def test_tokens_are_made_shown_once_and_revoked(ana: Member, by_token: Enter, by_session: Enter) -> None:
    browser = by_session(ana)
    data = browser.post("tokens/", {"name": "Laptop", "scopes": ["read"], "days": 30}).json()
    other = Api(Client(), {"Authorization": f"Bearer {data['secret']}"})

    listed = browser.get("tokens/").json()["results"]
    assert other.get("me/").status_code == 200
    assert [row["name"] for row in listed] == ["Laptop"]
    assert "secret" not in listed[0]
    assert browser.delete(f"tokens/{data['id']}/").status_code == 204
    assert other.get("me/").status_code == 401
    assert browser.delete(f"tokens/{data['id']}/").status_code == 204


def test_a_token_never_makes_a_stronger_one_and_sees_only_its_owners(
    ana: Member, dora: Member, by_token: Enter
) -> None:
    weak = by_token(ana.participant, ("read", "admin"))
    foreign = by_token(dora.participant)
    assert foreign.token is not None

    assert is_problem(weak.post("tokens/", {"name": "More", "scopes": ["write"]}), 403, "more_scopes")
    assert is_problem(weak.post("tokens/", {"name": "Typed wrong", "scopes": ["reed"]}), 400, "bad_scope")
    assert weak.post("tokens/", {"name": "Less", "scopes": ["read"]}).status_code == 201
    assert is_problem(weak.delete(f"tokens/{foreign.token.pk}/"), 404, "not_found")


@pytest.mark.parametrize(
    ("name", "scopes", "days", "code"),
    [
        ("", ["read"], None, "bad_name"),
        ("x" * 81, ["read"], None, "bad_name"),
        ("x\ny", ["read"], None, "bad_name"),
        ("x", [], None, "bad_scope"),
        ("x", ["read", "root"], None, "bad_scope"),
        ("x", ["read"], 0, "bad_days"),
        ("x", ["read"], 10**9, "bad_days"),
    ],
)
def test_what_a_token_cannot_be(ana: Member, name: str, scopes: list[str], days: int | None, code: str) -> None:
    with pytest.raises(Problem) as error:
        issue_token(participant=ana.participant, name=name, scopes=scopes, days=days)

    assert error.value.code == code


def test_nobody_without_access_gets_a_token(ana: Member, dora: Member) -> None:
    remove_member(member=dora, by=factories.access(ana))

    with pytest.raises(Refused):
        issue_token(participant=dora.participant, name="late", scopes=["read"])


def test_last_use_is_noted_at_most_once_a_minute(ana: Member, by_token: Enter) -> None:
    api = by_token(ana.participant)
    assert api.token is not None

    api.get("me/")
    api.token.refresh_from_db()
    first = api.token.last_used_at
    api.get("me/")
    api.token.refresh_from_db()

    assert first is not None
    assert api.token.last_used_at == first


@override_settings(API_CALLS_PER_MINUTE=3)
def test_each_token_has_its_own_calls_a_minute(ana: Member, by_token: Enter, by_session: Enter) -> None:
    busy, calm = by_token(ana.participant), by_token(ana.participant)

    answers = [busy.get("me/") for _ in range(4)]

    assert [a["RateLimit-Remaining"] for a in answers] == ["2", "1", "0", "0"]
    assert answers[0]["RateLimit-Limit"] == "3"
    assert is_problem(answers[3], 429, "throttled")
    assert 1 <= int(answers[3]["Retry-After"]) <= 60
    assert 1 <= int(answers[3]["RateLimit-Reset"]) <= 60
    assert calm.get("me/").status_code == 200
    assert by_session(ana).get("me/").status_code == 200


def test_the_command_issues_lists_and_revokes(vibe: Agent) -> None:
    slug, out = vibe.workspace.slug, StringIO()
    call_command(
        "token",
        "issue",
        "--workspace",
        slug,
        "--handle",
        "@vibe",
        "--name",
        "bot",
        "--scopes",
        "read,write",
        stdout=out,
    )
    secret = out.getvalue().strip()
    api = Api(Client(), {"Authorization": f"Bearer {secret}"})
    assert api.get("me/").json()["participant"]["handle"] == "vibe"

    output = StringIO()
    call_command("token", "list", "--workspace", slug, stdout=output)
    assert "@vibe\tbot" in output.getvalue()
    assert output.getvalue().endswith("\tread,write\tvalid\tmade by whoever runs the server\n")
    assert secret not in output.getvalue()
    made = AuditRecord.objects.get(action=AuditRecord.Action.TOKEN)
    assert (made.actor_id, made.actor, made.after) == (None, "the command line", "made, for read, write")

    call_command("token", "revoke", str(Token.objects.get(name="bot").pk), stdout=StringIO())
    assert api.get("me/").status_code == 401


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("issue --workspace nowhere --handle vibe --name x", "no workspace 'nowhere'. There is: anas-garden"),
        ("list --workspace nowhere", "no workspace 'nowhere'. There is: anas-garden"),
        ("issue --workspace anas-garden --handle @zoe --name x", "nobody called @zoe in workspace anas-garden"),
        ("issue --workspace anas-garden --handle ana --name x --scopes root", "Scopes are one or more of"),
        ("revoke 999999", "no token 999999"),
    ],
)
def test_the_command_says_what_is_wrong(ana: Member, arguments: str, words: str) -> None:
    with pytest.raises(CommandError, match=words):
        call_command("token", *arguments.split(), stdout=StringIO())


def test_a_token_of_an_agent_opens_no_private_channel_that_its_maker_is_not_in(
    ana: Member, dora: Member, vibe: Agent, by_token: Enter
) -> None:
    owner = vibe.participant
    theirs, outside = issue_token(
        participant=owner, name="Ana's", scopes=["read", "admin"], made_by_id=ana.participant_id
    )
    child = Api(Client(), {"Authorization": f"Bearer {outside}"}).call(
        "POST", "tokens/", {"name": "n", "scopes": ["read"]}
    )
    dora_made, inside = issue_token(participant=owner, name="Dora's", scopes=["read"], made_by_id=dora.participant_id)
    _, operators = issue_token(participant=owner, name="The operator's", scopes=["read"])
    Member.objects.filter(pk=dora.pk).update(role="admin")
    dora.refresh_from_db()
    secret_room = factories.make_channel(dora, "board", private=True)
    add_to_channel(channel=secret_room, participant=owner, by=factories.access(dora))

    def status(secret: str) -> int:
        return Client().get("/api/v1/me/", headers={"Authorization": f"Bearer {secret}"}).status_code

    statuses = [status(secret) for secret in (outside, child.json()["secret"], inside, operators)]
    assert statuses == [401, 401, 200, 200]
    ended = AuditRecord.objects.filter(action="token", after="revoked").values_list("actor", "subject")
    assert ("Dora (@dora)", f"“Ana's” …{theirs.hint} of @vibe") in ended
    remove_from_channel(channel=secret_room, participant=dora.participant, by=factories.access(dora))
    assert (status(inside), status(operators)) == (401, 200)
    assert Token.objects.get(pk=dora_made.pk).revoked_at


def test_who_holds_a_token_holds_those_it_makes(ana: Member, vibe: Agent) -> None:
    """A token may be held by whoever runs the server, who is nobody of the workspace."""
    for maker in (None, ana):
        _, secret = issue_token(
            participant=vibe.participant,
            name="first",
            scopes=["read", "admin"],
            made_by_id=maker.participant_id if maker else None,
        )
        api = Api(Client(), {"Authorization": f"Bearer {secret}"})
        made = api.call("POST", "tokens/", {"name": "second", "scopes": ["admin"]}).json()
        assert made["made_by_id"] == (maker.participant_id if maker else None)
        assert made["made_by_id"] == api.get("me/").json()["token"]["made_by_id"]
    listed = api.get("tokens/").json()["results"]
    assert [row["made_by_id"] for row in listed].count(ana.participant_id) == 2
