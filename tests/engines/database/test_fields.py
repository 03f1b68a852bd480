from __future__ import annotations

import pickle
from typing import Any

import pytest
from django.core.exceptions import FieldError
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st
from pytest_django.fixtures import Settings

from openvibe.engines.database.fields import CannotDecrypt, UnreadableSecret, decrypt, encrypt
from openvibe.engines.llm.models import Endpoint
from openvibe.workspaces.models import Member
from tests.engines.llm.factories import EndpointFactory

SECRET = "sk-canary-0123456789"


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_what_is_encrypted_can_be_decrypted(text: str) -> None:
    assert decrypt(encrypt(text)) == text


def test_the_same_text_is_never_stored_the_same_way() -> None:
    first, second = encrypt(SECRET), encrypt(SECRET)
    assert first != second
    assert first.startswith("enc1:")
    assert "canary" not in first
    assert encrypt("") == ""


def test_another_key_cannot_read_it_and_the_error_names_the_setting(settings: Settings) -> None:
    stored = encrypt(SECRET)
    settings.SECRET_KEY = "another"
    with pytest.raises(CannotDecrypt, match="OPENVIBE_SECRET_KEY"):
        decrypt(stored)


def test_keys_can_be_rotated(settings: Settings) -> None:
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "old", []
    stored = encrypt(SECRET)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "new", ["old"]
    assert decrypt(stored) == SECRET
    stored = encrypt(SECRET)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "new", []
    assert decrypt(stored) == SECRET


@pytest.mark.parametrize(
    "stored", ["plain text", "enc1:", "enc1:x", "enc1:é", encrypt(SECRET)[:-4], encrypt(SECRET)[5:]]
)
def test_what_was_tampered_with_is_refused(stored: str) -> None:
    with pytest.raises(CannotDecrypt):
        decrypt(stored)


def test_the_database_holds_it_encrypted_and_python_plain(ana: Member) -> None:
    row = EndpointFactory.create(workspace=ana.workspace, name="Garden", kind="offline", api_key=SECRET)
    with connection.cursor() as cursor:
        cursor.execute("select api_key from llm_endpoint where id = %s", [row.pk])
        stored = cursor.fetchone()[0]
    assert stored.startswith("enc1:")
    assert "canary" not in stored
    assert Endpoint.objects.get(pk=row.pk).api_key == SECRET
    assert Endpoint.objects.values_list("api_key", flat=True).get(pk=row.pk) == SECRET


def test_a_row_whose_secret_cannot_be_read_is_read_changed_and_loses_nothing(ana: Member, settings: Settings) -> None:
    row = EndpointFactory.create(workspace=ana.workspace, name="Garden", kind="offline", api_key=SECRET)
    first_key, settings.SECRET_KEY = settings.SECRET_KEY, "another"
    row = Endpoint.objects.get(pk=row.pk)
    assert isinstance(row.api_key, UnreadableSecret)
    assert (row.api_key, row.key_hint) == ("", "enter the key again")
    pickle.loads(pickle.dumps(row)).save()
    settings.SECRET_KEY = first_key
    assert Endpoint.objects.get(pk=row.pk).api_key == SECRET


def test_it_cannot_be_searched() -> None:
    lookup: dict[str, Any] = {"api_key__startswith": "sk-"}
    with pytest.raises(FieldError, match="encrypted"):
        Endpoint.objects.filter(**lookup)
