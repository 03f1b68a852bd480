"""A memory plugin: the newest exchanges that fit. An exchange is what a person said, and all that followed from it."""

from collections.abc import Mapping, Sequence
from typing import Any

from memory.plugins.base import (
    ContextEntry,
    NewMessage,
    PluginSetting,
    Session,
    SessionStats,
    integer_parser,
    pair_tool_calls,
)
from memory.plugins.sessions import message_entries, prompt_messages, store_messages

MAX_MESSAGES = 500
PEOPLE = ("member", "imported")


class Exchanges:
    settings = (PluginSetting("exchanges", "How many at most.", "as many as fit", integer_parser(1, MAX_MESSAGES)),)

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.most = int(config.get("exchanges") or MAX_MESSAGES)

    def bootstrap(self, session: Session) -> None:
        """Nothing to take in: each prompt reads the messages themselves."""

    def append(self, session: Session, messages: Sequence[NewMessage]) -> list[int]:
        return store_messages(session, messages)

    def assemble(self, session: Session, budget: int, fresh_tail: int) -> list[ContextEntry]:
        entries = message_entries(prompt_messages(session).order_by("-seq")[:MAX_MESSAGES])[::-1]
        pairs = pair_tool_calls((entry.ordinal, entry.kind, entry.call_key) for entry in entries)
        paired = {index for pair in pairs for index in pair}
        starts = [0] + [
            index
            for index, entry in enumerate(entries)
            if entry.author_kind in PEOPLE and not any(call < index <= result for call, result in pairs)
        ]
        tail = max(len(entries) - fresh_tail, 0)
        begin = max(start for start in starts if start <= tail)  # the tail stays, whatever it costs
        spent = sum(entry.cost for entry in entries[begin:])
        for start in reversed([start for start in starts[-self.most :] if start < begin]):
            spent += sum(entry.cost for entry in entries[start:begin])
            if spent > budget:
                break
            begin = start
        shown = list(enumerate(entries))[begin:]
        return [entry for index, entry in shown if index in paired or not entry.call_id]

    def stats(self, session: Session) -> SessionStats:
        entries = self.assemble(session, budget=10**9, fresh_tail=MAX_MESSAGES)
        return SessionStats(prompt_messages(session).count(), len(entries), sum(entry.cost for entry in entries))

    def close(self) -> None:
        """Nothing is held open."""
