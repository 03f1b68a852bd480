"""Mattermost's bulk export becomes threads: public channels, with replies and without, and nothing else."""

import json
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from openvibe.chat.importing import mattermost
from openvibe.chat.importing.account import Account
from openvibe.chat.importing.values import ImportedThread, plain_mentions
from openvibe.chat.models import Message, Thread
from openvibe.workspaces.models import Member, Participant

NOON = 1_700_000_000_000


def post(user: object, message: str, at: int, channel: str = "garden", **more: Any) -> dict[str, Any]:
    content = {"team": "willow", "channel": channel, "user": user, "message": message, "create_at": NOON + at, **more}
    return {"type": "post", "post": content}


def reply(user: str, message: str, at: int, **more: Any) -> dict[str, Any]:
    return {"user": user, "message": message, "create_at": NOON + at, **more}


LINES: list[dict[str, Any]] = [
    {"type": "version", "version": 1},
    {"type": "team", "team": {"name": "willow"}},
    {"type": "channel", "channel": {"team": "willow", "name": "garden", "display_name": "Garden", "type": "O"}},
    {"type": "channel", "channel": {"team": "willow", "name": "board", "display_name": "Board", "type": "P"}},
    {"type": "user", "user": {"username": "mara.w", "first_name": "Mara", "last_name": "Weber"}},
    {"type": "user", "user": {"username": "jonas", "nickname": "Jonas"}},
    {"type": "bot", "bot": {"username": "weather", "display_name": "Weather"}},
    post("jonas", "Later.", 9_000),
    post("mara.w", "Earlier. Ask @jonas.", 1_000),
    post("jonas", "joined", 2_000, type="system_join_channel"),
    post("mara.w", "The salaries.", 3_000, channel="board"),
    post(
        "mara.w",
        "When do we prune?",
        4_000,
        replies=[reply("jonas", "In March, @mara.w.", 6_000), reply("weather", "Frost.", 5_000)],
        attachments=[{"path": "20260101/plan.pdf"}],
    ),
    {"type": "direct_post", "direct_post": {"user": "jonas", "message": "psst", "create_at": NOON}},
]


def read_mattermost(path: Path, account: Account | None = None) -> list[ImportedThread]:
    """All threads with all their lines."""
    return [replace(thread, lines=tuple(thread.lines)) for thread in mattermost.read_mattermost(path, account)]


def write(path: Path, lines: Sequence[object]) -> Path:
    path.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    return path


def test_public_channels_become_threads_in_the_order_things_were_said(tmp_path: Path) -> None:
    single, answered = [
        (thread.title, [(line.author, plain_mentions(line.text), line.is_assistant) for line in thread.lines])
        for thread in read_mattermost(write(tmp_path / "all.jsonl", LINES))
    ]
    assert answered == (
        "When do we prune? [file: plan.pdf]",
        [
            ("Mara Weber", "When do we prune?\n[file: plan.pdf]", False),
            ("Weather", "Frost.", True),
            ("Jonas", "In March, @mara-weber.", False),
        ],
    )
    assert single == (
        "14 November 2023: Earlier. Ask @jonas.",
        [("Mara Weber", "Earlier. Ask @jonas.", False), ("Jonas", "Later.", False)],
    )


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ({"type": "post", "post": "text"}, 'it says it is a post and has no "post"'),
        (post("jonas", "x", 0, create_at="noon"), 'its "create_at" is no time that can be read'),
        (post("jonas", "x", 0, create_at=10**30), 'its "create_at" is no time that can be read'),
        (post("jonas", "x", 0, create_at=0), 'its "create_at" is no time that can be read'),
        (post("jonas", "x", 0, create_at=None), 'its "create_at" is no time that can be read'),
        (post("jonas", "", 0), "nothing in it can be seen"),
        (post("jonas", "x", 0, delete_at=5), "it was deleted"),
        (post("jonas", "x", 0, type="system_join_channel"), "it tells of the channel (system_join_channel)"),
        (post("jonas", "x", 0, channel="nowhere"), "its channel is none that stands ahead"),
        (post(7, "x", 0), 'its "user" is not a text'),
        ({"type": "direct_post", "direct_post": {}}, "it is a direct message"),
        ({"type": "user", "user": {"username": 7}}, "not a text"),
        ({"type": ["post"]}, "none that is known"),
        ([1], "not an object"),
        ("{", "not an object"),
    ],
)
def test_a_line_that_is_wrong_is_named_and_the_others_come_in(tmp_path: Path, line: object, sentence: str) -> None:
    usual, account = Account(), Account()
    expected = [
        (thread.external_id, list(thread.lines)) for thread in read_mattermost(write(tmp_path / "a", LINES), usual)
    ]
    file = write(tmp_path / "all.jsonl", [*LINES, line])
    assert [(thread.external_id, list(thread.lines)) for thread in read_mattermost(file, account)] == expected
    assert account.count_left_out() == usual.count_left_out() + 1
    assert any(sentence in each and f"line {len(LINES) + 1}" in each for each in account.sentences())


def test_of_a_post_the_replies_that_can_be_read_come_in(tmp_path: Path) -> None:
    replies = [{"user": "jonas", "message": "Yes", "create_at": str(NOON)}, 7, {"user": "jonas", "message": "No"}]
    lines = [*LINES, post("jonas", "no time", 0, create_at=0, replies=replies)]
    threads = list(read_mattermost(write(tmp_path / "all.jsonl", lines), account := Account()))
    assert "Yes" in [line.text for thread in threads for line in thread.lines]
    place, told = f"line {len(lines)}", " ".join(account.sentences())
    assert f"{place}, {place}, reply 3)" in told
    assert f"it is not an object ({place}, reply 2)" in told


def test_the_command_knows_the_format_and_a_second_time_adds_nothing(ana: Member, tmp_path: Path) -> None:
    file = write(tmp_path / "all.jsonl", LINES)
    for added in ("2 threads, 5 messages", "0 messages (5 there already)"):
        call_command("conversation", "import", str(file), "--channel=garden", stdout=(output := StringIO()))
        assert added in output.getvalue()
    assert Thread.objects.filter(channel__name="garden").count() == 2
    assert not Message.objects.filter(body__contains="salaries").exists()
    assert Participant.objects.get(name="Weather").kind == "assistant"
    write(file, LINES[:1])
    with pytest.raises(CommandError, match="no conversation"):
        call_command("conversation", "import", str(file), "--channel=garden")
