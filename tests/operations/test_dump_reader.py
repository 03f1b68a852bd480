"""What stands in the SQL of a backup and is carried out: what ours hold, and nothing else."""

import gzip
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openvibe.runner.dump_reader import ForeignStatement, Statement, read_statements
from tests.upgrades.write_state import STATES


def read(script: str) -> list[Statement]:
    return list(read_statements(f"{line}\n".encode() for line in script.split("\n")))


BODY = """CREATE FUNCTION public.tell() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN {} RETURN NULL; END; $$;"""

FOREIGN = [
    "COPY public.chat_message TO PROGRAM 'id';",
    "COPY public.chat_message (body) TO PROGRAM 'id';",
    "COPY public.chat_message (body) FROM PROGRAM 'id';",
    "COPY public.chat_message (body) FROM '/etc/passwd';",
    "copy public.chat_message (body) from program 'id';",
    "COPY pg_catalog.pg_authid (rolname) FROM stdin;",
    "COPY (SELECT 1) TO '/tmp/x';",
    "\\! id",
    "\\copy chat_message TO PROGRAM 'id'",
    "\\o | id",
    "\\i /etc/passwd",
    "\\restrict a\\! id",
    "SET transaction_timeout = 0; \\! id",
    "--\\! id\r\\! id",
    "SET transaction_timeout = 0; DROP TABLE x;",
    "SET ROLE openvibe;",
    "SET SESSION AUTHORIZATION openvibe;",
    "RESET ROLE;",
    "SELECT pg_read_file('/etc/passwd');",
    "SELECT pg_catalog.set_config('role', 'openvibe', false);",
    "SELECT pg_catalog.setval('public.x', pg_sleep(1), true);",
    "DO $$ BEGIN END $$;",
    "CREATE EXTENSION IF NOT EXISTS file_fdw WITH SCHEMA public;",
    "CREATE EXTENSION plpython3u;",
    "CREATE ROLE eve SUPERUSER;",
    "ALTER ROLE openvibe PASSWORD 'x';",
    "ALTER SYSTEM SET archive_command = 'id';",
    "GRANT ALL ON TABLE x TO eve;",
    "CREATE EVENT TRIGGER x ON ddl_command_end EXECUTE FUNCTION public.x();",
    "CREATE TRIGGER x AFTER INSERT ON public.y FOR EACH ROW EXECUTE FUNCTION pg_catalog.lo_import();",
    "CREATE VIEW public.x AS SELECT 1;",
    "CREATE RULE x AS ON SELECT TO public.y DO INSTEAD SELECT 1;",
    "CREATE FUNCTION public.x() RETURNS trigger LANGUAGE plpython3u AS $$ $$;",
    "CREATE FUNCTION public.x() RETURNS trigger LANGUAGE c AS '/tmp/x.so';",
    "CREATE FUNCTION public.x() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN RETURN NULL; END; $$;",
    "CREATE TABLE public.x (y text DEFAULT pg_read_file('/etc/passwd'));",
    "CREATE TABLE public.x (y text DEFAULT pg_catalog.pg_read_file('/etc/passwd'));",
    "CREATE TABLE public.x (y text DEFAULT \"pg_read_file\"('/etc/passwd'));",
    "CREATE TABLE public.x (y text DEFAULT U&\"pg\\005fread_file\"('/etc/passwd'));",
    "CREATE TABLE public.x (y text DEFAULT query_to_xml('SELECT 1', true, true, ''));",
    "CREATE TABLE public.x (y text) AS SELECT 1;",
    "CREATE INDEX x ON public.y USING btree (lo_export(1, '/tmp/x'));",
    "ALTER TABLE ONLY public.x ADD CONSTRAINT y CHECK ((dblink('x', 'y') IS NULL));",
    "ALTER TABLE public.x OWNER TO eve;",
    "CREATE TABLE public.x (y text",
    "CREATE TABLE public.x (y text DEFAULT 'open",
    "COMMENT ON TABLE public.x /*'*/ IS NULL; RESET ROLE; COPY x TO PROGRAM $$id$$; COMMENT ON TABLE x /*'*/ IS 'y';",
    "CREATE INDEX x ON public.y USING btree (z) WHERE /*'*/ pg_sleep(9) IS NULL /*'*/;",
    "CREATE TABLE public.x (y int --\r, z text DEFAULT pg_read_file('/etc/passwd'), a int\n);",
    "COPY public.x (y) --\r TO PROGRAM 'id'; COPY public.x (y)\n FROM stdin;",
    "CREATE TABLE public.x (y text DEFAULT E'a'\n'\\' '); RESET ROLE; --');",
    "CREATE TABLE public.x (y text DEFAULT E'a' --\n'\\' '); RESET ROLE; --');",
    "CREATE TABLE public.x (y text DEFAULT 'a'\n'b');",
    "COPY pg_authid (rolname) FROM stdin;",
]
BODIES = [
    "COPY public.x TO PROGRAM 'id';",
    "EXECUTE 'COPY x TO PROGRAM ''id''';",
    "RETURN QUERY EXECUTE 'x';",
    "FOR x IN EXECUTE 'x' LOOP END LOOP;",
    "IF true THEN COPY x TO PROGRAM 'id'; END IF;",
    "IF true THEN NULL; ELSE ALTER SYSTEM SET archive_command = 'id'; END IF;",
    "ALTER ROLE x SUPERUSER;",
    "CREATE EXTENSION plpython3u;",
    "DO 'x';",
    "SET ROLE postgres;",
    "PERFORM pg_read_file('/etc/passwd');",
    "PERFORM lo_export(1, 'x');",
    "PERFORM set_config('role', 'x', false);",
    "UPDATE pg_catalog.pg_authid SET rolsuper = true;",
    "UPDATE pg_authid SET rolsuper = true;",
    "SELECT 1 INTO x FROM information_schema.tables;",
    "CASE WHEN true THEN COPY x TO PROGRAM 'id'; END CASE;",
    "<<here>> COPY x TO PROGRAM 'id';",
    "x COPY y TO PROGRAM 'id';",
    "\"declare\" := 1; ALTER SYSTEM SET archive_command = 'id';",
    "PERFORM 1 AS \"declare\"; DO 'x';",
    "NULL; /*'*/ RESET ROLE; /*'*/",
]


@pytest.mark.parametrize("script", [*FOREIGN, *(BODY.format(body) for body in BODIES)])
def test_what_no_backup_of_ours_holds_is_refused(script: str) -> None:
    with pytest.raises(ForeignStatement, match="no backup of ours"):
        read(script)


def test_what_is_read_is_as_it_was_written() -> None:
    table = "CREATE TABLE public.x (\n    y text DEFAULT 'a;\n''b'''::text NOT NULL\n)"
    trigger = "CREATE TRIGGER t AFTER INSERT ON public.x FOR EACH ROW EXECUTE FUNCTION public.tell()"
    body = BODY.format("IF (TG_OP = 'DELETE') THEN RETURN OLD; END IF; NEW.y := COALESCE(NEW.y, '');").removesuffix(";")
    script = f"--\n-- Name: x\n--\n\n\\restrict abc\nSET transaction_timeout = 0;\n{table};\n{body};\n{trigger};\n"
    assert [statement.sql for statement in read(script)] == [table, body, trigger]


def test_rows_are_left_to_who_reads_on() -> None:
    lines = iter([b"COPY public.x (y) FROM stdin;\n", b"\\! id\n", b"\\.\n", b"ALTER SYSTEM RESET ALL;\n"])
    statements = read_statements(lines)
    assert next(statements) == Statement("COPY public.x (y) FROM stdin", rows=True)
    assert [next(lines), next(lines)] == [b"\\! id\n", b"\\.\n"]
    with pytest.raises(ForeignStatement):
        next(statements)


def lines_of(state: bytes) -> Iterator[bytes]:
    yield from state.splitlines(keepends=True)


@pytest.mark.parametrize("file", sorted(STATES.glob("*.sql.gz")), ids=lambda file: file.name)
def test_what_earlier_versions_wrote_is_read(file: object) -> None:
    lines = lines_of(gzip.decompress(file.read_bytes()))  # type: ignore[attr-defined]
    tables = 0
    for statement in read_statements(lines):
        if statement.rows:
            tables += 1
            assert any(line == b"\\.\n" for line in lines)
    assert tables > 50


@given(st.text(alphabet="abpg_(); '\"$\\-U&COPY\n", max_size=60))
def test_nothing_but_a_refusal_comes_of_noise(text: str) -> None:
    try:
        statements = read(text)
    except ForeignStatement:
        return
    assert statements == []
