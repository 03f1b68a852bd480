"""Hybrid search of messages: by words and by meaning at once, selected into a number of tokens."""
