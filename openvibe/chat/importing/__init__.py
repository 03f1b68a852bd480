"""Readers for conversations from elsewhere. Pure: they read files and answer with plain values."""

from openvibe.chat.importing.base import ImportedLine, ImportedThread, ImportFailed
from openvibe.chat.importing.jsonl import read_jsonl
from openvibe.chat.importing.qmsum import read_qmsum
from openvibe.chat.importing.slack import read_slack

__all__ = ["ImportFailed", "ImportedLine", "ImportedThread", "read_jsonl", "read_qmsum", "read_slack"]
