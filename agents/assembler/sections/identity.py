"""Identity (P0, P4): policy, SOUL and instructions, and what the workspace and the channel are. No queries."""

import json
from functools import lru_cache

from agents.assembler.items import data_block, make_item, single_item_groups
from agents.assembler.render import policy_text
from agents.assembler.sections.request import PromptRequest
from agents.assembler.values import AtomicGroup, Item, SectionCandidates, SectionName
from agents.skills import read_override
from agents.soul import TaskType, render_soul
from agents.soul_parsing import soul_from_dict
from openvibe.base.masking import mask_secrets
from openvibe.llm.tokens import TokenCounter, truncate_middle


# --- P0 -----------------------------------------------------------------------------------------------------
def policy_candidates(request: PromptRequest) -> SectionCandidates:
    """The basic layer: the built-in policy, or the agent's SYSTEM.md in its place."""
    override = read_override(request.agent, "SYSTEM.md")
    if override is not None:
        entry = _override_item(request.counter, "policy", "policy", override, "SYSTEM.md")
        return SectionCandidates("P0", "policy", single_item_groups([entry]), required=True)
    participant = request.agent.participant
    return SectionCandidates(
        "P0",
        "policy",
        single_item_groups([_policy_item(request.counter, participant.name, participant.handle)]),
        required=True,
    )


@lru_cache(maxsize=256)
def _policy_item(counter: TokenCounter, name: str, handle: str) -> Item:
    text = policy_text(name=name, handle=handle)
    return make_item(counter, section="policy", key="policy", text=text, trust="trusted", source="built-in policy")


@lru_cache(maxsize=64)
def _override_item(counter: TokenCounter, section: SectionName, key: str, text: str, file: str) -> Item:
    return make_item(counter, section=section, key=key, text=mask_secrets(text), trust="trusted", source=file, ref=file)


def soul_candidates(request: PromptRequest) -> SectionCandidates:
    """The sections of the SOUL that this task carries, or the agent's SOUL.md in their place."""
    override = read_override(request.agent, "SOUL.md")
    if override is not None:
        entry = _override_item(request.counter, "soul", "soul:file", override, "SOUL.md")
        return SectionCandidates("P0", "soul", single_item_groups([entry]), required=True)
    version = request.agent.soul
    if version is None:
        return SectionCandidates("P0", "soul", ())
    entries = _soul_items(request.counter, request.task, version.number, json.dumps(version.content))
    return SectionCandidates("P0", "soul", single_item_groups(entries), required=True)


@lru_cache(maxsize=256)
def _soul_items(counter: TokenCounter, task: TaskType, number: int, content: str) -> tuple[Item, ...]:
    return tuple(
        make_item(
            counter,
            section="soul",
            key=f"soul:{section.title.lower()}",
            text=f"## {section.title}\n{mask_secrets(section.text)}",
            trust="trusted",
            source=f"SOUL version {number}, {section.title}",
            ref=f"soul:{number}",
            order=order,
        )
        for order, section in enumerate(render_soul(soul_from_dict(json.loads(content)), task))
    )


def instruction_candidates(request: PromptRequest) -> tuple[SectionCandidates, SectionCandidates]:
    """Organisation → channel → thread; trusted, since only admins write them, each at most 2,000 tokens.

    The organisation's always stand. The narrower ones come first of all that is not required.
    """
    counter, thread = request.counter, request.thread
    organisation = _instruction_groups(counter, "organisation", thread.workspace_instructions, 0)
    narrower = (
        *_instruction_groups(counter, "channel", thread.channel_instructions, 1),
        *_instruction_groups(counter, "thread", thread.instructions, 2),
    )
    return (
        SectionCandidates("P0", "instructions", organisation, required=True),
        SectionCandidates("P0", "instructions", narrower, beyond_layer_cap=True),
    )


@lru_cache(maxsize=1_024)
def _instruction_groups(counter: TokenCounter, scope: str, text: str, order: int) -> tuple[AtomicGroup, ...]:
    if not text.strip():
        return ()
    entry = make_item(
        counter,
        section="instructions",
        key=f"instructions:{scope}",
        text=f"## Instructions ({scope})\n{mask_secrets(text.strip())}",
        trust="trusted",
        source=f"{scope} instructions",
        order=order,
    )
    return (AtomicGroup((entry,)),)


# --- P4 ----------------------------------------------------------------------------------------------------
def workspace_candidates(request: PromptRequest) -> SectionCandidates:
    """Who the workspace is and what the channel is for."""
    thread = request.thread
    descriptions: tuple[tuple[SectionName, str], ...] = (
        ("workspace", f"Workspace {thread.workspace_name}. {thread.workspace_description}".strip()),
        ("channel", f"Channel #{thread.channel_name}. {thread.channel_description} Thread: {thread.title}".strip()),
    )
    half = (request.budget.caps["P4"] or 200) // len(descriptions) - 40
    return SectionCandidates(
        "P4",
        "workspace",
        single_item_groups(
            _description_item(request.counter, name, text, max(half, 20)) for name, text in descriptions
        ),
    )


@lru_cache(maxsize=1_024)
def _description_item(counter: TokenCounter, name: SectionName, text: str, limit: int) -> Item:
    shown = truncate_middle(text, limit, counter, " … ")
    block = data_block(shown, source=name, ref=name, author="workspace", trust="semi_trusted")
    return make_item(counter, section=name, key=name, text=block, trust="semi_trusted", source=name, ref=name)
