"""Signed-in browsers of the cast."""

from collections.abc import Callable

import pytest
from django.test import Client

from openvibe.workspaces.models import Member


@pytest.fixture
def signed_in() -> Callable[[Member], Client]:
    def of(member: Member) -> Client:
        client = Client()
        client.force_login(member.user)
        return client

    return of


@pytest.fixture
def home(ana: Member) -> str:
    """Where Ana's workspace lives."""
    return f"/w/{ana.workspace.slug}/"
