"""`manage.py knowledge import | export | rot | check`: knowledge as files, and put in order from a shell."""

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from knowledge import maintenance
from knowledge.contradictions.detect import detect_contradictions
from knowledge.exchange.csv_jsonl import MAX_BYTES
from knowledge.exchange.entry_export import export_entries
from knowledge.exchange.markdown_files import import_folder
from knowledge.exchange.uploads import import_upload
from knowledge.models import Entry
from openvibe.base.command_report import write_report
from openvibe.base.problems import Problem
from openvibe.engines.serving.atomic_write import atomic_write
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member
from openvibe.workspaces.queries import member_access, resolve_workspace


class Command(BaseCommand):
    help = "Imports and exports knowledge, carries out the jobs against rot, or looks for broken rows."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        import_parser = verbs.add_parser("import", help="read CSV, JSONL or Markdown; a second time brings what is new")
        import_parser.add_argument("file", type=Path, metavar="FILE", help="or a folder of Markdown, or a zip of it")
        export_parser = verbs.add_parser("export", help="write everything that person may read")
        export_parser.add_argument("file", type=Path, nargs="?", metavar="FILE", help="default: standard output")
        export_parser.add_argument("--status", action="append", default=[], choices=Entry.Status.values)
        for subparser in (import_parser, export_parser):
            subparser.add_argument("--format", choices=["csv", "jsonl"], default="", help="guessed when left out")
            subparser.add_argument("--workspace", metavar="SLUG", default="", help="needed when there is more than one")
            subparser.add_argument("--as", dest="handle", metavar="HANDLE", default="", help="default: the owner")
        verbs.add_parser("rot", help="expire, archive and compare now, in this process")
        check_parser = verbs.add_parser("check", help="look for rows that break an invariant; exits 1 naming them")
        check_parser.add_argument("--workspace", metavar="SLUG", default="", help="default: all")

    def handle(self, *_arguments: Any, verb: str, **options: Any) -> None:
        outcome = " Nothing was imported." if verb == "import" else ""
        try:
            if verb in ("import", "export"):
                by = access_of_handle(options["workspace"], options["handle"])
                if verb == "import":
                    self.import_file(options["file"], options["format"], by)
                else:
                    self.export_file(options, by)
            elif verb == "rot":
                expired_count, archived_count = maintenance.expire_entries(), maintenance.archive_unused()
                compared_count = detect_contradictions()
                self.stdout.write(
                    f"Expired: {expired_count}. Archived as unused: {archived_count}. Compared: {compared_count}."
                )
            else:
                self.check_integrity(options["workspace"])
        except Problem as problem:
            raise CommandError(f"{problem.message}{outcome}") from None
        except BrokenPipeError:  # of what is printed
            raise
        except OSError as error:
            raise CommandError(f"{options.get('file') or 'Output'}: {error.strerror}.{outcome}") from None

    def import_file(self, file: Path, form: str, by: Access) -> None:
        """Imports and reports. Raises CommandError (exit code 1) when a row was refused; the others are in."""
        if file.is_dir():
            report = import_folder(by=by, folder=file)
        else:
            with file.open("rb") as source:
                report = import_upload(by=by, raw=source.read(MAX_BYTES + 1), form=form, name=file.name)
        rows = [f"{row.place or f'Row {row.number}'}: {row.outcome}. {row.why}" for row in report.rows if row.why]
        lines, summary = [*filter(None, [report.note]), *rows], f"{report.summary}."
        if report.count("refused"):
            problem = f"{summary} Mend those rows and run the same command again."
            write_report(self, "\n".join(lines), problem=problem)
        else:
            write_report(self, "\n".join([*lines, summary]))

    def export_file(self, options: dict[str, Any], by: Access) -> None:
        file: Path | None = options["file"]
        form = options["format"] or ("jsonl" if file and file.suffix == ".jsonl" else "csv")
        lines = export_entries(by, form, statuses=options["status"])
        if file is None:
            for line in lines:
                self.stdout.write(line, ending="")
            return
        with atomic_write(file) as target:
            target.writelines(line.encode() for line in lines)
        print(f"Written to {file}.", file=sys.stderr)

    def check_integrity(self, slug: str) -> None:
        sentences = list(maintenance.find_integrity_errors(resolve_workspace(slug).pk if slug else None))
        for sentence in sentences:
            self.stdout.write(sentence)
        if sentences:
            raise CommandError(f"Sentences above: {len(sentences)}. Report them, with this output.")
        self.stdout.write("All is well.")


def access_of_handle(slug: str, handle: str) -> Access:
    """The access of the person who imports or exports: the member of that handle, or an owner of the workspace."""
    workspace = resolve_workspace(slug)
    members = Member.objects.filter(workspace=workspace, removed_at=None).select_related("participant")
    matching = members.filter(participant__handle=handle.lstrip("@")) if handle else members.filter(role="owner")
    member = matching.order_by("pk").first()
    if member is None:
        raise CommandError(f"There is no member @{handle.lstrip('@')} in {workspace.slug}.")
    return member_access(member)
