"""`manage.py conversation import FILE [--channel C]`: conversations from elsewhere become threads."""

import json
import sys
import time
from argparse import ArgumentParser, BooleanOptionalAction
from functools import partial
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from tqdm import tqdm

from openvibe.base.command_report import write_report
from openvibe.base.problems import Problem
from openvibe.chat.importing.account import account_csv, load_account
from openvibe.chat.importing.formats import READERS, WITH_CHANNELS, guess_format
from openvibe.chat.importing.values import ImportFailed, open_file
from openvibe.chat.models import IMPORTS, Channel, ConversationImport
from openvibe.chat.services import create_channel
from openvibe.chat.services.file_import import carry_out, clean_file_name, owner_access, recover_imports
from openvibe.engines.jobs.jobs import JobLost, lock_queued
from openvibe.engines.serving.atomic_write import atomic_write
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Workspace
from openvibe.workspaces.queries import resolve_workspace


class Command(BaseCommand):
    help = (
        "Imports conversations: Slack, Mattermost, ChatGPT, Claude, Open WebUI, Claude Code, chat logs, JSONL, QMSum."
        " Safe to repeat."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        reading = verbs.add_parser("import", help="make threads of a file; a second time adds only what is new")
        reading.add_argument("file", type=Path, metavar="FILE")
        reading.add_argument(
            "--channel", default="", help="where the threads go; left out, each channel of Slack or Mattermost is one"
        )
        reading.add_argument("--workspace", metavar="SLUG", default="", help="needed when there is more than one")
        reading.add_argument("--format", choices=sorted(READERS), help="guessed from the file when left out")
        reading.add_argument("--create-channel", action=BooleanOptionalAction, default=True, help="when it is missing")
        reading.add_argument("--account", type=Path, metavar="FILE", help="also write the account, as .json or .csv")
        reading.add_argument("--progress", action=BooleanOptionalAction, default=None, help="default: on a terminal")

    def handle(self, *_arguments: Any, file: Path, **options: Any) -> None:
        began = time.perf_counter()
        try:
            open_file(file).close()
            workspace = resolve_workspace(options["workspace"])
            form = options["format"] or guess_format(file)
        except (ImportFailed, Problem) as error:
            raise CommandError(f"{error.message} Nothing was imported.") from None
        if not options["channel"] and form not in WITH_CHANNELS:
            raise CommandError("Say where the threads go: --channel NAME. Nothing was imported.")
        job, summary, written = self._run(file, form, workspace, options)
        seconds = time.perf_counter() - began
        if options["account"]:
            write_account(options["account"], job.account)
        kinds, left_out = load_account(job.account)
        sentences = [f"{each.sentence}." for each in left_out]
        if job.error:
            raise CommandError("\n".join([f"{job.error}{describe_partial(job.error, written)}", *sentences]))
        totals = [
            f"{each.name}: {each.read:,} read = {each.imported:,} imported + {each.left_out:,} left out."
            for each in kinds
        ]
        rate = f"{seconds:.1f} s, {written / seconds:,.0f} messages/s"
        write_report(self, "\n".join([f"{summary}, {rate}.", *totals, *sentences]))

    def _run(
        self, file: Path, form: str, workspace: Workspace, options: dict[str, Any]
    ) -> tuple[ConversationImport, str, int]:
        """The job as it ended, what it did in words, and the number of messages."""
        by = owner_access(workspace.pk)
        if by is None:
            raise CommandError(f"{workspace.name} has no owner, in whose name channels are made. Nothing was imported.")
        recover_imports()  # one whose process was killed holds up no other; a worker asks for what is queued again
        job = ConversationImport.objects.create(
            workspace=workspace,
            requested_by_id=by.participant_id,
            file_name=clean_file_name(file.name),
            format=form,
            size=file.stat().st_size,
        )
        channel = None
        if options["channel"]:
            create = options["create_channel"]
            channel = partial(get_or_create_channel, workspace, by, options["channel"], create=create)
        is_shown = sys.stderr.isatty() if options["progress"] is None else options["progress"]
        written = 0

        def count(messages: int) -> None:
            nonlocal written
            written += messages
            bar.update(messages)

        with (
            tqdm(unit=" messages", disable=not is_shown, desc="Importing") as bar,
            IMPORTS.claim(job.pk, lock_queued(ConversationImport.objects.select_related("workspace"), job.pk)) as own,
        ):
            if own is None:
                job.delete()
                raise CommandError("Another import is under way in this workspace. Wait for it, then try again.")
            try:
                report = carry_out(own, file, by, channel=channel, on_batch=count)
            except JobLost:
                raise CommandError("Another process ended this import. Run the same command again.") from None
        if report is None:
            return own, "", written
        names = Channel.objects.filter(pk__in=report.channels).values_list("name", flat=True).order_by("name")
        shown = ", ".join(f"#{name}" for name in names[:5])
        more = f" and {len(report.channels) - 5:,} more channels" if len(report.channels) > 5 else ""
        return own, f"{shown}{more}: {report.summary}", written


def describe_partial(error: str, written: int) -> str:
    """What a person has to know after an import that stopped in the middle."""
    if written:
        return " What stood before it is imported and stays; mend the file and run the same command again."
    return "" if "Nothing was imported" in error else " Nothing was imported."


def write_account(path: Path, account: dict[str, Any]) -> None:
    """Writes the account as the name of the file says: CSV or JSON."""
    text = account_csv(account) if path.suffix == ".csv" else json.dumps(account, ensure_ascii=False, indent=2)
    try:
        with atomic_write(path) as target:
            target.write(text.encode())
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}. The import itself is done.") from None


def get_or_create_channel(workspace: Workspace, by: Access, name: str, *, create: bool) -> Channel:
    """The channel of that name, made by the workspace's first owner when it is missing and may be made. Raises
    Problem."""
    cleaned = name.strip().lstrip("#").lower()
    rooms = Channel.objects.select_related("workspace").filter(workspace=workspace, first_participant=None)
    channel = rooms.filter(name=cleaned).first()
    if channel is not None:
        return channel
    if not create:
        raise Problem(f"There is no channel #{cleaned} in {workspace.name}. Make it first.", code="unknown_channel")
    return create_channel(by=by, name=name)
