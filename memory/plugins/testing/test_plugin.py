"""Every rule against every plugin under test. `memory.plugins.testing` says how to run it."""

import pytest

from memory.plugins.testing import ConformanceRule, check_rule, plugins_under_test, rules_for

PLUGINS = plugins_under_test()
PROMISES = [
    pytest.param(name, rule, id=f"{name}-{rule.name}") for name, make in PLUGINS.items() for rule in rules_for(make())
]


@pytest.mark.django_db
@pytest.mark.parametrize(("plugin", "rule"), PROMISES)
def test_promise(plugin: str, rule: ConformanceRule) -> None:
    check_rule(rule, PLUGINS[plugin])
