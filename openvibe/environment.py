"""What an operator may set, read once from the process environment. docs/settings.md lists every field."""

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

ROOT = Path(__file__).resolve().parent.parent


class Environment(BaseSettings):
    """`OPENVIBE_<NAME>` for each field; those with an alias use that name as it is."""

    model_config = SettingsConfigDict(env_prefix="OPENVIBE_", extra="ignore", populate_by_name=True)

    var: Path = Field(ROOT / "var", description="Folder for the embedded database, keys and process files.")
    home: Path = Field(ROOT / "var" / "home", description="Folder for files of agents: workspaces/<handle>/skills, …")
    debug: bool = Field(False, description="Developer error pages. Never on a server others can reach.")
    secret_key: str = Field("", description="Signs sessions and encrypts keys. Made and kept in var/ when empty.")
    secret_key_fallbacks: str = Field(
        "", description="Comma-separated earlier secret keys: what they signed and encrypted can still be read."
    )
    production: bool = Field(
        False,
        description="Behind HTTPS for others: secure cookies, HSTS, and a secret key of your own is required.",
    )
    allowed_hosts: str = Field(
        "localhost,127.0.0.1,[::1]", description="Comma-separated host names this server answers to."
    )
    csrf_trusted_origins: str = Field("", description="Comma-separated origins allowed to post, with scheme.")
    database_url: str = Field("", alias="DATABASE_URL", description="An outside PostgreSQL ≥ 15 with pgvector.")
    celery_broker_url: str = Field("", alias="CELERY_BROKER_URL", description="An outside RabbitMQ or Redis.")
    port: int = Field(8000, alias="PORT", description="The port `make run` serves on.")
    host: str = Field("127.0.0.1", description="The address `make run` listens on.")
    worker_concurrency: int = Field(4, ge=1, description="Agent runs and jobs carried out at the same time.")
    web_threads: int = Field(8, ge=1, description="Requests a web process answers at the same time.")
    allow_private_endpoints: bool = Field(
        False, description="Let admins name model endpoints on private and loopback addresses."
    )
    model_first_answer_seconds: float = Field(60, gt=0, description="How long a model may stay silent at first.")
    model_total_seconds: float = Field(300, gt=0, description="How long one model answer may take in all.")
    email_url: str = Field(
        "", description="smtp://user:password@host:port for outgoing mail; empty prints it to the log."
    )
    from_email: str = Field("OpenVibe <openvibe@localhost>", description="Sender of outgoing mail.")
    open_signup: bool = Field(False, description="Let anybody make an account without an invitation.")
    log_level: str = Field("INFO", description="DEBUG, INFO, WARNING or ERROR.")
