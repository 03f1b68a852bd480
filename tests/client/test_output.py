"""What commands print: plain text, and JSON lines in the shapes of the coding agents that have presets."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from openvibe_client.output import OutputReader
from openvibe_client.presets import BadPreset, Preset, load_presets

BLOCK = {"type": "content_block_start", "content_block": {"type": "text", "text": ""}}


def delta(text: str, kind: str = "text_delta") -> dict[str, object]:
    return {"type": "content_block_delta", "delta": {"type": kind, "text": text}}


CLAUDE = [
    {"type": "system", "subtype": "init", "session_id": "s-1"},
    {"type": "stream_event", "event": BLOCK},
    {"type": "stream_event", "event": delta("Let me")},
    {"type": "stream_event", "event": delta(" see.")},
    {"type": "stream_event", "event": delta("Hm", "thinking_delta")},
    {"type": "assistant", "message": {"content": [{"type": "text", "text": "Let me see."}]}},
    {"type": "stream_event", "parent_tool_use_id": "toolu_1", "event": delta("of a helper")},
    {"type": "stream_event", "parent_tool_use_id": None, "event": BLOCK},
    {"type": "stream_event", "event": delta("March.")},
    {"type": "result", "subtype": "success", "is_error": False, "result": "March.", "session_id": "s-1"},
]
CODEX = [
    {"type": "thread.started", "thread_id": "t-1"},
    {"type": "item.completed", "item": {"type": "reasoning", "text": "**Hm**"}},
    {"type": "item.completed", "item": {"type": "agent_message", "text": "Let me see."}},
    {"type": "item.completed", "item": {"type": "command_execution", "aggregated_output": "ls"}},
    {"type": "item.completed", "item": {"type": "agent_message", "text": "March."}},
    {"type": "turn.failed", "error": {"message": "quota"}},
]
OPENCODE = [
    {"type": "step_start", "sessionID": "ses_1", "part": {"type": "step-start"}},
    {"type": "text", "sessionID": "ses_1", "part": {"type": "text", "text": "Let me see."}},
    {"type": "text", "sessionID": "ses_1", "part": {"type": "text", "text": "March."}},
]
GEMINI = [
    {"type": "init", "session_id": "g-1", "model": "m"},
    {"type": "message", "role": "user", "content": "when?"},
    {"type": "message", "role": "assistant", "content": "Let me see.\n\n", "delta": True},
    {"type": "message", "role": "assistant", "content": "March.", "delta": True},
    {"type": "result", "status": "error", "error": {"type": "X", "message": "quota"}},
]


def read(preset: Preset, data: bytes, step: int = 7) -> tuple[str, OutputReader]:
    """The words of a command's output that comes in pieces of so many bytes."""
    words: list[str] = []
    reader = OutputReader(preset, words.append)
    for start in range(0, len(data), step):
        reader.feed(data[start : start + step])
    reader.feed(b"", is_last=True)
    return "".join(words), reader


@pytest.mark.parametrize(
    ("name", "events", "session", "error"),
    [
        ("claude", CLAUDE, "s-1", ""),
        ("codex", CODEX, "t-1", "quota"),
        ("opencode", OPENCODE, "ses_1", ""),
        ("gemini", GEMINI, "g-1", "quota"),
    ],
)
def test_each_preset_finds_words_session_and_error(
    name: str, events: Sequence[object], session: str, error: str
) -> None:
    lines = "\n".join(["a warning, not JSON", *map(json.dumps, events), "[1, 2]", "{"])
    words, reader = read(load_presets()[name], lines.encode())
    assert (words, reader.session, reader.error) == ("Let me see.\n\nMarch.", session, error)


def test_plain_text_comes_without_escapes_and_with_marks_for_what_is_no_utf_8() -> None:
    words, _ = read(Preset(), "\x1b[1mGr\u00fcn\x1b[0m \x1b]8;;x\x07caf\u00e9".encode() + b" \xff\xfe!", step=1)
    assert words == "Gr\u00fcn caf\u00e9 \ufffd\ufffd!"


def test_a_session_is_resumed_where_each_command_wants_it() -> None:
    presets, values = load_presets(), {"request": "{session} $(rm)", "mcp_file": "/tmp/m.json"}

    def line(name: str, *command: str, session: str | None = "s-1") -> list[str]:
        return presets[name].command_line(command, values=values, session=session, with_mcp=False)

    assert line("codex", "codex", "--model", "o") == (
        ["codex", "exec", "--json", "--skip-git-repo-check", "--model", "o", "resume", "s-1", "-"]
    )
    assert line("codex", "codex", session=None)[-1] == "-"
    assert line("claude", "claude")[-2:] == ["--resume", "s-1"]
    assert Preset().command_line(["x", "{request}"], values=values, session="s", with_mcp=True)[1] == "{session} $(rm)"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[x]\noutputs = 'text'", "“outputs”"),
        ("[x]\noutput = 'xml'", "one of text, jsonl"),
        ("[x]\ndelta = 3", "a text or a list of texts"),
        ("x = 1", "no table"),
        ("[x", "Expected"),
    ],
)
def test_a_preset_that_is_wrong_is_refused_in_words(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "run.toml").write_text(text)
    with pytest.raises(BadPreset, match=problem):
        load_presets(tmp_path / "run.toml")
