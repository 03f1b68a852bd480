"""`manage.py conversation import FILE --channel C`: conversations from elsewhere become threads."""

import json
import sys
import time
import zipfile
from argparse import ArgumentParser, BooleanOptionalAction
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from tqdm import tqdm

from openvibe.base.command_report import write_report
from openvibe.base.problems import Problem
from openvibe.chat.importing.mattermost import read_mattermost
from openvibe.chat.importing.readers import ImportedThread, ImportFailed, LeftOut, open_file, read_jsonl, read_qmsum
from openvibe.chat.importing.slack import read_slack
from openvibe.chat.models import Channel
from openvibe.chat.services import create_channel
from openvibe.chat.services.conversation_import import ImportReport, import_thread
from openvibe.engines.database.planner_statistics import analyze_changed_tables
from openvibe.engines.text.cleaning import pluralize
from openvibe.workspaces.models import Member, Workspace
from openvibe.workspaces.queries import member_access, resolve_workspace

READERS: dict[str, Callable[[Path, LeftOut], Iterator[ImportedThread]]] = {
    "qmsum": read_qmsum,
    "jsonl": read_jsonl,
    "slack": read_slack,
    "mattermost": read_mattermost,
}
SNIFF_BYTES = 4096  # bytes of the file that decide what it is


class Command(BaseCommand):
    help = "Imports conversations: QMSum, JSONL (author, text, time, thread, role), Slack, Mattermost. Safe to repeat."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        reading = verbs.add_parser("import", help="make threads of a file; a second time adds only what is new")
        reading.add_argument("file", type=Path, metavar="FILE")
        reading.add_argument("--channel", required=True, help="where the threads go")
        reading.add_argument("--workspace", metavar="SLUG", default="", help="needed when there is more than one")
        reading.add_argument("--format", choices=sorted(READERS), help="guessed from the file when left out")
        reading.add_argument("--create-channel", action=BooleanOptionalAction, default=True, help="when it is missing")
        reading.add_argument("--progress", action=BooleanOptionalAction, default=None, help="default: on a terminal")

    def handle(self, *_arguments: Any, file: Path, **options: Any) -> None:
        reports: list[ImportReport] = []
        left_out = LeftOut()
        self._written = 0
        began = time.perf_counter()
        try:
            open_file(file).close()
            workspace = resolve_workspace(options["workspace"])
            reader = READERS[options["format"] or guess_format(file)]
            threads = reader(file, left_out)
            first = next(threads, None)  # a file that cannot be read leaves no empty channel behind
            if first is None:
                reasons = "".join(f"\n{sentence}." for sentence in left_out.sentences())
                raise CommandError(f"{file} holds no conversation. Nothing was imported.{reasons}")
            channel = get_or_create_channel(workspace, options["channel"], create=options["create_channel"])
            is_shown = sys.stderr.isatty() if options["progress"] is None else options["progress"]
            with tqdm(unit=" messages", disable=not is_shown, desc="Importing") as bar:
                reports.extend(self._import(channel, thread, bar) for thread in chain([first], threads))
            analyze_changed_tables()  # before anybody searches what is new
        except (ImportFailed, Problem) as error:
            raise CommandError(
                error.message + describe_partial_import(reports, began_writing=self._written > 0)
            ) from None
        seconds = time.perf_counter() - began
        added = sum(report.added for report in reports)
        rate = f"{seconds:.1f} s, {added / seconds:,.0f} messages/s"
        write_report(self, f"#{channel.name}: {summarise_reports(reports)}, {rate}.")
        for sentence in left_out.sentences():
            write_report(self, f"{sentence}.")

    def _import(self, channel: Channel, thread: ImportedThread, bar: Any) -> ImportReport:
        def report_progress(messages: int) -> None:
            self._written += messages
            bar.update(messages)

        return import_thread(channel=channel, imported=thread, progress=report_progress)


def describe_partial_import(reports: list[ImportReport], *, began_writing: bool) -> str:
    """What a person has to know after an import that stopped in the middle."""
    if not began_writing:
        return " Nothing was imported."
    whole = f" ({summarise_reports(reports)} in whole threads)" if reports else ""
    return f" What stood before it is imported{whole} and stays; mend the file and run the same command again."


def summarise_reports(reports: list[ImportReport]) -> str:
    """`35 threads, 12,345 messages, 96 speakers`, and how many messages were there already."""
    speakers = len(frozenset().union(*(report.speakers for report in reports)))
    present = sum(report.present for report in reports)
    present_note = f" ({present:,} there already)" if present else ""
    added = sum(report.added for report in reports)
    messages = f"{pluralize(added, 'message')}{present_note}"
    return f"{pluralize(len(reports), 'thread')}, {messages}, {pluralize(speakers, 'speaker')}"


def guess_format(file: Path) -> str:
    """What the file looks like: a zip is Slack's, a line with a transcript QMSum's, all else JSONL."""
    if zipfile.is_zipfile(file):
        return "slack"
    with open_file(file) as source:
        beginning = source.read(SNIFF_BYTES).lstrip()
        line = beginning + source.readline() if b'"author"' not in beginning else b""
    try:
        value = json.loads(line.decode("utf-8-sig").splitlines()[0])
    except (ValueError, IndexError, RecursionError):
        return "jsonl"
    if not isinstance(value, dict):
        return "jsonl"
    is_mattermost = value.get("type") == "version" and "version" in value
    return "mattermost" if is_mattermost else "qmsum" if "meeting_transcripts" in value else "jsonl"


def get_or_create_channel(workspace: Workspace, name: str, *, create: bool) -> Channel:
    """The channel of that name, made by the workspace's first owner when it is missing and may be made."""
    cleaned = name.strip().lstrip("#").lower()
    rooms = Channel.objects.select_related("workspace").filter(workspace=workspace, first_participant=None)
    channel = rooms.filter(name=cleaned).first()
    if channel is not None:
        return channel
    owners = Member.objects.filter(workspace=workspace, role=Member.Role.OWNER, removed_at=None)
    owner = owners.order_by("pk").first()
    if not create or owner is None:
        raise CommandError(f"There is no channel #{cleaned} in {workspace.name}. Make it first.")
    return create_channel(by=member_access(owner), name=name)
