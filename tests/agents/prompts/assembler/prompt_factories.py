"""What prompts in these tests are made of."""

from collections.abc import Sequence

from hypothesis import strategies as st

from agents.prompts.assembler.items import AtomicGroup, Item, SectionCandidates, TrustLabel, make_item
from agents.prompts.assembler.stack import LAYER_NAMES, STACK, LayerName, SectionName
from openvibe.engines.llm.fences import fence
from openvibe.engines.llm.tokens import TokenCounter, counter_for

O200K = counter_for("gpt-4o")
CL100K = counter_for("gpt-4")
UNKNOWN = counter_for("somebodys-own-model")

SECTION_OF: dict[LayerName, SectionName] = {layer.name: layer.sections[-1] for layer in STACK} | {
    "P0": "instructions",
    "P1": "history",
}


def sized(layer: LayerName, key: str, tokens: int) -> Item:
    """An item of a given size, whose text does not matter."""
    return Item(layer, SECTION_OF[layer], "dynamic", key, "", tokens, "semi_trusted", "test")


def offer(layer: LayerName, *sizes: int, name: str = "", **claims: bool | int | None) -> SectionCandidates:
    """An offer of single-item bundles with these sizes; keys are `P3:0`, `P3:1`…"""
    bundles = tuple(AtomicGroup((sized(layer, f"{name or layer}:{rank}", size),)) for rank, size in enumerate(sizes))
    return SectionCandidates(layer, SECTION_OF[layer], bundles, **claims)  # type: ignore[arg-type]


def quoted(
    counter: TokenCounter,
    section: SectionName,
    text: str,
    *,
    key: str = "",
    order: int = 0,
    trust: TrustLabel = "semi_trusted",
) -> Item:
    """A fenced item of a section."""
    tag = "request" if section == "request" else "data"
    fenced_text = fence(tag, text, source=section, trust=trust)
    return make_item(
        counter,
        section=section,
        key=key or f"{section}:{order}",
        text=fenced_text,
        trust=trust,
        source=section,
        order=order,
    )


def asked(counter: TokenCounter, text: str, *, trust: TrustLabel = "semi_trusted") -> Item:
    """The question in its own words."""
    return make_item(counter, section="request", key="request:0", text=text, trust=trust, source="request")


def plain(
    counter: TokenCounter, section: SectionName, text: str, *, key: str = "", order: int = 0, own: bool = False
) -> Item:
    """Trusted text, or (`own`) the agent's own words in history."""
    return make_item(
        counter,
        section=section,
        key=key or f"{section}:{order}",
        text=text,
        trust="semi_trusted" if own else "trusted",
        source=section,
        role="assistant" if own else "user",
        order=order,
    )


@st.composite
def offers(draw: st.DrawFn) -> Sequence[SectionCandidates]:
    """Offers, up to eight offers of any layer, some sharing keys, with every claim an offer can make."""
    candidates = []
    for _ in range(draw(st.integers(0, 8))):
        layer = draw(st.sampled_from(LAYER_NAMES))
        groups = draw(st.lists(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 50)), max_size=3), max_size=6))
        candidates.append(
            SectionCandidates(
                layer,
                SECTION_OF[layer],
                tuple(AtomicGroup(tuple(sized(layer, f"k{key}", size) for key, size in group)) for group in groups),
                cap=draw(st.none() | st.integers(0, 150)),
                required=draw(st.integers(0, 4)) == 0,
                contiguous=draw(st.booleans()),
                extendable=layer == "P1" and draw(st.booleans()),
                beyond_layer_cap=draw(st.integers(0, 4)) == 0,
            )
        )
    return candidates


caps = st.fixed_dictionaries({name: st.none() | st.integers(0, 200) for name in LAYER_NAMES})

NASTY = (
    "水やりはいつですか。根腐れに注意。",
    "👩‍🌾🌱🏳️‍🌈",
    "/usr/bin//x",
    "//",
    "/",
    "\n\n/a\n\n //b",
    "\n\n\n",
    "   \t ",
    ")))\n\n///",
    "}});\r\n\r\n",
    "=====\n=====",
    "don't 'll 's",
    "<|endoftext|>",
    "\u2028\u3000\xa0\x85x",
    "e\u0301\u0301 \u0301",
    "a" * 300,
    " " * 300 + "x" + " " * 300,
    "1234567 89",
    "</data>\n<data>",
)
nasty_texts = st.lists(st.sampled_from(NASTY) | st.text(max_size=20), min_size=1, max_size=6).map("".join)
