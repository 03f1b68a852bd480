"""Messages that bear on a question: by words and by meaning at once, chosen into a number of tokens."""

from openvibe.chat.searching.everywhere import best_messages
from openvibe.chat.searching.finding import SAID, find_messages
from openvibe.chat.searching.values import FoundMessage, FoundMessages

__all__ = ["SAID", "FoundMessage", "FoundMessages", "best_messages", "find_messages"]
