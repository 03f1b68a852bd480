"""`manage.py doctor` says in sentences what is wrong, whatever it is."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from io import StringIO
from pathlib import Path

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection, connections
from django.db.backends.postgresql.base import DatabaseWrapper
from django.db.utils import OperationalError
from django.utils import timezone
from django_celery_beat.models import IntervalSchedule, PeriodicTask
from pytest_django.fixtures import Settings

from openvibe.engines.database.connection_problems import Cause, explain_connection_error
from openvibe.engines.llm.models import Endpoint
from openvibe.engines.serving.service_states import ServiceState, write_service_states
from openvibe.runner.management.commands.doctor import CheckResult, run_checks
from openvibe.workspaces.models import Member
from tests.engines.llm.factories import EndpointFactory
from tests.operations.processes import free_port


def doctor(*checks: str) -> str:
    out = StringIO()
    with pytest.raises(SystemExit):
        call_command("doctor", *(f"--only={name}" for name in checks), stdout=out, no_color=True)
    return out.getvalue()


def ok(*checks: str) -> str:
    out = StringIO()
    call_command("doctor", *(f"--only={name}" for name in checks), stdout=out, no_color=True)
    return out.getvalue()


def test_every_model_endpoint_is_asked_and_named_when_it_is_silent(ana: Member, settings: Settings) -> None:
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    address = f"http://127.0.0.1:{free_port()}/v1"
    for name in ("Near", "Far"):
        EndpointFactory.create(workspace=ana.workspace, name=name, model="m", base_url=address, kind="openai")
    report = doctor("models")
    assert report.startswith("PROBLEM models: 2 of 2 endpoints do not answer. ")
    assert f"“Near” of {ana.workspace.slug}: " in report
    assert report.count("\n") == 1
    Endpoint.objects.filter(name="Near").delete()
    assert doctor("models").startswith("PROBLEM models: 1 of 1 endpoint does not answer. ")


def test_a_key_of_before_and_a_folder_that_is_gone_are_named(ana: Member, settings: Settings, tmp_path: Path) -> None:
    address = "https://models.example/v1"
    EndpointFactory.create(workspace=ana.workspace, name="Paid", model="m", base_url=address, api_key="sk-1234567890")
    settings.SECRET_KEY, settings.VAR = "another key, of fifty characters or more than that", tmp_path / "gone"
    report = doctor("secret key", "disk", "models")
    assert "PROBLEM secret key: does not open 1 stored key." in report
    assert "PROBLEM disk: " in report
    assert "Enter it again." in report


def test_a_proxy_whose_word_is_not_believed_is_named(settings: Settings) -> None:
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    report = doctor("proxy")
    assert report.startswith("PROBLEM proxy: OPENVIBE_TRUSTED_PROXIES is 0")
    assert "Set OPENVIBE_TRUSTED_PROXIES to the number" in report


@pytest.mark.django_db
def test_a_scheduler_that_ran_ahead_of_the_clock_is_not_called_alive() -> None:
    daily = IntervalSchedule.objects.create(every=1, period="days")
    ahead = timezone.now() + timedelta(hours=1)
    PeriodicTask.objects.create(name="sweep", task="agents.sweep_runs", interval=daily, last_run_at=ahead)
    assert doctor("scheduler").startswith("PROBLEM scheduler: ran last 3")


@pytest.mark.parametrize(
    "url", ["", "http://[", "http://vibe.example:port", "ftp://vibe.example", "http://", "https://a..b"]
)
def test_what_is_no_address_is_said(url: str) -> None:
    with pytest.raises(CommandError, match="is no address"):
        call_command("doctor", "--only=address", "--url", url)


@pytest.mark.parametrize("seconds", ["nan", "inf", "-1", "soon"])
def test_a_wait_that_is_no_time_is_said(seconds: str) -> None:
    with pytest.raises(CommandError, match="argument --wait"):
        call_command("doctor", "--only=disk", f"--wait={seconds}")


def test_whatever_a_check_meets_the_next_one_is_carried_out() -> None:
    def fails() -> CheckResult:
        raise RuntimeError("a bug")

    def finds_no_database() -> CheckResult:
        raise OperationalError("gone")

    fine = CheckResult("disk", "fine.")
    checks = {"queue": fails, "database": finds_no_database, "tables": lambda: fine, "disk": lambda: fine}
    states = [result.state for result in run_checks(checks)]
    assert states == [
        "could not be checked: RuntimeError: a bug.",
        "the database says: gone.",
        "not known without the database.",
        "fine.",
    ]


def test_a_check_of_the_public_address_wants_the_address() -> None:
    with pytest.raises(CommandError, match="'cookies' is checked at the public address"):
        call_command("doctor", only=["cookies", "disk"])


def test_a_check_that_is_none_says_which_there_are() -> None:
    with pytest.raises(CommandError, match="There are: database, extensions, tables"):
        call_command("doctor", only=["weather"])


def connection_to(**changes: object) -> DatabaseWrapper:
    """The tests' own server, reached in another way."""
    parameters = connections["default"].get_connection_params()
    names = {"HOST": "host", "PORT": "port", "USER": "user", "NAME": "dbname"}
    own = {key: str(parameters[name]) for key, name in names.items()}
    own["ENGINE"] = "django.db.backends.postgresql"
    return DatabaseWrapper({**connections["default"].settings_dict, "PASSWORD": "", "OPTIONS": {}, **own, **changes})


@contextmanager
def database_at(wrapper: DatabaseWrapper) -> Iterator[None]:
    usual = connections["default"]
    connections["default"] = wrapper
    try:
        yield
    finally:
        wrapper.close()
        connections["default"] = usual


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"NAME": "nowhere"}, "answers, and has no database nowhere"),
        ({"USER": "nobody_here"}, "answers, and has no user nobody_here"),
        ({"HOST": "127.0.0.1", "PORT": "1"}, "no server answers at 127.0.0.1:1"),
        ({"HOST": "no-such-host.invalid"}, "no server answers at no-such-host.invalid"),
    ],
)
@pytest.mark.django_db
def test_a_database_that_answers_is_not_called_unreachable(changes: dict[str, str], words: str) -> None:
    with database_at(connection_to(**changes)):
        report = doctor("database", "queue")
    assert report.startswith("PROBLEM database: ")
    assert words in report
    assert "DATABASE_URL" in report
    assert "PROBLEM queue: not known without the database." in report


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ('FATAL:  password authentication failed for user "openvibe"', Cause.PASSWORD),
        ("fe_sendauth: no password supplied", Cause.PASSWORD),
        ("FATAL:  sorry, too many clients already", Cause.FULL),
        ("FATAL:  remaining connection slots are reserved for roles with the SUPERUSER attribute", Cause.FULL),
        ('FATAL:  no pg_hba.conf entry for host "10.0.0.7", user "openvibe", database "openvibe"', Cause.NOT_ALLOWED),
        ("FATAL:  the database system is starting up", Cause.STARTING),
        ('FATAL:  role "openvibe" is not permitted to log in', Cause.NOT_ALLOWED),
        ("FATAL:  a sentence of a version to come", Cause.OTHER),
    ],
)
@pytest.mark.django_db
def test_each_refusal_has_a_sentence_of_its_own(said: str, cause: Cause) -> None:
    with database_at(connection_to()):
        problem = explain_connection_error(OperationalError(f"connection failed: {said}"))
    assert problem.cause == cause
    assert "answers" in problem.state
    assert problem.advice


@pytest.mark.django_db
def test_an_extension_is_called_well_only_where_it_is_or_can_be_made() -> None:
    assert ok("extensions").startswith("ok      extensions: vector 0")
    with connection.cursor() as cursor:
        cursor.execute("ALTER EXTENSION vector DROP TYPE vector")  # whoever asks for it does not find it
        cursor.execute("ALTER TYPE vector RENAME TO vector_of_old")
    assert doctor("extensions").startswith("PROBLEM extensions: vector is installed, but does not work: ")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("rights", "words"),
    [
        ("SUPERUSER", "ok      extensions: vector is not installed yet, and can be"),
        ("NOSUPERUSER", "PROBLEM extensions: vector is not installed, and owner_of_little may not do it: "),
    ],
)
def test_an_extension_that_nobody_may_make_is_not_called_available(rights: str, words: str) -> None:
    parameters = connections["default"].get_connection_params()
    name = f"extensions_{rights.lower()}"
    with psycopg.connect(**parameters, autocommit=True) as session:
        session.execute(f"CREATE ROLE owner_of_little LOGIN {rights}")
        session.execute(f"CREATE DATABASE {name} OWNER owner_of_little")
        try:
            with database_at(connection_to(USER="owner_of_little", NAME=name)):
                report = ok("extensions") if rights == "SUPERUSER" else doctor("extensions")
                with connections["default"].cursor() as cursor:
                    cursor.execute("SELECT count(*) FROM pg_extension WHERE extname = 'vector'")
                    assert cursor.fetchone() == (0,)  # it was only tried
        finally:
            session.execute(f"DROP DATABASE {name}")
            session.execute("DROP ROLE owner_of_little")
    assert report.startswith(words)


def test_a_service_that_keeps_ending_is_named(settings: Settings, tmp_path: Path) -> None:
    settings.VAR = tmp_path
    assert ok("services") == "ok      services: `manage.py serve` runs none here.\n"
    write_service_states([ServiceState("web"), ServiceState("worker")])
    assert ok("services") == "ok      services: web, worker run steadily.\n"
    write_service_states([ServiceState("web"), ServiceState("worker", consecutive_exits=4, exit_code=-9)])
    assert doctor("services").startswith("PROBLEM services: worker keeps ending: 4 times in a row, last with exit code")
