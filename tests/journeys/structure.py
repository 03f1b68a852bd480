"""What stands on a page and where: landmarks, headings, controls and blocks with their boxes and colours.

Two structures are compared by what would strike a reader: something is gone, new, elsewhere, outside, over something
else, or has lost the colours of the theme. Other letters, or a text that is a little longer, make no difference."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any

from playwright.sync_api import Page

TEXT_ROLES = frozenset({"text", "time", "strong", "emphasis", "code", "deletion", "insertion", "superscript", "mark"})
"""Roles that are not looked at: what is said, which differs with what people write."""

FLOWING = frozenset({"paragraph", "cell", "term", "definition"})
"""What stands in these flows with the words around it, as items of a list do: only that it is there counts."""

SLACK_PIXELS, SLACK_ACROSS, SLACK_DOWN = 24, 0.12, 0.25
"""How far a side of a box may be from where it was: pixels, and a share of the distance. Letters of another font make
lines higher and add up downwards; across they are held by columns."""

MOST_CHARACTERS = 60
NODE = re.compile(
    r"""^(?P<indent> *)- '?(?P<role>[a-z]+)(?: "(?P<name>(?:[^"\\]|\\.)*)"| /(?P<pattern>.*?)/)?(?P<rest>.*)$"""
)
BOX = re.compile(r"\[box=(-?\d+),(-?\d+),(\d+),(\d+)\]")
LASTED = re.compile(r"\b\d+(?:\.\d+)? (s|ms|min|d)\b")
CLOCK = re.compile(r"\b\d{1,2}:\d\d\b")
DAY = re.compile(r"\b(?:\w+day, )?\d{1,2} (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\w*(?: \d{4})?\b")

READ_COLOURS = """() => {
  const probe = document.body.appendChild(document.createElement("i"));
  const names = {};
  for (const sheet of document.styleSheets) for (const rule of sheet.cssRules) {
    if (rule.selectorText !== ":root") continue;
    for (const name of rule.style) {
      if (!rule.style.getPropertyValue(name).startsWith("light-dark(#")) continue;
      probe.style.color = `var(${name})`;
      (names[getComputedStyle(probe).color] ??= []).push(name.slice(2));
    }
  }
  probe.remove();
  const ground = (part) => {
    for (; part; part = part.parentElement) {
      const colour = getComputedStyle(part).backgroundColor;
      if (!/, 0(\\.[0-4]\\d*)?\\)$/.test(colour)) return colour;
    }
  };
  const colours = {};
  const COLOURED = "a[href], button, details, input, select, textarea, h1, h2, h3, nav, main, article, table, figure";
  for (const part of document.body.querySelectorAll(COLOURED)) {
    const { x, y, width, height } = part.getBoundingClientRect();
    if (width && height) {
      const ink = names[getComputedStyle(part).color] ?? [];
      colours[[x, y, width, height].map(Math.round)] = [ink, names[ground(part)] ?? []];
    }
  }
  return colours;
}"""
"""The names that the palette has for the colours of text and ground, by the box of each control, heading and block."""

READ_COLLISIONS = """() => {
  const CONTROLS = "a[href], button, summary, input:not([type=hidden]), select, textarea";
  const isShown = (part) => part.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  const cut = (one, other) => ({
    left: Math.max(one.left, other.left), right: Math.min(one.right, other.right),
    top: Math.max(one.top, other.top), bottom: Math.min(one.bottom, other.bottom),
  });
  const isArea = ({ left, right, top, bottom }) => right - left > 2 && bottom - top > 2;
  const above = (part, isOne) => {
    const found = [];
    for (; part; part = part.parentElement) if (isOne(getComputedStyle(part))) found.push(part);
    return found;
  };
  const isWide = (frame) => frame.scrollWidth > frame.clientWidth + 1 && !frame.querySelector("h1");
  const read = (part) => {
    const frames = above(part.parentElement, ({ overflow }) => overflow !== "visible");
    const within = (line) => frames.reduce((box, frame) => cut(box, frame.getBoundingClientRect()), line);
    const [floats] = above(part, ({ position }) => /sticky|fixed/.test(position));
    const lines = [...part.getClientRects()];
    const isBeyond = ({ left, right }) => right > 0 && (left < -1 || right > innerWidth + 1);
    const isOut = lines.some(isBeyond) && !frames.some(isWide);
    return { part, floats, isOut, lines: lines.map(within).filter(isArea) };
  };
  const say = ({ part }) => {
    const words = part.getAttribute("aria-label") || part.innerText || part.name || part.className;
    return `“${words.trim().replace(/\\s+/g, " ").slice(0, 60)}”`;
  };
  const isOver = (one, other) => one.lines.some((line) => other.lines.some((its) => isArea(cut(line, its))));
  const shown = [...document.querySelectorAll(CONTROLS)].filter(isShown);
  const controls = shown.map(read).filter(({ lines }) => lines.length);
  const found = controls.filter(({ isOut }) => isOut).map((control) => `${say(control)} lies outside the window`);
  controls.forEach((one, at) => controls.slice(at + 1).forEach((other) => {
    const isInside = one.part.contains(other.part) || other.part.contains(one.part);
    if (isInside || one.floats !== other.floats || !isOver(one, other)) return;
    found.push(`${say(one)} and ${say(other)} lie over one another`);
  }));
  for (const title of document.querySelectorAll("h1")) {
    const isCut = isShown(title) && title.scrollWidth > title.clientWidth + 1;
    if (isCut) found.push(`the heading ${say({ part: title })} is cut off`);
  }
  if (document.documentElement.scrollWidth > innerWidth + 1) found.push("the page scrolls sideways");
  return found;
}"""
"""Controls that lie over one another or outside the window, and titles that are cut off, in words. What floats above a
page may lie over it."""


@dataclass(frozen=True)
class Part:
    """Something that stands on the page. `box`: left and top within what it stands in, width and height, in pixels."""

    depth: int
    role: str
    name: str
    box: tuple[int, int, int, int]
    ink: str = ""
    ground: str = ""
    is_flowing: bool = False

    @property
    def key(self) -> tuple[int, str, str]:
        return self.depth, self.role, self.name

    def __str__(self) -> str:
        return f"{self.role} “{self.name}”" if self.name else self.role

    def line(self) -> str:
        left, top, width, height = self.box
        where = "~" if self.is_flowing else f"{left},{top} {width}x{height}"
        name = f' "{self.name}"' if self.name else ""
        return f"{'  ' * self.depth}{self.role}{name} | {where} | {self.ink}/{self.ground}"


def read_part(line: str) -> Part:
    """The part that `Part.line` wrote."""
    text, where, colours = line.rsplit(" | ", 2)
    role, _, name = text.strip().partition(" ")
    depth = (len(text) - len(text.lstrip())) // 2
    ink, _, ground = colours.partition("/")
    numbers = [int(number) for number in re.findall(r"-?\d+", where)] or [0, 0, 0, 0]
    return Part(depth, role, name[1:-1], (*numbers,), ink, ground, where == "~")  # type: ignore[arg-type]


def read_structure(page: Page, *, folded: Iterable[str] = ()) -> list[Part]:
    """What stands on the page now, in the theme it has now. Of parts named in `folded` only the outside."""
    colours = page.evaluate(READ_COLOURS)
    return list(_parts(page.locator("body").aria_snapshot(boxes=True).splitlines(), colours, frozenset(folded)))


def _parts(lines: Sequence[str], colours: dict[str, Any], folded: frozenset[str]) -> Iterator[Part]:
    above: list[tuple[int, str, int, int]] = []  # what the next line may stand in: indent, role, left and top
    hidden_below = None
    for line in lines:
        node = NODE.match(line)
        box = BOX.search(line)
        if node is None or box is None or node["role"] in TEXT_ROLES:
            continue
        indent = len(node["indent"])
        if hidden_below is not None and indent > hidden_below:
            continue
        while above and above[-1][0] >= indent:
            above.pop()
        left, top, width, height = (int(number) for number in box.groups())
        _, parent, from_left, from_top = above[-1] if above else (0, "", 0, 0)
        hidden_below = indent if node["name"] in folded else None
        ink, ground = colours.get(f"{left},{top},{width},{height}", ([], []))
        yield Part(
            len(above),
            node["role"],
            _stable(node["name"] or ""),
            (left - from_left, top - from_top, width, height),
            " ".join(ink),
            " ".join(ground),
            parent in FLOWING or node["role"] == "listitem",
        )
        above.append((indent, node["role"], left, top))


def _stable(name: str) -> str:
    """The name without what differs from day to day."""
    plain = name.replace('\\"', "'").replace(" | ", " ")
    return LASTED.sub(r"0 \1", CLOCK.sub("00:00", DAY.sub("a day", plain)))[:MOST_CHARACTERS].strip()


def in_both_themes(light: Sequence[Part], dark: Sequence[Part]) -> list[Part]:
    """The parts with the one name that their colours have in both themes; without, where they have none."""
    return [
        replace(one, ink=_common(one.ink, other.ink), ground=_common(one.ground, other.ground))
        for one, other in zip(light, dark, strict=True)
    ]


def _common(light: str, dark: str) -> str:
    return next((name for name in light.split() if name in dark.split()), "")


def differences(kept: Sequence[Part], now: Sequence[Part]) -> list[str]:
    """What a reader would see that is not as it was, in words."""
    moved: list[str] = []
    lost: list[str] = []
    gone: list[Part] = []
    new: list[Part] = []
    matcher = SequenceMatcher(a=[part.key for part in kept], b=[part.key for part in now], autojunk=False)
    for what, first, last, new_first, new_last in matcher.get_opcodes():
        if what == "equal":
            for before, after in zip(kept[first:last], now[new_first:new_last], strict=True):
                moved += _changes(before, after)
        gone += kept[first:last] if what != "equal" else []
        new += now[new_first:new_last] if what != "equal" else []
    for part in gone:
        twin = next((one for one in new if (one.role, one.name) == (part.role, part.name)), None)
        if twin is not None:
            new.remove(twin)
        lost.append(f"{part} stands elsewhere on the page" if twin else f"{part} is gone")
    return [*lost, *(f"{part} is new" for part in new), *moved]


def _changes(before: Part, after: Part) -> Iterator[str]:
    if not before.is_flowing:
        for side, slack, was, is_ in zip(
            ("left edge", "upper edge", "width", "height"),
            (SLACK_ACROSS, SLACK_DOWN, SLACK_ACROSS, SLACK_DOWN),
            before.box,
            after.box,
            strict=True,
        ):
            if abs(is_ - was) > SLACK_PIXELS + slack * abs(was):
                yield f"{after}: its {side} was at {was} px and is at {is_} px"
    for what, name, names in (("text", before.ink, after.ink), ("ground", before.ground, after.ground)):
        if name and name not in names.split():
            yield f"{after}: the colour of its {what} was “{name}” and is {names or 'none of the theme'}"
