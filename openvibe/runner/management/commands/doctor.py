"""`manage.py doctor`: one line for each thing OpenVibe needs, and what to do about those that are missing."""

import secrets
import time
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import httpx2
import psycopg
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import Error, connection, transaction
from django.db.models import Max
from django.utils import timezone
from django_celery_beat.models import PeriodicTask
from kombu.exceptions import OperationalError as BrokerUnavailable

from openvibe.base.disk import least_room, written_folders
from openvibe.base.models import OutgoingMail
from openvibe.base.tasks import DOCTOR_CHANNEL, answer_doctor
from openvibe.engines.database.connection_problems import ConnectionProblem, explain_connection_error
from openvibe.engines.database.fields import UnreadableSecret
from openvibe.engines.jobs.job_runs import newest_runs
from openvibe.engines.jobs.queue import queue_is_in_database, queue_is_installed
from openvibe.engines.llm.endpoints.endpoints import find_endpoint_problem
from openvibe.engines.llm.models import Endpoint
from openvibe.engines.search.space_lifecycle import diagnose_search
from openvibe.engines.serving.proxy_headers import COUNT_PROXIES, lacks_trusted_proxies
from openvibe.engines.serving.service_states import read_service_states
from openvibe.engines.text.cleaning import pluralize
from openvibe.runner.backup import unfinished_restore
from openvibe.runner.bootstrap import count_unapplied_migrations, needs_adoption
from openvibe.runner.management.commands.secrets import encrypted_fields
from openvibe.runner.public_address import CHECKS as PUBLIC_CHECKS
from openvibe.runner.public_address import PublicAddress, diagnose_address

MIN_POSTGRESQL_VERSION = 150_000
MIN_FREE_BYTES = 1024**3
MAX_BEAT_SILENCE_SECONDS = 90  # it asks for a job every ten, and writes it down every thirty


MAX_WAIT_SECONDS = 3600
MODEL_SECONDS = 5
"""How long a model endpoint has to say that it is there; all are asked at once."""
NEED_NO_DATABASE = ("database", "restore", "services", "disk", "proxy")


def wait_seconds(text: str) -> float:
    """The value of `--wait`."""
    seconds = float(text)
    if not 0 <= seconds <= MAX_WAIT_SECONDS:
        raise ArgumentTypeError(f"{text} is not between 0 and {MAX_WAIT_SECONDS}")
    return seconds


class DatabaseUnusable(Exception):
    """No connection to the database can be made."""

    def __init__(self, problem: ConnectionProblem) -> None:
        super().__init__(problem.state)
        self.problem = problem


class CheckResult(NamedTuple):
    """The state of one thing. `advice` is empty when all is well, and otherwise the next step."""

    subject: str
    state: str
    advice: str = ""


class Command(BaseCommand):
    help = "Checks database, extensions, queue, worker, scheduler, disk and secret key. Exits 1 when one is broken."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--wait", type=wait_seconds, default=5.0, help="seconds a worker has to answer (%(default)s)"
        )
        parser.add_argument("--only", action="append", metavar="CHECK", help="check this alone, such as workers")
        parser.add_argument(
            "--url",
            nargs="?",
            const=settings.PUBLIC_URL,
            help="ask this public address, too, through the proxy; without one: OPENVIBE_PUBLIC_URL",
        )

    def handle(self, *_arguments: Any, wait: float, only: list[str] | None, url: str | None, **_options: Any) -> None:
        checks: dict[str, Callable[[], CheckResult]] = {
            "database": database,
            "extensions": extensions,
            "tables": migrations,
            "restore": restore,
            "services": services,
            "queue": queue,
            "workers": lambda: workers(wait),
            "scheduler": beat,
            "jobs": jobs,
            "disk": disk,
            "secret key": secret_key,
            "proxy": proxy,
            "search": search,
            "models": models,
            "mail": mail,
        }
        if unknown := set(only or ()) - {*checks, *PUBLIC_CHECKS}:
            raise CommandError(
                f"There is no check {min(unknown)!r}. There are: {', '.join(checks)}; and with --url: "
                f"{', '.join(PUBLIC_CHECKS)}."
            )
        public = set(only or ()) & set(PUBLIC_CHECKS)
        if public and url is None:
            raise CommandError(f"{min(public)!r} is checked at the public address. Add --url https://chat.example.org.")
        try:
            address = PublicAddress(url) if url is not None and (public or not only) else None
        except (ValueError, httpx2.InvalidURL):
            raise CommandError(f"--url: {url} is no address. Write it as https://chat.example.org.") from None
        results = list(run_checks({name: check for name, check in checks.items() if not only or name in only}))
        if address:
            outside = [CheckResult(*diagnosis) for diagnosis in diagnose_address(address)]
            results += [result for result in outside if not only or result.subject in only]
        for result in results:
            mark = self.style.ERROR("PROBLEM") if result.advice else self.style.SUCCESS("ok     ")
            self.stdout.write(f"{mark} {result.subject}: {' '.join(f'{result.state} {result.advice}'.split())}")
        if any(result.advice for result in results):
            raise SystemExit(1)


def run_checks(checks: Mapping[str, Callable[[], CheckResult]]) -> Iterator[CheckResult]:
    """What each check finds. One that fails in whatever way is a result too; without a database most are not begun."""
    has_database = True
    for subject, check in checks.items():
        if not has_database and subject not in NEED_NO_DATABASE:
            yield CheckResult(subject, "not known without the database.", "Repair the database first.")
            continue
        try:
            yield check()
        except DatabaseUnusable as error:
            has_database = False
            yield CheckResult(subject, error.problem.state, error.problem.advice)
        except (Error, psycopg.Error) as error:
            has_database = False
            yield CheckResult(subject, f"the database says: {error}.", "Repair the database first.")
        except Exception as error:
            yield CheckResult(subject, f"could not be checked: {type(error).__name__}: {error}.", "Repair that first.")


def database() -> CheckResult:
    """PostgreSQL answers and is new enough. Raises DatabaseUnusable."""
    try:
        connection.ensure_connection()
    except (Error, psycopg.Error) as error:
        raise DatabaseUnusable(explain_connection_error(error)) from error
    version = connection.pg_version  # type: ignore[attr-defined]  # the wrapper of PostgreSQL has it
    kind = "embedded" if settings.DATABASES["default"]["ENGINE"] == "openvibe.engines.database.embedded" else "outside"
    state = f"PostgreSQL {version // 10_000}.{version % 10_000}, {kind}."
    advice = "Upgrade to PostgreSQL 15 or later." if version < MIN_POSTGRESQL_VERSION else ""
    return CheckResult("database", state, advice)


def extensions() -> CheckResult:
    """pgvector is in this database and works, or can be made there: tried, and taken back."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
        installed = cursor.fetchone()
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            if not installed:
                cursor.execute("CREATE EXTENSION vector")
            cursor.execute("SELECT '[1]'::vector")
            transaction.set_rollback(True)
    except Error as error:
        return CheckResult("extensions", *_extension_problem(error, is_installed=bool(installed)))
    if installed:
        return CheckResult("extensions", f"vector {installed[0]} is installed.")
    return CheckResult("extensions", "vector is not installed yet, and can be: `manage.py migrate` does it.")


def _extension_problem(error: Error, *, is_installed: bool) -> tuple[str, str]:
    cause = error.__cause__
    message = str(error).splitlines()[0].rstrip(".")
    if isinstance(cause, psycopg.errors.InsufficientPrivilege):
        user = connection.get_connection_params().get("user")
        return (
            f"vector is not installed, and {user} may not do it: {message}.",
            "Have a superuser run `CREATE EXTENSION vector` in this database.",
        )
    if is_installed:
        return (
            f"vector is installed, but does not work: {message}.",
            "Install the pgvector of this PostgreSQL's version.",
        )
    return f"vector cannot be installed: {message}.", "Install pgvector on the database server."


def migrations() -> CheckResult:
    """The tables are those this version expects."""
    if needs_adoption():
        return CheckResult("tables", "made by the version before.", "Run `manage.py adopt_migrations`.")
    unapplied_count = count_unapplied_migrations()
    if unapplied_count:
        state = f"{pluralize(unapplied_count, 'migration waits', 'migrations wait')}."
        return CheckResult("tables", state, "Run `manage.py migrate`.")
    return CheckResult("tables", "up to date.")


def restore() -> CheckResult:
    """None waits to be brought to its end."""
    unfinished = unfinished_restore()
    return CheckResult("restore", "" if unfinished else "none was interrupted.", unfinished)


def services() -> CheckResult:
    """Those that `manage.py serve` keeps running on this machine run steadily."""
    states = read_service_states()
    problems = [state.problem for state in states if state.problem]
    if problems:
        return CheckResult("services", " ".join(problems), "The server's log says why, above each of its ends.")
    if not states:
        return CheckResult("services", "`manage.py serve` runs none here.")
    return CheckResult("services", f"{', '.join(state.name for state in states)} run steadily.")


def queue() -> CheckResult:
    """The job queue exists."""
    if not queue_is_in_database():
        return CheckResult("queue", "an outside broker (CELERY_BROKER_URL).")
    if queue_is_installed():
        return CheckResult("queue", "in the database.")
    return CheckResult("queue", "not installed.", "Run `manage.py migrate`.")


def workers(wait: float) -> CheckResult:
    """Checks that within `wait` seconds each queue's worker takes a job and answers it."""
    queue_by_token = {f"{queue.name} {secrets.token_hex(8)}": queue.name for queue in settings.CELERY_TASK_QUEUES}
    seconds = {}
    with psycopg.connect(**{**connection.get_connection_params(), "autocommit": True}) as listener:
        listener.execute(f"LISTEN {DOCTOR_CHANNEL}")
        started_at = time.monotonic()
        try:
            for token, queue_name in queue_by_token.items():
                answer_doctor.apply_async((token,), queue=queue_name, expires=max(wait, 60), retry=False)
        except (BrokerUnavailable, psycopg.Error, OSError) as error:
            state = f"the queue refuses jobs ({error})."
            return CheckResult("workers", state, "Check CELERY_BROKER_URL and the queue.")
        while queue_by_token and (seconds_left := started_at + wait - time.monotonic()) > 0:
            for notice in listener.notifies(timeout=seconds_left, stop_after=1):
                if queue_name := queue_by_token.pop(notice.payload, ""):
                    seconds[queue_name] = time.monotonic() - started_at
    answer_times = ", ".join(f"{name} after {after:.2f} s" for name, after in seconds.items())
    if not queue_by_token:
        return CheckResult("workers", f"answered a job: {answer_times}.")
    silent = ",".join(queue_by_token.values())
    advice = f"Start one with `make run`, or `celery -A openvibe.celery worker -Q {silent}`; if it runs, it is busy."
    return CheckResult("workers", f"no answer from the queue of {silent} within {wait:g} s.", advice)


def beat() -> CheckResult:
    """The scheduler asked for a recurring job lately, wherever it runs."""
    last_run_at = PeriodicTask.objects.aggregate(last=Max("last_run_at"))["last"]
    if last_run_at is None:
        return CheckResult("scheduler", "has asked for nothing yet.")
    silence = (timezone.now() - last_run_at).total_seconds()
    if silence < -MAX_BEAT_SILENCE_SECONDS:
        state = f"ran last {-silence:.0f} s ahead of this machine's clock."
        advice = "Set the clocks of all machines right. If it says so a minute later still, start the scheduler anew."
        return CheckResult("scheduler", state, advice)
    if silence <= MAX_BEAT_SILENCE_SECONDS:
        return CheckResult("scheduler", f"alive {max(0, silence):.0f} s ago.")
    advice = "Start it with `make run`, or `celery -A openvibe.celery beat`."
    return CheckResult("scheduler", f"silent for {silence:.0f} s.", advice)


def jobs() -> CheckResult:
    """The newest run of each recurring job went well."""
    names = {job["task"]: name for name, job in settings.CELERY_BEAT_SCHEDULE.items()}
    runs = newest_runs()
    failed = [f"{names[task]} failed: {run.problem}" for task, run in runs.items() if run.problem and task in names]
    if failed:
        return CheckResult("jobs", " · ".join(failed)[:1_000], "The server's log says more; run it again under Jobs.")
    return CheckResult("jobs", f"{len(runs)} ran, the last run of each went well.")


def disk() -> CheckResult:
    """Checks that there is room to write, wherever OpenVibe writes."""
    if not settings.VAR.is_dir():
        return CheckResult("disk", f"{settings.VAR} is no folder.", "Set OPENVIBE_VAR to a folder that is there.")
    try:
        room = least_room(written_folders())
    except OSError as error:
        return CheckResult("disk", f"{error.filename}: {error.strerror}.", "Make the folder readable.")
    state = f"{room.free / 1024**3:.1f} GiB free in {room.folder}."
    return CheckResult("disk", state, "Free at least 1 GiB." if room.free < MIN_FREE_BYTES else "")


def search() -> CheckResult:
    """Texts have their vectors, and embedders answer."""
    return CheckResult(*diagnose_search())


def models() -> CheckResult:
    """Every model endpoint answers; asked for its list of models, which costs nothing."""
    endpoints = list(Endpoint.objects.exclude(kind=Endpoint.Kind.OFFLINE).select_related("workspace").order_by("pk"))
    if not endpoints:
        return CheckResult("models", "no endpoint but the offline model.")
    with ThreadPoolExecutor(max_workers=min(len(endpoints), 16)) as pool:
        ask = partial(find_endpoint_problem, seconds=MODEL_SECONDS)
        problems = list(pool.map(lambda endpoint: ask(endpoint=endpoint), endpoints))
    silent = [
        f"“{endpoint.name}” of {endpoint.workspace.slug}: {problem}"
        for endpoint, problem in zip(endpoints, problems, strict=True)
        if problem
    ]
    if silent:
        does = "does" if len(silent) == 1 else "do"
        state = f"{len(silent)} of {pluralize(len(endpoints), 'endpoint')} {does} not answer."
        return CheckResult("models", state, " ".join(silent))
    return CheckResult("models", f"{pluralize(len(endpoints), 'endpoint answers', 'endpoints answer')}.")


def mail() -> CheckResult:
    if not settings.EMAIL_CONFIGURED:
        return CheckResult("mail", "no mail server (OPENVIBE_EMAIL_URL): e-mails are printed in the log.")
    late = OutgoingMail.objects.filter(attempts__gt=0).order_by("-due_at")
    if last := late.first():
        mails = pluralize(late.count(), "e-mail that waits", "e-mails that wait")
        state = f"the server does not take {mails}: {last.error}."
        return CheckResult("mail", state, "Check OPENVIBE_EMAIL_URL and the server.")
    return CheckResult("mail", "nothing waits.")


def proxy() -> CheckResult:
    """The proxy's word about who calls is believed, where there has to be a proxy."""
    if lacks_trusted_proxies():
        state = "OPENVIBE_TRUSTED_PROXIES is 0, so all people count as one address at sign-in."
        return CheckResult("proxy", state, COUNT_PROXIES)
    count = settings.ALLAUTH_TRUSTED_PROXY_COUNT
    return CheckResult("proxy", f"{count} in front may tell who calls." if count else "none expected.")


def secret_key() -> CheckResult:
    """The key that signs sessions is long enough, and is the operator's own in production."""
    if len(settings.SECRET_KEY) < 50:
        return CheckResult("secret key", "too short.", "Set OPENVIBE_SECRET_KEY to 50 or more random characters.")
    unreadable = sum(
        isinstance(value, UnreadableSecret)
        for model, field in encrypted_fields()
        for value in model._default_manager.exclude(**{field: ""}).values_list(field, flat=True)
    )
    if unreadable:
        advice = "Set OPENVIBE_SECRET_KEY_FALLBACKS to the earlier key, or enter them again."
        return CheckResult("secret key", f"does not open {pluralize(unreadable, 'stored key')}.", advice)
    origin = "set by you." if settings.ENV.secret_key else "made on first use and kept in var/."
    return CheckResult("secret key", origin)
