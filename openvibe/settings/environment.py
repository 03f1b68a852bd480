"""What an operator may set, read once from the process environment, and what it means for Django: the database and
mail settings that a URL stands for, and the secret key kept in a file. docs/settings.md lists every field."""

import errno
import os
import re
import secrets
from collections.abc import Iterable
from contextlib import suppress
from difflib import get_close_matches
from email.utils import getaddresses
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured
from pydantic import Field, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

ROOT = Path(__file__).resolve().parents[2]
MAX_SECONDS = 31_536_000
"""A year, which is as good as for ever, and which every clock and timeout can still count."""
_HOST_NAME = re.compile(r"\*|\.?[\w.-]+|\[[0-9a-fA-F:.]+\]")
_ORIGIN = re.compile(r"https?://(\*\.?)?([\w.-]+|\[[0-9a-fA-F:.]+\])(:\d+)?")
_SENDER = re.compile(r"[^\s@<>]+@[^\s@<>]+")
_LIST_FORMS = {
    "allowed_hosts": (_HOST_NAME, "is no host name. Write it without scheme, port and path: chat.example.org"),
    "csrf_trusted_origins": (_ORIGIN, "is no origin. Write scheme and host alone: https://chat.example.org"),
}
"""What each part of a comma-separated setting has to look like, and what is said of one that does not."""


class Environment(BaseSettings):
    """`OPENVIBE_<NAME>` for each field; those with an alias use that name as it is. An empty one is not set."""

    model_config = SettingsConfigDict(
        env_prefix="OPENVIBE_", env_ignore_empty=True, extra="ignore", populate_by_name=True
    )

    var: Path = Field(ROOT / "var", description="Folder for the embedded database, keys and process files.")
    home: str = Field(
        "", description="Folder for agents' files, as in `workspaces/<handle>/skills`; empty: `home` in OPENVIBE_VAR."
    )
    debug: bool = Field(False, description="Developer error pages. Never on a server others can reach.")
    secret_key: str = Field("", description="Signs sessions and encrypts keys. Made and kept in var/ when empty.")
    secret_key_fallbacks: str = Field(
        "", description="Comma-separated earlier secret keys: what they signed and encrypted can still be read."
    )
    production: bool = Field(
        False, description="Behind HTTPS for others: secure cookies, HSTS, and a secret key of your own is required."
    )
    allowed_hosts: str = Field(
        "localhost,127.0.0.1,[::1]", description="Comma-separated host names this server answers to."
    )
    trusted_proxies: int = Field(
        0,
        ge=0,
        le=100,
        description="Proxies of your own in front that add to X-Forwarded-For; sign-ins are limited by address.",
    )
    csrf_trusted_origins: str = Field("", description="Comma-separated origins allowed to post, with scheme.")
    hsts_seconds: int = Field(
        31_536_000,
        ge=0,
        le=3_153_600_000,
        description="In production: how long browsers ask this host over HTTPS alone; 0: no HSTS.",
    )
    hsts_include_subdomains: bool = Field(False, description="HSTS for all hosts below this one, too.")
    hsts_preload: bool = Field(
        False, description="Browsers may build HSTS in, for this host and all below it: hard to take back."
    )
    database_url: str = Field("", alias="DATABASE_URL", description="An outside PostgreSQL ≥ 15 with pgvector.")
    celery_broker_url: str = Field("", alias="CELERY_BROKER_URL", description="An outside RabbitMQ or Redis.")
    port: int = Field(8000, alias="PORT", ge=1, le=65535, description="The port `make run` serves on.")
    host: str = Field("127.0.0.1", description="The address `make run` listens on.")
    worker_processes: int = Field(
        0,
        ge=0,
        le=1000,
        description="Processes of `make run` that carry out agent runs; 0: one for two processor cores.",
    )
    worker_concurrency: int = Field(
        32, ge=1, le=1000, description="Agent runs each of them carries out at the same time."
    )
    background_concurrency: int = Field(2, ge=1, le=1000, description="Background jobs carried out at the same time.")
    web_processes: int = Field(
        0, ge=0, le=1000, description="Web processes of `make run` or a container; 0: one for each core."
    )
    web_threads: int = Field(
        8,
        ge=1,
        le=1000,
        description=(
            "Requests a web process answers at the same time; a quarter of them may be uploads (more than 64 kB)."
        ),
    )
    allow_private_endpoints: bool = Field(
        False, description="Let admins name model endpoints, webhooks and MCP servers on private addresses."
    )
    allowed_endpoint_hosts: str = Field(
        "", description="Comma-separated private hosts that may be called all the same: ollama.lan:11434, 10.0.0.0/24."
    )
    prompt_retention_days: int = Field(
        30,
        ge=1,
        le=36_500,
        description="Days for which texts of agents' prompts, results of their tools and what they thought are kept.",
    )
    webhook_delivery_days: int = Field(
        14, ge=1, le=36_500, description="Days for which deliveries of webhooks are listed."
    )
    model_first_answer_seconds: float = Field(
        3_600,
        gt=0,
        le=MAX_SECONDS,
        allow_inf_nan=False,
        description="The longest that any model may stay silent; each model's own limit stands on its page.",
    )
    model_total_seconds: float = Field(
        3_600,
        gt=0,
        le=MAX_SECONDS,
        allow_inf_nan=False,
        description="The longest that any model's answer may take; each model's own limit stands on its page.",
    )
    agent_silence_seconds: float = Field(
        60,
        ge=10,
        le=MAX_SECONDS,
        allow_inf_nan=False,
        description="How long an agent elsewhere may be silent while it writes, before its answer is marked failed.",
    )
    agent_begin_minutes: int = Field(
        5,
        ge=1,
        le=MAX_SECONDS // 60,
        description="How long a question, a retry or a draft waits for the program of an agent elsewhere to begin it.",
    )
    owners_export: bool = Field(
        False, description="Owners may take out archives of their workspace, private conversations in them too."
    )
    max_file_mb: int = Field(
        10, ge=5, le=25, description="MB of a file of a message; all files of one message have at most 25 MB together."
    )
    s3_bucket: str = Field(
        "", description="Bucket that keeps files as they came; empty: the database does. Needs requirements-s3.txt."
    )
    s3_endpoint_url: str = Field(
        "", description="Address of the S3 server where it is not Amazon's: https://s3.example.org."
    )
    s3_region: str = Field("", description="Region of the bucket.")
    s3_access_key: str = Field("", description="Key id for the bucket; empty: as the AWS SDK finds one.")
    s3_secret_key: str = Field("", description="Secret key for the bucket.")
    email_url: str = Field(
        "", description="smtp://user:password@host:port for outgoing mail; empty prints it to the log."
    )
    from_email: str = Field("OpenVibe <openvibe@localhost>", description="Sender of outgoing mail.")
    public_url: str = Field(
        "", description="Where people reach this server, for links in e-mails: https://chat.example.org."
    )
    digest_after_minutes: int = Field(
        30,
        ge=1,
        le=MAX_SECONDS // 60,
        description="Minutes for which a mention stays unread before it is mailed to whoever missed it.",
    )
    open_signup: bool = Field(False, description="Let anybody make an account without an invitation.")
    oidc_url: str = Field(
        "",
        description="Address of an OpenID Connect provider people may sign in by: https://id.example.org/realms/team.",
    )
    oidc_client_id: str = Field("", description="What that provider knows OpenVibe as.")
    oidc_client_secret: str = Field("", description="And the secret that goes with it.")
    oidc_name: str = Field("single sign-on", description="What the button calls the provider: Sign in with ….")
    two_factor_required: Literal["", "admins", "everyone"] = Field(
        "", description="Who must sign in with a second factor, a passkey or the provider: admins, everyone, or nobody."
    )
    metrics_token: str = Field(
        "", description="What Prometheus sends to read /metrics, as a bearer token; empty: there is no /metrics."
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="DEBUG, INFO, WARNING or ERROR."
    )

    @field_validator("log_level", mode="before")
    @classmethod
    def _capitalize(cls, value: str) -> str:
        return value.upper()

    @field_validator("allowed_hosts", "csrf_trusted_origins")
    @classmethod
    def _check_list(cls, value: str, info: ValidationInfo) -> str:
        pattern, advice = _LIST_FORMS[info.field_name or ""]
        for part in split_list(value):
            if not pattern.fullmatch(part):
                raise ValueError(f"{part} {advice}")
            _parse_url(part if "//" in part else f"//{part}")
        return value

    @field_validator("allowed_hosts")
    @classmethod
    def _check_any_host(cls, value: str) -> str:
        if not split_list(value):
            raise ValueError("It names no host, so no page would be answered")
        return value

    @field_validator("public_url")
    @classmethod
    def _check_public_url(cls, value: str) -> str:
        origin = value.removesuffix("/")
        if value and ("*" in value or not _ORIGIN.fullmatch(origin)):
            raise ValueError("It must be https:// or http:// and a host, without a path: https://chat.example.org")
        _parse_url(origin)
        return origin

    @field_validator("oidc_url")
    @classmethod
    def _check_oidc_url(cls, value: str) -> str:
        if value and (not _parse_url(value).hostname or not re.fullmatch(r"https?://\S+", value)):
            raise ValueError("It must begin with https:// or http:// and a host, and hold no spaces")
        return value

    @field_validator("from_email")
    @classmethod
    def _check_sender(cls, value: str) -> str:
        addresses = [address for _, address in getaddresses([value])]
        if not value.isprintable() or len(addresses) != 1 or not _SENDER.fullmatch(addresses[0]):
            raise ValueError('It must be one address in one line, such as "OpenVibe" <openvibe@example.org>')
        return value

    @field_validator("hsts_preload")
    @classmethod
    def _check_preload(cls, value: bool, info: ValidationInfo) -> bool:
        if value and not info.data.get("hsts_include_subdomains"):
            raise ValueError("Browsers build in whole domains only: set OPENVIBE_HSTS_INCLUDE_SUBDOMAINS as well")
        return value

    @field_validator("celery_broker_url")
    @classmethod
    def _check_broker(cls, value: str) -> str:
        if value and not value.startswith(("amqp://", "amqps://", "pyamqp://", "redis://", "rediss://", "sentinel://")):
            raise ValueError("It must begin with amqp:// (RabbitMQ) or redis://")
        for url in value.split(";"):  # the broker, and those to turn to when it fails
            parts = _parse_url(url)
            if parts.scheme in ("redis", "rediss") and not re.fullmatch(r"/?\d*", parts.path):
                raise ValueError("A redis:// address ends with the number of a database: redis://localhost:6379/0")
        return value


def read_environment() -> Environment:
    """The settings of this process. Raises ImproperlyConfigured, which names each variable that is wrong, and in
    production each whose name seems to be mistyped."""
    try:
        env = Environment()
    except ValidationError as error:
        problems = [
            f"{name if name.isupper() else 'OPENVIBE_' + name.upper()}: {problem['msg'].removeprefix('Value error, ')}"
            for problem in error.errors()
            for name in map(str, problem["loc"])
        ]
        raise ImproperlyConfigured(
            f"A setting from the environment is wrong. {'. '.join(problems)}. docs/settings.md lists them."
        ) from None
    mistyped = [unknown_variable_words(*pair) for pair in unknown_variables(os.environ).items() if pair[1]]
    if env.production and mistyped:
        raise ImproperlyConfigured(" ".join(mistyped))
    return env


OTHER_VARIABLES = frozenset(
    f"OPENVIBE_{name}" for name in ("URL", "TOKEN", "MEMORY_PLUGIN", "MEMORY_CONFIG", "CHROMIUM", "SCREENSHOTS")
)
"""Variables that are not of the server: of openvibe-client, of the rules for memory plugins, and of the tests."""


def unknown_variables(names: Iterable[str]) -> dict[str, str]:
    """Variables that begin as OpenVibe's do and are none, each with the nearest name; empty where none is near."""
    known = {f"OPENVIBE_{name.upper()}" for name, field in Environment.model_fields.items() if not field.alias}
    aliases = {field.alias for field in Environment.model_fields.values() if field.alias}
    unknown = [name for name in names if name.startswith("OPENVIBE_") and name not in known | OTHER_VARIABLES]
    return {
        name: next(
            (alias for alias in aliases if name == f"OPENVIBE_{alias}"),
            next(iter(get_close_matches(name, known, n=1, cutoff=0.85)), ""),
        )
        for name in sorted(unknown)
    }


def unknown_variable_words(name: str, nearest: str) -> str:
    meant = f"Did you mean {nearest}?" if nearest else "docs/settings.md lists them."
    return f"The environment holds {name}, which is no setting of OpenVibe. {meant}"


_PASSWORD_ADVICE = "In a user name or password, write [ ] / ? # @ : and % as %5B %5D %2F %3F %23 %40 %3A and %25"


def _parse_url(url: str) -> SplitResult:
    """The parts of an address, its host and port checked. Raises ValueError with a sentence, without its full stop."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ValueError(f"It is no address that can be read. {_PASSWORD_ADVICE}") from None
    try:
        parts.port  # noqa: B018 - reading it checks it
    except ValueError:
        raise ValueError(f"Its port is no number between 0 and 65535. {_PASSWORD_ADVICE}") from None
    if re.search(r"\s", parts.hostname or ""):
        raise ValueError("There is a space in its host name")
    return parts


def split_list(value: str) -> list[str]:
    """The parts of a comma-separated setting."""
    return [part.strip() for part in value.split(",") if part.strip()]


def _split_url(url: str, variable: str) -> SplitResult:
    """The URL, split as by `_parse_url`. Raises ImproperlyConfigured, which names the variable."""
    try:
        return _parse_url(url)
    except ValueError as error:
        raise ImproperlyConfigured(f"{variable}: {error}.") from None


LOST_SERVER_LIMITS = {
    "connect_timeout": 10,  # seconds
    "keepalives_idle": 30,  # seconds without a word until the server is asked whether it is there
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,  # milliseconds that what was sent may stay without a receipt
}
"""A server that vanished, cable and all, is known as gone within a minute. The system waits for hours."""


def database_settings(url: str, var: Path) -> dict[str, Any]:
    """Settings of the one database. `url` is `postgres://user:password@host:port/name?option=value` or empty.
    Raises ImproperlyConfigured."""
    connection_options: dict[str, Any] = {"CONN_MAX_AGE": 600, "CONN_HEALTH_CHECKS": True}
    if not url:
        return {**connection_options, "ENGINE": "openvibe.engines.database.embedded", "NAME": "openvibe", "VAR": var}
    parts = _split_url(url, "DATABASE_URL")
    if parts.scheme not in ("postgres", "postgresql") or not parts.path.strip("/"):
        raise ImproperlyConfigured(
            "DATABASE_URL must read postgres://user:password@host:port/name. Nothing else was changed."
        )
    options = dict(parse_qsl(parts.query))
    return {
        **connection_options,
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": options.pop("host", "") or parts.hostname or "",
        "PORT": str(parts.port or ""),
        "OPTIONS": {**LOST_SERVER_LIMITS, **options},
    }


def public_url(env: Environment) -> str:
    """The address at which people reach this server. Unless it is said: the first allowed host over https in
    production, else this machine."""
    if env.public_url:
        return env.public_url
    host = env.allowed_hosts.partition(",")[0].strip().lstrip(".")
    return f"https://{host}" if env.production and host.strip("*") else f"http://localhost:{env.port}"


CONSOLE_BACKEND = "django.core.mail.backends.console.EmailBackend"


def mail_settings(url: str) -> dict[str, Any]:
    """Django's EMAIL_… settings. `url` is smtp://user:password@host:port, smtps:// for TLS from the start, or empty.
    Raises ImproperlyConfigured."""
    if not url:
        return {"EMAIL_BACKEND": CONSOLE_BACKEND}
    parts = _split_url(url, "OPENVIBE_EMAIL_URL")
    if parts.scheme not in ("smtp", "smtps") or not parts.hostname:
        raise ImproperlyConfigured("OPENVIBE_EMAIL_URL must read smtp://user:password@host:port, or smtps://….")
    tls_from_start = parts.scheme == "smtps"
    return {
        "EMAIL_BACKEND": "django.core.mail.backends.smtp.EmailBackend",
        "EMAIL_HOST": parts.hostname,
        "EMAIL_PORT": parts.port or (465 if tls_from_start else 587),
        "EMAIL_HOST_USER": unquote(parts.username or ""),
        "EMAIL_HOST_PASSWORD": unquote(parts.password or ""),
        "EMAIL_USE_SSL": tls_from_start,
        "EMAIL_USE_TLS": not tls_from_start and bool(parts.username),
        "EMAIL_TIMEOUT": 20,
    }


def file_storage(env: Environment) -> dict[str, Any]:
    """The place for files of messages as `STORAGES` has it; empty where that is the database. Raises
    ImproperlyConfigured where it is a bucket and what speaks with one is not installed."""
    if not env.s3_bucket:
        return {}
    if find_spec("storages") is None or find_spec("boto3") is None:
        raise ImproperlyConfigured(
            "OPENVIBE_S3_BUCKET is set, and what speaks with S3 is not installed. Install requirements-s3.txt, "
            "or unset it."
        )
    options: dict[str, Any] = {
        "bucket_name": env.s3_bucket,
        "endpoint_url": env.s3_endpoint_url or None,
        "region_name": env.s3_region or None,
        "access_key": env.s3_access_key or None,
        "secret_key": env.s3_secret_key or None,
        "addressing_style": "path" if env.s3_endpoint_url else None,
        "default_acl": None,
        "file_overwrite": True,  # names are of one file for ever: what comes again is the same
    }
    given = {name: value for name, value in options.items() if value is not None}
    return {"files": {"BACKEND": "storages.backends.s3.S3Storage", "OPTIONS": given}}


def create_private_folder(path: Path) -> None:
    """The folder of the database, keys and backups, for this system user alone. One that is there stays as it is; one
    that cannot be made is told of by whoever needs it."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700)


def read_or_create_secret_key(path: Path) -> str:
    """The key in `path`, made on first use. Two processes starting together end up with the same key."""
    try:
        return path.read_text(encoding="ascii").strip()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:  # of the folder, as making it says
            raise ImproperlyConfigured(f"The key file {path} cannot be read ({error.strerror}).") from error
    new_file = path.with_suffix(f".{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new_file.touch(mode=0o600)
        new_file.write_text(secrets.token_urlsafe(50), encoding="ascii")
        with suppress(FileExistsError):
            os.link(new_file, path)  # atomic: exactly one of several starters wins
        new_file.unlink()
    except OSError as error:
        raise ImproperlyConfigured(
            f"OpenVibe keeps its data in {path.parent}, which cannot be written ({error.strerror}). "
            "Make it writable, or set OPENVIBE_VAR to a folder that is."
        ) from error
    return path.read_text(encoding="ascii").strip()
