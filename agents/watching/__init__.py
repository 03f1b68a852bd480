"""Watching: when an agent looks by itself whether to speak up in a channel."""
