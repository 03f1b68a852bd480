"""`manage.py doctor` says in sentences what is wrong, whatever it is."""

from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db.utils import OperationalError
from django.utils import timezone
from django_celery_beat.models import IntervalSchedule, PeriodicTask
from pytest_django.fixtures import Settings

from openvibe.llm.models import Endpoint
from openvibe.runner.management.commands.doctor import CheckResult, run_checks
from openvibe.workspaces.models import Member
from tests.operations.processes import free_port


def doctor(*checks: str) -> str:
    out = StringIO()
    with pytest.raises(SystemExit):
        call_command("doctor", *(f"--only={name}" for name in checks), stdout=out, no_color=True)
    return out.getvalue()


def test_every_model_endpoint_is_asked_and_named_when_it_is_silent(ana: Member, settings: Settings) -> None:
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    address = f"http://127.0.0.1:{free_port()}/v1"
    for name in ("Near", "Far"):
        Endpoint.objects.create(workspace=ana.workspace, name=name, model="m", base_url=address, kind="openai")
    report = doctor("models")
    assert report.startswith("PROBLEM models: 2 of 2 endpoints do not answer. ")
    assert f"“Near” of {ana.workspace.slug}: " in report
    assert report.count("\n") == 1
    Endpoint.objects.filter(name="Near").delete()
    assert doctor("models").startswith("PROBLEM models: 1 of 1 endpoint does not answer. ")


def test_a_key_of_before_and_a_folder_that_is_gone_are_named(ana: Member, settings: Settings, tmp_path: Path) -> None:
    address = "https://models.example/v1"
    Endpoint.objects.create(workspace=ana.workspace, name="Paid", model="m", base_url=address, api_key="sk-1234567890")
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
