"""Calibration of cosine similarity: how near an embedder puts texts that have nothing to do with a query.

Embedders differ: with one unrelated texts have a cosine near 0, with another near 0.7, and texts of one language are
always somewhat alike. So the query is compared with sentences that nobody means."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from openvibe.engines.search.embedders import EmbedderUnavailable
from openvibe.engines.search.significance import ChanceLevel
from openvibe.engines.search.spaces import QueryVector, embed_texts, serving_space
from openvibe.engines.search.values import Floats, dot

_SENTENCES = """
The ship left the harbour before sunrise, and the gulls followed it.
My grandmother knitted a scarf for each of us every winter.
The orchestra had to play the second movement again.
There is a waterfall behind the village that only goats can reach.
He broke his arm when he fell off the ladder.
In the desert it is cold at night, although the day was hot.
They were not allowed to feed the elephants.
The queen was painted twice, once with her dog.
Das Schiff verließ den Hafen vor Sonnenaufgang, und die Möwen folgten ihm.
Meine Großmutter strickte jeden Winter für jeden von uns einen Schal.
Das Orchester musste den zweiten Satz noch einmal spielen.
Hinter dem Dorf ist ein Wasserfall, zu dem nur Ziegen kommen.
Er brach sich den Arm, als er von der Leiter fiel.
In der Wüste ist es nachts kalt, obwohl der Tag heiß war.
Sie durften die Elefanten nicht füttern.
Die Königin wurde zweimal gemalt, einmal mit ihrem Hund.
Le bateau a quitté le port avant le lever du soleil, et les mouettes l'ont suivi.
Ma grand-mère tricotait chaque hiver une écharpe pour chacun de nous.
L'orchestre a dû rejouer le deuxième mouvement.
Derrière le village il y a une cascade que seules les chèvres atteignent.
Il s'est cassé le bras quand il est tombé de l'échelle.
Dans le désert il fait froid la nuit, bien que la journée soit chaude.
Ils n'avaient pas le droit de nourrir les éléphants.
La reine a été peinte deux fois, une fois avec son chien.
El barco salió del puerto antes del amanecer y las gaviotas lo siguieron.
Mi abuela tejía cada invierno una bufanda para cada uno de nosotros.
La orquesta tuvo que tocar otra vez el segundo movimiento.
Detrás del pueblo hay una cascada a la que solo llegan las cabras.
Se rompió el brazo cuando se cayó de la escalera.
En el desierto hace frío por la noche, aunque el día fue caluroso.
No les dejaban dar de comer a los elefantes.
La reina fue pintada dos veces, una con su perro.
"""
_SENTENCES_PER_LANGUAGE = 8


class _Calibration(NamedTuple):
    """The vectors of the sentences, and how much cosines of two of one language scatter."""

    vectors: Floats
    deviation: float


_calibrations: dict[tuple[str, int | None, str, str, int], _Calibration] = {}
"""Calibrations of each embedder, once: workspaces share it."""


def chance_level(workspace_id: int, query_vector: QueryVector) -> ChanceLevel | None:
    """How near unrelated texts come to a query.

    None when the embedder cannot say. A network embedder is asked once a process.
    """
    space = serving_space(workspace_id)
    if space is None or space.pk != query_vector.space_id:
        return None
    key = (*space.embedder, query_vector.dimension)
    if key not in _calibrations:
        try:
            vectors = embed_texts(space, _SENTENCES.strip().splitlines(), for_query=True)
        except EmbedderUnavailable:
            return None
        if vectors.shape[1] != len(query_vector.vector):
            return None
        _calibrations[key] = _calibrate(np.ascontiguousarray(vectors))
    vectors, deviation = _calibrations[key]
    cosines = dot(vectors, query_vector.vector).reshape(-1, _SENTENCES_PER_LANGUAGE)
    return ChanceLevel(float(cosines.mean(axis=1).max()), deviation)


def _calibrate(vectors: Floats) -> _Calibration:
    """The deviation is that of all pairs of sentences of one language, the languages pooled."""
    pairs = np.triu_indices(_SENTENCES_PER_LANGUAGE, 1)
    languages = vectors.reshape(-1, _SENTENCES_PER_LANGUAGE, vectors.shape[1])
    variances = [dot(sentences, sentences.T)[pairs].var() for sentences in languages]
    return _Calibration(vectors, max(float(np.sqrt(np.mean(variances))), 1e-6))
