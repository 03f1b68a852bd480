"""Markdown as entries: a section each, with its source; brought again, updated and not doubled."""

import io
import zipfile
from pathlib import Path

import pytest
from django.core.management import call_command

from knowledge.exchange.entry_import import import_entries
from knowledge.exchange.markdown_files import import_files, import_folder
from knowledge.exchange.uploads import import_upload
from knowledge.models import ENTRY_TOKEN_LIMIT, Entry
from knowledge.services import update_entry
from openvibe.base.problems import Problem
from openvibe.workspaces.models import Member
from tests.factories import access

GUIDE = """---
title: Guide
tags: [ops, garden]
---
Read this first.

## Water
Every morning.

```
## no heading
```

## Frost
Cover them.
"""


def folder(tmp_path: Path, **files: str) -> Path:
    for name, text in files.items():
        path = tmp_path / f"{name}.md"
        path.write_text(text, "utf-8")
    return tmp_path


def test_a_folder_becomes_entries_with_sources(ana: Member, tmp_path: Path) -> None:
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden/no.md").write_text("no")
    report = import_folder(by=access(ana), folder=folder(tmp_path, guide=GUIDE, plain="Just words."))
    assert report.summary == "4 imported, 0 there already, 0 refused"
    entries = {entry.topic: entry for entry in Entry.objects.all()}
    assert set(entries) == {"Guide", "Guide: Water", "Guide: Frost", "plain"}
    assert entries["Guide: Frost"].content == "Cover them.\n\nSource: guide.md"
    assert "## no heading" in entries["Guide: Water"].content
    assert entries["Guide"].tags == ["ops", "garden"]
    assert {entry.source for entry in entries.values()} == {"import"}


def test_brought_again_it_is_updated_and_not_doubled(ana: Member, tmp_path: Path) -> None:
    place = folder(tmp_path, guide=GUIDE)
    import_folder(by=access(ana), folder=place)
    assert import_folder(by=access(ana), folder=place).summary == "0 imported, 3 there already, 0 refused"
    folder(tmp_path, guide=GUIDE.replace("Cover them.", "Cover them early.").replace("## Water", "## Rain"))
    report = import_folder(by=access(ana), folder=place)
    assert report.summary == "1 imported, 1 updated, 1 there already, 0 refused"
    assert Entry.objects.get(topic="Guide: Frost").content.startswith("Cover them early.")
    assert "Guide: Water" in report.note
    assert Entry.objects.count() == 4


def test_what_somebody_changed_here_is_not_written_over(ana: Member, tmp_path: Path) -> None:
    place = folder(tmp_path, guide=GUIDE)
    import_folder(by=access(ana), folder=place)
    update_entry(entry=Entry.objects.get(topic="Guide: Frost"), by=access(ana), content="Ours")
    report = import_folder(by=access(ana), folder=folder(tmp_path, guide=GUIDE.replace("Cover", "Wrap")))
    (row,) = [row for row in report.rows if row.outcome == "refused"]
    assert "was changed here since" in row.why
    assert row.place == "guide.md#frost"
    assert Entry.objects.get(topic="Guide: Frost").content == "Ours"


def test_long_sections_become_several_that_fit(ana: Member) -> None:
    text = "# Long\n" + "\n\n".join(f"Paragraph {number} " + "of words " * 100 for number in range(60)) + "x" * 30_000
    report = import_files(by=access(ana), files=[("long.md", text.encode())])
    assert report.count("refused") == 0
    assert report.count("imported") > 3
    assert max(Entry.objects.values_list("tokens", flat=True)) <= ENTRY_TOKEN_LIMIT


def test_a_git_checkout_gives_its_docs(ana: Member, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/use.md").write_text("# Use\nLike this.")
    (tmp_path / "CHANGES.md").write_text("# Changes\nMany.")
    call_command("knowledge", "import", str(tmp_path), stdout=(output := io.StringIO()))
    assert "1 imported" in output.getvalue()
    assert Entry.objects.get().topic == "Use"


def test_a_zip_of_markdown(ana: Member) -> None:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("docs/a.md", "# A\nWords")
        archive.writestr("docs/b.md", b"\xff\xfe\xff")
        archive.writestr("docs/c.png", b"x")
    report = import_upload(by=access(ana), raw=raw.getvalue())
    assert report.summary == "1 imported, 0 there already, 1 refused"
    with pytest.raises(Problem, match="cannot be read"):
        import_upload(by=access(ana), raw=raw.getvalue()[:60])
    with zipfile.ZipFile(raw := io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb.md", b" " * 50_000_000)
    with pytest.raises(Problem, match="unpacks to more"):
        import_upload(by=access(ana), raw=raw.getvalue())


def test_the_same_pages_in_another_wrapping_are_not_doubled(ana: Member, tmp_path: Path) -> None:
    """A folder, that folder packed, and the next release with a folder of its own name around it."""
    pages = {"index.md": "# Pricing\n\nPro costs 49 euros.", "sub/roses.md": "# Roses\n\nPrune in March."}
    for name, text in pages.items():
        path = tmp_path / "handbook" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    import_folder(by=access(ana), folder=tmp_path / "handbook")
    for top, price in (("", "49"), ("handbook/", "59"), ("handbook-2.0/", "69")):
        with zipfile.ZipFile(raw := io.BytesIO(), "w") as archive:
            archive.writestr(f"{top}logo.png", b"")
            archive.writestr("__MACOSX/._index.md", b"\x00")
            for name, text in pages.items():
                archive.writestr(f"{top}{name}", text.replace("49", price))
        report = import_upload(by=access(ana), raw=raw.getvalue())
        assert report.count("imported") == 0
        assert [each.place for each in report.rows] == ["index.md#pricing", "sub/roses.md#roses"]
        assert f"{price} euros" in Entry.objects.get(topic__contains="Pricing").content
    assert Entry.objects.count() == 2


@pytest.mark.parametrize(
    "text",
    [
        "sep=;\ntitle;text\nRoses;Prune in March",
        '"sep=|"\nTitle|Text\nRoses|Prune in March',
        "subject,body\nRoses,Prune in March",
        '{"title": "Roses", "text": "Prune in March"}',
    ],
)
def test_tables_as_other_programs_write_them(ana: Member, text: str) -> None:
    report = import_entries(by=access(ana), raw=text.encode())
    assert report.summary == "1 imported, 0 there already, 0 refused"
    entry = Entry.objects.get()
    assert (entry.topic, entry.content) == ("Roses", "Prune in March")


@pytest.mark.parametrize(
    ("day", "iso"),
    [
        ("31.12.2090", "2090-12-31"),
        ("31/12/2090", "2090-12-31"),
        ("12/31/2090", "2090-12-31"),
        ("4.3.2090", "2090-03-04"),
    ],
)
def test_days_as_people_write_them(ana: Member, day: str, iso: str) -> None:
    import_entries(by=access(ana), raw=f"topic;content;expires_at\nRoses;Prune;{day}".encode())
    ends = Entry.objects.get().expires_at
    assert ends is not None
    assert f"{ends:%Y-%m-%d}" > iso
    assert (ends.date() - ends.date().fromisoformat(iso)).days == 1


def test_a_day_that_may_be_two_is_refused_in_words(ana: Member) -> None:
    report = import_entries(by=access(ana), raw=b"topic;content;expires_at\nRoses;Prune;03/04/2090")
    assert report.rows[0].why == "03/04/2090 may be two days. Write it like 2090-04-03 or 2090-03-04."
