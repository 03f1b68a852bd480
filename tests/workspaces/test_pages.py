"""Coming in, and who may change what."""

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from allauth.account.utils import user_pk_to_url_str
from django.conf import LazySettings
from django.contrib.auth.tokens import default_token_generator
from django.db import connection
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.models import Agent
from openvibe.workspaces.decorators import unsaved_texts
from openvibe.workspaces.models import Invitation, Member, User, Workspace
from tests.factories import PASSWORD, make_channel, make_member, make_user, write_members

SignedIn = Callable[[Member], Client]
TEMPLATES = Path(__file__).parents[2] / "templates"


def link_on(page: bytes) -> str:
    match = re.search(rb"/join/[\w-]+/", page)
    assert match
    return match[0].decode()


@pytest.fixture
def members(home: str) -> str:
    return f"{home}members/"


def invite(client: Client, home: str, **fields: object) -> str:
    return link_on(client.post(f"{home}invitations/", {"role": "member", "days": 7, "uses": 1, **fields}).content)


def test_somebody_new_joins_by_link(ana: Member, home: str, signed_in: SignedIn) -> None:
    channel = make_channel(ana, "plans", private=True)
    link = invite(signed_in(ana), home, role="guest", channels=[channel.pk])
    browser = Client()
    assert b"Make an account" in browser.get(link).content
    response = browser.post(
        "/accounts/signup/", {"name": "Emil", "email": "emil@example.org", "password1": PASSWORD + " staple"}
    )
    assert response.status_code == 302
    assert response["Location"] == link
    assert browser.post(link)["Location"] == home
    member = Member.objects.get(user__email="emil@example.org")
    assert (member.role, member.participant.handle) == ("guest", "emil")
    assert browser.get(f"{home}c/{channel.pk}/").status_code == 200
    assert Client().get(link).status_code == 404


def test_without_an_invitation_there_is_no_sign_up(db: None) -> None:
    assert b"Accounts come by invitation" in Client().get("/accounts/signup/").content
    assert Client().get("/join/nothing/").status_code == 404


def test_the_address_of_somebody_switched_off_stands_on_no_page(
    ana: Member, dora: Member, members: str, signed_in: SignedIn
) -> None:
    assert dora.user.email in signed_in(ana).get(members).content.decode()
    User.objects.filter(pk=dora.user_id).update(is_active=False)
    for page in (members, f"{members}?person={dora.participant_id}", f"{members}?q=dora"):
        shown = signed_in(ana).get(page).content.decode()
        assert dora.user.email not in shown
        assert "switched off" in shown
        assert dora.participant.name in shown


def test_signing_in_and_the_last_workspace(ana: Member, cleo: Member, home: str) -> None:
    browser = Client()
    assert b"Sign in" in browser.get("/", follow=True).content
    answer = browser.post("/accounts/login/", {"login": "ana@example.org", "password": PASSWORD})
    assert answer["Location"] == "/"
    assert browser.get("/")["Location"] == home
    browser.post("/workspaces/new/", {"name": "Second home"})
    browser.get("/w/second-home/")
    assert browser.get("/")["Location"] == "/w/second-home/"
    assert b"Second home" in browser.get(home).content
    assert b"Cleo" not in browser.get(home).content


def test_nobody_in_particular_makes_a_workspace(db: None) -> None:
    browser = Client()
    browser.force_login(make_user("Finn"))
    assert browser.get("/")["Location"] == "/workspaces/new/"
    assert browser.post("/workspaces/new/", {"name": "  "}).status_code == 400
    assert browser.post("/workspaces/new/", {"name": "Finn's"})["Location"] == "/w/finns/"


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [({"days": 0}, "1 to 30 days"), ({"uses": 999}, "1 to 100 people"), ({"role": "owner"}, "admin, member or guest")],
)
def test_an_invitation_that_cannot_be_says_why(
    fields: dict[str, object], sentence: str, ana: Member, home: str, signed_in: SignedIn
) -> None:
    answer = signed_in(ana).post(f"{home}invitations/", {"role": "member", "days": 7, "uses": 1, **fields})
    assert answer.status_code == 400
    assert sentence in answer.content.decode()


def test_a_link_taken_back_leads_nowhere(ana: Member, home: str, signed_in: SignedIn) -> None:
    browser = signed_in(ana)
    link = invite(browser, home)
    browser.post(f"{home}invitations/{Invitation.objects.get().pk}/revoke/")
    assert b"was taken back" in Client().get(link).content


def test_removing_a_member_ends_their_access_at_once(
    ana: Member, dora: Member, home: str, members: str, signed_in: SignedIn
) -> None:
    hers = signed_in(dora)
    assert hers.get(home).status_code == 200
    signed_in(ana).post(f"{members}{dora.pk}/", {"remove": "1"})
    assert hers.get(home).status_code == 404
    assert hers.get("/")["Location"] == "/workspaces/new/"


def test_members_change_only_what_their_role_allows(
    ana: Member, ben: Member, dora: Member, cleo: Member, home: str, members: str, signed_in: SignedIn
) -> None:
    browser = signed_in(dora)
    assert browser.post(f"{members}{ben.pk}/", {"role": "admin"}).status_code == 403
    assert browser.post(f"{home}invitations/", {"role": "member", "days": 7, "uses": 1}).status_code == 403
    refused = browser.get(f"{home}settings/")
    assert (refused.status_code, b"Try again" in refused.content) == (403, False), "it would lead to the same page"
    assert browser.post(f"{members}{cleo.pk}/", {"remove": "1"}).status_code == 404
    assert b"example.org" not in browser.get(members).content
    assert b"Dora" not in signed_in(ben).get(members).content
    last = signed_in(ana).post(f"{members}{ana.pk}/", {"remove": "1"})
    assert last.status_code == 403
    assert b"keeps at least one owner" in last.content


def test_settings_are_kept_and_too_long_instructions_come_back(ana: Member, home: str, signed_in: SignedIn) -> None:
    browser, good = signed_in(ana), {"name": "Orchard", "description": "We grow."}
    assert browser.post(f"{home}settings/general/", good).status_code == 302
    assert browser.post(f"{home}settings/instructions/", {"instructions": "Be kind."}).status_code == 302
    assert Workspace.objects.get(slug=ana.workspace.slug).instructions == "Be kind."
    answer = browser.post(f"{home}settings/instructions/", {"instructions": "word " * 3000})
    assert answer.status_code == 400
    assert b"at most 2,000 fit" in answer.content
    assert b"word word" in answer.content


def test_profile_and_theme(ana: Member, home: str, signed_in: SignedIn) -> None:
    browser = signed_in(ana)
    browser.post(f"{home}profile/", {"name": "Ana Maria", "theme": "dark", "shortcuts": "on"})
    ana.refresh_from_db()
    assert (ana.enter_sends, ana.shortcuts, ana.participant.name) == (False, True, "Ana Maria")
    assert b'data-theme="dark"' in browser.get(home).content
    browser.post("/theme/", {"theme": "light"}, headers={"Referer": "https://elsewhere.example/"})
    assert User.objects.get(pk=ana.user_id).theme == "light"
    assert (
        browser.post("/theme/", {"theme": "light"}, headers={"Referer": "https://elsewhere.example/"})["Location"]
        == "/"
    )


def test_members_page_costs_the_same_for_more_members(
    ana: Member, home: str, members: str, signed_in: SignedIn
) -> None:
    browser = signed_in(ana)
    make_member("One", ana.workspace)
    invite(browser, home)
    with CaptureQueriesContext(connection) as few:
        browser.get(members)
    for name in ("Two", "Three"):
        make_member(name, ana.workspace)
        invite(browser, home)
    with CaptureQueriesContext(connection) as many:
        browser.get(members)
    assert len(few) == len(many)


def test_from_the_page_with_a_new_link_everybody_is_found(
    ana: Member, home: str, members: str, signed_in: SignedIn
) -> None:
    """The page answers a form: what stands on it leads to the list, not to the address of the form."""
    write_members(ana.workspace, 60)
    page = signed_in(ana).post(f"{home}invitations/", {"role": "member"}).content.decode()
    assert "/join/" in page
    assert f'<a href="{members}?page=2">Next</a>' in page
    assert f'role="search" method="get" action="{members}"' in page


def test_open_invitations_come_in_pages_and_are_taken_back_where_they_stand(
    ana: Member, home: str, members: str, signed_in: SignedIn
) -> None:
    fields = {"workspace": ana.workspace, "created_by": ana.participant, "role": "member"}
    later, now = timezone.now() + timedelta(days=1), timezone.now()
    rows = Invitation.objects.bulk_create(
        Invitation(token_hash=f"{n:064}", expires_at=later, uses_left=n + 1, **fields) for n in range(60)
    )
    Invitation.objects.bulk_create(
        [
            Invitation(token_hash=f"{60:064}", expires_at=now, uses_left=70, **fields),
            Invitation(token_hash=f"{61:064}", expires_at=later, uses_left=0, **fields),
            Invitation(token_hash=f"{62:064}", expires_at=later, uses_left=71, revoked_at=now, **fields),
        ]
    )
    browser = signed_in(ana)
    pages = [browser.get(f"{members}?invitations={n}").content.decode() for n in (1, 2, 3)]
    uses = [re.findall(r"As member, (\d+)\s+use", html) for html in pages]
    assert [int(number) for each in uses for number in each] == list(range(60, 0, -1))
    assert f'href="{members}?invitations=2#invite">Older</a>' in pages[0]
    assert "60 open invitations" in pages[2]
    back = browser.post(f"{home}invitations/{rows[0].pk}/revoke/", {"invitations": "3"})
    assert back.headers["Location"] == f"{members}?invitations=3#invite"


def test_a_role_is_set_and_somebody_removed_where_they_stand(ana: Member, members: str, signed_in: SignedIn) -> None:
    helpers = write_members(ana.workspace, 120)
    browser, last = signed_in(ana), helpers[-1]
    address = f"{members}?q=helper&page=3"
    page = browser.get(address).content.decode()
    assert page.count('<input type="hidden" name="page" value="3">') == 2 * page.count('<li class="person" id="p-')
    back = browser.post(f"{members}{last.pk}/", {"role": "admin", "q": "helper", "page": "3"})
    assert back.headers["Location"] == f"{address}#p-{last.participant_id}"
    refused = browser.post(f"{members}{last.pk}/", {"role": "king", "q": "helper", "page": "3"})
    assert refused.status_code >= 400
    shown = re.compile(r'<li class="person" id="p-\d+')
    assert shown.findall(refused.content.decode()) == shown.findall(page)
    back = browser.post(f"{members}{last.pk}/", {"remove": "1", "q": "helper", "page": "3"})
    assert back.headers["Location"] == address


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/accounts/login/", "password"),
        ("/accounts/password/change/", "oldpassword"),
        ("/accounts/password/change/", "password1"),
        ("/accounts/2fa/authenticate/", "code"),
        ("/accounts/2fa/webauthn/login/", "credential"),
        ("/admin/agents/toolsource/add/", "token"),
        ("/admin/llm/endpoint/add/", "api_key"),
        ("/admin/workspaces/user/add/", "new_password"),
    ],
)
def test_the_page_of_a_stale_form_shows_no_secret(path: str, field: str) -> None:
    secret = "a secret of thirty characters."
    answer = Client(enforce_csrf_checks=True).post(path, {field: secret}, headers={"Sec-Fetch-Site": "same-origin"})
    assert answer.status_code == 403
    assert b"This page was open for too long" in answer.content
    assert secret.encode() not in answer.content


INPUT = re.compile(r"<input\b[^>]*>")
FIELD = re.compile(r"<(?:input|textarea|select)\b[^>]*>")
SHORT = re.compile(r'value="[^"{]{0,20}"')
ACCOUNT_PAGES = ("login", "signup", "password/reset", "password/change", "email", "reauthenticate", "sessions")
FACTOR_PAGES = ("totp/activate", "recovery-codes/generate", "webauthn/add", "reauthenticate")


def attribute(tag: str, name: str) -> str:
    match = re.search(rf'\b{name}="([^"]*)"', tag)
    return match[1] if match else ""


def shown_again(name: str) -> bool:
    text = "a text of more than twenty characters"
    return bool(unsaved_texts(RequestFactory().post("/", {name: text})))


def test_of_account_forms_only_what_somebody_typed_is_shown_again(ana: Member, settings: LazySettings) -> None:
    settings.OPEN_SIGNUP = True
    stranger, browser = Client(), Client()
    browser.post("/accounts/login/", {"login": ana.user.email, "password": PASSWORD})
    addresses = [f"/accounts/{page}/" for page in ACCOUNT_PAGES] + [f"/accounts/2fa/{page}/" for page in FACTOR_PAGES]
    token = default_token_generator.make_token(ana.user)
    key = f"/accounts/password/reset/key/{user_pk_to_url_str(ana.user)}-{token}/?next=/join/an-invitation/"
    seen: dict[str, str] = {}
    for address in [*addresses, key]:
        for client in (stranger, browser):
            page = client.get(f"{address}?next=/join/an-invitation/", follow=True).content.decode()
            seen |= {attribute(tag, "name"): attribute(tag, "type") for tag in INPUT.findall(page)}
    assert {"password", "password1", "oldpassword", "credential", "next", "csrfmiddlewaretoken"} <= set(seen)
    secrets = {name for name, kind in seen.items() if name and kind in ("password", "hidden")} | {"code"}
    assert [name for name in sorted(secrets) if shown_again(name)] == []
    assert shown_again("name")


def test_what_pages_fill_in_by_themselves_is_not_shown_as_typed() -> None:
    tags = [tag for path in TEMPLATES.rglob("*.html") for tag in INPUT.findall(path.read_text())]
    hidden = {attribute(tag, "name") for tag in tags if attribute(tag, "type") == "hidden" and not SHORT.search(tag)}
    assert {"next", "client_id", "based_on"} <= hidden
    assert [name for name in sorted(hidden) if shown_again(name)] == []


def test_the_page_of_a_stale_form_says_what_to_do(ana: Member, home: str) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(ana.user)
    typed = {"name": "Ana, who wrote all of this and would hate to lose it"}
    ours, elsewhere = ({"Sec-Fetch-Site": site} for site in ("same-origin", "cross-site"))
    answer = browser.post(f"{home}profile/", typed, headers=ours)
    assert answer.status_code == 403
    assert b"This page was open for too long" in answer.content
    assert typed["name"].encode() in answer.content
    assert typed["name"].encode() not in browser.post(f"{home}profile/", typed, headers=elsewhere).content
    for asked in ({"Accept": "application/json"}, {"HX-Request": "true"}):
        response = browser.post(f"{home}profile/", typed, headers=asked)
        assert response.status_code == 403
        assert b"Copy it, reload the page and send it again." in response.content


@pytest.mark.parametrize(
    ("text", "is_shown"), [("We prune in March.", True), ("on", False), ("knowledge_search", False)]
)
def test_a_few_words_are_shown_again_and_the_value_of_a_choice_is_not(text: str, is_shown: bool) -> None:
    assert unsaved_texts(RequestFactory().post("/", {"content": text})) == ([text] if is_shown else [])


def test_what_was_typed_before_the_session_ended_is_shown(ana: Member, home: str) -> None:
    typed = {"text": "Never water at noon, and never from above.", "name": "Noon"}
    form = f"http://testserver{home}snippets/"
    response = Client().post(f"{home}snippets/7/", typed, headers={"Referer": form})
    assert response.status_code == 401
    assert typed["text"].encode() in response.content
    match = re.search(rb'href="(/accounts/login/[^"]+)"', response.content)
    assert match
    back = Client().post(match[1].decode(), {"login": ana.user.email, "password": PASSWORD})
    assert back["Location"] == form


def test_an_address_of_a_form_asked_for_as_a_page_says_so(ana: Member, home: str, signed_in: SignedIn) -> None:
    browser = signed_in(ana)
    typed = browser.get(f"{home}do-not-disturb/")
    assert (typed.status_code, typed["Allow"]) == (405, "POST")
    assert b"There is no page at this address" in typed.content
    elsewhere = {"Referer": "https://elsewhere.example/"}
    for headers, back in (({"Referer": f"http://testserver{home}"}, f"http://testserver{home}"), (elsewhere, home)):
        page = browser.post(f"{home}do-not-disturb/", {"for": "ever"}, headers=headers).content.decode()
        assert f'href="{back}' in page
        assert "elsewhere" not in page


@pytest.mark.parametrize(
    ("page", "wrong"),
    [
        ("agents/vibe/level/", {"level": "3", "note": " "}),
        ("settings/models/new/", {"kind": "openai"}),
        ("webhooks/", {"url": "nowhere"}),
        ("knowledge/new/", {"topic": "Roses"}),
        ("/accounts/password/change/", {"oldpassword": "wrong"}),
    ],
)
def test_a_wrong_field_is_described_by_what_is_wrong(
    ana: Member, vibe: Agent, home: str, signed_in: SignedIn, page: str, wrong: dict[str, str]
) -> None:
    address = page if page.startswith("/") else f"{home}{page}"
    html = signed_in(ana).post(address, wrong).content.decode()
    fields = [tag for tag in FIELD.findall(html) if "aria-invalid" in tag]
    assert fields
    for tag in fields:
        described_by = attribute(tag, "aria-describedby").split()
        assert described_by
        assert all(f'id="{place}"' in html for place in described_by), tag
