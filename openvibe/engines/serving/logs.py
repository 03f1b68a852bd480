"""Structured logs: one JSON object a line, with request, run and task ids, secrets masked."""

import json
import logging
import math
import re
import sys
import threading
import time
from datetime import UTC, datetime
from types import TracebackType

import structlog
from structlog.typing import EventDict, WrappedLogger

from openvibe.engines.text.masking import mask_secrets

_ROW_DETAIL = re.compile(
    r"(DETAIL: )(?! Process \d).*?(?=\n\nThe above exception|\n\nDuring handling|\nTraceback |\Z)", re.DOTALL
)
"""What PostgreSQL adds to an error: the row that it refuses, so what people wrote. Of a deadlock it names processes."""


def mask_event(_logger: WrappedLogger, _name: str, event: EventDict) -> EventDict:
    """Masks keys and tokens in every text of a log line, tracebacks included, and leaves out what a refused row
    holds."""
    return {key: _mask_text(value) if isinstance(value, str) else value for key, value in event.items()}


def _mask_text(text: str) -> str:
    return mask_secrets(_ROW_DETAIL.sub(r"\1[left out]", text) if "DETAIL: " in text else text)


_SHARED_PROCESSORS: list[structlog.typing.Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]
"""What every line says of itself."""


def json_formatter() -> structlog.stdlib.ProcessorFormatter:
    """A formatter for `logging`: structlog's processors over every logger's lines."""
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*_SHARED_PROCESSORS, structlog.stdlib.ExtraAdder()],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            mask_event,
            structlog.processors.JSONRenderer(),
        ],
    )


def configure_structlog() -> None:
    """What our own code logs goes through `logging`, as everybody's does: its handlers, levels and masks hold."""
    structlog.configure(
        processors=[*_SHARED_PROCESSORS, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )


def json_line(text: str, *, service: str) -> str:
    """A line that a service wrote, as JSON with the service's name: what is an object already keeps its fields."""
    try:
        event = json.loads(text)
    except (ValueError, RecursionError):
        event = None
    if not isinstance(event, dict):
        event = {"event": mask_secrets(text), "level": "info", "timestamp": datetime.now(UTC).isoformat()}
    return json.dumps({"service": service, **event}, ensure_ascii=False)


def log_uncaught_exceptions() -> None:
    """Logs as one line each, from now on, what nobody catches, in any thread, and Python's warnings."""
    logging.captureWarnings(True)
    sys.excepthook = _log_uncaught
    threading.excepthook = lambda thread: _log_uncaught(thread.exc_type, thread.exc_value, thread.exc_traceback)


def _log_uncaught(kind: type[BaseException], error: BaseException | None, traceback: TracebackType | None, /) -> None:
    if issubclass(kind, KeyboardInterrupt | SystemExit):
        return
    log = logging.getLogger("openvibe.uncaught")
    log.critical("uncaught_exception", exc_info=(kind, error or kind(), traceback))


class LogThrottle:
    """Says whether an event may be logged again: once in so many seconds of this process."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._logged_at: dict[str, float] = {}

    def is_due(self, event: str) -> bool:
        now = time.monotonic()
        if now - self._logged_at.get(event, -math.inf) < self._seconds:
            return False
        self._logged_at[event] = now
        return True


def is_not_routine(record: logging.LogRecord) -> bool:
    """Everything but that the scheduler asks for a recurring job, which it does every few seconds."""
    return not str(record.msg).startswith("Scheduler: Sending due task")
