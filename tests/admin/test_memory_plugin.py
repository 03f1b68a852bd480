"""The switch of memory plugins in the admin: it asks first and says what happens."""

from pathlib import Path

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from memory.plugins.models import MemoryPlugin
from memory.plugins.registry import active_plugin_name
from openvibe.workspaces.models import Member
from openvibe.workspaces.services import create_workspace
from tests import factories
from tests.admin.conftest import as_superuser
from tests.memory.factories import MemoryPluginFactory
from tests.memory.plugins.third_party import installed_package

PAGE = "/admin/memory/memoryplugin/"


@pytest.fixture
def browser(ana: Member) -> Client:
    return as_superuser(ana)


def ask(browser: Client, ana: Member, **fields: str) -> str:
    response = browser.post(PAGE, {"workspace": str(ana.workspace_id), **fields}, follow=True)
    assert response.status_code == 200
    return " ".join(response.content.decode().split())


def test_the_page_shows_which_one_is_enabled(browser: Client) -> None:
    page = browser.get(PAGE).content.decode()

    assert "Exactly one is enabled" in page
    assert page.count('<span class="ov-chip">enabled</span>') == 1
    assert "Enable Simple memory…" in page
    assert "Enable Lossless memory…" not in page


def test_of_several_workspaces_the_one_visited_last_is_shown(ana: Member) -> None:
    create_workspace(owner=ana.user, name="Acorn")
    browser = as_superuser(ana)
    assert browser.get(PAGE).context["home"].name == "Acorn"
    browser.get(f"/w/{ana.workspace.slug}/")
    assert browser.get(PAGE).context["home"] == ana.workspace


def test_switching_asks_first_and_says_what_happens(ana: Member, browser: Client) -> None:
    factories.say(factories.make_thread(factories.make_channel(ana), ana), ana, "Hello")

    question = ask(browser, ana, plugin="memory/simple")

    assert "Lossless memory → Simple memory" in question
    assert "From the next prompt on, this ends:" in question
    assert "old messages are summarised" in question
    assert "1 message in 1 thread stay in reach" in question
    assert active_plugin_name(ana.workspace_id) == "memory/lcm", "nothing happened yet"

    done = ask(browser, ana, plugin="memory/simple", confirmed="yes")

    assert "memory/simple is enabled now, memory/lcm is disabled." in done
    assert active_plugin_name(ana.workspace_id) == "memory/simple"
    assert LogEntry.objects.get().user == ana.user


def test_of_a_package_it_says_when_to_restart(ana: Member, browser: Client, tmp_path: Path) -> None:
    with installed_package(tmp_path):
        assert "restart OpenVibe first" in ask(browser, ana, plugin="acme/notebook")
        done = ask(browser, ana, plugin="acme/notebook", confirmed="yes")
        assert "restart OpenVibe: where the package is not known yet" in done


def test_settings_are_stored_and_mistakes_told(ana: Member, browser: Client) -> None:
    message = ask(browser, ana, settings="memory/lcm", **{"set-summaries": "poem"})
    assert "summaries must be model or deterministic." in message
    message = ask(
        browser, ana, settings="memory/lcm", **{"set-summaries": "deterministic", "set-fresh_tail_tokens": ""}
    )
    assert "The settings of memory/lcm are saved." in message
    assert 'value="deterministic"' in message
    assert MemoryPlugin.objects.get().config == {"summaries": "deterministic"}


def test_a_plugin_that_cannot_be_used_is_said_so(ana: Member, browser: Client) -> None:
    MemoryPluginFactory.create(workspace=ana.workspace, name="acme/gone", enabled=True)

    page = browser.get(PAGE).content.decode()

    assert "The memory plugin acme/gone is not installed." in page
    assert "memory/lcm recalls instead" in page


def test_a_superuser_who_is_no_member_is_told_why_not(ana: Member, root: Client, cleo: Member) -> None:
    assert cleo.workspace.name.replace("'", "&#x27;") in root.get(PAGE).content.decode()
    posted = {"workspace": str(cleo.workspace_id), "plugin": "memory/simple", "confirmed": "yes"}
    page = root.post(PAGE, posted, follow=True).content.decode()
    assert "You are not a member of this workspace" in page


def test_an_unknown_plugin_is_refused(ana: Member, browser: Client) -> None:
    assert "There is no such memory plugin." in ask(browser, ana, plugin="memory/best")


def test_a_setting_of_two_words_is_a_choice(ana: Member) -> None:
    page = as_superuser(ana).get("/admin/memory/memoryplugin/").content.decode()
    select = page[page.index("<select", page.index('for="memory-lcm-set-summaries"')) :]
    assert '<option value="deterministic">' in select[: select.index("</select>")]


@pytest.mark.parametrize("workspace", ["x", "0"])
def test_an_unknown_workspace_is_said_so(browser: Client, workspace: str) -> None:
    page = browser.get(f"{PAGE}?workspace={workspace}", follow=True).content.decode()
    assert "There is no such workspace." in page
