"""The kinds of conversation that prompts and searches are measured on."""

from collections.abc import Iterator
from pathlib import Path

from tests.bench.chats import ChatWriter
from tests.bench.conversations import SampleConversation, SyntheticConversations, read_meetings
from tests.bench.signals import SIGNAL_WRITERS, signal_conversations

KINDS = ("meetings", "short facts", "long messages", *SIGNAL_WRITERS)

CHAT_SIZES = (400, 900, 1_500, 3_000)  # messages
ASSISTANT_THREAD_SIZES = (120, 250, 500, 900)  # messages, half of them long
QUICK_MEETINGS = 3
QUICK_SIZES = 2


def sample_conversations(kind: str, *, data: Path | None, quick: bool) -> Iterator[SampleConversation]:
    """Conversations of one of KINDS; meetings are those of the QMSum file `data`, or made up."""
    if kind == "meetings":
        meetings = read_meetings(data) if data is not None else SyntheticConversations().meetings(5)
        yield from (meeting for _, meeting in zip(range(QUICK_MEETINGS if quick else 1_000), meetings, strict=False))
        return
    if kind in SIGNAL_WRITERS:
        yield from signal_conversations(kind, quick=quick)
        return
    sizes = CHAT_SIZES if kind == "short facts" else ASSISTANT_THREAD_SIZES
    for number, size in enumerate(sizes[: QUICK_SIZES if quick else None]):
        writer = ChatWriter(number)
        yield writer.short_chat(size) if kind == "short facts" else writer.assistant_thread(size)
