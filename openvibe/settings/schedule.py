"""Jobs that come again, with their seconds in between. Tasks of upper floors are named as strings."""

from typing import Any

CELERY_BEAT_SCHEDULE: dict[str, Any] = {
    "sweep runs": {"task": "agents.sweep_runs", "schedule": 10.0},
    "thin snapshots": {"task": "agents.thin_snapshots", "schedule": 86_400.0},
    "sweep compactions": {"task": "memory.sweep_compactions", "schedule": 15.0},
    "forget episodes": {"task": "memory.forget_episodes", "schedule": 3_600.0},
    "review sessions": {"task": "memory.review_sessions", "schedule": 3_600.0},
    "embed messages": {"task": "chat.embed_messages", "schedule": 10.0},
    "expire entries": {"task": "knowledge.expire_entries", "schedule": 60.0},
    "archive unused entries": {"task": "knowledge.archive_unused", "schedule": 86_400.0},
    "find contradictions": {"task": "knowledge.find_contradictions", "schedule": 60.0},
    "embed entries": {"task": "knowledge.embed_entries", "schedule": 10.0},
    "settle vector spaces": {"task": "search.settle_spaces", "schedule": 10.0},
    "forget events": {"task": "base.forget_events", "schedule": 3_600.0},
    "forget idempotency keys": {"task": "api.forget_old_keys", "schedule": 3_600.0},
}
