"""The plugins that there are, and the one that recalls: built-ins and other people's, nothing loaded before it is
used."""

import sys
from pathlib import Path

import pytest

from memory.plugins import registry
from memory.plugins.base import capabilities_of, choice_parser, integer_parser
from memory.plugins.lcm.provider import LcmProvider
from memory.plugins.models import MemoryPlugin
from memory.plugins.registry import capability_diff, plugin_statuses, with_load_problem
from memory.plugins.services import configure_plugin
from memory.plugins.simple import SimpleProvider
from openvibe.workspaces.models import Member
from tests.memory.factories import MemoryPluginFactory
from tests.memory.plugins.third_party import BROKEN, NO_PLUGIN, installed_package


def enable(ana: Member, name: str, **config: object) -> None:
    MemoryPlugin.objects.filter(workspace=ana.workspace).update(enabled=False)
    MemoryPlugin.objects.update_or_create(
        workspace=ana.workspace, name=name, defaults={"enabled": True, "config": config}
    )


def test_lossless_memory_is_the_default_and_has_every_capability(ana: Member) -> None:
    assert registry.active_plugin_name(ana.workspace_id) == "memory/lcm"
    provider = registry.provider_for(ana.workspace_id)
    assert isinstance(provider, LcmProvider)
    assert len(capabilities_of(provider)) == 7


def test_the_enabled_one_recalls_with_its_config(ana: Member) -> None:
    enable(ana, "memory/simple", messages=5)

    assert registry.active_plugin_name(ana.workspace_id) == "memory/simple"
    provider = registry.provider_for(ana.workspace_id)
    assert isinstance(provider, SimpleProvider)
    assert provider is registry.provider_for(ana.workspace_id), "made once"


def test_settings_of_the_default_count_though_nobody_switched(ana: Member) -> None:
    MemoryPluginFactory.create(
        workspace=ana.workspace, name="memory/lcm", enabled=False, config={"summaries": "deterministic"}
    )

    provider = registry.provider_for(ana.workspace_id)

    assert isinstance(provider, LcmProvider)
    assert provider.config == {"summaries": "deterministic"}


def test_workspaces_choose_for_themselves(ana: Member, cleo: Member) -> None:
    enable(ana, "memory/simple")

    assert registry.active_plugin_name(cleo.workspace_id) == "memory/lcm"


def test_a_plugin_of_another_package_is_found_and_loaded_only_when_enabled(ana: Member, tmp_path: Path) -> None:
    with installed_package(tmp_path) as module:
        assert list(registry.installed_plugins()) == ["memory/lcm", "memory/simple", "acme/notebook"]
        registry.provider_for(ana.workspace_id)
        assert [one.name for one in plugin_statuses(ana.workspace_id) if one.enabled] == ["memory/lcm"]
        assert module not in sys.modules, "disabled: never loaded"

        enable(ana, "acme/notebook")
        assert type(registry.provider_for(ana.workspace_id)).__name__ == "Notebook"
        assert [setting.name for setting in plugin_statuses(ana.workspace_id)[2].settings] == ["messages"]


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (BROKEN, "cannot be loaded (RuntimeError: no such luck)"),
        ("Other = 1\n", "cannot be loaded (AttributeError"),
        (NO_PLUGIN, "lacks bootstrap, append, assemble, stats, close"),
    ],
)
def test_one_that_cannot_be_used_leaves_the_default_in_its_place(
    ana: Member, tmp_path: Path, source: str, why: str
) -> None:
    with installed_package(tmp_path, source=source):
        enable(ana, "acme/notebook")

        assert isinstance(registry.provider_for(ana.workspace_id), LcmProvider)
        assert isinstance(registry.provider_by_name("acme/notebook", {}), LcmProvider)
        assert registry.active_plugin_name(ana.workspace_id) == "memory/lcm"
        one = plugin_statuses(ana.workspace_id)[2]
        assert one.enabled
        assert why in one.problem


@pytest.mark.parametrize("name", ["memory/lcm", "memory/simple"])
@pytest.mark.parametrize(
    ("lcm", "simple", "why"),
    [
        ({"fresh_tail_tokens": "many"}, {"messages": "many"}, "is 'many' (it must be a whole number from 1 to"),
        ({"fresh_tail_tokens": [[]]}, {"messages": [[]]}, "is [[]] (it must be a whole number from 1 to"),
        ({"fresh_tail_tokens": -4}, {"messages": -4}, "is -4 (it must be a whole number from 1 to"),
        (["summaries"], ["messages"], "its stored settings are no object of names."),
        ("none", "none", "its stored settings are no object of names."),
    ],
)
def test_stored_settings_that_a_plugin_does_not_take_leave_the_default_in_its_place(
    ana: Member, name: str, lcm: object, simple: object, why: str
) -> None:
    enable(ana, name)
    MemoryPlugin.objects.filter(name=name).update(config=lcm if name == "memory/lcm" else simple)

    provider = registry.provider_for(ana.workspace_id)
    assert isinstance(provider, LcmProvider)
    assert provider.config == {}
    assert registry.active_plugin(ana.workspace_id)[:3] == ("memory/lcm", {}, name)
    (one,) = (status for status in plugin_statuses(ana.workspace_id) if status.enabled)
    assert why in one.problem
    assert one.problem.startswith(f"The memory plugin {name} cannot start: its ")

    defaults = {setting.name: "" for setting in one.settings}
    assert configure_plugin(workspace=ana.workspace, name=name, config=defaults, by=None) == {}
    assert registry.active_plugin(ana.workspace_id) == (name, {}, name, "")


def test_one_that_was_uninstalled_leaves_the_default_in_its_place(ana: Member) -> None:
    enable(ana, "acme/gone", anything=1)

    assert isinstance(registry.provider_for(ana.workspace_id), LcmProvider)
    gone = plugin_statuses(ana.workspace_id)[-1]
    assert (gone.name, gone.enabled) == ("acme/gone", True)
    assert gone.problem == "The memory plugin acme/gone is not installed."


def test_trying_says_what_is_wrong_with_a_disabled_one(ana: Member, tmp_path: Path) -> None:
    with installed_package(tmp_path, source=BROKEN):
        one = plugin_statuses(ana.workspace_id)[2]
        assert one.problem == ""
        assert "no such luck" in with_load_problem(one).problem


def test_nobody_takes_the_name_of_a_built_in_one(tmp_path: Path) -> None:
    with installed_package(tmp_path, name="memory/simple"):
        assert registry.installed_plugins()["memory/simple"].is_built_in


def test_a_change_says_what_ends_and_what_stays(ana: Member) -> None:
    change = capability_diff(ana.workspace_id, "memory/simple")

    assert "old messages are summarised" in change.lost
    assert change.gained == ()
    assert "agents keep notes about people" in change.kept


@pytest.mark.parametrize("value", ["12", 12, " 12 "])
def test_numbers_are_read(value: object) -> None:
    assert integer_parser(1, 20)(value) == 12


@pytest.mark.parametrize("value", ["0", "21", "x", "", "1.5", True, None, "9" * 40, "-1", [1]])
def test_what_is_no_such_number_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"a whole number from 1 to 20, or none"):
        integer_parser(1, 20, keyword="none")(value)


def test_a_choice_takes_its_words_alone() -> None:
    assert choice_parser("model", "deterministic")("model") == "model"
    with pytest.raises(ValueError, match="model or deterministic"):
        choice_parser("model", "deterministic")("both")
