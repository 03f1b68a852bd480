"""Whether an entry is about what somebody writes, or only the least unlike: what ranks first need not be similar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from django.db import connection

from knowledge.models import EntryVector
from openvibe.search.asking import asked
from openvibe.search.lexical import in_pairs
from openvibe.search.unrelated import nearest_by_chance

SHARED = 0.2
"""A fifth of the telling words of the shorter one."""

READ = 2_000
"""Characters of each text whose words are compared."""

_LANGUAGES = (
    "english", "german", "french", "spanish", "italian", "portuguese", "dutch", "danish", "norwegian", "swedish",
    "finnish", "hungarian", "russian", "turkish",
)  # fmt: skip
_STEMS = """SELECT tsvector_to_array(to_tsvector(language::regconfig, said))
FROM unnest(%s::text[]) WITH ORDINALITY t (said, place), unnest(%s::text[]) WITH ORDINALITY l (language, rank)
ORDER BY place, rank"""


def alike(workspace_id: int, text: str, others: Mapping[int, str]) -> set[int]:
    """Which of the entries (`{id: what it says}`) share a fifth of the telling words with the text, or are nearer to
    it in meaning than unrelated texts come. Without vectors words decide; what says nothing is like nothing."""
    in_languages = _stems([text], _LANGUAGES)
    if not any(in_languages):
        return set()
    words = min(in_languages, key=len)  # its own language leaves out the most, since it knows what tells nothing
    language = _LANGUAGES[in_languages.index(words)]
    sharing = _sharing(words, language, others) if words else set()  # a lone word may tell nothing in another language
    return sharing | _near_in_meaning(workspace_id, text, others)


def _sharing(words: frozenset[str], language: str, others: Mapping[int, str]) -> set[int]:
    said = zip(others, _stems(list(others.values()), [language]), strict=True)
    return {pk for pk, theirs in said if theirs and len(words & theirs) >= SHARED * min(len(words), len(theirs))}


def _near_in_meaning(workspace_id: int, text: str, others: Mapping[int, str]) -> set[int]:
    question = asked(workspace_id, text).question
    floor = nearest_by_chance(workspace_id, question) if question else None
    if question is None or floor is None:
        return set()
    rows = EntryVector.objects.filter(
        space_id=question.space_id, dimension=question.dimension, entry_id__in=others
    ).values_list("entry_id", "own")
    return {pk for pk, own in rows if float(np.asarray(own, np.float32) @ question.vector) > floor}


def _stems(texts: Sequence[str], languages: Sequence[str]) -> list[frozenset[str]]:
    """For each text, in each language: its words as that language stems them, without numbers and stop words."""
    with connection.cursor() as cursor:
        cursor.execute(_STEMS, [[in_pairs(text[:READ].replace("\x00", " ")) for text in texts], list(languages)])
        return [frozenset(word for word in row[0] if not word.isdecimal()) for row in cursor]
