"""`manage.py workspace`: workspaces are made and deleted."""

import os
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from typing import TextIO

import pytest
from django.conf import LazySettings
from django.core.management import CommandError, call_command

from knowledge.models import Entry
from openvibe.api.models import Token
from openvibe.chat.models import Channel, Message
from openvibe.workspaces.models import Member, User, Workspace
from tests.factories import make_agent


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


@pytest.mark.parametrize("owner", ["ana", "ana@", "ana@" + "d." * 130 + "example"])
def test_an_address_that_cannot_be_kept_is_refused(owner: str, db: None) -> None:
    with pytest.raises(CommandError, match="Nothing was made"):
        call_command("workspace", "create", "Garden", "--owner", owner)
    assert not User.objects.exists()


def test_no_password_is_read_for_an_account_that_has_one(ana: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person who gives one would take it for the account's."""
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


@contextmanager
def broken_output(kind: str) -> Iterator[TextIO]:
    """A standard output that takes nothing: it leads to a full disk, or to somebody who has gone."""
    if kind == "full":
        descriptor = os.open("/dev/full", os.O_WRONLY)
    else:
        reader, descriptor = os.pipe()
        os.close(reader)
    stream = os.fdopen(descriptor, "w")
    try:
        yield stream
    finally:
        with suppress(OSError):
            stream.close()


@pytest.mark.parametrize("kind", ["full", "unread"])
def test_what_was_done_is_said_though_standard_output_takes_nothing(
    ana: Member, channel: Channel, tmp_path: Path, kind: str
) -> None:
    talk, entries, archive = tmp_path / "talk.jsonl", tmp_path / "in.csv", tmp_path / "ana.zip"
    talk.write_text('{"author": "Ben", "text": "Prune in March."}')
    entries.write_text("topic,content\nPricing,\nRoses,Prune\n")
    for arguments, words in (
        (("conversation", "import", talk, f"--channel={channel.name}"), "1 thread, 1 message"),
        (("knowledge", "import", entries), r"Row 2: refused\..* 1 imported, .* 1 refused\. Mend those rows"),
        (("workspace", "export", archive), "Not in it: keys"),
        (("workspace", "delete", ana.workspace.slug, f"--confirm={ana.workspace.name}"), "is deleted"),
        (("workspace", "import", archive), "is here, at /w/anas-garden/"),
    ):
        done = rf"(?s)^This was done, .*\n.*{words}"
        with broken_output(kind) as output, pytest.raises(CommandError, match=done):
            call_command(*map(str, arguments), stdout=output)
    assert (Message.objects.count(), Entry.objects.count(), Workspace.objects.count()) == (1, 1, 1)


def test_what_was_done_is_said_though_standard_output_does_not_know_its_letters(ana: Member, tmp_path: Path) -> None:
    Workspace.objects.update(name="Gärtnerei")
    done = r"^This was done, .* \(ordinal not in range\(128\)\):\nGärtnerei: "
    with Path(os.devnull).open("w", encoding="ascii") as output, pytest.raises(CommandError, match=done):
        call_command("workspace", "export", str(tmp_path / "ana.zip"), stdout=output)


@pytest.mark.parametrize("kind", ["full", "unread"])
def test_nothing_is_made_whose_secret_nobody_could_read(ana: Member, kind: str) -> None:
    refused = pytest.raises(CommandError, match=r"^Output: .* Nothing was changed\.")
    with broken_output(kind) as output, refused:
        call_command("workspace", "create", "Elm", owner="mia@example.org", stdout=output)
    issue = ("token", "issue", f"--workspace={ana.workspace.slug}", f"--handle={ana.participant.handle}", "--name=ci")
    with broken_output(kind) as output, pytest.raises(OSError, match=r"No space left|Broken pipe"):
        call_command(*issue, stdout=output)
    assert (Workspace.objects.get(), Token.objects.count()) == (ana.workspace, 0)


def test_a_folder_that_cannot_be_deleted_with_its_workspace_is_said(
    ana: Member, cleo: Member, settings: LazySettings, tmp_path: Path
) -> None:
    call_command("workspace", "delete", cleo.workspace.slug, confirm=cleo.workspace.name)  # loads what the next needs
    settings.HOME = tmp_path
    make_agent(ana, "vibe")
    folder = tmp_path / "workspaces" / f"vibe@{ana.workspace.slug}"
    folder.mkdir(parents=True)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Path(os.devnull).open() as next_file:
        limit = next_file.fileno()
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))  # a folder is opened to be emptied
    try:
        with pytest.raises(CommandError) as error:
            call_command("workspace", "delete", ana.workspace.slug, confirm=ana.workspace.name)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert str(error.value) == (
        f"{ana.workspace.name} is deleted, but not every folder of its agents ({folder}: Too many open files). "
        f"Delete what is left: {tmp_path}/workspaces/*@{ana.workspace.slug}."
    )
    assert (Workspace.objects.exists(), folder.exists()) == (False, True)
