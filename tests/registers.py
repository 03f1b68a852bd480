"""Registers in tests."""

from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from openvibe.base.registers import Register


def replaced(register: Register[Any], *items: object) -> AbstractContextManager[object]:
    """Within the context the register holds these items instead."""
    return mock.patch.object(register, "_items", items)
