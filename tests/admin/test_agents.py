"""Making agents, editing SOULs and setting trust levels in the admin."""

import pytest
from django.test import Client

from agents.models import Agent, SoulVersion, TrustChange
from openvibe.chat.models import ChannelMembership
from openvibe.workspaces.models import Member
from tests.admin.conftest import as_superuser
from tests.factories import SOUL, make_agent, make_channel

GOOD = SOUL.format(name="Vibe").replace("Invent facts", "Guess")


def page(agent: Agent, name: str) -> str:
    return f"/admin/agents/agent/{agent.pk}/{name}/"


def test_a_soul_is_saved_as_a_new_version(ana: Member, vibe: Agent) -> None:
    response = as_superuser(ana).post(
        page(vibe, "soul"), {"soul": GOOD, "note": "Clearer", "based_on": "1"}, follow=True
    )
    assert response.status_code == 200
    vibe.refresh_from_db()
    assert vibe.soul is not None
    assert (vibe.soul.number, vibe.soul.note, vibe.soul.author) == (2, "Clearer", ana.participant)
    assert "Save as version 3" in response.content.decode()


def test_problems_name_line_and_field_and_the_text_stays(ana: Member, vibe: Agent) -> None:
    text = GOOD.replace("role:", "rolle:") + "nonsense: 1\n"
    response = as_superuser(ana).post(page(vibe, "soul"), {"soul": text, "note": "Oops", "based_on": "1"})
    html = response.content.decode()
    assert response.status_code == 422
    assert "line 3, identity.rolle" in html
    assert "nonsense" in html
    assert "rolle: Helps the team" in html
    assert SoulVersion.objects.count() == 1


@pytest.mark.parametrize(
    ("good", "bad", "shown_as"),
    [
        ("role: Helps the team find what was said", "role: [a, b]", "line 3, identity.role"),
        ("principles: [Quote before you conclude]", "principles: 7", "line 6, philosophy.principles"),
        ("never_do: [Guess]", "never_do: {a: b}", "line 8, constraints.never_do"),
    ],
)
def test_wrong_types_name_line_and_field(good: str, bad: str, shown_as: str, ana: Member, vibe: Agent) -> None:
    assert good in GOOD
    response = as_superuser(ana).post(
        page(vibe, "soul"), {"soul": GOOD.replace(good, bad), "note": "Oops", "based_on": "1"}
    )
    html = response.content.decode()
    assert response.status_code == 422
    assert shown_as in html
    assert bad in html
    assert SoulVersion.objects.count() == 1


def test_a_soul_over_the_limit_is_refused_with_its_size(ana: Member, vibe: Agent) -> None:
    text = GOOD + "capabilities:\n  domains:\n" + "".join(f"    - Subject number {n} of many\n" for n in range(400))
    html = as_superuser(ana).post(page(vibe, "soul"), {"soul": text, "note": "More", "based_on": "1"}).content.decode()
    assert "the limit is 2,000" in html
    assert SoulVersion.objects.count() == 1


def test_a_stale_save_is_refused_and_keeps_the_text(ana: Member, vibe: Agent) -> None:
    client = as_superuser(ana)
    client.post(page(vibe, "soul"), {"soul": GOOD, "note": "First", "based_on": "1"})
    later = GOOD.replace("Guess", "Assume")
    response = client.post(page(vibe, "soul"), {"soul": later, "note": "Second", "based_on": "1"})
    assert response.status_code == 422
    html = response.content.decode()
    assert "Version 2 was saved meanwhile" in html
    assert "cannot be counted" not in html
    assert 'name="based_on" value="2"' in html
    assert "Assume" in html
    second_response = client.post(page(vibe, "soul"), {"soul": later, "note": "Second", "based_on": "2"}, follow=True)
    assert "The SOUL is saved: Second" in second_response.content.decode()


def test_an_unchanged_soul_makes_no_version(ana: Member, vibe: Agent) -> None:
    assert vibe.soul is not None
    same = {"soul": vibe.soul.source, "note": "Nothing", "based_on": "1"}
    html = as_superuser(ana).post(page(vibe, "soul"), same, follow=True).content.decode()
    assert "Nothing was changed, so there is no new version." in html
    assert SoulVersion.objects.count() == 1


def test_a_save_needs_a_note(ana: Member, vibe: Agent) -> None:
    response = as_superuser(ana).post(page(vibe, "soul"), {"soul": GOOD, "note": " ", "based_on": "1"})
    assert "Say in a few words" in response.content.decode()


def test_checking_saves_nothing(ana: Member, vibe: Agent) -> None:
    response = as_superuser(ana).post(page(vibe, "soul"), {"soul": GOOD, "based_on": "1", "check": "1"})
    assert "This text is in order." in response.content.decode()
    assert SoulVersion.objects.count() == 1


def test_an_old_version_comes_back_as_a_new_one(ana: Member, vibe: Agent) -> None:
    client = as_superuser(ana)
    client.post(page(vibe, "soul"), {"soul": GOOD, "note": "Clearer", "based_on": "1"})
    assert "<ins>Guess</ins>" in client.get(page(vibe, "soul") + "?diff=2").content.decode()
    client.post(page(vibe, "soul"), {"restore": "1", "based_on": "2"})
    vibe.refresh_from_db()
    assert vibe.soul is not None
    assert (vibe.soul.number, vibe.soul.source) == (3, SOUL.format(name="Vibe"))


def test_versions_cannot_be_deleted(root: Client, vibe: Agent) -> None:
    version = SoulVersion.objects.get()
    assert root.post(f"/admin/agents/soulversion/{version.pk}/delete/", {"post": "yes"}).status_code == 403
    assert SoulVersion.objects.exists()


def test_a_change_of_trust_is_kept_with_its_note(ana: Member, vibe: Agent) -> None:
    response = as_superuser(ana).post(page(vibe, "trust"), {"level": "3", "note": "Ten good weeks"}, follow=True)
    change = TrustChange.objects.get()
    assert (change.level_before, change.level_after, change.by_name) == (2, 3, "Ana")
    assert "Ten good weeks" in response.content.decode()


@pytest.mark.parametrize("data", [{"level": "3", "note": ""}, {"level": "9", "note": "Why not"}, {}])
def test_no_change_of_trust_without_a_note_and_a_level(data: dict[str, str], ana: Member, vibe: Agent) -> None:
    assert as_superuser(ana).post(page(vibe, "trust"), data).status_code == 422
    vibe.refresh_from_db()
    assert vibe.level == 2


def test_making_an_agent(ana: Member) -> None:
    form = as_superuser(ana).get("/admin/agents/agent/add/").content.decode()
    assert "identity:" not in form
    data = {"workspace": ana.workspace_id, "handle": "@fern", "name": "Fern", "purpose": "Plans beds", "never": "Guess"}
    response = as_superuser(ana).post("/admin/agents/agent/add/", data)
    fern = Agent.objects.get()
    assert fern.soul is not None
    assert fern.soul.content["constraints"]["never_do"] == ["Guess"]
    assert response.headers["Location"].endswith(page(fern, "channels"))
    assert (fern.handle, fern.level) == ("fern", 1)


def test_a_bad_first_soul_makes_no_agent(ana: Member) -> None:
    data = {
        "workspace": ana.workspace_id,
        "handle": "fern",
        "name": "Fern",
        "purpose": "Plans",
        "never": "Guess. " * 2000,
    }
    response = as_superuser(ana).post("/admin/agents/agent/add/", data)
    assert "the limit is 2,000" in response.content.decode()
    assert not Agent.objects.exists()


def test_channels_are_joined_and_left(ana: Member, vibe: Agent) -> None:
    new = make_channel(ana, "second")
    as_superuser(ana).post(page(vibe, "channels"), {"channels": [new.pk]})
    joined = ChannelMembership.objects.filter(participant=vibe.participant).values_list("channel__name", flat=True)
    assert list(joined) == ["second"]


def test_deactivated_and_back(ana: Member, vibe: Agent) -> None:
    client = as_superuser(ana)
    client.get(page(vibe, "activity"))
    assert Agent.objects.get().is_active
    client.post(page(vibe, "activity"))
    assert not Agent.objects.get().is_active
    client.post(page(vibe, "activity"))
    assert Agent.objects.get().is_active


def test_settings_take_only_endpoints_of_its_workspace(ana: Member, vibe: Agent, other_garden: Member) -> None:
    foreign = other_garden.workspace.endpoints.get()
    address = f"/admin/agents/agent/{vibe.pk}/change/"
    response = as_superuser(ana).post(address, {"endpoint": foreign.pk, "daily_token_budget": 1000})
    assert response.status_code == 200
    vibe.refresh_from_db()
    assert vibe.endpoint is None


def test_a_superuser_who_is_no_member_is_told_why(root: Client, cleo: Member) -> None:
    fern = make_agent(cleo, "fern")
    response = root.post(page(fern, "trust"), {"level": "3", "note": "Because"})
    assert "not a member of this workspace" in response.content.decode()
