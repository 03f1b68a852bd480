"""Lossless context management: messages are never altered; a list of items, messages or summaries, is the context.

Summaries form a graph without circles; every message can be reached from the items, exactly once."""
