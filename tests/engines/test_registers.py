"""Registers: what upper floors plug into lower ones, and the check that somebody does."""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from django.core import checks
from django.core.exceptions import ImproperlyConfigured

from openvibe.engines.registers import Register, check_registers
from tests.registers import replaced

ROOT = Path(__file__).parents[2]


@pytest.fixture
def register() -> Iterator[Register[str]]:
    new_register: Register[str] = Register("tests.engines.test_registers.register")
    yield new_register
    Register.every.remove(new_register)


def test_none_is_empty_and_the_documentation_names_each() -> None:
    assert check_registers() == []
    page = (ROOT / "docs/registers.md").read_text()
    named = re.findall(r"(?m)^\| `([\w.]+)` \|", page)
    assert sorted(named) == sorted(register.name for register in Register.every)


@pytest.mark.parametrize("register", Register.every, ids=lambda register: register.name)
def test_a_name_says_where_the_register_stands(register: Register[object]) -> None:
    module, _, name = register.name.rpartition(".")
    assert getattr(import_module(module), name) is register


def test_an_empty_one_fails_the_system_check(register: Register[str]) -> None:
    errors = [error for error in checks.run_checks() if error.id == "openvibe.E001"]
    assert [error.msg for error in errors] == ["tests.engines.test_registers.register is empty."]
    register.add("roses")
    assert check_registers() == []


def test_items_keep_their_order_and_come_back_after_a_test(register: Register[str]) -> None:
    register.add("roses")
    register.add("tulips")
    with replaced(register, "moss"):
        assert register.only() == "moss"
    assert list(register) == ["roses", "tulips"]


def test_a_register_that_takes_one_refuses_none_and_two(register: Register[str]) -> None:
    with pytest.raises(ImproperlyConfigured, match="holds 0 items"):
        register.only()
    register.add("roses")
    register.add("tulips")
    with pytest.raises(ImproperlyConfigured, match="holds 2 items"):
        register.only()
