"""Readers for conversations from elsewhere. Pure: they read files and answer with plain values."""

from openvibe.chat.importing.readers import ImportedLine, ImportedThread, ImportFailed, read_jsonl, read_qmsum
from openvibe.chat.importing.slack import read_slack

__all__ = ["ImportFailed", "ImportedLine", "ImportedThread", "read_jsonl", "read_qmsum", "read_slack"]
