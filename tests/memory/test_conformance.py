"""The conformance suite: both built-ins keep every promise, and each rule notices a plugin that breaks its promise."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from memory.providers.conformance.rules import RULES, Rule, hold, plugins_asked_for, rules_for
from memory.providers.conformance.scene import Broken
from memory.providers.lcm.provider import LcmProvider
from memory.providers.simple import SimpleProvider
from tests.memory.breaking import BREAKS
from tests.memory.foreign import installed_package

BY_NAME = {rule.name: rule for rule in RULES}


@pytest.mark.parametrize("rule", RULES, ids=list(BY_NAME))
def test_lossless_memory_keeps_it(rule: Rule, db: None) -> None:
    hold(rule, LcmProvider)


@pytest.mark.parametrize("rule", rules_for(SimpleProvider()), ids=lambda rule: rule.name)
def test_simple_memory_keeps_it(rule: Rule, db: None) -> None:
    hold(rule, SimpleProvider)


@pytest.mark.parametrize("name", BY_NAME)
def test_a_plugin_that_breaks_it_is_noticed(name: str, db: None) -> None:
    broken = BREAKS[name]
    assert BY_NAME[name] in rules_for(broken())

    with pytest.raises(Broken) as noticed:
        hold(BY_NAME[name], broken)

    assert str(noticed.value).strip().endswith((".", ")")), "a sentence for the plugin's author"


def test_every_rule_is_broken_by_its_own_plugin() -> None:
    assert list(BREAKS) == list(BY_NAME)
    assert len(set(BREAKS.values())) == len(BREAKS)


def test_simple_memory_is_bound_by_the_rules_of_what_it_can_do() -> None:
    freed = {rule.of.__name__ for rule in RULES if rule not in rules_for(SimpleProvider()) and rule.of}

    assert freed == {"Compactor", "Searcher", "Explorer", "ReviewSource"}


def test_the_environment_names_the_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(plugins_asked_for()) == ["memory/lcm", "memory/simple"]
    monkeypatch.setenv("OPENVIBE_MEMORY_PLUGIN", "acme/notebook")
    with pytest.raises(LookupError, match="no memory plugin 'acme/notebook'"):
        plugins_asked_for()
    with installed_package(tmp_path):
        assert [type(make()).__name__ for make in plugins_asked_for().values()] == ["Notebook"]


def test_an_author_runs_it_by_the_name_of_the_package() -> None:
    wanted = {**os.environ, "OPENVIBE_MEMORY_PLUGIN": "memory/simple"}
    words = [sys.executable, "-m", "pytest", "--pyargs", "memory.providers.conformance", "--collect-only"]

    done = subprocess.run(words, env=wanted, capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("[memory/simple-") == len(rules_for(SimpleProvider())), done.stdout
