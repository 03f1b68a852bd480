"""The reasons why a database cannot be used, in a sentence with the next step: a server that answers is not called
unreachable."""

from enum import StrEnum
from typing import NamedTuple

import psycopg
from django.db import Error, connection
from psycopg import pq
from psycopg.conninfo import make_conninfo


class Cause(StrEnum):
    UNREACHABLE = "database_unreachable"
    STARTING = "database_starting"
    PASSWORD = "database_password"
    NO_ROLE = "database_role"
    NO_DATABASE = "database_missing"
    FULL = "database_connections"
    NOT_ALLOWED = "database_access"
    OTHER = "database_refuses"


class ConnectionProblem(NamedTuple):
    """A cause, a sentence that says what is so, and one that says what to do."""

    cause: Cause
    state: str
    advice: str


_REFUSALS: tuple[tuple[Cause, tuple[str, ...]], ...] = (
    (Cause.STARTING, ("the database system is starting up", "is shutting down", "in recovery mode", "not yet accept")),
    (Cause.FULL, ("too many clients", "remaining connection slots", "too many connections")),
    (Cause.PASSWORD, ("password authentication failed", "no password supplied", "SASL authentication failed")),
    (Cause.NOT_ALLOWED, ("no pg_hba.conf entry", "pg_hba.conf rejects", "authentication failed")),
    (
        Cause.NOT_ALLOWED,
        ("permission denied for database", "is not permitted to log in", "server does not support SSL"),
    ),
)
"""What a server says of a connection that it refuses; libpq gives no code of it."""
_WORDS: dict[Cause, tuple[str, str]] = {
    Cause.UNREACHABLE: (
        "no server answers at {address}",
        "Start it, or correct host and port of DATABASE_URL; between machines a firewall may be in the way.",
    ),
    Cause.STARTING: ("the server at {address} answers, but is starting or stopping", "Wait a moment and ask again."),
    Cause.PASSWORD: (
        "the server at {address} answers, and refuses the password of {user}",
        "Correct user and password of DATABASE_URL.",
    ),
    Cause.NO_ROLE: (
        "the server at {address} answers, and has no user {user}",
        "Correct the user of DATABASE_URL, or have it made: CREATE ROLE … LOGIN PASSWORD ….",
    ),
    Cause.NO_DATABASE: (
        "the server at {address} answers, and has no database {name}",
        "Correct the name at the end of DATABASE_URL, or have it made: CREATE DATABASE … OWNER ….",
    ),
    Cause.FULL: (
        "the server at {address} answers, and has no connection left",
        "Raise its max_connections, or run fewer processes and threads; docs/operations-scale.md counts them.",
    ),
    Cause.NOT_ALLOWED: (
        "the server at {address} answers, and does not let {user} in from here",
        "Allow it in the server's pg_hba.conf, or give DATABASE_URL the sslmode that it wants.",
    ),
    Cause.OTHER: ("the server at {address} answers, and refuses the connection", "Do what it says."),
}


def explain_connection_error(error: Error | psycopg.Error) -> ConnectionProblem:
    """Explains an error that was met when the connection was made. Asks the server whether it is there. Why the
    embedded server cannot be used, the error says itself."""
    if connection.settings_dict["ENGINE"] == "openvibe.engines.database.embedded":
        return ConnectionProblem(
            Cause.UNREACHABLE, f"the embedded PostgreSQL cannot be used: {error}", "Do what it says."
        )
    parameters = connection.get_connection_params()
    message = " ".join(str(error).split())
    cause = _cause(message, parameters)
    host, port = str(parameters.get("host") or "this machine"), parameters.get("port")
    words, advice = _WORDS[cause]
    state = words.format(
        address=f"{host}:{port}" if port else host, user=parameters.get("user"), name=parameters.get("dbname")
    )
    return ConnectionProblem(cause, f"{state}: {message.rstrip('.')}.", advice)


def _cause(message: str, parameters: dict[str, object]) -> Cause:
    for cause, words in _REFUSALS:
        if any(word in message for word in words):
            return cause
    if "does not exist" in message:
        return Cause.NO_DATABASE if f'database "{parameters.get("dbname")}"' in message else Cause.NO_ROLE
    ping = pq.PGconn.ping(_ping_conninfo(parameters))
    if ping == pq.Ping.REJECT:
        return Cause.STARTING
    return Cause.OTHER if ping == pq.Ping.OK else Cause.UNREACHABLE


def _ping_conninfo(parameters: dict[str, object]) -> bytes:
    """Returns where the server is, and no more: a ping wants no password."""
    names = ("host", "port", "hostaddr", "sslmode")
    address = {name: str(parameters[name]) for name in names if parameters.get(name)}
    return make_conninfo("connect_timeout=5", **address).encode()
