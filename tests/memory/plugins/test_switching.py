"""Switching plugins: exactly one is enabled, only admins switch, and no message is lost on the way."""

from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.agent.access import visible_to
from agents.models import Agent
from memory.plugins.models import MemoryPlugin
from memory.plugins.registry import active_plugin_name, provider_for
from memory.plugins.services import configure_plugin, disable_plugin, enable_plugin
from memory.plugins.sessions import open_session
from openvibe.base.problems import Problem, Refused
from openvibe.chat.models import Thread
from openvibe.workspaces.models import Member
from tests import factories
from tests.memory.plugins.third_party import BROKEN, installed_package


def enabled(ana: Member) -> list[str]:
    return list(MemoryPlugin.objects.filter(workspace=ana.workspace, enabled=True).values_list("name", flat=True))


def switch(ana: Member, name: str) -> str:
    return enable_plugin(workspace=ana.workspace, name=name, by=factories.access(ana)).message


def test_enabling_one_disables_the_other(ana: Member) -> None:
    assert switch(ana, "memory/simple") == (
        "memory/simple is enabled now, memory/lcm is disabled. Every message stays in reach."
    )
    assert enabled(ana) == ["memory/simple"]

    switch(ana, "memory/lcm")
    assert enabled(ana) == ["memory/lcm"]
    assert MemoryPlugin.objects.get(name="memory/lcm").changed_by == ana.participant


def test_enabling_what_is_enabled_changes_nothing(ana: Member) -> None:
    done = enable_plugin(workspace=ana.workspace, name="memory/lcm", by=None)

    assert done.disabled == ""
    assert not MemoryPlugin.objects.exists()


def test_the_workspace_is_locked_while_it_is_switched(ana: Member) -> None:
    with CaptureQueriesContext(connection) as queries:
        switch(ana, "memory/simple")

    locks = [query["sql"] for query in queries if "FOR NO KEY UPDATE" in query["sql"]]
    assert "workspaces_workspace" in locks[0]


def test_something_always_recalls(ana: Member) -> None:
    first = disable_plugin(workspace=ana.workspace, name="memory/lcm", by=None)
    assert (first.enabled, enabled(ana)) == ("memory/simple", ["memory/simple"])
    assert first.message == "memory/lcm is disabled. Something has to recall, so memory/simple is enabled now."

    nothing = disable_plugin(workspace=ana.workspace, name="memory/lcm", by=None)
    assert nothing.message == "memory/lcm is not enabled, memory/simple is. Nothing changed."

    disable_plugin(workspace=ana.workspace, name="memory/simple", by=None)
    assert enabled(ana) == ["memory/lcm"]


def test_only_those_who_run_the_workspace_switch(ana: Member, dora: Member, cleo: Member, vibe: Agent) -> None:
    for access in (factories.access(dora), factories.access(cleo), visible_to(vibe)):
        with pytest.raises(Refused):
            enable_plugin(workspace=ana.workspace, name="memory/simple", by=access)
        with pytest.raises(Refused):
            disable_plugin(workspace=ana.workspace, name="memory/lcm", by=access)
        with pytest.raises(Refused):
            configure_plugin(workspace=ana.workspace, name="memory/simple", config={"messages": 3}, by=access)
    assert not MemoryPlugin.objects.exists()


def test_an_unknown_plugin_is_named(ana: Member) -> None:
    with pytest.raises(Problem, match=r"no memory plugin .memory/best.\. Installed: memory/lcm, memory/simple\."):
        switch(ana, "memory/best")


def test_one_that_cannot_be_loaded_is_not_enabled(ana: Member, tmp_path: Path) -> None:
    with installed_package(tmp_path, source=BROKEN), pytest.raises(Problem, match=r"no such luck.*Nothing changed"):
        switch(ana, "acme/notebook")
    assert active_plugin_name(ana.workspace_id) == "memory/lcm"


def test_a_plugin_of_another_package_is_switched_and_left_when_it_is_gone(ana: Member, tmp_path: Path) -> None:
    with installed_package(tmp_path):
        switch(ana, "acme/notebook")
        assert active_plugin_name(ana.workspace_id) == "acme/notebook"
        with pytest.raises(Problem, match=r"thirteen.*stay as they were"):
            configure_plugin(workspace=ana.workspace, name="acme/notebook", config={"messages": "13"}, by=None)

    assert active_plugin_name(ana.workspace_id) == "memory/lcm", "uninstalled while enabled"
    done = disable_plugin(workspace=ana.workspace, name="acme/notebook", by=None)
    assert (done.enabled, enabled(ana)) == ("memory/lcm", ["memory/lcm"])


def test_settings_are_checked_and_stored(ana: Member) -> None:
    def configure(**config: object) -> dict[str, object]:
        return configure_plugin(workspace=ana.workspace, name="memory/lcm", config=config, by=None)

    assert configure(fresh_tail_tokens="none", summaries="deterministic") == {
        "fresh_tail_tokens": "none",
        "summaries": "deterministic",
    }
    assert configure(fresh_tail_tokens="2000", summaries="") == {"fresh_tail_tokens": 2000}
    assert configure(fresh_tail_tokens=None) == {}
    assert enabled(ana) == ["memory/lcm"]


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"colour": "blue"}, "has no setting 'colour'. It has: fresh_tail_tokens, summaries, summary_"),
        ({"fresh_tail_tokens": "many"}, "fresh_tail_tokens must be a whole number from 1 to 1,000,000, or none."),
        ({"summaries": "poem"}, "summaries must be model or deterministic."),
    ],
)
def test_settings_that_do_not_exist_are_refused(ana: Member, config: dict[str, str], why: str) -> None:
    with pytest.raises(Problem) as error:
        configure_plugin(workspace=ana.workspace, name="memory/lcm", config=config, by=None)
    assert why in error.value.message
    assert not MemoryPlugin.objects.exists()


def test_setting_another_plugin_does_not_enable_it(ana: Member) -> None:
    configure_plugin(workspace=ana.workspace, name="memory/simple", config={"messages": 7}, by=None)
    assert active_plugin_name(ana.workspace_id) == "memory/lcm"

    switch(ana, "memory/simple")
    assert MemoryPlugin.objects.get(name="memory/simple").config == {"messages": 7}


def test_switching_back_and_forth_keeps_every_message_in_reach(ana: Member, vibe: Agent, thread: Thread) -> None:
    session = open_session(visible_to(vibe), thread.pk)
    said: list[str] = []

    def talk(count: int) -> None:
        for _ in range(count):
            said.append(f"Message {len(said) + 1}")
            factories.say(thread, ana, said[-1])

    def recalled() -> list[str]:
        provider = provider_for(ana.workspace_id)
        provider.bootstrap(session)
        return [entry.text for entry in provider.assemble(session, 50_000, 20)]

    for name in ("memory/simple", "memory/lcm", "memory/simple", "memory/lcm"):
        talk(4)
        switch(ana, name)
        talk(3)
        assert recalled() == said, name
