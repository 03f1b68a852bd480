"""Hybrid search of messages: by words and by meaning at once, selected into a number of tokens."""

from openvibe.chat.search.thread import SEARCHED_KINDS, MessageHit, MessageSearchResult, find_messages
from openvibe.chat.search.workspace import best_messages

__all__ = ["SEARCHED_KINDS", "MessageHit", "MessageSearchResult", "best_messages", "find_messages"]
