"""Outgoing mail for Django: an SMTP server when one is named, else the log."""

from typing import Any
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

CONSOLE = "django.core.mail.backends.console.EmailBackend"
SMTP = "django.core.mail.backends.smtp.EmailBackend"


def mail_settings(url: str) -> dict[str, Any]:
    """Django's EMAIL_… settings. `url` is smtp://user:password@host:port, smtps:// for TLS from the start, or empty."""
    if not url:
        return {"EMAIL_BACKEND": CONSOLE}
    parts = urlsplit(url)
    if parts.scheme not in ("smtp", "smtps") or not parts.hostname:
        raise ImproperlyConfigured("OPENVIBE_EMAIL_URL must read smtp://user:password@host:port, or smtps://….")
    tls_from_start = parts.scheme == "smtps"
    return {
        "EMAIL_BACKEND": SMTP,
        "EMAIL_HOST": parts.hostname,
        "EMAIL_PORT": parts.port or (465 if tls_from_start else 587),
        "EMAIL_HOST_USER": unquote(parts.username or ""),
        "EMAIL_HOST_PASSWORD": unquote(parts.password or ""),
        "EMAIL_USE_SSL": tls_from_start,
        "EMAIL_USE_TLS": not tls_from_start and bool(parts.username),
        "EMAIL_TIMEOUT": 20,
    }
