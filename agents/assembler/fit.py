"""Choosing what stands in a prompt: pure, deterministic, never over the ceiling.

Required offers first. Then P0 to P6, each layer up to its cap, bundles in rank order. What is left after P6
goes back to the extendable offers (the history of P1), whose caps no longer count; the ceiling always does.
"""

from collections.abc import Mapping, Sequence

from agents.assembler.stack import LAYER_NAMES
from agents.assembler.values import Bundle, Dropped, Fitted, Item, LayerName, Offer, drop


class RequiredPartsTooLarge(ValueError):
    """What must be in the prompt is larger than the ceiling. `needed` and `ceiling` are in tokens."""

    def __init__(self, needed: int, ceiling: int) -> None:
        self.needed = needed
        self.ceiling = ceiling
        super().__init__(
            f"The SOUL, the instructions, the tools and the request need {needed:,} tokens, but the prompt "
            f"has only {ceiling:,}. Raise the ceiling, take a model with a larger window or shorten them."
        )


def fit(offers: Sequence[Offer], *, ceiling: int, caps: Mapping[LayerName, int | None], overhead: int) -> Fitted:
    """What fits of the offers. All numbers in tokens; `overhead` is what rendering adds whatever is included.

    An item whose key is already in the prompt is left out as `superseded`; all else left out is
    `over budget`.
    Raises RequiredPartsTooLarge when the required offers alone exceed the ceiling.
    """
    filling = _Filling(ceiling, caps, overhead)
    for offer in offers:
        if offer.required:
            filling.require(offer)
    if filling.used > ceiling:
        raise RequiredPartsTooLarge(filling.used, ceiling)
    left = [
        (offer, filling.fill(offer))
        for layer in LAYER_NAMES
        for offer in offers
        if offer.layer == layer and not offer.required
    ]
    left = [(offer, filling.extend(offer, missed) if offer.extendable else missed) for offer, missed in left]
    for _, missed in left:
        filling.leave(missed)
    return Fitted(tuple(filling.included.values()), tuple(filling.dropped), filling.used)


class _Filling:
    """The prompt while it fills."""

    def __init__(self, ceiling: int, caps: Mapping[LayerName, int | None], overhead: int) -> None:
        self.ceiling = ceiling
        self.caps = caps
        self.used = overhead
        self.in_layer: dict[LayerName, int] = dict.fromkeys(LAYER_NAMES, 0)
        self.included: dict[str, Item] = {}
        self.dropped: list[Dropped] = []

    def require(self, offer: Offer) -> None:
        for bundle in offer.bundles:
            self.include(offer, bundle, self.cost(bundle))

    def fill(self, offer: Offer) -> tuple[Bundle, ...]:
        """Takes what the caps and the ceiling allow; returns the bundles left over, in rank order."""
        taken = 0
        missed: list[Bundle] = []
        for bundle in offer.bundles:
            cost = self.cost(bundle)
            stopped = offer.contiguous and bool(missed)
            if not stopped and cost <= self.room(offer, taken):
                self.include(offer, bundle, cost)
                taken += cost
            else:
                missed.append(bundle)
        return tuple(missed)

    def extend(self, offer: Offer, bundles: tuple[Bundle, ...]) -> tuple[Bundle, ...]:
        """Goes on where `fill` stopped, up to the ceiling alone; returns what is left for good."""
        missed: list[Bundle] = []
        for bundle in bundles:
            cost = self.cost(bundle)
            stopped = offer.contiguous and bool(missed)
            if not stopped and self.used + cost <= self.ceiling:
                self.include(offer, bundle, cost)
            else:
                missed.append(bundle)
        return tuple(missed)

    def room(self, offer: Offer, taken: int) -> int:
        room = self.ceiling - self.used
        if offer.cap is not None:
            room = min(room, offer.cap - taken)
        cap = self.caps.get(offer.layer)
        if cap is not None and not offer.beyond_layer_cap:
            room = min(room, cap - self.in_layer[offer.layer])
        return room

    def cost(self, bundle: Bundle) -> int:
        """Tokens the bundle would add; what is in the prompt, or twice in the bundle, adds nothing."""
        if len(bundle.items) == 1:
            return 0 if bundle.items[0].key in self.included else bundle.items[0].tokens
        fresh = {item.key: item.tokens for item in reversed(bundle.items) if item.key not in self.included}
        return sum(fresh.values())

    def include(self, offer: Offer, bundle: Bundle, cost: int) -> None:
        for item in bundle.items:
            if item.key in self.included:
                self.dropped.append(drop(item, "superseded"))
            else:
                self.included[item.key] = item
        self.used += cost
        if not offer.beyond_layer_cap:
            self.in_layer[offer.layer] += cost

    def leave(self, bundles: Sequence[Bundle]) -> None:
        for bundle in bundles:
            for item in bundle.items:
                self.dropped.append(drop(item, "superseded" if item.key in self.included else "over budget"))
