"""`manage.py workspace`: workspaces are made and deleted."""

import re
from io import BytesIO, StringIO, TextIOWrapper

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


def test_no_password_is_read_for_an_account_that_has_one(ana: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever gives one would take it for the account's."""
    monkeypatch.setattr("sys.stdin", StringIO("a quite new password\n"))
    for options in ({"password_stdin": True}, {"owner_name": "Anna"}):
        with pytest.raises(CommandError, match=r"has an account already, which stays as it is.*Nothing was made"):
            call_command("workspace", "create", "Elm", owner=ana.user.email.upper(), **options)
    assert Workspace.objects.get() == ana.workspace


@pytest.mark.parametrize(
    ("stdin", "words"),
    [
        (TextIOWrapper(BytesIO(b""), "utf-8"), "too short"),
        (TextIOWrapper(BytesIO(b"M\xfcller's roses\n"), "utf-8"), "is not UTF-8"),
        (TextIOWrapper(BytesIO(b"M\xfcller's roses\n"), "utf-8", "surrogateescape"), "is not UTF-8"),
    ],
)
def test_a_password_that_cannot_be_read_is_said(
    db: None, monkeypatch: pytest.MonkeyPatch, stdin: TextIOWrapper, words: str
) -> None:
    monkeypatch.setattr("sys.stdin", stdin)
    with pytest.raises(CommandError, match=f"{words}.*Nothing was made"):
        call_command("workspace", "create", "Elm", owner="mia@example.org", password_stdin=True)
    assert not User.objects.exists()


def test_a_name_that_nobody_types_deletes_nothing(ana: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", StringIO())
    with pytest.raises(CommandError, match="--confirm"):
        call_command("workspace", "delete", ana.workspace.slug)


def test_a_slug_is_refused_where_a_workspace_is_made_as_where_one_is_brought_in(db: None) -> None:
    with pytest.raises(CommandError, match="cannot stand in an address"):
        call_command("workspace", "create", "Elm", "--owner=mia@example.org", "--slug=Elm & Co")


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
