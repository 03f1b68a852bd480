"""Readers for conversations from elsewhere. Pure: they read files and answer with plain values."""
