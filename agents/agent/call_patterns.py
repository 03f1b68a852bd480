"""Rules about calls of agents elsewhere: which calls a pattern of a command or a path is about, and which rule holds.

Pure. A rule that allows has to be about all of a call, without doubt; one that asks or denies is about a call as soon
as any part of it is. What a program that is allowed does with its arguments no pattern can tell.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from posixpath import commonpath, dirname, normpath
from typing import Protocol, TypeVar

from agents.agent.trust import CALL_LABELS, CallKind
from openvibe.engines.text.invisible import has_invisible

MAX_PATTERN_CHARACTERS = 500
MAX_STARS = 10

COMMAND_KINDS: frozenset[CallKind] = frozenset(["execute"])
PATH_KINDS: frozenset[CallKind] = frozenset(["read", "search", "edit", "move", "delete"])

_OPERATORS = frozenset(";&|<>$`(){}\\\r\n!^")
"""Characters with which a shell begins another command, writes to a file or puts something in; no `*` is for them."""

_COMMAND_ENDS = re.compile(r"[;&|\r\n(){}`]+")
_ASSIGNMENTS = re.compile(r"^(?:\s*(?:sudo|env|command|exec|nohup|time)\s+|\s*\w+=\S*\s+)+")
_DRIVE = re.compile(r"^[A-Za-z]:/")


class PatternRefused(ValueError):
    """A pattern that cannot be used; the message is for whoever wrote it."""


@dataclass(frozen=True, slots=True)
class Call:
    """What is known of a call. `paths` are relative to the agent's folder where they are in it and it is known."""

    kind: CallKind
    command: str = ""
    paths: tuple[str, ...] = ()


class Rule(Protocol):
    kind: str
    pattern: str
    effect: str


RuleT = TypeVar("RuleT", bound=Rule)


def clean_pattern(kind: CallKind, pattern: str) -> str:
    """The pattern as it is kept; empty is about all calls of the kind. Raises PatternRefused."""
    pattern = pattern.strip()
    if not pattern:
        return ""
    if kind not in COMMAND_KINDS | PATH_KINDS:
        raise PatternRefused(f"“{CALL_LABELS[kind]}” has neither a command nor paths: leave the pattern empty.")
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise PatternRefused(f"A pattern has at most {MAX_PATTERN_CHARACTERS} characters.")
    if "\n" in pattern:
        raise PatternRefused("A pattern is one line.")
    if has_invisible(pattern):
        raise PatternRefused("The pattern holds a character that cannot be seen. Type it anew.")
    if re.sub(r"\*+", "*", pattern).count("*") > MAX_STARS:
        raise PatternRefused(f"A pattern has at most {MAX_STARS} stars.")
    if kind in PATH_KINDS:
        pattern = _plain_path(pattern)
        if ".." in pattern.split("/"):
            raise PatternRefused("A pattern of a path has no “..” in it.")
    return pattern


def choose_rule(rules: Iterable[RuleT], call: Call) -> tuple[RuleT, str] | None:
    """The rule that holds for the call, and its effect: one that denies goes before one that asks, that before one that
    allows. A call that does not say what it is about asks where a pattern might deny it or let it ask."""
    of_kind = [rule for rule in rules if rule.kind == call.kind]
    is_told = bool(call.command if call.kind in COMMAND_KINDS else call.paths)
    for effect in ("deny", "ask"):
        for rule in of_kind:
            if rule.effect == effect and _touches(rule.pattern, call):
                return rule, effect
    for rule in of_kind:
        if rule.effect in ("deny", "ask") and rule.pattern and not is_told:
            return rule, "ask"
    for rule in of_kind:
        if rule.effect == "allow" and covers(rule.pattern, call):
            return rule, "allow"
    return None


def covers(pattern: str, call: Call) -> bool:
    """Whether the pattern is about the whole call.

    Of a command: all of it, where `*` is any text without shell operators; `pytest *` is about `pytest` as well. Of
    paths: each of them, where `*` is any text within a name and `**` any folders; one that goes up (`..`) or holds what
    a shell would replace is never covered, nor an absolute one by a pattern that is not.
    """
    if not pattern:
        return True
    if call.kind in COMMAND_KINDS:
        return _covers_command(pattern, call.command)
    return bool(call.paths) and all(_covers_path(pattern, path) for path in call.paths)


def suggest_pattern(call: Call) -> str | None:
    """The narrowest pattern that is about the call and calls like it; empty for kinds that have none. None where there
    is none that would do."""
    if call.kind not in COMMAND_KINDS | PATH_KINDS:
        return ""
    pattern = call.command.strip() if call.kind in COMMAND_KINDS else _common_path(call.paths)
    if not pattern or (call.kind in COMMAND_KINDS and "*" in pattern):
        return None
    try:
        pattern = clean_pattern(call.kind, pattern)
    except PatternRefused:
        return None
    return pattern if covers(pattern, call) else None


def relative_path(path: str, folder: str) -> str:
    """The path as rules and people read it: relative where it is within the folder, which is absolute or unknown."""
    path, folder = _plain_path(path), _plain_path(folder)
    if not folder or not _is_absolute(path):
        return path
    within = normpath(path)
    return within.removeprefix(f"{folder}/") if within.startswith(f"{folder}/") else path


def is_outside(path: str) -> bool:
    """Whether a path, as of `relative_path`, leads out of the agent's folder."""
    return _is_absolute(path) or path.startswith("~") or normpath(path).split("/")[0] == ".."


def _plain_path(path: str) -> str:
    path = re.sub(r"/{2,}", "/", path.strip().replace("\\", "/"))
    parts = [part for part in path.split("/") if part != "."]
    return "/".join(parts).rstrip("/") or ("/" if path.startswith("/") else "")


def _is_absolute(path: str) -> bool:
    return path.startswith("/") or _DRIVE.match(path) is not None


def _covers_command(pattern: str, command: str) -> bool:
    command = command.strip()
    if not command or has_invisible(command):
        return False
    is_bare = pattern.endswith(" *") and command == pattern.removesuffix(" *") and "*" not in command
    return is_bare or _matches(re.sub(r"\*+", "*", pattern), command, _OPERATORS)


def _covers_path(pattern: str, path: str) -> bool:
    if has_invisible(path) or ".." in path.split("/") or path.startswith("~") or "$" in path or "`" in path:
        return False
    return _is_absolute(pattern) == _is_absolute(path) and _matches_path(pattern.split("/"), path.split("/"))


def _touches(pattern: str, call: Call) -> bool:
    """Whether the pattern may be about a part of the call: one of its commands, one of its paths at any depth."""
    if not pattern:
        return True
    if call.kind in COMMAND_KINDS:
        pieces = [piece.strip() for piece in (call.command, *_COMMAND_ENDS.split(call.command))]
        pieces += [_ASSIGNMENTS.sub("", piece) for piece in pieces]
        pieces += [piece.rpartition("/")[2] if " " not in piece else _bare_program(piece) for piece in pieces]
        glob = re.sub(r"\*+", "*", pattern).casefold()
        bare = pattern.removesuffix(" *").casefold() if pattern.endswith(" *") else None
        return any(_matches(glob, piece.casefold()) or piece.casefold() == bare for piece in pieces if piece)
    return any(_touches_path(pattern.casefold(), path.casefold()) for path in call.paths)


def _bare_program(command: str) -> str:
    program, _, rest = command.partition(" ")
    return f"{program.rpartition('/')[2]} {rest}"


def _touches_path(pattern: str, path: str) -> bool:
    parts, wanted = normpath(path).split("/"), pattern.split("/")
    if _is_absolute(pattern):
        return _matches_path(wanted, parts)
    return any(_matches_path(wanted, parts[start:]) for start in range(len(parts)))


def _matches_path(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    """Whether the parts match, of which `**` is any number. Time: the product of both lengths."""
    reached = {0}
    for wanted in pattern:
        if wanted == "**":
            reached = set(range(min(reached), len(parts) + 1)) if reached else set()
        else:
            glob = re.sub(r"\*+", "*", wanted)
            reached = {at + 1 for at in reached if at < len(parts) and _matches(glob, parts[at])}
    return len(parts) in reached


def _matches(glob: str, text: str, barred: frozenset[str] = frozenset()) -> bool:
    """Whether the text is the glob, whose stars are for text without barred characters. Linear: a star takes as little
    as it can, which is enough, as what is barred in it would be barred in a longer one."""
    first, *rest = glob.split("*")
    if not rest:
        return glob == text
    if not text.startswith(first):
        return False
    *middle, last = rest
    at = len(first)
    gaps: list[str] = []
    for piece in middle:
        found = text.find(piece, at)
        if found < 0:
            return False
        gaps.append(text[at:found])
        at = found + len(piece)
    if len(text) - len(last) < at or not text.endswith(last):
        return False
    gaps.append(text[at : len(text) - len(last)])
    return not any(barred.intersection(gap) for gap in gaps)


def _common_path(paths: Sequence[str]) -> str:
    if not paths or any("*" in path for path in paths):
        return ""
    if len(set(paths)) == 1:
        return paths[0]
    if len({_is_absolute(path) for path in paths}) > 1:
        return ""
    folder = commonpath([dirname(path) for path in paths])
    return f"{folder}/**" if folder not in ("", "/") else ""
