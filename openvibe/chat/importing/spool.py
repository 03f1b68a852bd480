"""Lines of conversations on disk, so that any number of them comes out in the order things were said, in little memory.

A private database file of SQLite, which the system deletes with the process."""

import json
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Self

from openvibe.chat.importing.values import ImportedLine, RecordRefused

_EPOCH = datetime.fromtimestamp(0, UTC)
_MICROSECOND = timedelta(microseconds=1)
_SCHEMA = """
PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -4000; PRAGMA temp_store = FILE;
CREATE TABLE line (n INTEGER PRIMARY KEY, thread TEXT, key TEXT, at INTEGER, payload TEXT);
CREATE UNIQUE INDEX line_key ON line (key);
CREATE TABLE link (reply TEXT PRIMARY KEY, thread TEXT) WITHOUT ROWID;
"""


class Spool:
    """Lines with the key of their thread ("": none), a key of their own, and their time."""

    def __enter__(self) -> Self:
        self._database = sqlite3.connect("", isolation_level=None)
        self._database.executescript(_SCHEMA)
        self._database.execute("BEGIN")
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._database.close()

    def add(self, thread: str, key: str, line: ImportedLine, *, keep_order: bool = False) -> None:
        """Raises RecordRefused when there is a line of that key. `keep_order`: it stands where it was added."""
        at = (line.at - _EPOCH) // _MICROSECOND if line.at and not keep_order else None
        row = (thread, key, at, json.dumps(_pack(line)))
        try:
            self._database.execute("INSERT INTO line (thread, key, at, payload) VALUES (?, ?, ?, ?)", row)
        except sqlite3.IntegrityError:
            raise RecordRefused("it stands there already, with the same time and person") from None

    def link(self, reply: str, thread: str) -> None:
        """Says that lines whose key begins with `reply` belong to `thread`, where they have none of their own."""
        self._database.execute("INSERT OR REPLACE INTO link VALUES (?, ?)", (reply, thread))

    def join_threads(self) -> None:
        """Puts loose lines into the threads they begin, or that name them. Keys are `time/person`."""
        run = self._database.execute
        run("CREATE INDEX line_thread ON line (thread, at, n)")
        run(
            "UPDATE line SET thread = l.thread FROM link l"
            " WHERE line.thread = '' AND l.reply = substr(line.key, 1, instr(line.key, '/') - 1)"
        )
        run(
            "UPDATE line SET thread = substr(key, 1, instr(key, '/') - 1) WHERE thread = ''"
            " AND substr(key, 1, instr(key, '/') - 1) IN (SELECT thread FROM line WHERE thread <> '')"
        )

    def cut_into_days(self) -> None:
        """Each day (UTC) of loose lines is a thread: `day 2026-03-01`."""
        self._database.execute(
            "UPDATE line SET thread = 'day ' || date(at / 1000000, 'unixepoch') WHERE thread = '' AND at IS NOT NULL"
        )

    def threads(self) -> Iterator[tuple[str, ImportedLine]]:
        """Keys of threads with their first line, those that began first, first."""
        rows = self._database.execute("SELECT thread FROM line GROUP BY thread ORDER BY min(at), min(n)")
        for (thread,) in rows:
            yield thread, next(self.lines(thread))

    def lines(self, thread: str) -> Iterator[ImportedLine]:
        """Lines of a thread, in the order things were said."""
        rows = self._database.execute("SELECT payload FROM line WHERE thread = ? ORDER BY at, n", (thread,))
        return (_unpack(json.loads(payload)) for (payload,) in rows)

    def is_empty(self) -> bool:
        return self._database.execute("SELECT 1 FROM line LIMIT 1").fetchone() is None


def _pack(line: ImportedLine) -> list[Any]:
    at = line.at.isoformat() if line.at else None
    return [line.author, line.text, at, line.is_assistant, line.files, line.author_key, line.place, line.reactions]


def _unpack(packed: list[Any]) -> ImportedLine:
    author, text, at, is_assistant, files, author_key, place, reactions = packed
    return ImportedLine(
        author,
        text,
        datetime.fromisoformat(at) if at else None,
        is_assistant,
        tuple(files),
        author_key,
        place,
        tuple((emoji, key, name) for emoji, key, name in reactions),
    )
