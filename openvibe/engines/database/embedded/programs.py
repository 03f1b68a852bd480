"""PostgreSQL's own programs, run on the database Django uses."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandError
from django.db import connection

from openvibe.engines.database.embedded.server import DatabaseUnavailable, program_path


def database_name() -> str:
    return str(connection.settings_dict["NAME"])


def run_program(name: str, *arguments: str) -> str:
    """What one of PostgreSQL's programs prints, run on the database Django uses. Raises CommandError with what it
    says."""
    parameters = connection.get_connection_params()
    environment = {**os.environ, **_connection_variables(parameters), "LC_ALL": "C"}
    process = subprocess.run([find_program(name), *arguments], env=environment, capture_output=True, text=True)
    if process.returncode:
        lines = process.stderr.strip().splitlines()
        raise CommandError(f"{name} failed: {' / '.join(lines[:3]) or process.returncode}. Nothing was changed.")
    return process.stdout


def _connection_variables(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Variables as libpq's programs read them: a password in an argument could be seen by every user of the machine."""
    names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD", "sslmode": "PGSSLMODE"}
    return {variable: str(parameters[name]) for name, variable in names.items() if parameters.get(name)}


def find_program(name: str) -> str:
    """The embedded server's own; else, for an outside database, the system's."""
    try:
        return str(program_path(name))
    except DatabaseUnavailable:
        path = shutil.which(name)
    if path is None:
        raise CommandError(f"{name} is not installed. Install PostgreSQL's client programs. Nothing was changed.")
    return path
