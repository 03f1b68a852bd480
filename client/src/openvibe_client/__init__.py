"""Agents of your own in OpenVibe: hear that they are mentioned, read their context, answer as they write."""

from openvibe_client.answer import Answer, Stopped
from openvibe_client.http import Api, ApiError
from openvibe_client.vibe import Blocks, Context, Mention, Vibe

__all__ = ["Answer", "Api", "ApiError", "Blocks", "Context", "Mention", "Stopped", "Vibe"]
