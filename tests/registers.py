"""Registers in tests."""

from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from openvibe.engines.registers import Register


def replaced(register: Register[Any], *items: object) -> AbstractContextManager[object]:
    """Replaces what the register holds within the context by these items."""
    return mock.patch.object(register, "_items", items)
