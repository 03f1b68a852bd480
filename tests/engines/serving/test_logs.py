"""Logs: one JSON object a line, whoever writes it."""

import io
import json
import logging
import logging.config
from typing import Any

import pytest
import structlog
from django.db import IntegrityError, transaction

from openvibe.chat.models import Message, Thread
from openvibe.engines.serving.logs import json_formatter, json_line, log_uncaught_exceptions
from openvibe.runner.services import WEB_SERVER_LOGS
from openvibe.workspaces.models import Member


def test_any_line_of_a_service_becomes_an_object() -> None:
    structured = json.loads(json_line('{"event": "started", "level": "warning"}', service="web"))
    assert structured == {"service": "web", "event": "started", "level": "warning"}
    for text in ("Segmentation fault", "[1, 2]", "[" * 100_000, "password=hunter22!"):
        line = json.loads(json_line(text, service="worker"))
        assert (line["service"], line["level"]) == ("worker", "info")
        assert "hunter22" not in line["event"]


def test_what_nobody_catches_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in (("sys", "excepthook"), ("threading", "excepthook")):
        monkeypatch.setattr(f"{module}.{name}", lambda *_: None)  # put back afterwards
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(json_formatter())
    logging.getLogger("openvibe.uncaught").addHandler(handler)
    try:
        log_uncaught_exceptions()
        import sys

        sys.excepthook(ValueError, ValueError("sk-canary-0123456789abcdef"), None)
    finally:
        logging.captureWarnings(False)
        logging.getLogger("openvibe.uncaught").removeHandler(handler)
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["level"] == "critical"
    assert "ValueError" in line
    assert "canary" not in line


def test_the_web_servers_own_lines_are_json_too() -> None:
    config: dict[str, Any] = WEB_SERVER_LOGS
    handler = config["handlers"]["stderr"]
    formatter = logging.config.DictConfigurator({"version": 1}).configure_formatter(config["formatters"]["json"])
    assert isinstance(formatter, logging.Formatter)
    assert handler["formatter"] == "json"
    record = logging.LogRecord("granian.access", logging.INFO, "", 0, "GET /healthz", None, None)
    assert json.loads(formatter.format(record))["event"] == "GET /healthz"


def test_what_our_own_code_logs_is_masked_json_with_its_fields() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(json_formatter())
    logging.getLogger("openvibe.tests").addHandler(handler)
    try:
        structlog.get_logger("openvibe.tests").warning("key_refused", run_id=3, key="sk-canary-0123456789abcdef")
    finally:
        logging.getLogger("openvibe.tests").removeHandler(handler)
    event = json.loads(stream.getvalue())
    assert [event[name] for name in ("event", "run_id", "level", "logger")] == [
        "key_refused",
        3,
        "warning",
        "openvibe.tests",
    ]
    assert "canary" not in event["key"]


def test_a_row_that_the_database_refuses_is_in_no_line(ana: Member, thread: Thread) -> None:
    """PostgreSQL quotes it in the error."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(json_formatter())
    log = logging.getLogger("openvibe.tests")
    log.addHandler(handler)
    message = Message(thread=thread, author=ana.participant, body="The\n\ntulip code", kind="song")
    try:
        try:
            with transaction.atomic():
                message.save()
        except IntegrityError as error:
            log.exception("failed: %r", error)
    finally:
        log.removeHandler(handler)
    (line,) = stream.getvalue().splitlines()
    assert "message_kind_known" in line
    assert "direct cause" in line
    assert "tulip" not in line
