"""The conformance suite: both built-ins keep every promise, and each rule notices a plugin that breaks its promise."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from memory.plugins.lcm.provider import LcmProvider
from memory.plugins.simple import SimpleProvider
from memory.plugins.testing import RULES, ConformanceRule, check_rule, plugins_under_test, rules_for
from memory.plugins.testing.scenario import RuleViolation
from tests.memory.plugins.broken_plugins import BREAKS
from tests.memory.plugins.third_party import installed_package

BY_NAME = {rule.name: rule for rule in RULES}


@pytest.mark.parametrize("rule", RULES, ids=list(BY_NAME))
def test_lossless_memory_keeps_it(rule: ConformanceRule, db: None) -> None:
    check_rule(rule, LcmProvider)


@pytest.mark.parametrize("rule", rules_for(SimpleProvider()), ids=lambda rule: rule.name)
def test_simple_memory_keeps_it(rule: ConformanceRule, db: None) -> None:
    check_rule(rule, SimpleProvider)


@pytest.mark.parametrize("name", BY_NAME)
def test_a_plugin_that_breaks_it_is_noticed(name: str, db: None) -> None:
    broken = BREAKS[name]
    assert BY_NAME[name] in rules_for(broken())

    with pytest.raises(RuleViolation) as error:
        check_rule(BY_NAME[name], broken)

    assert str(error.value).strip().endswith((".", ")")), "a sentence for the plugin's author"


def test_every_rule_is_broken_by_its_own_plugin() -> None:
    assert list(BREAKS) == list(BY_NAME)
    assert len(set(BREAKS.values())) == len(BREAKS)


def test_simple_memory_is_bound_by_the_rules_of_what_it_can_do() -> None:
    freed = {rule.capability.__name__ for rule in RULES if rule not in rules_for(SimpleProvider()) and rule.capability}

    assert freed == {"Compactor", "Explorer", "ReviewSource"}


def test_the_environment_names_the_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(plugins_under_test()) == ["memory/lcm", "memory/simple"]
    monkeypatch.setenv("OPENVIBE_MEMORY_PLUGIN", "acme/notebook")
    with pytest.raises(LookupError, match="no memory plugin 'acme/notebook'"):
        plugins_under_test()
    with installed_package(tmp_path):
        assert [type(make()).__name__ for make in plugins_under_test().values()] == ["Notebook"]


def test_an_author_runs_it_by_the_name_of_the_package() -> None:
    wanted = {**os.environ, "OPENVIBE_MEMORY_PLUGIN": "memory/simple"}
    words = [sys.executable, "-m", "pytest", "--pyargs", "memory.plugins.testing", "--collect-only"]

    process = subprocess.run(words, env=wanted, capture_output=True, text=True, timeout=120, check=False)

    assert process.returncode == 0, process.stdout + process.stderr
    assert process.stdout.count("[memory/simple-") == len(rules_for(SimpleProvider())), process.stdout
