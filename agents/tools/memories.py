"""What an agent remembers with: the memory plugin's tool, and the blocks it carries."""

from typing import Any

from agents.tools.values import MadeTool, Setting, Tool
from memory.audience import is_public, refuse_private_notes, refuse_unless_public
from memory.blocks import ContextBlocks
from memory.providers.base import Session
from memory.providers.registry import provider_for
from memory.tool import build_tool
from openvibe.base.problems import Conflict
from openvibe.workspaces.models import Participant


def memory(setting: Setting) -> Tool:
    """The memory plugin's own tool, for this thread as the agent sees it."""
    made = build_tool(provider_for(setting.agent.workspace_id))

    def perform(arguments: dict[str, Any]) -> str:
        session = session_of(setting)
        refuse_private_notes(session, arguments)
        return made.perform(session, arguments)

    return MadeTool(made.spec, perform, checks_itself=True)


def session_of(setting: Setting) -> Session:
    """The thread up to what the run answers; profile notes are those about whoever asks."""
    asked = setting.run.trigger if setting.run else None
    person = asked.author_id if asked and asked.author.kind == Participant.Kind.MEMBER else None
    return Session(setting.thread.pk, setting.access, before=asked.seq if asked else None, person_id=person)


def update_context_block(setting: Setting) -> Tool | None:
    """Offered while a block is there that the agent may write, in threads that are open to everybody: its blocks
    stand in its prompts everywhere."""
    if not is_public(setting.thread.pk):
        return None
    blocks = ContextBlocks(setting.agent.participant)
    spec = blocks.tool()
    if spec is None:
        return None
    if setting.run is not None:
        for block in blocks.list():
            setting.seen.setdefault(block.label, block.stamp)
    return MadeTool(spec, lambda arguments: _write(setting, blocks, arguments))


def _write(setting: Setting, blocks: ContextBlocks, arguments: dict[str, Any]) -> str:
    """What somebody wrote since the agent read it is not lost: the agent is told, and may write once more."""
    refuse_unless_public(setting.thread.pk, "your blocks")
    label, content = arguments["label"], arguments["content"]
    try:
        if arguments.get("action", "replace") == "append":
            block = blocks.append(label, content)
        else:
            block = blocks.set(label, content, seen=setting.seen.get(label))
    except Conflict as conflict:
        now = blocks.get(label)
        setting.seen.pop(label, None)
        if now is None:
            raise
        setting.seen[label] = now.stamp
        raise Conflict(f"{conflict.message} It says now:\n{now.content}") from None
    setting.seen[label] = block.stamp
    return f"{block.label} has {block.tokens:,} of {block.max_tokens:,} tokens now."
