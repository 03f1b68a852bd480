"""Making an agent and changing it in the app, by people who write no YAML."""

from typing import Any

import pytest
from django.apps import apps
from django.test import Client

from agents.agent.soul.parser import parse_soul
from agents.agent.soul.plain import PlainSoul, soul_to_yaml
from agents.models import Agent, SoulVersion
from openvibe.api.models import IdempotencyKey
from openvibe.base.models import AuditRecord
from openvibe.chat.models import Thread
from openvibe.engines.llm.models import Endpoint
from openvibe.workspaces.models import Member
from tests.agents.agent.soul.sample_souls import FERN as FERN_SOUL
from tests.engines.llm.factories import EndpointFactory
from tests.factories import make_channel, signed_in

FERN = {
    "name": "Fern",
    "purpose": "Helps plan the beds: what, where, when",
    "description": "The garden is in Kassel.\nWe grow vegetables.",
    "style": "minimal",
    "principles": "- Friendly\n- Says: “yes” or “no” first",
    "never": "Invent a frost date\n\n",
}


def new(member: Member, **fields: Any) -> tuple[int, str]:
    response = signed_in(member).post(f"/w/{member.workspace.slug}/new-agent/", {**FERN, **fields})
    return response.status_code, response.content.decode()


def count_rows() -> dict[str, int]:
    """The number of rows of every table of ours."""
    ours = ("agents", "chat", "memory", "knowledge", "workspaces", "base", "lcm")
    models = (model for model in apps.get_models() if model._meta.app_label in ours and model is not IdempotencyKey)
    return {model._meta.label: model._default_manager.count() for model in models}


def test_it_is_made_as_written_at_level_one(ana: Member, thread: Thread) -> None:
    channel = make_channel(ana, "beds")
    assert new(ana, channels=[channel.pk])[0] == 302
    fern = Agent.objects.get(participant__handle="fern")
    assert (fern.level, fern.participant.name, list(fern.participant.channels.all())) == (1, "Fern", [channel])
    assert fern.soul is not None
    assert fern.soul.number == 1
    soul = parse_soul(fern.soul.source)
    assert soul.identity.description == FERN["description"]
    assert soul.philosophy.principles == ("Friendly", "Says: “yes” or “no” first")
    assert (soul.constraints.never_do, soul.behavior.response_style) == (("Invent a frost date",), "minimal")


def test_it_takes_three_things_to_make_one_and_the_rest_waits(ana: Member, thread: Thread) -> None:
    page = signed_in(ana).get(f"/w/{ana.workspace.slug}/new-agent/").content.decode()
    at_once, _, later = page.partition('<details class="settings-fold">')
    assert all(f'name="{name}"' in at_once for name in ("name", "purpose", "endpoint"))
    assert all(f'name="{name}"' in later for name in ("channels", "handle", "description", "never", "question"))
    assert f'value="{thread.channel_id}" id="id_channels_0" checked' in later, "nobody could ask it"
    status, page = new(ana, handle="@Vibe @")
    assert (status, '<details class="settings-fold" open>' in page) == (422, True), "the problem is out of sight"


def test_many_channels_are_a_list_to_search(ana: Member, thread: Thread) -> None:
    address = f"/w/{ana.workspace.slug}/new-agent/"
    assert "data-choices" not in signed_in(ana).get(address).content.decode()
    for number in range(8):
        make_channel(ana, f"bed-{number}")
    assert 'data-choices="Channels it is in"' in signed_in(ana).get(address).content.decode()


def test_a_question_is_tried_and_nothing_stays(ana: Member, thread: Thread) -> None:
    before = count_rows()
    status, page = new(ana, **{"try": "1", "question": "Where is the garden?", "channels": [thread.channel_id]})
    assert (status, count_rows()) == (200, before)
    assert "<p>I am the offline model" in page
    assert 'value="Helps plan the beds: what, where, when"' in page


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"handle": "@Vibe"}, "@vibe is taken"),
        ({"name": "🌱"}, "Write one here"),
        ({"name": "  "}, "This field is required"),
        ({"name": "x" * 81, "handle": ""}, "at most 80 characters"),
        ({"purpose": "x" * 301}, "at most 300 characters"),
        ({"never": "Never do this. " * 500}, "the limit is 2,000"),
        ({"never": "Guess a date\n@include tone"}, "Only instructions include snippets"),
        ({"description": "a\x0bb"}, "unprintable character"),
        ({"handle": "all"}, "reserved"),
        ({"channels": ["9999"]}, "9999"),
        ({"try": "1", "question": "y" * 2001}, "at most 2000 characters"),
        ({"style": "shouting"}, "shouting"),
    ],
)
def test_what_cannot_be_is_said_and_what_was_typed_stays(
    ana: Member, vibe: Agent, fields: dict[str, Any], complaint: str
) -> None:
    status, page = new(ana, **fields)
    assert (status, Agent.objects.count()) == (422, 1)
    assert complaint in page
    assert "line 1" not in page, "a form has none"
    assert page.count('class="form-problem"') == 1, "nothing else is wrong with it"
    assert "We grow vegetables." in page or "description" in fields


def test_a_model_that_fails_on_trial_is_named_and_nothing_is_lost(ana: Member, thread: Thread) -> None:
    endpoint = EndpointFactory.create(
        workspace=ana.workspace, name="Gone", base_url="http://127.0.0.1:9/v1", model="m", timeout_seconds=1
    )
    status, page = new(ana, endpoint=endpoint.pk, **{"try": "1"})
    assert status == 422
    assert "The model did not answer." in page
    assert "We grow vegetables." in page
    assert not Agent.objects.exists()


def test_a_trial_says_what_it_cost_where_one_price_is_known(ana: Member, thread: Thread) -> None:
    endpoint = EndpointFactory.create(
        workspace=ana.workspace, name="Built in", kind=Endpoint.Kind.OFFLINE, model="offline", price_in=1_000
    )
    status, page = new(ana, endpoint=endpoint.pk, **{"try": "1"})
    assert status == 200
    assert "cost 0." in page
    assert not Agent.objects.exists()


def test_only_admins_make_agents_and_know_their_models(ana: Member, dora: Member, cleo: Member, vibe: Agent) -> None:
    home = f"/w/{ana.workspace.slug}"
    foreign = EndpointFactory.create(workspace=cleo.workspace, name="X", base_url="https://m.example/v1", model="m")
    assert new(ana, endpoint=foreign.pk)[0] == 422
    for path in ("new-agent", "agents/vibe/soul"):
        assert signed_in(dora).get(f"{home}/{path}/").status_code == 403
        assert signed_in(dora).post(f"{home}/{path}/", FERN).status_code == 403
        assert signed_in(cleo).get(f"{home}/{path}/").status_code == 404
    assert signed_in(dora).get(f"{home}/agents/vibe/level/").status_code == 200
    assert signed_in(dora).post(f"{home}/agents/vibe/level/", {"level": 4, "note": "Me"}).status_code == 403
    assert Client().get(f"{home}/new-agent/").status_code == 302


def test_the_form_keeps_what_it_does_not_show() -> None:
    before = parse_soul(FERN_SOUL)
    plain = PlainSoul.of(before)
    assert plain.to_soul(before) == before
    changed = PlainSoul(**{**vars_of(plain), "never": "Guess"}).to_soul(before)
    assert changed.constraints.never_do == ("Guess",)
    assert changed.constraints.escalation_rules == before.constraints.escalation_rules
    assert parse_soul(soul_to_yaml(changed)) == changed


def vars_of(plain: PlainSoul) -> dict[str, str]:
    return {name: getattr(plain, name) for name in PlainSoul.__dataclass_fields__}


def test_two_people_who_change_a_soul_do_not_overwrite_each_other(ana: Member, vibe: Agent) -> None:
    address = f"/w/{ana.workspace.slug}/agents/vibe/soul/"
    browser = signed_in(ana)
    form = {**FERN, "name": "Vibe", "note": "For the garden", "based_on": "1"}
    page_response = browser.post(address, {**form, "try": "1", "question": "Hello?"})
    assert [trial.title for trial in page_response.context["answers"]] == [
        "As you have written it",
        "As it is now, version 1",
    ]
    assert not AuditRecord.objects.filter(action="soul").exists()
    assert SoulVersion.objects.count() == 1
    assert browser.post(address, form).status_code == 302
    response = browser.post(address, {**form, "never": "Guess"})
    page = response.content.decode()
    assert response.status_code == 422
    assert "Version 2 was saved meanwhile" in page
    assert 'name="based_on" value="2"' in page
    unchanged = browser.post(address, {**form, "based_on": "2"}, follow=True)
    assert "Nothing was changed" in unchanged.content.decode()
    text = {"soul": "identity: {name: Vibe}", "note": "x", "based_on": "2"}
    assert "identity.role" in browser.post(f"{address}?as=yaml", text).content.decode()
    assert SoulVersion.objects.count() == 2


def test_what_another_level_changes_stands_beside_it(ana: Member, vibe: Agent) -> None:
    page = signed_in(ana).get(f"/w/{ana.workspace.slug}/agents/vibe/level/").content.decode()
    assert page.index("</form>", page.index("level-form")) < page.index("All four levels"), "the form comes first"
    of_level = {number: page.partition(f'data-level="{number}"')[2].partition("</section>")[0] for number in (1, 3)}
    assert "No longer: </span>sees dive results" in of_level[1]
    assert "New: </span>sees shared knowledge" in of_level[3]
    assert "New: </span>answers on schedule" in of_level[3]
    assert ("No longer" in of_level[3], "New" in of_level[1]) == (False, False), "a step up takes nothing away"


def test_a_level_is_set_with_a_note_that_everybody_reads(ana: Member, dora: Member, vibe: Agent) -> None:
    address = f"/w/{ana.workspace.slug}/agents/vibe/level/"
    assert "Say in a few words" in signed_in(ana).post(address, {"level": "3", "note": " "}).content.decode()
    assert signed_in(ana).post(address, {"level": "3", "note": "Ninety good answers"}).status_code == 302
    vibe.refresh_from_db()
    assert vibe.level == 3
    page = signed_in(dora).get(address).content.decode()
    assert "Ninety good answers" in page
    assert "Set the level" not in page


def test_an_admin_changes_model_channels_budget_and_activity(ana: Member, vibe: Agent, thread: Thread) -> None:
    model = EndpointFactory.create(workspace=ana.workspace, name="Large", kind="offline")
    beds, secret = make_channel(ana, "beds"), make_channel(ana, "secret", private=True)
    page = f"/w/{ana.workspace.slug}/agents/vibe/settings/"
    settings = {"endpoint": model.pk, "daily_token_budget": 9_000, "answers_itself": "True", "channels": [beds.pk]}
    settings["proactive_cooldown"] = 60
    assert signed_in(ana).post(page, {**settings, "is_active": "on"}).status_code == 302
    vibe.refresh_from_db()
    assert (vibe.endpoint, vibe.daily_token_budget, vibe.answers_itself, vibe.is_active) == (model, 9_000, True, True)
    assert list(vibe.participant.channels.all()) == [beds]
    assert signed_in(ana).post(page, settings).status_code == 302
    assert signed_in(ana).post(page, {**settings, "channels": [secret.pk]}).status_code == 302
    vibe.refresh_from_db()
    assert (vibe.is_active, list(vibe.participant.channels.all())) == (False, [beds])


def test_settings_that_cannot_be_change_nothing(ana: Member, ben: Member, vibe: Agent) -> None:
    page = f"/w/{ana.workspace.slug}/agents/vibe/settings/"
    small = EndpointFactory.create(
        workspace=ana.workspace, name="Small", kind="offline", context_window=2_000, output_reserve=1_900
    )
    settings = {"endpoint": small.pk, "daily_token_budget": 9_000, "answers_itself": "False", "is_active": "on"}
    settings["proactive_cooldown"] = 60
    response = signed_in(ana).post(page, settings)
    assert (response.status_code, "choose a model with a larger window" in response.content.decode()) == (422, True)
    assert signed_in(ana).post(page, {**settings, "endpoint": "", "daily_token_budget": "-1"}).status_code == 422
    assert signed_in(ben).get(page).status_code == 403
    vibe.refresh_from_db()
    assert (vibe.endpoint, vibe.daily_token_budget) == (None, 500_000)
