"""Reviews as tests ask for them: offline, or with a model that answers as told."""

import json
from collections.abc import Mapping

from agents.agent.access import visible_to
from agents.models import Agent
from memory.episodes.models import Proposal
from memory.episodes.session_review import review_session
from openvibe.chat.models import Thread
from openvibe.engines.llm.offline.offline import OfflineModel
from openvibe.engines.llm.protocol import ModelClient
from tests.engines.llm.scripted_client import ScriptedModel


def review(agent: Agent, thread: Thread, client: ModelClient | None = None) -> list[Proposal]:
    return review_session(
        agent=agent.participant, access=visible_to(agent), thread_id=thread.pk, client=client or OfflineModel()
    )


def suggesting(*proposals: Mapping[str, object]) -> ScriptedModel:
    return ScriptedModel([json.dumps({"proposals": proposals})])


LEARNING = {"kind": "learning", "text": "Ana wants sources.", "messages": [1]}
NOTES = {"kind": "profile", "person": "ana", "text": "Likes short answers.", "messages": [1]}
