"""Choosing what stands in a prompt: pure, deterministic, never over the ceiling.

Required sections first. Then P0 to P6, each layer up to its cap, groups in rank order. What is left after P6
goes back to the extendable sections (the history of P1), whose caps no longer count; the ceiling always does.
"""

from collections.abc import Mapping, Sequence

from agents.prompts.assembler.items import (
    AtomicGroup,
    DroppedItem,
    FitResult,
    Item,
    SectionCandidates,
    make_dropped_item,
)
from agents.prompts.assembler.stack import LAYER_NAMES, LayerName, SectionName


class RequiredPartsTooLarge(ValueError):
    """What must be in the prompt is larger than the ceiling. `needed` and `ceiling` are in tokens."""

    def __init__(self, needed: int, ceiling: int) -> None:
        self.needed = needed
        self.ceiling = ceiling
        super().__init__(
            f"The SOUL, the instructions, the tools and the request need {needed:,} tokens, but the prompt "
            f"has only {ceiling:,}. Raise the ceiling, take a model with a larger window or shorten them."
        )


def fit(
    sections: Sequence[SectionCandidates], *, ceiling: int, caps: Mapping[LayerName, int | None], overhead: int
) -> FitResult:
    """What fits of the candidates. All numbers in tokens; `overhead` is what rendering adds whatever is included.

    An item whose key is already in the prompt is left out as `superseded`; all else left out is
    `over budget`.
    Raises RequiredPartsTooLarge when the required sections alone exceed the ceiling.
    """
    fitter = _Fitter(ceiling, caps, overhead)
    for section in sections:
        if section.required:
            for group in section.groups:
                fitter.include(section, group, fitter.cost(group))
    if fitter.used > ceiling:
        raise RequiredPartsTooLarge(fitter.used, ceiling)
    remainders = [
        (section, fitter.fill(section, section.groups))
        for layer in LAYER_NAMES
        for section in sections
        if section.layer == layer and not section.required
    ]
    dropped_groups = [
        fitter.fill(section, groups, capped=False) if section.extendable else groups for section, groups in remainders
    ]
    for item in (item for groups in dropped_groups for group in groups for item in group.items):
        fitter.dropped.append(make_dropped_item(item, "superseded" if item.key in fitter.included else "over budget"))
    return FitResult(tuple(fitter.included.values()), tuple(fitter.dropped), fitter.used)


class _Fitter:
    """The prompt while it fills."""

    def __init__(self, ceiling: int, caps: Mapping[LayerName, int | None], overhead: int) -> None:
        self.ceiling = ceiling
        self.caps = caps
        self.used = overhead
        self.in_layer: dict[LayerName, int] = dict.fromkeys(LAYER_NAMES, 0)
        self.framed: set[SectionName] = set()
        self.included: dict[str, Item] = {}
        self.dropped: list[DroppedItem] = []

    def fill(
        self, section: SectionCandidates, groups: Sequence[AtomicGroup], *, capped: bool = True
    ) -> list[AtomicGroup]:
        """Takes what the caps (unless not `capped`) and the ceiling allow; returns the groups left, in rank order."""
        section_tokens = 0
        dropped_groups: list[AtomicGroup] = []
        for group in groups:
            cost = self.cost(group) + (0 if section.section in self.framed else section.frame)
            room = self.room_for(section, section_tokens) if capped else self.ceiling - self.used
            if cost <= room and not (section.contiguous and dropped_groups):
                if section.frame:
                    self.framed.add(section.section)
                self.include(section, group, cost)
                section_tokens += cost
            else:
                dropped_groups.append(group)
        return dropped_groups

    def room_for(self, section: SectionCandidates, section_tokens: int) -> int:
        room = self.ceiling - self.used
        if section.cap is not None:
            room = min(room, section.cap - section_tokens)
        cap = self.caps.get(section.layer)
        if cap is not None and not section.beyond_layer_cap:
            room = min(room, cap - self.in_layer[section.layer])
        return room

    def cost(self, group: AtomicGroup) -> int:
        """Tokens the group would add; what is in the prompt, or twice in the group, adds nothing."""
        if len(group.items) == 1:
            return 0 if group.items[0].key in self.included else group.tokens
        new_items = {item.key: item for item in reversed(group.items) if item.key not in self.included}
        return sum(item.tokens + item.opening_tokens for item in new_items.values())

    def include(self, section: SectionCandidates, group: AtomicGroup, cost: int) -> None:
        for item in group.items:
            if item.key in self.included:
                self.dropped.append(make_dropped_item(item, "superseded"))
            else:
                self.included[item.key] = item
        self.used += cost
        if not section.beyond_layer_cap:
            self.in_layer[section.layer] += cost
