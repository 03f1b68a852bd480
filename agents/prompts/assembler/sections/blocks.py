"""Context blocks, profile notes about the asker, and skills (P2)."""

from functools import lru_cache
from typing import Any, NamedTuple

from django.db.models import QuerySet

from agents.agent.models import LoadedSkill
from agents.agent.skills import skill_index, skill_text
from agents.prompts.assembler.items import Item, SectionCandidates, make_item, section_candidates
from agents.prompts.assembler.sections.request import PromptRequest
from memory.models import Block, ProfileNote
from openvibe.engines.database.compiled_queries import CompiledQuery, row_columns
from openvibe.engines.llm.fences import fence
from openvibe.engines.llm.tokens import TokenCounter
from openvibe.engines.llm.transcripts import one_line
from openvibe.engines.text.masking import mask_secrets


class BlockRow(NamedTuple):
    """A context block that says something."""

    pk: int
    label: str
    description: str
    content: str
    readonly: bool = False


@CompiledQuery
def _filled_blocks(agent_id: int) -> QuerySet[Any, Any]:
    blocks = Block.objects.filter(agent=agent_id).exclude(content="").order_by("label")
    return blocks.values_list(*row_columns(BlockRow))


def block_candidates(request: PromptRequest) -> SectionCandidates:
    """Every block that says something, sorted by label; limited where it is written, not by P2."""
    blocks = map(BlockRow._make, _filled_blocks.rows(request.agent.participant_id))
    entries = (_block_item(request.counter, block, order) for order, block in enumerate(blocks))
    return section_candidates("blocks", entries, beyond_layer_cap=True)


@lru_cache(maxsize=1_024)
def _block_item(counter: TokenCounter, block: BlockRow, order: int) -> Item:
    text = fence(
        "context_block",
        mask_secrets(block.content),
        label=block.label,
        description=block.description or None,
        readonly="true" if block.readonly else None,
        trust="semi_trusted",
    )
    return make_item(
        counter,
        section="blocks",
        key=f"block:{block.pk}",
        text=text,
        trust="semi_trusted",
        source=f"context block {block.label}",
        ref=f"block:{block.label}",
        order=order,
    )


class ProfileNoteRow(NamedTuple):
    """What the agent noted about the asker."""

    pk: int
    person_id: int
    person: str
    content: str


@CompiledQuery
def _notes_about_asker(agent_id: int, asker_id: int) -> QuerySet[Any, Any]:
    notes = ProfileNote.objects.filter(agent=agent_id, person=asker_id).exclude(content="").order_by()
    return notes.values_list(*row_columns(ProfileNoteRow, person="person__label"))


def profile_candidates(request: PromptRequest) -> SectionCandidates:
    """What the agent noted about whoever asks. It stands late: another asker does not change what stands before."""
    notes = map(ProfileNoteRow._make, _notes_about_asker.rows(request.agent.participant_id, request.asker_id))
    entries = (_profile_item(request.counter, note) for note in notes)
    return section_candidates("profile", entries, beyond_layer_cap=True)


@lru_cache(maxsize=1_024)
def _profile_item(counter: TokenCounter, note: ProfileNoteRow) -> Item:
    ref = f"profile:{note.person_id}"
    text = fence(
        "data", mask_secrets(note.content), source="your notes", ref=ref, about=note.person, trust="semi_trusted"
    )
    return make_item(
        counter,
        section="profile",
        key=ref,
        text=text,
        trust="semi_trusted",
        source=f"notes about {note.person}",
        ref=ref,
    )


@CompiledQuery
def _loaded_skills(agent_id: int, thread_id: int) -> QuerySet[Any, Any]:
    skills = LoadedSkill.objects.filter(agent=agent_id, thread=thread_id).order_by("id")
    return skills.values_list("name")


def skill_candidates(request: PromptRequest) -> tuple[SectionCandidates, SectionCandidates]:
    """The index of what the agent can load, where the channel lets it, and the text of what it has taken up in this
    thread."""
    skills = skill_index(request.agent) if request.thread.allows_tool("load_skill") else ()
    index = tuple((skill.name, skill.line) for skill in skills)
    loaded_names = (name for (name,) in _loaded_skills.rows(request.agent.pk, request.thread.thread_id))
    texts = ((name, skill_text(request.agent, name)) for name in loaded_names)
    loaded_items = (_loaded_skill_item(request.counter, name, text) for name, text in texts if text)
    return (
        section_candidates("skills", [_skill_index_item(request.counter, index)] if index else []),
        section_candidates("skills", loaded_items, beyond_layer_cap=True),
    )


@lru_cache(maxsize=256)
def _skill_index_item(counter: TokenCounter, index: tuple[tuple[str, str], ...]) -> Item:
    lines = "\n".join(f"- {one_line(name)}: {one_line(line)}" for name, line in index)
    text = f"## Skills: how to do things here. load_skill takes one up: follow what it answers\n{lines}"
    return make_item(counter, section="skills", key="skills", text=text, trust="trusted", source="skill index")


@lru_cache(maxsize=256)
def _loaded_skill_item(counter: TokenCounter, name: str, text: str) -> Item:
    return make_item(
        counter,
        section="skills",
        key=f"skill:{name}",
        text=f"## Skill: {name}\n{mask_secrets(text)}",
        trust="trusted",
        source=f"skill {name}",
        ref=f"skill:{name}",
        order=1,
    )
