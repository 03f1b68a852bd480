"""Standing instructions for summaries, as the settings of a workspace's memory hold them: one a line, for all of its
agents or for one of them."""

import re

from openvibe.workspaces.access import Access
from openvibe.workspaces.queries import has_agent

MAX_INSTRUCTION_CHARACTERS = 2_000
"""Characters of all standing instructions for summaries: they stand in every request for one."""

OF_AGENT = re.compile(r"@(?P<handle>[\w-]{1,64})\s*:\s*(?P<text>.+)", re.DOTALL)
"""An instruction for summaries that holds only where this agent speaks."""


def check_instruction(line: str, workspace_id: int, _by: Access | None) -> None:
    """Raises ValueError where the line is for an agent that the workspace does not have."""
    match = OF_AGENT.fullmatch(line)
    if match and not has_agent(workspace_id, match["handle"].lower()):
        raise ValueError(
            f"There is no agent @{match['handle']} here. Write a handle as the list of agents has it, then a colon."
        )
