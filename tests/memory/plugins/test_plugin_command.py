"""`manage.py plugin`: list, enable, disable, config."""

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from memory.plugins.models import MemoryPlugin
from memory.plugins.registry import active_plugin_name
from openvibe.workspaces.models import Member
from tests.memory.factories import MemoryPluginFactory
from tests.memory.plugins.third_party import BROKEN, installed_package


def plugin(*words: str) -> str:
    out = StringIO()
    call_command("plugin", *words, stdout=out)
    return out.getvalue()


def test_list_names_every_plugin_and_marks_the_enabled_one(ana: Member) -> None:
    lines = plugin("list").splitlines()

    assert lines[0].startswith("on  memory/lcm     Old messages are summarised")
    assert lines[1].startswith("off memory/simple  The newest messages that fit.")


def test_enable_and_disable(ana: Member) -> None:
    assert "memory/simple is enabled now" in plugin("enable", "memory/simple")
    assert active_plugin_name(ana.workspace_id) == "memory/simple"
    assert "so memory/lcm is enabled now" in plugin("disable", "memory/simple")
    assert active_plugin_name(ana.workspace_id) == "memory/lcm"


def test_of_a_package_enable_says_that_a_running_server_is_restarted(ana: Member, tmp_path: Path) -> None:
    with installed_package(tmp_path):
        words = plugin("enable", "acme/notebook")
        assert "acme/notebook is enabled, memory/lcm is disabled." in words
        assert "restart OpenVibe: where the package is not known yet, memory/lcm recalls until then." in words
        assert "restart" not in plugin("enable", "memory/simple"), "what comes along is known to every process"


def test_config_shows_and_changes(ana: Member) -> None:
    assert "summaries = not set (model)" in plugin("config", "memory/lcm")
    said = plugin("config", "memory/lcm", "summaries=deterministic", "fresh_tail_tokens=900")
    assert 'summaries = "deterministic"' in said
    assert "fresh_tail_tokens = 900" in plugin("config", "memory/lcm")
    plugin("config", "memory/lcm", "summaries=")
    assert MemoryPlugin.objects.get(name="memory/lcm").config == {"fresh_tail_tokens": 900}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("enable", "memory/best"), "There is no memory plugin 'memory/best'"),
        (("config", "memory/best"), "There is no memory plugin 'memory/best'"),
        (("config", "memory/lcm", "summaries"), "'summaries' has no = sign"),
        (("config", "memory/lcm", "summaries=poem"), "summaries must be model or deterministic"),
        (("list", "--workspace", "nowhere"), "There is no workspace 'nowhere'"),
    ],
)
def test_mistakes_are_told_in_words(ana: Member, words: tuple[str, ...], why: str) -> None:
    with pytest.raises(CommandError) as error:
        plugin(*words)
    assert why in str(error.value)


def test_with_two_workspaces_one_is_named(ana: Member, cleo: Member) -> None:
    with pytest.raises(CommandError, match="Say which workspace"):
        plugin("list")
    plugin("enable", "memory/simple", "--workspace", cleo.workspace.slug)
    assert active_plugin_name(ana.workspace_id) == "memory/lcm"
    assert active_plugin_name(cleo.workspace_id) == "memory/simple"


def test_without_a_workspace_it_says_so(db: None) -> None:
    with pytest.raises(CommandError, match="no workspace yet"):
        plugin("list")


def test_a_broken_plugin_is_reported_by_name(ana: Member, tmp_path: Path) -> None:
    with installed_package(tmp_path, source=BROKEN):
        assert "no such luck" not in plugin("list"), "a disabled one is not loaded unasked"
        assert "off acme/notebook" in plugin("list")
        checked = plugin("list", "--check")
        assert (
            "cannot be used: The memory plugin acme/notebook cannot be loaded (RuntimeError: no such luck)" in checked
        )
        with pytest.raises(CommandError, match="no such luck"):
            plugin("enable", "acme/notebook")
        MemoryPluginFactory.create(workspace=ana.workspace, name="acme/notebook", enabled=True)
        assert "no such luck" in plugin("list")
