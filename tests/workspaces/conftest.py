"""Signed-in browsers of the cast."""

from collections.abc import Callable, Iterator

import pytest
from django.test import Client
from pytest_django import Settings

from openvibe.workspaces.models import Member
from tests import factories
from tests.workspaces.oidc_provider import CLIENT, Provider, provider_serving

ANA = {"sub": "1", "email": "Ana@example.org", "email_verified": True, "name": "Ana of the provider"}


@pytest.fixture
def signed_in() -> Callable[[Member], Client]:
    return factories.signed_in


@pytest.fixture
def home(ana: Member) -> str:
    """The address at which Ana's workspace lives."""
    return f"/w/{ana.workspace.slug}/"


@pytest.fixture
def provider(settings: Settings) -> Iterator[type[Provider]]:
    with provider_serving(**ANA) as (served, url):
        app = {"provider_id": "sso", "name": "Garden ID", **CLIENT, "settings": {"server_url": url}}
        settings.OIDC_URL = url
        settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"OAUTH_PKCE_ENABLED": True, "APPS": [app]}}
        yield served
