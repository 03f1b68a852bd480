"""The gate table of calls that agents elsewhere ask about, and the rules of admins: 40 kinds of calls, 4 levels."""

from dataclasses import dataclass
from typing import get_args

import pytest

from agents.agent.call_patterns import (
    Call,
    PatternRefused,
    choose_rule,
    clean_pattern,
    covers,
    is_outside,
    relative_path,
    suggest_pattern,
)
from agents.agent.trust import CALL_CLASSES, CallEffect, CallKind, call_gate, call_kind, call_refusal

LOOKS = {None: "allowed", "allow": "allowed", "ask": "ask", "deny": "refused"}
NEVER = dict.fromkeys((None, "allow", "ask", "deny"), "refused")
ASKS = {None: "ask", "allow": "allowed", "ask": "ask", "deny": "refused"}
ALWAYS_ASKS = {None: "ask", "allow": "ask", "ask": "ask", "deny": "refused"}

TABLE = {
    **dict.fromkeys(("read", "search", "think"), (LOOKS, LOOKS, LOOKS, LOOKS)),
    **dict.fromkeys(("edit", "move", "delete", "execute"), (NEVER, NEVER, ASKS, LOOKS)),
    **dict.fromkeys(("fetch", "other"), (NEVER, NEVER, ASKS, ASKS)),
    "switch_mode": (NEVER, NEVER, ALWAYS_ASKS, ALWAYS_ASKS),
}
"""What becomes of each kind at L1 to L4, where no rule is about it and where one is."""


@pytest.mark.parametrize("level", [1, 2, 3, 4])
@pytest.mark.parametrize("effect", [None, *get_args(CallEffect)])
@pytest.mark.parametrize("kind", get_args(CallKind))
def test_what_becomes_of_each_call_at_each_level(kind: CallKind, effect: CallEffect | None, level: int) -> None:
    assert call_gate(level, kind, effect) == TABLE[kind][level - 1][effect]


def test_the_table_names_every_kind() -> None:
    assert set(TABLE) == set(get_args(CallKind)) == set(CALL_CLASSES)
    assert [call_kind(word) for word in ("execute", "Execute", "launch", "")] == ["execute", "other", "other", "other"]
    assert "L3" in call_refusal(1, "execute")
    with pytest.raises(ValueError, match="no trust level 5"):
        call_gate(5, "read")


@dataclass
class Rule:
    kind: str
    pattern: str
    effect: str


def run(command: str) -> Call:
    return Call("execute", command)


@pytest.mark.parametrize(
    ("pattern", "command"),
    [
        ("pytest *", "pytest -q tests"),
        ("pytest *", "pytest"),
        ("pytest -q", "pytest -q"),
        ("  pytest -q", " pytest -q "),
        ("git commit -m *", 'git commit -m "Mulch, and more"'),
        ("npm run *:fast", "npm run test:fast"),
        ("make a && make b", "make a && make b"),
        ("*", "ls -l"),
    ],
)
def test_a_command_is_covered(pattern: str, command: str) -> None:
    assert covers(clean_pattern("execute", pattern), run(command))


@pytest.mark.parametrize(
    "tail",
    [
        *(
            "; rm -rf /",
            "&& rm -rf /",
            "& rm x",
            "| sh",
            "|| sh",
            "$(rm x)",
            "`rm x`",
            "\nrm x",
            "\r\nrm x",
            "\u2028rm x",
        ),
        *("> ~/.bashrc", ">> x", "< /etc/passwd", "<(curl x)", "${IFS}rm", "$HOME", "{a,b}", "(rm x)", "\\\nrm x"),
        *("\u202e", "\u200b", "\x00", "\x1b[2K", "\U000e0041", "\u2800", "^& rm", "!rm"),
    ],
)
@pytest.mark.parametrize("pattern", ["pytest *", "pytest*", "*", "pytest * -q"])
def test_no_star_is_about_another_command(pattern: str, tail: str) -> None:
    command = f"pytest {tail}" + (" -q" if pattern.endswith("-q") else "")
    assert not covers(clean_pattern("execute", pattern), run(command))
    assert suggest_pattern(run(command)) is None or "*" not in str(suggest_pattern(run(command)))


@pytest.mark.parametrize("command", ["", "  ", "pytestx", "xpytest", "PYTEST -q", "sudo pytest -q", "pytes"])
def test_a_command_is_matched_as_a_whole(command: str) -> None:
    assert not covers("pytest *", run(command))
    assert not covers("pytest", run(command))


def test_many_stars_take_no_time() -> None:
    glob = clean_pattern("execute", "a*" * 9 + "c")
    assert not covers(glob, run("a" * 20_000 + "b"))
    deep = clean_pattern("edit", "/".join(["**"] * 5) + "/x")
    assert not covers(deep, Call("edit", paths=("a/" * 450 + "y",)))


def edit(*paths: str) -> Call:
    return Call("edit", paths=paths)


@pytest.mark.parametrize(
    ("pattern", "paths"),
    [
        ("src/**", ("src/a.py", "src/deep/b.py")),
        ("src/*.py", ("src/a.py",)),
        ("**/test_*.py", ("test_a.py", "tests/x/test_b.py")),
        ("**", ("a.py", "b/c.py")),
        ("/srv/app/**", ("/srv/app/a.py",)),
        ("./src//**", ("src/a.py",)),
        ("README.md", ("README.md",)),
    ],
)
def test_paths_are_covered(pattern: str, paths: tuple[str, ...]) -> None:
    assert covers(clean_pattern("edit", pattern), edit(*paths))


@pytest.mark.parametrize(
    ("pattern", "paths"),
    [
        ("src/**", ("src/../../etc/passwd",)),
        ("src/**", ("src/..",)),
        ("src/**", ("src/a.py", "setup.py")),
        ("src/*.py", ("src/deep/a.py",)),
        ("**", ("/etc/passwd",)),
        ("**", ("~/.ssh/config",)),
        ("**", ("$HOME/x",)),
        ("**", ("a\u202eb",)),
        ("**", ("../x",)),
        ("**", ("C:/Windows/x",)),
        ("/srv/**", ("srv/a",)),
        ("src/**", ()),
        ("src/**", ("srcx/a",)),
        ("src/**", ("Src/a",)),
    ],
)
def test_paths_are_not_covered(pattern: str, paths: tuple[str, ...]) -> None:
    assert not covers(clean_pattern("edit", pattern), edit(*paths))


@pytest.mark.parametrize(
    ("kind", "pattern", "words"),
    [
        ("fetch", "https://x", "neither a command nor paths"),
        ("other", "x", "neither"),
        ("edit", "../x", "no “..”"),
        ("edit", "a\\..\\b", "no “..”"),
        ("execute", "a\u200bb", "cannot be seen"),
        ("execute", "a\nb", "one line"),
        ("execute", "x" * 501, "at most 500"),
        ("execute", "a*" * 11, "at most 10 stars"),
    ],
)
def test_patterns_that_cannot_be_used(kind: CallKind, pattern: str, words: str) -> None:
    with pytest.raises(PatternRefused, match=words):
        clean_pattern(kind, pattern)


DENIES = [Rule("execute", "rm *", "deny"), Rule("execute", "git push*", "ask"), Rule("execute", "", "allow")]


@pytest.mark.parametrize(
    ("command", "effect"),
    [
        ("rm -rf x", "deny"),
        ("rm", "deny"),
        ("cd x && rm -rf y", "deny"),
        ("echo $(rm x)", "deny"),
        ("echo `rm x`", "deny"),
        ("ls\nrm x", "deny"),
        ("sudo rm x", "deny"),
        ("A=1 B=2 rm x", "deny"),
        ("/bin/rm x", "deny"),
        ("RM x", "deny"),
        ("git push origin", "ask"),
        ("git push; rm x", "deny"),
        ("ls | git push", "ask"),
        ("ls", "allow"),
        ("", "ask"),
    ],
)
def test_what_denies_goes_first_and_looks_at_every_part(command: str, effect: str) -> None:
    chosen = choose_rule(DENIES, run(command))
    assert chosen is not None
    assert chosen[1] == effect


def test_a_path_is_denied_at_any_depth() -> None:
    rules = [Rule("edit", ".env", "deny"), Rule("edit", "src/**", "ask"), Rule("edit", "", "allow")]

    def effect(*paths: str) -> str | None:
        chosen = choose_rule(rules, edit(*paths))
        return chosen[1] if chosen else None

    assert effect("a.py", "/home/me/p/.env") == "deny"
    assert effect("x/../.ENV") == "deny"
    assert effect("/home/me/p/src/a.py") == "ask"
    assert effect("a.py") == "allow"
    assert effect() == "ask"
    assert choose_rule(rules, Call("delete", paths=("a.py",))) is None


def test_paths_as_people_read_them() -> None:
    assert relative_path("/home/me/p/src/a.py", "/home/me/p") == "src/a.py"
    assert relative_path("/home/me/p/../q/a.py", "/home/me/p/") == "/home/me/p/../q/a.py"
    assert relative_path("C:\\work\\p\\a.py", "C:\\work\\p") == "a.py"
    assert relative_path("/home/me/px/a", "/home/me/p") == "/home/me/px/a"
    assert relative_path("src/./a.py", "") == "src/a.py"
    assert [is_outside(path) for path in ("src/a", "../a", "a/../../b", "/etc/x", "~/x")] == [False, *[True] * 4]


def test_the_narrowest_pattern_is_suggested() -> None:
    assert suggest_pattern(run("pytest -q")) == "pytest -q"
    assert suggest_pattern(run("rm *")) is None
    assert suggest_pattern(edit("src/a.py")) == "src/a.py"
    assert suggest_pattern(edit("src/a.py", "src/x/b.py")) == "src/**"
    assert suggest_pattern(edit("a.py", "src/b.py")) is None
    assert suggest_pattern(edit("../a.py")) is None
    assert suggest_pattern(Call("fetch")) == ""
