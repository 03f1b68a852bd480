"""`manage.py secrets reencrypt`: what a changed secret key asks for."""

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django.fixtures import Settings

from openvibe.engines.llm.models import Endpoint
from openvibe.runner.management.commands.secrets import encrypted_fields
from openvibe.workspaces.models import Member
from tests.engines.llm.factories import EndpointFactory

SECRET = "sk-canary-0123456789"


def reencrypt(*options: str) -> str:
    out = StringIO()
    call_command("secrets", "reencrypt", *options, stdout=out)
    return out.getvalue()


@pytest.fixture
def endpoints(ana: Member, settings: Settings) -> list[Endpoint]:
    """Two endpoints, the second with today's key; the first has one of before. A third has none."""
    values = {"workspace": ana.workspace, "kind": "offline"}
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the first key", []
    rows = [EndpointFactory.create(name="Old", api_key=SECRET, **values)]
    settings.SECRET_KEY = "the second key"
    rows.append(EndpointFactory.create(name="New", api_key=SECRET, **values))
    return [*rows, EndpointFactory.create(name="None", **values)]


def keys_of(endpoints: list[Endpoint]) -> list[str]:
    return [Endpoint.objects.get(pk=row.pk).api_key for row in endpoints]


def test_every_encrypted_field_is_known() -> None:
    assert ("llm.Endpoint", "api_key") in {(model._meta.label, field) for model, field in encrypted_fields()}


def test_what_an_earlier_key_encrypted_has_todays_afterwards(endpoints: list[Endpoint], settings: Settings) -> None:
    settings.SECRET_KEY_FALLBACKS = ["the first key"]
    assert "llm.Endpoint.api_key: 1 encrypted anew, 1 had today's key already." in reencrypt()
    assert "llm.Endpoint.api_key: 0 encrypted anew, 2 had today's key already." in reencrypt()
    settings.SECRET_KEY_FALLBACKS = []
    assert keys_of(endpoints) == [SECRET, SECRET, ""]


def test_the_earlier_key_can_come_from_a_file(endpoints: list[Endpoint], tmp_path: Path) -> None:
    old_key = tmp_path / "secret_key"
    old_key.write_text("the first key\n")
    assert "1 encrypted anew" in reencrypt("--old-key-file", str(old_key))
    assert keys_of(endpoints) == [SECRET, SECRET, ""]


def test_a_file_that_holds_no_text_is_no_key(endpoints: list[Endpoint], tmp_path: Path) -> None:
    (tmp_path / "all.tar").write_bytes(b"\xff\xfe")
    with pytest.raises(CommandError, match="1 secret can be read with none of the keys"):
        reencrypt("--old-key-file", str(tmp_path / "all.tar"))


def test_a_wrong_old_key_changes_nothing_and_is_a_sentence(endpoints: list[Endpoint], settings: Settings) -> None:
    settings.SECRET_KEY_FALLBACKS = ["not that one"]
    settings.SECRET_KEY = "the third key"
    with pytest.raises(CommandError, match=r"2 secrets .*llm.Endpoint .* Nothing was changed. Give the key"):
        reencrypt()
    settings.SECRET_KEY_FALLBACKS = ["the second key"]
    with pytest.raises(CommandError, match="Nothing was changed"):
        reencrypt()
    assert keys_of(endpoints) == ["", SECRET, ""], "read with the earlier key still"
    assert "They were left as they are" in reencrypt("--skip-unreadable")
    settings.SECRET_KEY_FALLBACKS = []
    assert keys_of(endpoints) == ["", SECRET, ""]
    settings.SECRET_KEY_FALLBACKS = ["the first key"]
    reencrypt()
    assert keys_of(endpoints) == [SECRET, SECRET, ""]
