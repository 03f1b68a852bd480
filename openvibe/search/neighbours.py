"""What stands next to a hit bears on it. Pure."""

from collections import defaultdict
from collections.abc import Mapping


def smooth(scores: Mapping[int, float], reach: int = 2, decay: float = 0.5) -> dict[int, float]:
    """Let each score spread to the neighbours within `reach` places, times `decay` per place.

    Keys are message numbers (`seq`) within one thread; only keys of `scores` are in the answer, so a
    neighbour that was not asked about is never brought in. Spreading adds up.
    """
    spread: defaultdict[int, float] = defaultdict(float)
    for seq, score in scores.items():
        if score == 0:
            continue
        for place in range(-reach, reach + 1):
            if seq + place in scores:
                spread[seq + place] += score * decay ** abs(place)
    return {seq: spread[seq] for seq in scores}
