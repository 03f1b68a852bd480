"""Importing conversations to ask about, and finding a text word for word in what was made of them."""

import html
import unicodedata
from collections.abc import Iterable, Sequence

from openvibe.chat.models import Thread
from openvibe.chat.services.conversation_import import import_thread
from openvibe.chat.wiring import embed_pending_messages
from tests.bench.conversations import SampleConversation
from tests.bench.corpus import BenchWorkspace, vacuum_messages


def import_conversations(
    world: BenchWorkspace, conversations: Iterable[SampleConversation]
) -> Sequence[tuple[Thread, SampleConversation]]:
    """The threads they became, speakers and times kept; every message has its vector."""
    threads = [
        (import_thread(channel=world.channel, imported=conversation.imported).thread, conversation)
        for conversation in conversations
    ]
    while embed_pending_messages():
        pass
    vacuum_messages()
    return threads


def holds_text(words: str, text: str) -> bool:
    """Whether the text stands in `words`, which is normalized, between blanks; the empty text always does."""
    return not text or f" {normalize(text)} " in f" {words} "


def normalize(text: str) -> str:
    """The text with escapes undone, all white space as one blank, in normal form C."""
    return " ".join(unicodedata.normalize("NFC", html.unescape(text)).split())
