"""Plugins that each break one promise, in the way somebody would."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from memory.plugins.base import (
    CompactionProgress,
    CompactionResult,
    ContextEntry,
    MemoryHit,
    MemoryProvider,
    MessagePiece,
    NewMessage,
    Session,
    SessionStats,
    SummaryExpansion,
)
from memory.plugins.lcm.provider import LcmProvider
from memory.plugins.sessions import message_entries, prompt_messages
from memory.plugins.simple import SimpleProvider
from openvibe.chat.models import Message, Thread


class CopiesAtEachBootstrap(SimpleProvider):
    def bootstrap(self, session: Session) -> None:
        first = Message.objects.filter(thread_id=session.thread_id).first()
        if first is not None:
            Message.objects.create(thread_id=first.thread_id, author_id=first.author_id, body=first.body)


class LosesCalls(SimpleProvider):
    def append(self, session: Session, messages: Sequence[NewMessage]) -> list[int]:
        return super().append(session, [replace(one, role="assistant", call_id="") for one in messages])


class StoresOneByOne(SimpleProvider):
    def append(self, session: Session, messages: Sequence[NewMessage]) -> list[int]:
        return [seq for one in messages for seq in super(StoresOneByOne, self).append(session, [one])]


class StoresTwiceOnRetry(SimpleProvider):
    def append(self, session: Session, messages: Sequence[NewMessage]) -> list[int]:
        return super().append(session, [replace(one, external_id="") for one in messages])


class MergesEqualMessages(SimpleProvider):
    def append(self, session: Session, messages: Sequence[NewMessage]) -> list[int]:
        return super().append(session, [replace(one, external_id=one.external_id or one.text) for one in messages])


class StopsAtFifty(SimpleProvider):
    def assemble(self, session: Session, budget: int, fresh_tail: int) -> list[ContextEntry]:
        return super().assemble(session, budget, fresh_tail)[-50:]


class HasNoTailWhenThereAreFewer(SimpleProvider):
    def assemble(self, session: Session, budget: int, fresh_tail: int) -> list[ContextEntry]:
        entries = super().assemble(session, budget, fresh_tail)
        return entries if len(entries) >= fresh_tail else entries[: max(0, len(entries) - fresh_tail)]


class CutsTheRequestToo(SimpleProvider):
    def assemble(self, session: Session, budget: int, fresh_tail: int) -> list[ContextEntry]:
        return super().assemble(session, budget, 0)


class SpendsTooMuch(SimpleProvider):
    def assemble(self, session: Session, budget: int, fresh_tail: int) -> list[ContextEntry]:
        return super().assemble(session, 2 * budget, fresh_tail)


class NewestFirst(SimpleProvider):
    def assemble(self, session: Session, budget: int, fresh_tail: int) -> list[ContextEntry]:
        return super().assemble(session, budget, fresh_tail)[::-1]


class CountsCharacters(SimpleProvider):
    def assemble(self, session: Session, budget: int, fresh_tail: int) -> list[ContextEntry]:
        entries = super().assemble(session, budget, fresh_tail)
        return [entry._replace(tokens=len(entry.text) // 4) for entry in entries]


class SplitsPairs(SimpleProvider):
    def assemble(self, session: Session, budget: int, fresh_tail: int) -> list[ContextEntry]:
        return message_entries(prompt_messages(session).order_by("seq"))[-max(fresh_tail, budget // 60) :]


class LocksToRead(SimpleProvider):
    def assemble(self, session: Session, budget: int, fresh_tail: int) -> list[ContextEntry]:
        Thread.objects.select_for_update().filter(pk=session.thread_id).first()
        return super().assemble(session, budget, fresh_tail)


class ReadsTheFuture(SimpleProvider):
    def assemble(self, session: Session, budget: int, fresh_tail: int) -> list[ContextEntry]:
        return super().assemble(replace(session, before=None), budget, fresh_tail)


class ShowsEverything(SimpleProvider):
    def assemble(self, session: Session, budget: int, fresh_tail: int) -> list[ContextEntry]:
        return message_entries(Message.objects.filter(thread_id=session.thread_id).order_by("seq"))


class ForgetsLevels(SimpleProvider):
    def assemble(self, session: Session, budget: int, fresh_tail: int) -> list[ContextEntry]:
        everything = replace(session, access=replace(session.access, reads_dive_results=True))
        return super().assemble(everything, budget, fresh_tail)


class KeepsCopies(SimpleProvider):
    def bootstrap(self, session: Session) -> None:
        self.copies = {entry.ordinal: entry for entry in super().assemble(session, 10**6, 20)}

    def assemble(self, session: Session, budget: int, fresh_tail: int) -> list[ContextEntry]:
        return list(self.copies.values())


class KnowsOnlyWhatItTookIn(SimpleProvider):
    seen: ClassVar[dict[int, int]] = {}

    def bootstrap(self, session: Session) -> None:
        self.seen[session.thread_id] = Message.objects.filter(thread_id=session.thread_id).count()

    def assemble(self, session: Session, budget: int, fresh_tail: int) -> list[ContextEntry]:
        entries = super().assemble(session, budget, fresh_tail)
        return [entry for entry in entries if entry.ordinal <= self.seen.get(session.thread_id, 10**6)]


class TrustsIds(SimpleProvider):
    def assemble(self, session: Session, budget: int, fresh_tail: int) -> list[ContextEntry]:
        home = Thread.objects.get(pk=session.thread_id).workspace_id
        return super().assemble(replace(session, access=replace(session.access, workspace_id=home)), budget, fresh_tail)


class CountsThePage(SimpleProvider):
    def stats(self, session: Session) -> SessionStats:
        return replace(super().stats(session), messages=20)


class RemembersItsCalls(SimpleProvider):
    calls: ClassVar[list[int]] = []

    def assemble(self, session: Session, budget: int, fresh_tail: int) -> list[ContextEntry]:
        self.calls.append(budget)
        return super().assemble(session, budget // len(self.calls), fresh_tail)


class IsAlwaysDue(LcmProvider):
    def needs_compaction(self, session: Session, budget: int) -> bool:
        return self.stats(session).tokens > 0.75


class ShortensNothing(LcmProvider):
    def compact(
        self,
        session: Session,
        budget: int,
        *,
        full: bool = False,
        progress: CompactionProgress | None = None,
        focus: str = "",
    ) -> CompactionResult:
        tokens = self.stats(session).tokens
        return CompactionResult(tokens, tokens, (1,), 1)


class DropsWhatItSummarised(LcmProvider):
    def assemble(self, session: Session, budget: int, fresh_tail: int = 20) -> list[ContextEntry]:
        return [entry for entry in super().assemble(session, budget, fresh_tail) if entry.summary_id is None]


class SearchesWithWildcards(LcmProvider):
    def search(self, session: Session, query: str, limit: int = 20) -> list[MemoryHit]:
        pattern = query.replace("%", ".*").replace("_", ".")
        hits = Message.objects.filter(thread_id=session.thread_id, body__regex=pattern)
        return [MemoryHit("message", hit.pk, hit.seq, "", "", hit.body[:500]) for hit in hits.order_by("seq")]


class SearchesLetters(LcmProvider):
    def search(self, session: Session, query: str, limit: int = 20) -> list[MemoryHit]:
        hits = Message.objects.filter(thread_id=session.thread_id, body__icontains=query.strip('"'))
        return [MemoryHit("message", hit.pk, hit.seq, "", "", hit.body[:500]) for hit in hits.order_by("seq")]


class SearchesEverything(LcmProvider):
    def search_everywhere(self, session: Session, query: str, limit: int = 20) -> list[MemoryHit]:
        hits = Message.objects.filter(body__icontains=query)
        return [MemoryHit("message", hit.pk, hit.seq, "", "", hit.body[:500], hit.thread_id) for hit in hits]


class ReadsTheBeginning(LcmProvider):
    def read_message(
        self, session: Session, number: int, *, offset: int = 0, thread_id: int | None = None
    ) -> MessagePiece:
        return super().read_message(session, number, thread_id=thread_id)


class ExpandsHalfway(LcmProvider):
    def expand(self, session: Session, summary_id: int, cursor: int | None = None) -> SummaryExpansion:
        return SummaryExpansion(super().expand(session, summary_id, cursor).entries[:1], None)


class NotesForAll(SimpleProvider):
    notes: ClassVar[dict[int, str]] = {}

    def get_profile(self, session: Session) -> str:
        return self.notes.get(session.access.participant_id, "")

    def set_profile(self, session: Session, text: str) -> str:
        self.notes[session.access.participant_id] = text
        return text


class MergesInfo(SimpleProvider):
    def save_info(self, session: Session, info: Mapping[str, Any]) -> None:
        super().save_info(session, {**self.load_info(session), **info})


class RepeatsAtPages(SimpleProvider):
    def load_history(self, session: Session, *, after: int = 0, limit: int = 200) -> list[ContextEntry]:
        return super().load_history(session, after=after - 1, limit=limit)


class ReviewsForEver(LcmProvider):
    def mark_reviewed(self, session: Session, upto: int) -> None:
        """Forgets it."""


BREAKS: dict[str, type[MemoryProvider]] = {
    "bootstrap_may_be_repeated": CopiesAtEachBootstrap,
    "append_stores_what_was_said": LosesCalls,
    "append_is_all_or_nothing": StoresOneByOne,
    "append_knows_what_was_said_before": StoresTwiceOnRetry,
    "append_keeps_equal_messages_apart": MergesEqualMessages,
    "all_that_fits_is_recalled": StopsAtFifty,
    "the_tail_is_always_recalled": HasNoTailWhenThereAreFewer,
    "the_newest_request_is_always_recalled": CutsTheRequestToo,
    "the_budget_is_kept": SpendsTooMuch,
    "entries_stand_in_order_and_once": NewestFirst,
    "words_are_as_they_were_said": CountsCharacters,
    "calls_and_results_stay_together": SplitsPairs,
    "assembling_writes_nothing": LocksToRead,
    "nothing_after_before_is_recalled": ReadsTheFuture,
    "what_may_not_be_shown_is_not_recalled": ShowsEverything,
    "dive_results_are_for_those_who_read_them": ForgetsLevels,
    "changes_show_at_once": KeepsCopies,
    "messages_the_plugin_was_not_told_of_are_recalled": KnowsOnlyWhatItTookIn,
    "other_conversations_stay_out": TrustsIds,
    "stats_are_true": CountsThePage,
    "nothing_is_remembered_between_calls": RemembersItsCalls,
    "compaction_is_due_only_when_it_helps": IsAlwaysDue,
    "compaction_makes_it_smaller": ShortensNothing,
    "compaction_loses_nothing": DropsWhatItSummarised,
    "searching_is_literal_and_bounded": SearchesWithWildcards,
    "searching_knows_phrases_dates_and_people": SearchesLetters,
    "other_threads_are_searched_as_far_as_they_are_seen": SearchesEverything,
    "messages_are_read_piece_by_piece": ReadsTheBeginning,
    "summaries_can_be_opened": ExpandsHalfway,
    "notes_are_kept_per_person": NotesForAll,
    "info_of_sessions_is_kept": MergesInfo,
    "history_is_given_page_by_page": RepeatsAtPages,
    "reviews_take_each_message_once": ReviewsForEver,
}
