"""`manage.py knowledge`: what a person sees in a shell."""

from __future__ import annotations

import resource
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from knowledge.models import Entry
from knowledge.services import supersede_entry
from openvibe.workspaces.models import Member
from tests.factories import access, make_entry


def said(*arguments: object) -> str:
    out = StringIO()
    call_command("knowledge", *map(str, arguments), stdout=out)
    return out.getvalue()


def test_a_file_is_imported_and_exported(ana: Member, dora: Member, tmp_path: Path) -> None:
    file, copy = tmp_path / "in.csv", tmp_path / "out.jsonl"
    file.write_text("topic,content\nPricing,$29\n")

    assert said("import", file, "--as", "dora") == "1 imported, 0 there already, 0 refused.\n"
    said("export", copy)

    assert Entry.objects.get().author == dora.participant
    assert '"topic": "Pricing"' in copy.read_text()
    assert said("export").splitlines()[1].startswith(f"{Entry.objects.get().pk},import:")


def test_what_is_not_read_is_said(ana: Member, tmp_path: Path) -> None:
    file = tmp_path / "in.csv"
    file.write_text("topic,content,seen\nRoses,Prune,x\n")
    assert said("import", file).startswith("Not read: 'seen'. Known are")
    file.write_text("topic,content,tgas\nRoses,Prune,x\n")
    with pytest.raises(CommandError, match=r"Did you mean tags\?.* Nothing was imported\."):
        said("import", file)


def test_refused_rows_are_named(ana: Member, tmp_path: Path) -> None:
    file = tmp_path / "in.csv"
    file.write_text("topic,content\nPricing,\nRoses,Prune\n")

    with pytest.raises(CommandError, match="1 imported, 0 there already, 1 refused"):
        said("import", file)


@pytest.mark.parametrize(
    "arguments", [("import", "/nowhere.csv"), ("export", "--as", "nobody"), ("export", "/no/x.csv")]
)
def test_what_cannot_be_done_is_said(ana: Member, arguments: tuple[str, ...]) -> None:
    with pytest.raises(CommandError):
        said(*arguments)


def test_a_file_stays_until_the_new_one_is_whole(ana: Member, tmp_path: Path) -> None:
    make_entry(ana, content="Prune in March. " * 100)
    file = tmp_path / "all.csv"
    file.write_text("yesterday's")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(CommandError, match="File too large"):  # as on a full disk
            said("export", file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (file.read_text(), list(tmp_path.iterdir())) == ("yesterday's", [file])


def test_the_workspace_is_named_where_there_are_two(ana: Member, cleo: Member) -> None:
    with pytest.raises(CommandError, match="--workspace"):
        said("export")


def test_rot_is_worked_off(ana: Member) -> None:
    make_entry(ana)

    assert said("rot") == "Expired: 0. Archived as unused: 0. Compared: 1.\n"


def test_broken_rows_are_found(ana: Member) -> None:
    old = make_entry(ana)
    supersede_entry(entry=old, by=access(ana), content="New")
    assert said("check") == "All is well.\n"

    Entry.objects.filter(pk=old.pk).update(status="active", version=7, tokens=1)

    with pytest.raises(CommandError, match="Sentences above: 3"):
        said("check", "--workspace", ana.workspace.slug)
