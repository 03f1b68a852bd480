"""Structured logs: one JSON object a line, with request, run and task ids, secrets masked."""

import logging

import structlog
from structlog.typing import EventDict, WrappedLogger

from openvibe.base.masking import mask_secrets


def mask_event(_logger: WrappedLogger, _name: str, event: EventDict) -> EventDict:
    """Mask keys and tokens in every text of a log line, tracebacks included."""
    return {key: mask_secrets(value) if isinstance(value, str) else value for key, value in event.items()}


def json_formatter() -> structlog.stdlib.ProcessorFormatter:
    """For `logging`: structlog's processors over every logger's lines."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.stdlib.ExtraAdder(),
    ]
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            mask_event,
            structlog.processors.JSONRenderer(),
        ],
    )


def is_not_routine(record: logging.LogRecord) -> bool:
    """Everything but that the scheduler asks for a recurring job, which it does every few seconds."""
    return not str(record.msg).startswith("Scheduler: Sending due task")
