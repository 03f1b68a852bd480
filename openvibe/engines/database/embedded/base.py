"""Django's PostgreSQL backend, pointed at the embedded server by the first connection of a process."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psycopg
from django.db.backends.postgresql import base, client

from openvibe.engines.database.embedded.server import Server, ensure_server, program_path


class DatabaseClient(client.DatabaseClient):
    """`manage.py dbshell`, with the psql that comes with the server."""

    def runshell(self, parameters: Iterable[str]) -> None:
        server = self.connection.server()  # type: ignore[attr-defined]  # our own wrapper
        self.executable_name = str(program_path("psql"))
        self.connection.settings_dict.update(HOST=str(server.socket), PORT=server.port, USER=server.user)
        super().runshell(parameters)


class DatabaseWrapper(base.DatabaseWrapper):
    """DATABASES: `{"ENGINE": "openvibe.engines.database.embedded", "NAME": …, "VAR": Path}`; no host, user or port."""

    client_class = DatabaseClient

    def server(self, *, recheck: bool = False) -> Server:
        """The running server, started if need be. Raises DatabaseUnavailable."""
        return ensure_server(Path(self.settings_dict["VAR"]), recheck=recheck)

    def get_connection_params(self) -> dict[str, Any]:
        server = self.server()
        parameters: dict[str, Any] = super().get_connection_params()
        return {**parameters, "host": str(server.socket), "port": server.port, "user": server.user}

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        try:
            return super().get_new_connection(conn_params)
        except psycopg.OperationalError:
            server = self.server(recheck=True)  # killed meanwhile: this start brings it back
            return super().get_new_connection({**conn_params, "host": str(server.socket)})
