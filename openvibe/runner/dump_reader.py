"""The SQL of a backup, statement by statement, as far as a backup of ours holds such statements. Pure.

A backup is a file that came from somewhere. Of its SQL only what `pg_dump` writes of our tables is carried out: tables,
sequences, indexes, constraints, comments, triggers and their functions, and rows. No function is called but those that
stand in FUNCTIONS, nothing of the server's own catalogs is named, and a function's body holds statements on rows alone.
Whoever adds a migration that needs more adds it here: a test restores what this version backs up."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

MAX_STATEMENT_BYTES = 1024 * 1024
"""The most bytes of one statement; the longest of ours, a table, has some 6,000."""


class ForeignStatement(ValueError):
    """A statement that no backup of ours holds. The message quotes the beginning of it."""

    def __init__(self, text: str) -> None:
        super().__init__(f"it holds what no backup of ours does: {' '.join(text.split())[:100]!r}")


@dataclass(frozen=True)
class Statement:
    """SQL without its semicolon, and `rows`: whether lines of COPY follow it."""

    sql: str
    rows: bool = False


NAME = r'(?:public\.)?(?:"\w+"|\w+)'
NAMES = rf"\({NAME}(?:, {NAME})*\)"
OMITTED_STATEMENTS = (
    r"SET (?:statement_timeout|lock_timeout|idle_in_transaction_session_timeout|transaction_timeout) = 0",
    r"SET (?:client_encoding|standard_conforming_strings|check_function_bodies|xmloption|row_security) = (?:''|\w+)",
    r"SET (?:client_min_messages|default_tablespace|default_table_access_method) = (?:''|\w+)",
    r"CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public",
    r"COMMENT ON EXTENSION vector IS ''",
    rf"ALTER TABLE (?:ONLY )?{NAME} ALTER COLUMN {NAME} SET \([a-z_]+=[\d.-]+\)",
)
"""What `pg_dump` says of its session, which the restore sets by itself, and of how a server keeps a column: one version
knows settings that another does not. And the extension, which is there before."""

SEARCH_PATH = "SELECT pg_catalog.set_config('search_path', '', false)"
STATEMENTS = (
    rf"CREATE (?:UNLOGGED )?TABLE {NAME} \(.*\)",
    rf"CREATE TABLE {NAME} \(.*\) WITH \([a-z_]+='?\w+'?\)",
    rf"ALTER TABLE (?:ONLY )?{NAME} ADD CONSTRAINT {NAME} (?:PRIMARY KEY|UNIQUE|FOREIGN KEY|CHECK) .*",
    rf"ALTER TABLE (?:ONLY )?{NAME} ALTER COLUMN {NAME} ADD GENERATED (?:BY DEFAULT|ALWAYS) AS IDENTITY \([^()]*\)",
    rf"ALTER TABLE (?:ONLY )?{NAME} ALTER COLUMN {NAME} SET (?:STATISTICS \d+|STORAGE \w+|DEFAULT .*)",
    rf"CREATE SEQUENCE {NAME}(?: [A-Z]+| \d+)*",
    rf"ALTER SEQUENCE {NAME} OWNED BY {NAME}\.{NAME}",
    r"SELECT pg_catalog\.setval\('', \d+, (?:true|false)\)",
    rf"CREATE (?:UNIQUE )?INDEX {NAME} ON {NAME} USING (?:btree|gin|gist|hash|brin|hnsw) \(.*",
    rf"CREATE (?:CONSTRAINT )?TRIGGER {NAME} .* ON {NAME} .*EXECUTE FUNCTION public\.\w+\(\)",
    rf"COMMENT ON (?:TABLE|COLUMN|SEQUENCE|INDEX|FUNCTION|TRIGGER|CONSTRAINT) {NAME}.* IS ''",
)
COPY = rf"COPY {NAME} {NAMES} FROM stdin"
FUNCTION = rf"CREATE FUNCTION {NAME}\((?:\w+ \w+)?\) RETURNS (?:trigger|boolean) LANGUAGE plpgsql AS \$\$"

_FUNCTIONS_WORDS = """
any array_agg array_length binary_quantize coalesce count current_setting encode exists greatest hashtextextended least
left length lower max md5 min nextval now nullif octet_length pg_advisory_xact_lock pg_notify regexp_replace right
setval setweight sha256 statement_timestamp sum to_tsvector unnest upper _pgtrigger_should_ignore
"""
FUNCTIONS = frozenset(_FUNCTIONS_WORDS.split())
"""What may be called, by an index, a condition or a function."""

_BEFORE_PARENTHESIS_WORDS = """
and as between btree by check conflict distinct from gin halfvec hnsw identity if in include key not numeric on
or over returning select set then unique using values varying when where with
"""
BEFORE_PARENTHESIS = frozenset(_BEFORE_PARENTHESIS_WORDS.split())
"""Words that stand before a parenthesis and call nothing."""

CATALOG_WORDS = frozenset(("pg_catalog", "pg_notify", "pg_advisory_xact_lock"))
_BODY_STARTS_WORDS = """
begin declare delete elsif else end exception for if insert loop null perform raise return select update when
while with
"""
BODY_STARTS = frozenset(_BODY_STARTS_WORDS.split())
"""Words that a statement in a function begins with; else it is an assignment."""
_BODY_NEVER_WORDS = """
execute copy case call load
"""
BODY_NEVER = frozenset(_BODY_NEVER_WORDS.split())

TOKEN = re.compile(
    r"""(?P<space>[ \t\n\r\f\v]+|--[^\n\r]*)
    |(?P<string>[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*')
    |(?P<body>\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)
    |(?P<quoted>"[^"]+")
    |(?P<number>\d[\d.]*)
    |(?P<word>[^\W\d][\w$]*)
    |(?P<sign>[-+*/<>=~!@#%^&|?:.,;()\[\]])""",
    re.VERBOSE | re.DOTALL,
)
"""A token as PostgreSQL reads it: what is a string or a comment here and a statement there would not be looked at.
Where the two could differ, the text is refused: comments in `/*`, and strings that go on in another one."""


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str

    @property
    def word(self) -> str:
        """The name in lower case, without quotes; empty for what is no name."""
        return self.text.strip('"').lower() if self.kind in ("word", "quoted") else ""


def read_statements(lines: Iterable[bytes]) -> Iterator[Statement]:
    """The statements to carry out, in their order. After one with `rows` whoever reads them takes those from `lines`,
    up to and with the line that ends them. Raises ForeignStatement at the first that is none of ours."""
    text = ""
    for line in lines:
        if not text and _says_nothing(line):
            continue
        text += _decoded(line)
        if len(text) > MAX_STATEMENT_BYTES:
            raise ForeignStatement(text)
        if text.rstrip().endswith(";") and (tokens := _tokens(text)) and tokens[-1].text == ";":
            statement, text = _checked_statement(text.rstrip().removesuffix(";"), tokens[:-1]), ""
            if statement:
                yield statement
    if text:
        raise ForeignStatement(text)


def _says_nothing(line: bytes) -> bool:
    """Empty lines, comments, and what newer versions of `pg_dump` tell `psql` about the rest."""
    return not line.strip() or re.fullmatch(rb"--[^\r]*|\\(?:un)?restrict \w+", line.rstrip(b"\n")) is not None


def _decoded(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        raise ForeignStatement(repr(line)) from None


def _tokens(text: str) -> list[_Token]:
    """The tokens without spaces and comments at both ends; empty where a quotation is still open: more lines belong to
    it."""
    tokens, at = [], 0
    text = text.strip()
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None:
            if text[at] in "'\"$":
                return []
            raise ForeignStatement(text)
        tokens.append(_Token("body" if match["body"] else str(match.lastgroup), match[0]))
        at = match.end()
    return tokens


def _checked_statement(sql: str, tokens: list[_Token]) -> Statement | None:
    """The statement, or None where there is nothing to carry out. Raises ForeignStatement."""
    shape = "".join(_SHAPES.get(token.kind, token.text) for token in tokens)
    tokens = [token for token in tokens if token.kind != "space"]
    if sql == SEARCH_PATH or any(re.fullmatch(pattern, shape) for pattern in OMITTED_STATEMENTS):
        return None
    if re.fullmatch(COPY, sql):
        _check_names(tokens)
        return Statement(sql, rows=True)
    is_function = re.fullmatch(FUNCTION, shape) is not None
    if not is_function and not any(re.fullmatch(pattern, shape) for pattern in STATEMENTS):
        raise ForeignStatement(sql)
    if any(token.text == ";" or (token.kind == "body" and not is_function) for token in tokens):
        raise ForeignStatement(sql)
    _check_calls(tokens)
    if is_function:
        _check_body(tokens[-1].text)
    return Statement(sql)


_SHAPES = {"space": " ", "string": "''", "body": "$$"}
"""What stands for a token when the whole is compared with what is allowed."""


def _check_names(tokens: list[_Token]) -> None:
    """Nothing of the server's catalogs is named, and nothing is written in a way that it reads otherwise."""
    for at, token in enumerate(tokens):
        pair = "".join(each.text for each in tokens[at : at + 2])
        is_catalog = token.word.startswith(("pg_", "information_schema", "lo_")) and token.word not in CATALOG_WORDS
        is_continued = at > 0 and token.kind == tokens[at - 1].kind == "string"
        if is_catalog or is_continued or pair == "/*" or (token.text == "&" and tokens[at - 1].word == "u"):
            raise _foreign(tokens, at)


def _check_calls(tokens: list[_Token]) -> None:
    """Nothing is called but FUNCTIONS. A table's name stands before a parenthesis where its columns follow."""
    _check_names(tokens)
    for at, token in enumerate(tokens):
        if token.word and at + 1 < len(tokens) and tokens[at + 1].text == "(" and not _calls_nothing(tokens, at):
            raise _foreign(tokens, at)


def _foreign(tokens: list[_Token], at: int) -> ForeignStatement:
    return ForeignStatement(" ".join(token.text for token in tokens[at : at + 12]))


def _calls_nothing(tokens: list[_Token], at: int) -> bool:
    """Whether the name before a parenthesis is a word of SQL, a function that may be called, or a table."""
    name = tokens[at]
    if name.word in FUNCTIONS or (name.kind == "word" and name.word in BEFORE_PARENTHESIS):
        return True
    before = at - 1
    if before >= 1 and tokens[before].text == ".":
        before -= 2  # the schema's name
    return before >= 0 and tokens[before].word in _BEFORE_TABLE


__BEFORE_TABLE_WORDS = """
table references into with recursive function
"""
_BEFORE_TABLE = frozenset(__BEFORE_TABLE_WORDS.split())


def _check_body(quoted: str) -> None:
    """Checks the body of a function in PL/pgSQL: nothing but statements on rows, conditions, and what it returns or
    raises."""
    body = re.sub(r"^\$\w*\$|\$\w*\$$", "", quoted)
    tokens = [token for token in _tokens(body) if token.kind != "space"]
    if not tokens or any(token.kind == "body" for token in tokens):
        raise ForeignStatement(body)
    _check_calls(tokens)
    is_declaring, may_start = False, True
    for at, token in enumerate(tokens):
        if token.kind == "word" and token.word in BODY_NEVER:
            raise _foreign(tokens, at)
        if token.word == "begin":
            is_declaring = False
        if may_start and not is_declaring and token.text != ";" and not _may_begin(tokens, at):
            raise _foreign(tokens, at)
        if may_start and token.kind == "word" and token.word == "declare":
            is_declaring = True
        may_start = token.text == ";" or (token.kind == "word" and token.word in _BEFORE_STATEMENT)


__BEFORE_STATEMENT_WORDS = """
begin then else loop declare
"""
_BEFORE_STATEMENT = frozenset(__BEFORE_STATEMENT_WORDS.split())


def _may_begin(tokens: list[_Token], at: int) -> bool:
    """Whether a statement of ours in a function begins here: by its word, or as an assignment."""
    if tokens[at].kind == "word" and tokens[at].word in BODY_STARTS:
        return True
    rest = [token.text for token in tokens[at + 1 : at + 5]]
    return bool(tokens[at].word) and (rest[:2] == [":", "="] or (rest[:1] == ["."] and rest[2:4] == [":", "="]))
