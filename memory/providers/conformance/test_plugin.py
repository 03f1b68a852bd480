"""Every rule against every plugin asked for. See the package's own words for how to run it."""

import pytest

from memory.providers.conformance.rules import Rule, hold, plugins_asked_for, rules_for

PLUGINS = plugins_asked_for()
PROMISES = [
    pytest.param(name, rule, id=f"{name}-{rule.name}") for name, make in PLUGINS.items() for rule in rules_for(make())
]


@pytest.mark.django_db
@pytest.mark.parametrize(("plugin", "rule"), PROMISES)
def test_promise(plugin: str, rule: Rule) -> None:
    hold(rule, PLUGINS[plugin])
