"""Rows in PostgreSQL's binary COPY format: half-precision vectors go into a table without becoming text."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

import numpy as np

from openvibe.search.values import Floats

Row = tuple[Sequence[int], int, Sequence[bytes | None]]
"""Bigints, one smallint, then fields that are packed already (None is NULL)."""
_BEGINS = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
_ENDS = b"\xff\xff"
_NOTHING = b"\xff\xff\xff\xff"


def packed(vectors: Floats) -> list[bytes]:
    """Each row of a matrix as pgvector's `halfvec` receives it: its dimension, two zero bytes, big-endian halves."""
    begins = struct.pack(">HH", vectors.shape[1], 0)
    return [begins + row.tobytes() for row in np.ascontiguousarray(vectors, dtype=">f2")]


def copied(rows: Iterable[Row]) -> bytes:
    """A whole COPY of these rows."""
    pieces = [_BEGINS]
    for numbers, small, fields in rows:
        pieces.append(struct.pack(">h", len(numbers) + 1 + len(fields)))
        pieces += [struct.pack(">iq", 8, number) for number in numbers]
        pieces.append(struct.pack(">ih", 2, small))
        pieces += [_NOTHING if field is None else struct.pack(">i", len(field)) + field for field in fields]
    pieces.append(_ENDS)
    return b"".join(pieces)
