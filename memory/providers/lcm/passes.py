"""The passes of one compaction: which group is folded next, and what that saves.

Each pass reads, asks the model outside any transaction, and then writes under locks if nothing changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from django.db.models import F, Max, Sum

from memory.providers.base import ENVELOPE, FRESH_TAIL, LONGEST, Compacted, Progress
from memory.providers.budgets import GOAL
from memory.providers.lcm import folding
from memory.providers.lcm.groups import (
    Place,
    condensed_groups,
    leaf_groups,
    newest_request,
    tail_start,
    tail_tokens,
)
from memory.providers.lcm.models import Item
from memory.providers.lcm.summarising import cost, summarise
from memory.providers.pairs import PAIR_REACH
from openvibe.llm.protocol import ModelClient

ROUNDS = 10
"""Of a full compaction; leaves of an incremental one."""

LEAF_SHARE, CONDENSED_SHARE = 3, 2
"""A summary is to take this part of its source: a third, a half."""

SUMMARIES_SHARE, STANDING, SHORTEST_LIMIT = 6, 10, 64
"""All summaries together are to fit into this part of the budget, about STANDING of them. Only when another would not
fit are the newest of equal depth condensed, all of them at once: what changes rarely is read anew rarely."""

ALONE, AMONG_OTHERS = 2, 6
"""Of the room that others leave, a summary takes this part: while there is room for long ones, and afterwards."""

MEASURED, EVERY = 20_000, 2**40
"""Items whose size is told before and after: of an incremental compaction, of a full one."""

TAIL_WINDOW, WINDOW = 1_000, 1_200
"""Items read to find the tail, and messages read to find a group."""

SUMMARIES, ALL_SUMMARIES = 1_000, 100_000
"""Summaries among the items that an incremental and a full compaction look at."""


def summary_limit(conversation_id: int, budget: int) -> int:
    """Tokens that the next leaf may take: half of the room that is left, until something is condensed; then a
    STANDING-th of all the room. An entry of more than LONGEST would not be shown whole."""
    standing = Item.objects.filter(conversation=conversation_id, summary__isnull=False)
    found = standing.aggregate(
        deepest=Max("summary__depth"), tokens=Sum(F("summary__token_count") + ENVELOPE, default=0)
    )
    if found["deepest"]:
        return _within(budget, 0)
    return _within(budget, (budget // SUMMARIES_SHARE - found["tokens"]) // ALONE)


def _within(budget: int, wanted: int) -> int:
    return min(LONGEST, max(SHORTEST_LIMIT, budget // SUMMARIES_SHARE // STANDING, wanted))


SPENT = (
    "The workspace's token budget for today is used up, so summaries were cut from the messages without asking a model."
)


class Outcome(Enum):
    """What became of one group: NOTHING where no summary would be shorter, CHANGED where its messages kept changing."""

    CREATED = "created"
    NOTHING = "nothing"
    CHANGED = "changed"


@dataclass
class Work:
    """One compaction of one conversation."""

    conversation_id: int
    budget: int
    config: Mapping[str, Any]
    client: ModelClient | None
    chunk: int
    progress: Progress | None = None
    created: list[int] = field(default_factory=list)
    saved: int = 0
    folded: int = 0
    to_fold: int = 0
    is_full: bool = False
    is_spent: bool = False

    def run(self, full: bool) -> Compacted:
        self.is_full = full
        before = folding.total(self.conversation_id, EVERY if full else MEASURED)
        if self.progress is not None:
            self.to_fold = self._messages_to_fold()
        rounds = self._fully() if full else self._incrementally(before)
        return Compacted(before, before - self.saved, tuple(self.created), rounds, SPENT if self.is_spent else "")

    def _fully(self) -> int:
        for done in range(ROUNDS):
            made = len(self.created)
            for places in self.leaf_places():
                if self._fold(places, is_leaf=True) is Outcome.CHANGED:
                    break
            for places in self.condensed_places(ALL_SUMMARIES):
                self._fold(places, is_leaf=False)
            if len(self.created) == made:
                return done
        return ROUNDS

    def _incrementally(self, before: int) -> int:
        for _ in range(ROUNDS):
            outcomes = (self._fold(places, is_leaf=True) for places in self.leaf_places())
            outcome = next((found for found in outcomes if found is not Outcome.NOTHING), None)
            if outcome is not Outcome.CREATED or before - self.saved <= GOAL * self.budget:
                break
        if not self.created or before - self.saved > GOAL * self.budget or not self._has_room():
            for places in self.condensed_places(SUMMARIES)[-1:]:
                self._fold(places, is_leaf=False)
        return int(bool(self.created))

    def _has_room(self) -> bool:
        """Whether one more summary would fit among those that stand."""
        room = self.budget // SUMMARIES_SHARE
        return self._standing() + room // STANDING <= room

    def _standing(self) -> int:
        return sum(place.cost for place in folding.summary_places(self.conversation_id, ALL_SUMMARIES))

    def _limit(self, places: Sequence[Place], *, is_leaf: bool) -> int:
        """Tokens that the summary of these places may take. In a full compaction leaves do not stand for long."""
        room = self.budget // SUMMARIES_SHARE
        if is_leaf and self.is_full:
            return _within(self.budget, room // ALONE)
        if is_leaf:
            return summary_limit(self.conversation_id, self.budget)
        others = self._standing() - sum(place.cost for place in places)
        return _within(self.budget, (room - others) // (AMONG_OTHERS if others else ALONE))

    def leaf_places(self) -> Iterator[list[Place]]:
        """Messages that a leaf may stand for, oldest first: everything between the newest summary and the tail."""
        newest = folding.newest_places(self.conversation_id, TAIL_WINDOW)
        start = tail_start(newest, FRESH_TAIL, tail_tokens(self.budget, self.config))
        if not newest or start == 0:
            return
        tail = newest[start].ordinal if start < len(newest) else newest[-1].ordinal + 1
        request = newest_request(newest)
        kept = () if request is None else (newest[request].ordinal,)
        after = folding.last_folded(self.conversation_id)
        while places := folding.places_after(self.conversation_id, after, WINDOW):
            end = next((at for at, place in enumerate(places) if place.ordinal >= tail), len(places))
            is_cut = end == len(places) == WINDOW  # what belongs to its last messages may stand after the window
            end -= PAIR_REACH if is_cut else 0
            groups = leaf_groups(places, end, chunk=self.chunk, newest=newest[-1].ordinal, kept=kept)
            yield from (places[first:behind] for first, behind in groups)
            if not is_cut or any(place.is_writing for place in places):
                return
            after = places[(groups[-1][1] if groups else end - PAIR_REACH) - 1].ordinal

    def condensed_places(self, most: int) -> list[list[Place]]:
        """Neighbouring summaries that one of the next depth may stand for, oldest first."""
        places = folding.summary_places(self.conversation_id, most)
        return [places[first:behind] for first, behind in condensed_groups(places, chunk=self.chunk)]

    def _fold(self, places: Sequence[Place], *, is_leaf: bool) -> Outcome:
        """Make one summary. What was changed while it was made is read and tried once again."""
        for _ in range(2):
            if is_leaf:
                plan = folding.plan_leaf(self.conversation_id, places, chunk=self.chunk)
            else:
                plan = folding.plan_condensed(self.conversation_id, places, chunk=self.chunk)
            share = LEAF_SHARE if is_leaf else CONDENSED_SHARE
            limit = self._limit(places, is_leaf=is_leaf)
            made = summarise(plan.source, share=share, limit=limit, earlier=plan.earlier, client=self.client)
            if made is None or cost(made.tokens) >= plan.cost:
                return Outcome.NOTHING
            summary_id = folding.write(plan, made)
            if summary_id is not None:
                self.is_spent = self.is_spent or made.is_spent
                self._count(summary_id, plan.cost - cost(made.tokens), plan.messages)
                return Outcome.CREATED
        return Outcome.CHANGED

    def _count(self, summary_id: int, saved: int, messages: int) -> None:
        self.created.append(summary_id)
        self.saved += saved
        self.folded += messages
        if self.progress is not None and messages:
            self.progress(self.folded, max(self.to_fold, self.folded))

    def _messages_to_fold(self) -> int:
        newest = folding.newest_places(self.conversation_id, TAIL_WINDOW)
        start = tail_start(newest, FRESH_TAIL, tail_tokens(self.budget, self.config))
        if start == len(newest):
            return 0
        after = folding.last_folded(self.conversation_id)
        waiting = Item.objects.filter(conversation=self.conversation_id, ordinal__gt=after)
        return waiting.filter(ordinal__lt=newest[start].ordinal).count()
