"""Registers: what upper floors plug into lower ones, and the check that somebody does."""

from collections.abc import Iterator
from importlib import import_module

import pytest
from django.core import checks
from django.core.exceptions import ImproperlyConfigured

from openvibe.engines.registers import Register, check_registers
from tests.registers import replaced


@pytest.fixture
def register() -> Iterator[Register[str]]:
    new_register: Register[str] = Register("tests.engines.test_registers.register")
    yield new_register
    Register.every.remove(new_register)


def test_the_house_has_thirty_one_and_none_is_empty() -> None:
    assert len(Register.every) == 32
    assert check_registers() == []


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
