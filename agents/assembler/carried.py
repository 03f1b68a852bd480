"""P2: what the agent carries in every prompt: its context blocks, its notes about the asker, its skills."""

from collections.abc import Sequence
from functools import lru_cache

from agents.assembler.found import Carried, Notes
from agents.assembler.gather import Scene, one_each
from agents.assembler.items import item
from agents.assembler.values import Item, Offer
from agents.skills import loaded_text, skill_index
from openvibe.base.secrets import mask_secrets
from openvibe.llm.fences import fence
from openvibe.llm.tokens import TokenCounter


def blocks(scene: Scene, found: Sequence[Carried]) -> Offer:
    """Every block that says something, sorted by label; limited where it is written, not by P2."""
    entries = (block_item(scene.counter, block, order) for order, block in enumerate(found))
    return Offer("P2", "blocks", one_each(entries), beyond_layer_cap=True)


@lru_cache(maxsize=1_024)
def block_item(counter: TokenCounter, block: Carried, order: int) -> Item:
    text = fence(
        "context_block",
        mask_secrets(block.content),
        label=block.label,
        description=block.description or None,
        readonly="true" if block.readonly else None,
        trust="semi_trusted",
    )
    return item(
        counter,
        section="blocks",
        key=f"block:{block.pk}",
        text=text,
        trust="semi_trusted",
        source=f"context block {block.label}",
        ref=f"block:{block.label}",
        order=order,
    )


def profile(scene: Scene, found: Sequence[Notes]) -> Offer:
    """What the agent noted about whoever asks. It stands late: another asker does not change what stands before."""
    return Offer("P2", "profile", one_each(notes_item(scene.counter, notes) for notes in found), beyond_layer_cap=True)


@lru_cache(maxsize=1_024)
def notes_item(counter: TokenCounter, notes: Notes) -> Item:
    ref = f"profile:{notes.person_id}"
    text = fence(
        "data", mask_secrets(notes.content), source="your notes", ref=ref, author=notes.person, trust="semi_trusted"
    )
    return item(
        counter,
        section="profile",
        key=ref,
        text=text,
        trust="semi_trusted",
        source=f"notes about {notes.person}",
        ref=ref,
    )


def skills(scene: Scene, loaded: Sequence[str]) -> tuple[Offer, Offer]:
    """The index of what the agent can load, and the text of what it has taken up in this thread."""
    index = tuple((skill.name, skill.line) for skill in skill_index(scene.agent))
    texts = [(name, loaded_text(scene.agent, name)) for name in loaded]
    taken_up = [_loaded_item(scene.counter, name, text) for name, text in texts if text]
    return (
        Offer("P2", "skills", one_each([_index_item(scene.counter, index)] if index else [])),
        Offer("P2", "skills", one_each(taken_up), beyond_layer_cap=True),
    )


@lru_cache(maxsize=256)
def _index_item(counter: TokenCounter, index: tuple[tuple[str, str], ...]) -> Item:
    lines = "\n".join(f"- {name}: {line}" for name, line in index)
    text = f"## Skills you can take up with load_skill\n{lines}"
    return item(counter, section="skills", key="skills", text=text, trust="trusted", source="skill index")


@lru_cache(maxsize=256)
def _loaded_item(counter: TokenCounter, name: str, text: str) -> Item:
    return item(
        counter,
        section="skills",
        key=f"skill:{name}",
        text=f"## Skill: {name}\n{mask_secrets(text)}",
        trust="trusted",
        source=f"skill {name}",
        ref=f"skill:{name}",
        order=1,
    )
