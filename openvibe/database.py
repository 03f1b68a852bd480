"""DATABASES for Django: the embedded server by default, an outside PostgreSQL when DATABASE_URL names one."""

from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured


def database_settings(url: str, var: Path) -> dict[str, Any]:
    """Settings of the one database. `url` is `postgres://user:password@host:port/name?option=value` or empty."""
    common: dict[str, Any] = {"CONN_MAX_AGE": 600, "CONN_HEALTH_CHECKS": True}
    if not url:
        return {**common, "ENGINE": "openvibe.base.postgres", "NAME": "openvibe", "VAR": var}
    parts = urlsplit(url)
    if parts.scheme not in ("postgres", "postgresql") or not parts.path.strip("/"):
        raise ImproperlyConfigured(
            "DATABASE_URL must read postgres://user:password@host:port/name. Nothing else was changed."
        )
    options = dict(parse_qsl(parts.query))
    return {
        **common,
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": options.pop("host", "") or parts.hostname or "",
        "PORT": str(parts.port or ""),
        "OPTIONS": options,
    }
