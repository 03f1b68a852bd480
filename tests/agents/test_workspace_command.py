"""`manage.py workspace`: workspaces are made and deleted."""

import re
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from openvibe.workspaces.models import Member, User, Workspace


def test_the_commands_create_and_delete(db: None) -> None:
    out = StringIO()
    call_command("workspace", "create", "Elm & Co", owner="Mia@Example.org", stdout=out)
    mia = User.objects.get(email="mia@example.org")
    assert mia.is_superuser  # of an installation that had nobody
    password = re.search(r"with password (\S+) ", out.getvalue())
    assert password
    assert mia.check_password(password[1])
    call_command("workspace", "create", "Oak", owner="jo@example.org", stdout=out)
    assert not User.objects.get(email="jo@example.org").is_superuser
    with pytest.raises(CommandError, match="not its name"):
        call_command("workspace", "delete", "elm-co", confirm="Elm")
    call_command("workspace", "delete", "elm-co", confirm="Elm & Co", stdout=out)
    assert [each.name for each in Workspace.objects.all()] == ["Oak"]
    with pytest.raises(CommandError, match="Enter a valid email address"):
        call_command("workspace", "create", "Ash", owner="nobody")


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--max-gib=nan", "not a number above 0"),
        ("--max-gib=inf", "not a number above 0"),
        ("--max-gib=0", "not a number above 0"),
        ("--slug=Elm & Co", "cannot stand in an address. Write elm-co"),
        ("--slug=??", "cannot stand in an address. Write our-team"),
    ],
)
def test_an_option_of_an_import_that_cannot_be_is_said(option: str, words: str) -> None:
    with pytest.raises(CommandError, match=words):
        call_command("workspace", "import", "elm.zip", option)


def test_all_workspaces_are_named_to_who_names_none(ana: Member, cleo: Member) -> None:
    with pytest.raises(CommandError, match=r"There are: anas-garden, cleos-garden\."):
        call_command("workspace", "export", "all.zip")
