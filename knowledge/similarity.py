"""Entries like a text, such as one that is being written: by telling words shared, or by meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from django.db import connection

from knowledge.models import Entry, EntryVector
from knowledge.search import EntryHit, find_nearest_entries
from openvibe.engines.search.calibration import chance_level
from openvibe.engines.search.query import embed_question
from openvibe.engines.search.significance import min_z_score
from openvibe.engines.search.values import dot
from openvibe.engines.text.words import cjk_bigrams
from openvibe.workspaces.access import Access

OVERSAMPLING = 3
"""The factor by which more entries than wanted are looked at more closely, since some of them turn out to be unlike."""


def find_similar_entries(access: Access, text: str, *, most: int = 5, exclude_id: int | None = None) -> list[EntryHit]:
    """The entries that hold and are like a text, the most similar first; none where all are about something else.

    `exclude_id` is the id of one left out.
    """
    nearest = find_nearest_entries(access, text, most=OVERSAMPLING * most)
    others = {hit.entry.pk: f"{hit.entry.topic}\n{hit.entry.content}" for hit in nearest if hit.entry.pk != exclude_id}
    if not others:
        return []
    similar = similar_ids(access.workspace_id, text, others)
    return [hit for hit in nearest if hit.entry.pk in similar][:most]


MIN_SHARED_WORDS = 0.2
"""A fifth of the telling words of the shorter one, by their letters, among FEW_ENTRIES; a larger share among more."""

FEW_ENTRIES = 10

WORDS_WEIGHT = 6
"""Standard deviations of nearness in meaning that sharing all words of the shorter one is worth."""

MAX_STEMMED_CHARACTERS = 2_000
"""Characters of each text whose words are compared."""

_LANGUAGE_NAMES = """
english german french spanish italian portuguese dutch danish norwegian swedish finnish hungarian russian turkish
"""
_LANGUAGES = _LANGUAGE_NAMES.split()
_STEMS_SQL = """SELECT tsvector_to_array(to_tsvector(language::regconfig, said))
FROM unnest(%s::text[]) WITH ORDINALITY t (said, place), unnest(%s::text[]) WITH ORDINALITY l (language, rank)
ORDER BY place, rank"""


def similar_ids(workspace_id: int, text: str, others: Mapping[int, str]) -> set[int]:
    """The ids of those entries (`{id: what it says}`), the nearest of the workspace, that are about what the text is
    about.

    They share telling words with it, or are near in meaning, or some of both: more than the likest of as many unrelated
    entries would. Without vectors words decide; what says nothing is like nothing.
    """
    stems_by_language = _stems([text], _LANGUAGES)
    if not any(stems_by_language):
        return set()
    # its own language leaves out the most, since it knows what tells nothing; there a lone word may tell nothing
    own_stems = min(stems_by_language, key=len)
    if not own_stems and len(text.split()) > 1:
        return set()
    language = _LANGUAGES[stems_by_language.index(own_stems)]
    shares = _shared_words(own_stems, language, others)
    needed = min_z_score(Entry.objects.filter(workspace_id=workspace_id).count())
    min_share = MIN_SHARED_WORDS * needed / min_z_score(FEW_ENTRIES)
    z_scores = _z_scores(workspace_id, text, others)
    return {
        pk
        for pk, share in shares.items()
        if (z_scores[pk] + WORDS_WEIGHT * share > needed if pk in z_scores else share >= min_share)
    }


def _shared_words(words: frozenset[str], language: str, others: Mapping[int, str]) -> dict[int, float]:
    """The share of the telling words of the shorter one, by their letters, with each of the others."""
    stems_by_id = zip(others, _stems(list(others.values()), [language]), strict=True)
    return {pk: _letters(words & stems) / max(min(_letters(words), _letters(stems)), 1) for pk, stems in stems_by_id}


def _letters(words: frozenset[str]) -> int:
    """A longer word is the rarer one as a rule."""
    return sum(map(len, words))


def _z_scores(workspace_id: int, text: str, others: Mapping[int, str]) -> dict[int, float]:
    """The number of standard deviations by which those that have a vector are nearer to the text than unrelated
    ones."""
    embedding = embed_question(workspace_id, text)
    chance = chance_level(workspace_id, embedding) if embedding else None
    if embedding is None or chance is None:
        return {}
    rows = EntryVector.objects.filter(
        space_id=embedding.space_id, dimension=embedding.dimension, entry_id__in=others
    ).values_list("entry_id", "own")
    return {pk: float(chance.z_scores(dot(np.asarray(own, np.float32), embedding.vector))) for pk, own in rows}


def _stems(texts: Sequence[str], languages: Sequence[str]) -> list[frozenset[str]]:
    """The stems of each text: in each language its words as that language stems them, without numbers and stop
    words."""
    with connection.cursor() as cursor:
        cursor.execute(
            _STEMS_SQL,
            [[cjk_bigrams(text[:MAX_STEMMED_CHARACTERS].replace("\x00", " ")) for text in texts], list(languages)],
        )
        return [frozenset(word for word in row[0] if not word.isdecimal()) for row in cursor]
