"""Imports of files as jobs: asked for on a page, in the API or by the command, carried out by one worker at a time,
with an account that is kept."""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePath

import structlog
from django.conf import settings
from django.db import connection, transaction
from django.db.models import QuerySet
from django.db.models.expressions import RawSQL
from django.utils import timezone

from openvibe.base.audit import AuditAction, record_audit
from openvibe.base.problems import Missing, Problem, Refused
from openvibe.chat.importing.account import Account
from openvibe.chat.importing.formats import FORMATS, READERS, guess_format
from openvibe.chat.importing.values import ImportedChannel, ImportedThread, ImportFailed, utf8_copy
from openvibe.chat.models import IMPORTS, Channel, ConversationImport, ImportNotesSeen, Origin
from openvibe.chat.services.channels import create_channel
from openvibe.chat.services.conversation_import import ImportReport, import_thread
from openvibe.chat.services.speakers import Speakers, clean_origin
from openvibe.engines.database.planner_statistics import analyze_changed_tables
from openvibe.engines.jobs.jobs import JobLost, lock_queued
from openvibe.engines.text.cleaning import pluralize
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member
from openvibe.workspaces.queries import member_access, participant_access

PROGRESS_SECONDS = 1.0
MAX_WAITING = 20
KEPT_SECONDS = 86_400
DEFAULT_CHANNEL = "imported"
WORKER_LOST = "The worker died over it three times. What was written by then is here; import the file again to go on."
PROCESS_LOST = "Its process ended before it was done. What was written by then is here; import the file again to go on."
FILE_GONE = "The file is not here any more. Import it again: what is here already is not doubled."
HELD_NOTHING = "The file holds no conversation. Nothing was imported."
MAX_CHANNEL_NAME = 40
MAX_DESCRIPTION = 1000

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class FileReport:
    """What a file brought, so far."""

    threads: int = 0
    added: int = 0
    present: int = 0
    speakers: frozenset[int] = frozenset()
    channels: frozenset[int] = frozenset()

    def add(self, report: ImportReport) -> None:
        self.threads += 1
        self.added += report.added
        self.present += report.present
        self.speakers |= report.speakers
        self.channels |= {report.thread.channel_id}

    @property
    def summary(self) -> str:
        """`35 threads, 12,345 messages, 96 speakers`, and how many messages were there already."""
        present = f" ({self.present:,} there already)" if self.present else ""
        messages = f"{pluralize(self.added, 'message')}{present}"
        return f"{pluralize(self.threads, 'thread')}, {messages}, {pluralize(len(self.speakers), 'speaker')}"


def import_file(
    *,
    job: ConversationImport,
    by: Access,
    path: Path,
    account: Account,
    channel: Channel | Callable[[], Channel] | None = None,
    progress: Callable[[FileReport, int], None] = lambda report, messages: None,
) -> FileReport:
    """Brings in all conversations of a file. Without a `channel` each of the export's gets its own, and what was said
    in none goes into `#imported`. `progress` is told of each batch with its number of messages.

    Raises ImportFailed when the file cannot be read, or holds nothing; no channel is made then. What was written before
    a failure stays, and the same file goes on there.
    """
    with utf8_copy(path, imports_folder()) as readable:
        threads = READERS[job.format](readable, account, PurePath(job.file_name).stem)
        return _import_threads(threads, job, by, account, channel, progress)


def _import_threads(
    threads: Iterator[ImportedThread],
    job: ConversationImport,
    by: Access,
    account: Account,
    channel: Channel | Callable[[], Channel] | None,
    progress: Callable[[FileReport, int], None],
) -> FileReport:
    report, speakers = FileReport(), Speakers(job.workspace, account)
    first = next(threads, None)
    if first is None:
        raise ImportFailed(HELD_NOTHING)
    fixed = channel() if callable(channel) else channel
    places = _Places(job, by, speakers)
    for thread in chain([first], threads):
        own = import_thread(
            channel=fixed or places.find(thread.channel),
            imported=thread,
            account=account,
            speakers=speakers,
            anywhere=fixed is None and thread.channel is not None,
            progress=lambda messages: progress(report, messages),
        )
        report.add(own)
        progress(report, 0)
    return report


class _Places:
    """Channels of a workspace for those of an export: the one that an earlier import made, or a public one of that
    name, or a new one. One import at a time writes into a workspace."""

    def __init__(self, job: ConversationImport, by: Access, speakers: Speakers) -> None:
        self._workspace_id = job.workspace_id
        self._by = by
        self._speakers = speakers
        self._known: dict[str, Channel] = {}

    def find(self, source: ImportedChannel | None) -> Channel:
        source = source or ImportedChannel("", DEFAULT_CHANNEL)
        if source.key not in self._known:
            channel = self._of_origin(source) or self._make(source)
            self._speakers.add_to(channel, source.members)
            self._known[source.key] = channel
        return self._known[source.key]

    def _of_origin(self, source: ImportedChannel) -> Channel | None:
        key = clean_origin(source.key)
        origins = Origin.objects.select_related("channel__workspace").filter(
            workspace=self._workspace_id, external_id=key
        )
        origin = origins.exclude(channel=None).first() if key else None
        return origin.channel if origin else None

    @transaction.atomic
    def _make(self, source: ImportedChannel) -> Channel:
        rooms = Channel.objects.select_related("workspace").filter(workspace=self._workspace_id, first_participant=None)
        name, number = clean_channel_name(source.name), 1
        while room := rooms.filter(name=name).first():
            is_taken = Origin.objects.filter(channel=room).exists() and source.key
            if not room.is_private and room.archived_at is None and not is_taken:
                break
            number += 1
            suffix = f"-{number}"
            name = clean_channel_name(source.name)[: MAX_CHANNEL_NAME - len(suffix)] + suffix
        channel = room or create_channel(by=self._by, name=name, description=source.description[:MAX_DESCRIPTION])
        if source.key:
            Origin.objects.create(
                workspace_id=self._workspace_id, external_id=clean_origin(source.key), channel=channel
            )
        return channel


def clean_channel_name(name: str) -> str:
    """A name that a channel may have, made of the source's."""
    plain = re.sub(r"[^a-z0-9_-]+", "-", name.strip().lstrip("#").lower()).strip("-_")
    return plain[:MAX_CHANNEL_NAME].strip("-_") or DEFAULT_CHANNEL


def check_may_import(by: Access) -> None:
    if not by.administers:
        raise Refused("Only owners and admins bring conversations in. Ask one of them.")


def clean_format(form: str, path: Path) -> str:
    """The format that was named, or what the file looks like. Raises Problem."""
    if form in READERS:
        return form
    if form:
        raise Problem(f"A format is one of {', '.join(FORMATS)}.", code="bad_format", field="format")
    try:
        return guess_format(path)
    except ImportFailed as problem:
        raise Problem(problem.message, code="bad_file", field="file") from None


def request_import(
    *, by: Access, chunks: Iterator[bytes], file_name: str, form: str = "", channel: Channel | None = None
) -> ConversationImport:
    """Keeps the file and queues its import; once the transaction ends a worker may be asked (`enqueue_import`).

    Raises Refused (no admin, too many waiting), and Problem: an empty file, an unknown format, an archived channel.
    """
    check_may_import(by)
    if channel is not None and channel.archived_at is not None:
        raise Refused(f"#{channel.name} is archived. Bring it back before importing into it.", code="archived")
    waiting = ConversationImport.objects.filter(workspace=by.workspace_id, state__in=IMPORTS.unfinished)
    if waiting.count() >= MAX_WAITING:
        raise Refused(f"{MAX_WAITING} imports are waiting already. Let some of them end first.", code="too_many")
    return _queue(by, chunks, file_name, form, channel)


def _queue(
    by: Access, chunks: Iterator[bytes], file_name: str, form: str, channel: Channel | None
) -> ConversationImport:
    folder = imports_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = folder / f".{by.workspace_id}-{time.time_ns()}"
    try:
        size = 0
        with part.open("xb") as target:
            for chunk in chunks:
                size += target.write(chunk)
        if not size:
            raise Problem("The file is empty. Choose another one.", code="empty", field="file")
        known_form = clean_format(form, part)
        with transaction.atomic():
            job = ConversationImport.objects.create(
                workspace_id=by.workspace_id,
                requested_by_id=by.participant_id,
                file_name=clean_file_name(file_name),
                format=known_form,
                size=size,
                channel=channel,
            )
            part.rename(import_path(job))
    finally:
        part.unlink(missing_ok=True)
    return job


def clean_file_name(name: str) -> str:
    shown = "".join(letter for letter in name.replace("\\", "/").rpartition("/")[2] if letter.isprintable())
    return shown[-200:].strip() or "a file without a name"


def imports_folder() -> Path:
    return Path(settings.HOME) / "imports"


def import_path(job: ConversationImport) -> Path:
    return imports_folder() / f"{job.workspace_id}-{job.pk}"


def execute_import(job_id: int) -> int | None:
    """Carries out a queued import, and returns the id of the next one of that workspace. Where another is under way
    there it stays queued."""
    rows = ConversationImport.objects.select_related("workspace", "channel__workspace", "requested_by")
    with IMPORTS.claim(job_id, lock_queued(rows, job_id)) as job:
        if job is None:
            return None
        path = import_path(job)
        try:
            by = _access_of(job)
            if by is None:
                IMPORTS.fail(job, "Whoever asked for it is no admin here any more. Nothing more was imported.")
            elif not path.is_file():
                IMPORTS.fail(job, FILE_GONE)
            else:
                carry_out(job, path, by)
        except JobLost:
            return None
        path.unlink(missing_ok=True)
        return next_import(job.workspace_id)


def _access_of(job: ConversationImport) -> Access | None:
    access = participant_access(job.requested_by) if job.requested_by else None
    return access if access and access.administers else None


def carry_out(
    job: ConversationImport,
    path: Path,
    by: Access,
    *,
    channel: Channel | Callable[[], Channel] | None = None,
    on_batch: Callable[[int], None] = lambda messages: None,
) -> FileReport | None:
    """Imports the file of a claimed job and ends it, with its account, whatever happens. None when it failed, with the
    reason in `job.error`. Raises JobLost."""
    progress = _Progress(job)
    account = Account(progress.note)
    progress.account = account
    report, error = FileReport(), ""

    def note(current: FileReport, messages: int) -> None:
        progress.written += messages
        progress.report = current
        progress.note()
        on_batch(messages)

    try:
        report = import_file(job=job, by=by, path=path, account=account, channel=channel or job.channel, progress=note)
    except (ImportFailed, Problem) as problem:
        error, report = problem.message, progress.report
    except OSError as problem:
        error, report = f"The file cannot be read: {problem.strerror or type(problem).__name__}.", progress.report
    account.close()
    fields = {"threads": report.threads, "read": account.count_read(), "account": account.to_json()}
    fields["written"] = progress.written
    if report.added:
        analyze_changed_tables()  # before anybody searches what is new
    if error:
        job.error = error
        if not IMPORTS.fail(job, error, **fields):
            raise JobLost
        job.account = account.to_json()
        return None
    IMPORTS.update_owned(job, state=ConversationImport.State.DONE, finished_at=timezone.now(), **fields)
    job.account = account.to_json()
    record_audit(
        AuditAction.SETTINGS,
        workspace_id=job.workspace_id,
        by=by,
        subject=f"import of {job.file_name}"[:200],
        after=report.summary,
    )
    return report


class _Progress:
    """Writes once a second how far an import is."""

    def __init__(self, job: ConversationImport) -> None:
        self._job = job
        self._written_at = time.monotonic()
        self.account: Account | None = None
        self.report = FileReport()
        self.written = 0

    def note(self) -> None:
        if self.account is None or time.monotonic() - self._written_at < PROGRESS_SECONDS:
            return
        self._written_at = time.monotonic()
        fields = {"read": self.account.count_read(), "written": self.written, "threads": self.report.threads}
        if not connection.in_atomic_block:
            IMPORTS.update_owned(self._job, **fields)


def recover_imports() -> list[int]:
    """Ids of imports to send to a worker now. One whose file was never here was a command's, and fails."""
    job_ids = []
    for job_id in IMPORTS.recover(lambda job: IMPORTS.fail(job, WORKER_LOST)):
        job = ConversationImport.objects.filter(pk=job_id).first()
        if job is None or import_path(job).is_file() or not fail_killed(job):
            job_ids.append(job_id)
    return job_ids


def fail_killed(job: ConversationImport) -> bool:
    """Ends a queued import that no worker can go on with."""
    queued = ConversationImport.objects.filter(pk=job.pk, state=ConversationImport.State.QUEUED, attempt__gt=0)
    fields = {"state": ConversationImport.State.FAILED, "finished_at": timezone.now(), "error": PROCESS_LOST}
    return bool(queued.update(**fields))


def visible_imports(access: Access) -> QuerySet[ConversationImport]:
    """Newest first, with `left_out`: how many records were; to admins alone, for an account names channels and people
    of the export. Raises Refused."""
    check_may_import(access)
    rows = ConversationImport.objects.filter(workspace=access.workspace_id).annotate(left_out=RawSQL(_LEFT_OUT, []))
    return rows.select_related("requested_by", "channel")


_LEFT_OUT = """(SELECT coalesce(sum((reason ->> 'count')::bigint), 0)::bigint
FROM jsonb_array_elements(chat_conversationimport.account -> 'left_out') reason)"""


def access_import(access: Access, import_id: int) -> ConversationImport:
    job = visible_imports(access).filter(pk=import_id).first()
    if job is None:
        raise Missing
    return job


def delete_orphaned_files() -> int:
    """Files that no import waits for, a day after they were written; how many."""
    folder = imports_folder()
    if not folder.is_dir():
        return 0
    unfinished = ConversationImport.objects.filter(state__in=IMPORTS.unfinished)
    awaited = {import_path(job).name for job in unfinished}
    youngest = timezone.now().timestamp() - KEPT_SECONDS
    orphans = [file for file in folder.iterdir() if file.name not in awaited and file.stat().st_mtime < youngest]
    for file in orphans:
        file.unlink(missing_ok=True)
    return len(orphans)


def next_import(workspace_id: int) -> int | None:
    """The import of the workspace that has waited longest."""
    waiting = ConversationImport.objects.filter(workspace=workspace_id, state=ConversationImport.State.QUEUED)
    return waiting.order_by("pk").values_list("pk", flat=True).first()


def dismiss_import_notes(by: Access) -> None:
    """Puts away what the inbox says of imports so far."""
    if by.is_agent:
        raise Refused("Only people have an inbox.", code="people_only")
    ImportNotesSeen.objects.update_or_create(participant_id=by.participant_id, defaults={"until": timezone.now()})


def owner_access(workspace_id: int) -> Access | None:
    """The access of the workspace's first owner, for what is imported from a shell."""
    owners = Member.objects.filter(workspace=workspace_id, role=Member.Role.OWNER, removed_at=None)
    owner = owners.select_related("participant", "user", "workspace").order_by("pk").first()
    return member_access(owner) if owner else None
