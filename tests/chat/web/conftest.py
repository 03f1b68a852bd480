"""Signed-in browsers of the cast."""

from collections.abc import Callable

import pytest
from django.test import Client

from openvibe.workspaces.models import Member
from tests import factories


@pytest.fixture
def signed_in() -> Callable[[Member], Client]:
    return factories.signed_in


@pytest.fixture
def home(ana: Member) -> str:
    """The address at which Ana's workspace lives."""
    return f"/w/{ana.workspace.slug}/"
