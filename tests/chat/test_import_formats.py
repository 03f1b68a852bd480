"""Exports of other programs, with the oddities that people met: each record is here or in the account, with its reason,
and the account's sums are equal."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from openvibe.chat.importing.account import Account, load_account
from openvibe.chat.importing.formats import READERS, guess_format
from openvibe.chat.importing.values import plain_mentions
from openvibe.chat.models import Channel, ChannelMembership, ConversationImport, Message, Reaction, Thread
from openvibe.workspaces.models import Member, Participant

NOON = 1_700_049_600


def user(key: str, name: str, **more: Any) -> dict[str, Any]:
    return {"id": key, "name": key.lower(), "profile": {"display_name": name, "real_name": name}, **more}


def said(ts: str, text: str = "", by: str = "U1", **more: Any) -> dict[str, Any]:
    return {"type": "message", "ts": ts, "user": by, "text": text, **more}


def ts(seconds: int) -> str:
    return f"{NOON + seconds}.000100"


def slack_zip(folder: Path, days: dict[str, Any], **files: Any) -> Path:
    path = folder / "export.zip"
    everything: dict[str, Any] = {
        "channels.json": [
            {
                "id": "C1",
                "name": "garden",
                "members": ["U1", "U2"],
                "topic": {"value": "Roses"},
                "purpose": {"value": "Grow"},
            }
        ],
        "users.json": [user("U1", "Alex"), user("U2", "Alex"), user("U3", "Silent")],
        **{f"garden/{day}.json": value for day, value in days.items()},
        **files,
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in everything.items():
            archive.writestr(name, value if isinstance(value, str | bytes) else json.dumps(value))
    return path


def read(path: Path, form: str = "") -> tuple[list[tuple[str, list[str]]], Account]:
    """Titles with what was said, `author: text`, and the account once all of it was taken in."""
    account = Account()
    threads = []
    for thread in READERS[form or guess_format(path)](path, account, path.stem):
        lines = [f"{line.author}: {plain_mentions(line.text)}" for line in thread.lines]
        account.take_in(count=len(lines))
        threads.append((thread.title, lines))
    account.close()
    check_sums(account.to_json())
    return threads, account


def check_sums(value: dict[str, Any]) -> None:
    kinds, left_out = load_account(value)
    assert kinds
    for each in kinds:
        assert each.read == each.imported + each.left_out
        assert each.left_out == sum(row.count for row in left_out if row.kind == each.kind)
        assert each.present <= each.imported
    assert all(row.places or row.count for row in left_out)


def run(file: Path, *more: str) -> str:
    output = io.StringIO()
    call_command("conversation", "import", str(file), *more, stdout=output)
    return output.getvalue()


SLACK_DAY = [
    said(ts(0), "First Alex speaks about the budget."),
    said(ts(1), "Second Alex disagrees, <@U1>.", "U2"),
    said(
        ts(4),
        by="",
        subtype="bot_message",
        username="Forge",
        bot_id="B1",
        attachments=[
            {"fallback": "[repo] Change 12 merged", "title": "Change 12 merged", "text": "fix the pump timer"}
        ],
    ),
    said(
        ts(5),
        by="",
        subtype="bot_message",
        bot_id="B2",
        blocks=[{"type": "section", "text": {"type": "mrkdwn", "text": "*Deploy* finished at 12:00"}}],
    ),
    said(ts(8), "Parent without thread_ts", reply_count=1, replies=[{"user": "U2", "ts": ts(9)}]),
    said(ts(9), "Its reply", "U2", thread_ts=ts(8)),
    said(ts(17), attachments=[{"is_share": True, "author_name": "María", "text": "The van is sold"}]),
    {"type": "message", "user": "U1", "text": "no time at all"},
    said(ts(100), "This is *bold* and _it_ and ~struck~ :tada:"),
    said(ts(102), "```for i in range(3):\n    print(i)```"),
]


def test_a_slack_export_lands_as_people_know_it(ana: Member, tmp_path: Path) -> None:
    file = slack_zip(tmp_path, {"2023-11-15": SLACK_DAY})
    report = run(file)
    channel = Channel.objects.get(name="garden")
    assert channel.description == "Roses\n\nGrow"
    assert not channel.is_private
    threads = {thread.title: thread for thread in Thread.objects.filter(channel=channel)}
    assert set(threads) == {"15 November 2023: First Alex speaks about the budget.", "Parent without thread_ts"}
    assert list(threads["Parent without thread_ts"].messages.order_by("seq").values_list("body", flat=True)) == [
        "Parent without thread_ts",
        "Its reply",
    ]
    bodies = [*Message.objects.order_by("created_at").values_list("body", flat=True)]
    assert "**Change 12 merged**\nfix the pump timer" in bodies
    assert "**Deploy** finished at 12:00" in bodies
    assert any("María" in body and "The van is sold" in body for body in bodies)
    assert "This is **bold** and _it_ and ~~struck~~ 🎉" in bodies
    assert "```\nfor i in range(3):\n    print(i)\n```" in bodies
    alexes = Participant.objects.filter(name="Alex", messages__isnull=False).distinct()
    assert alexes.count() == 2
    first = Message.objects.get(body__startswith="First Alex").author
    assert f"@{first.handle}." in next(body for body in bodies if body.startswith("Second"))
    members = ChannelMembership.objects.filter(channel=channel, participant__kind="imported")
    assert {each.participant_id for each in members} == {alex.pk for alex in alexes}
    assert "messages: 10 read = 9 imported + 1 left out." in report
    assert 'it has no "ts", the time that Slack knows it by (garden/2023-11-15.json record 8)' in report
    assert "1 person left out: nothing of theirs was taken in (users.json record 3)" in report
    check_sums(ConversationImport.objects.get().account)


def test_the_same_id_in_a_later_import_is_the_same_speaker_and_another_of_that_name_is_not(
    ana: Member, tmp_path: Path
) -> None:
    run(slack_zip(tmp_path, {"2023-11-15": [said(ts(0), "One"), said(ts(1), "Two", "U2")]}))
    run(slack_zip(tmp_path, {"2023-11-15": [said(ts(0), "One"), said(ts(2), "Three", "U2")]}))
    log = tmp_path / "talk.jsonl"
    log.write_text(json.dumps({"author": "Alex", "text": "Four"}))
    run(log, "--channel", "garden")
    authors = dict(Message.objects.values_list("body", "author__handle"))
    assert set(authors) == {"One", "Two", "Three", "Four"}
    assert authors["Two"] == authors["Three"]
    assert len({authors["One"], authors["Two"], authors["Four"]}) == 3


def test_what_came_in_since_is_added_wherever_it_stands_and_nothing_twice(ana: Member, tmp_path: Path) -> None:
    """A later export has a message between, and one fewer: places say nothing, times do."""
    run(slack_zip(tmp_path, {"2023-11-15": [said(ts(0), "One"), said(ts(5), "Three"), said(ts(6), "Gone later")]}))
    later = {"2023-11-15": [said(ts(0), "One"), said(ts(3), "Two"), said(ts(5), "Three"), said(ts(7), "Four")]}
    report = run(slack_zip(tmp_path, later))
    assert "2 messages (2 there already)" in report
    bodies = Message.objects.values_list("body", flat=True)
    assert sorted(bodies) == ["Four", "Gone later", "One", "Three", "Two"]
    assert Channel.objects.filter(name__startswith="garden").count() == 1


def test_two_said_at_the_same_moment_are_two(ana: Member, tmp_path: Path) -> None:
    day = {"2023-11-15": [said(ts(0), "One"), said(ts(0), "Other", "U2")]}
    for _ in range(2):
        run(slack_zip(tmp_path, day))
    assert sorted(Message.objects.values_list("body", flat=True)) == ["One", "Other"]


def test_an_export_in_which_every_user_is_deleted(ana: Member, tmp_path: Path) -> None:
    gone = [user(key, "Deactivated User", deleted=True) for key in ("U1", "U2")]
    file = slack_zip(tmp_path, {"2023-11-15": [said(ts(0), "One"), said(ts(1), "Two", "U2")]}, **{"users.json": gone})
    run(file)
    assert Participant.objects.filter(name="Deactivated User").count() == 2
    file = slack_zip(
        tmp_path, {"2023-11-16": [said(ts(0), "Nobody", "U8"), said(ts(1), "No one", "U9")]}, **{"users.json": []}
    )
    run(file)
    assert set(Participant.objects.filter(kind="imported").values_list("name", flat=True)) >= {"U8", "U9"}


def test_private_channels_and_direct_messages_stay_out_and_are_counted(ana: Member, tmp_path: Path) -> None:
    private = {
        "groups.json": [{"id": "G1", "name": "board", "members": ["U1"]}],
        "dms.json": [{"id": "D1", "members": ["U1", "U2"]}],
        "board/2023-11-15.json": [said(ts(0), "Salaries"), said(ts(1), "More salaries")],
        "D1/2023-11-15.json": [said(ts(0), "Psst")],
        "canvases.json": [{"id": "F1", "title": "Plan"}],
    }
    report = run(slack_zip(tmp_path, {"2023-11-15": [said(ts(0), "Hello")]}, **private))
    assert [*Message.objects.values_list("body", flat=True)] == ["Hello"]
    assert "messages: 4 read = 1 imported + 3 left out." in report
    assert "3 messages left out: it is in a private channel or a direct message" in report
    assert not Channel.objects.filter(name="board").exists()
    check_sums(ConversationImport.objects.get().account)


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (said("1.0", "# no heading"), "\\# no heading"),
        (said("1.0", "see ```a *b* <https://x.example|y>``` and `*c*`"), "see \n```\na *b* y\n```\n and `*c*`"),
        (said("1.0", "<https://a.example/x_(y)|the [page]>"), "[the \\[page\\]](https://a.example/x_%28y%29)"),
        (said("1.0", ":wave::skin-tone-3: :+1: :flag-de: :ownmade:"), "👋🏼 👍 🇩🇪 :ownmade:"),
        (said("1.0", "a * b * c, 2*3*4, _x_y_, 10:30:45"), "a * b * c, `2*3*4`, _x_y_, 10:30:45"),
        (
            said("1.0", "See (__init__.py). *__x__* 2*3 `a*b*c` __a b__ &lt;b*c*d&gt;!"),
            "See (`__init__.py`). **`__x__`** 2*3 `a*b*c` __a b__ `<b*c*d>`!",
        ),
        (said("1.0", "*&lt;b&gt;*"), "**<b>**"),
        (said("1.0", "hums", subtype="me_message"), "(hums)"),
        (
            said(
                "1.0",
                "",
                subtype="huddle_thread",
                room={"participant_history": ["U1"], "date_start": 60, "date_end": 360},
            ),
            "Huddle, 5 min: @alex",
        ),
        (
            said("1.0", "", files=[{"name": "plan.pdf"}, {"title": "Notes", "mode": "quip"}]),
            "[file: plan.pdf]\n[canvas: Notes]",
        ),
        (said("1.0", "Said", subtype="something_new"), "Said"),
        (said("1.0", "Build", attachments=[{"fallback": "only this"}]), "Build\n\nonly this"),
        (
            said("1.0", "x", attachments=[{"fields": [{"title": "Env", "value": "*prod*"}], "color": "good"}]),
            "x\n\n**Env**: **prod**",
        ),
        (
            said("1.0", "https://a.example", attachments=[{"from_url": "https://a.example", "title": "A page"}]),
            "https://a.example",
        ),
        (
            said(
                "1.0",
                attachments=[
                    {
                        "is_msg_unfurl": True,
                        "author_name": "Mara",
                        "message_blocks": [
                            {
                                "message": {
                                    "blocks": [{"type": "section", "text": {"type": "plain_text", "text": "From afar"}}]
                                }
                            }
                        ],
                    }
                ],
            ),
            "> **Mara**:\n> From afar",
        ),
    ],
)
def test_what_a_slack_record_says(tmp_path: Path, record: dict[str, Any], text: str) -> None:
    threads, _account = read(slack_zip(tmp_path, {"2023-11-15": [record]}))
    assert threads[0][1] == [f"Alex: {text}"]


def test_rich_text_of_every_kind(tmp_path: Path) -> None:
    def section(*elements: Any) -> dict[str, Any]:
        return {"type": "rich_text_section", "elements": list(elements)}

    blocks = [
        {
            "type": "rich_text",
            "elements": [
                section(
                    {"type": "text", "text": "Bold ", "style": {"bold": True}},
                    {"type": "user", "user_id": "U1"},
                    {"type": "text", "text": " in "},
                    {"type": "channel", "channel_id": "C1"},
                    {"type": "text", "text": " "},
                    {"type": "link", "url": "https://a.example", "text": "page"},
                    {"type": "emoji", "name": "tada", "unicode": "1f389"},
                    {"type": "broadcast", "range": "here"},
                    {"type": "date", "timestamp": 1_700_000_000, "fallback": "Tuesday"},
                    {"type": "color", "value": "#ff0000"},
                ),
                {"type": "rich_text_list", "style": "ordered", "elements": [section({"type": "text", "text": "one"})]},
                {
                    "type": "rich_text_list",
                    "style": "bullet",
                    "indent": 1,
                    "elements": [section({"type": "text", "text": "in"})],
                },
                {"type": "rich_text_quote", "elements": [{"type": "text", "text": "quoted\ntwice"}]},
                {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": "x = 1\ny"}]},
            ],
        },
        {"type": "header", "text": {"type": "plain_text", "text": "Head :tada:"}},
        {
            "type": "context",
            "elements": [{"type": "mrkdwn", "text": "_small_"}, {"type": "image", "alt_text": "a cat"}],
        },
        {
            "type": "section",
            "fields": [{"type": "mrkdwn", "text": "*A*"}],
            "accessory": {"type": "button", "text": {"type": "plain_text", "text": "Go"}},
        },
        {"type": "divider"},
        {"type": "image", "alt_text": "a chart"},
        {"type": "table", "rows": [[{"type": "raw_text", "text": "left"}, {"type": "raw_text", "text": "right"}]]},
    ]
    threads, _account = read(slack_zip(tmp_path, {"2023-11-15": [said("1.0", blocks=blocks)]}))
    ((_title, (line,)),) = threads
    for piece in (
        "**Bold** @alex in #garden [page](https://a.example)🎉@hereTuesday#ff0000",
        "1. one\n   - in\n> quoted\n> twice\n```\nx = 1\ny\n```",
        "**Head 🎉**",
        "_small_\n[image: a cat]",
        "**A**\nGo",
        "[image: a chart]",
        "left | right",
    ):
        assert piece in line


def test_reactions_come_in_and_what_has_no_emoji_is_told(ana: Member, tmp_path: Path) -> None:
    reactions = [
        {"name": "tada", "users": ["U1", "U2"]},
        {"name": "heart", "users": ["U3"]},
        {"name": "ourcat", "users": ["U1"]},
    ]
    report = run(slack_zip(tmp_path, {"2023-11-15": [said(ts(0), "Done", reactions=reactions, pinned_to=["C1"])]}))
    assert sorted(Reaction.objects.values_list("emoji", flat=True)) == ["❤️", "🎉", "🎉"]
    assert "reactions: 4 read = 3 imported + 1 left out." in report
    assert "1 pin left out" in report
    check_sums(ConversationImport.objects.get().account)


def test_a_day_that_is_cut_off_gives_what_stands_before(tmp_path: Path) -> None:
    day = json.dumps([said(ts(0), "One"), said(ts(1), "Two")])
    threads, account = read(slack_zip(tmp_path, {"2023-11-15": day[:-30], "2023-11-16": [said(ts(90_000), "Three")]}))
    assert [line for _, lines in threads for line in lines] == ["Alex: One", "Alex: Three"]
    assert any("it is not JSON from there on" in sentence for sentence in account.sentences())


def test_a_zip_that_unpacks_to_forty_gigabytes_is_not_opened(ana: Member, tmp_path: Path) -> None:
    file = slack_zip(tmp_path, {"2023-11-15": [said(ts(0), "One")]})
    with zipfile.ZipFile(file) as archive:
        names = [info.filename for info in archive.infolist()]
    raw = bytearray(file.read_bytes())
    start = raw.index(b"PK\x01\x02")
    for _ in names:  # what the list of files says of each size
        raw[start + 24 : start + 28] = (4_000_000_000).to_bytes(4, "little")
        start = raw.find(b"PK\x01\x02", start + 4)
    file.write_bytes(raw)
    with pytest.raises(CommandError, match=r"GB|far too much"):
        run(file)
    assert not Message.objects.exists()
    assert ConversationImport.objects.get().state == "failed"


MATTERMOST: list[dict[str, Any]] = [
    {"type": "version", "version": 1},
    {"type": "team", "team": {"name": "t"}},
    {"type": "channel", "channel": {"team": "t", "name": "town", "display_name": "Town", "type": "O", "header": "All"}},
    {"type": "channel", "channel": {"team": "t", "name": "board", "display_name": "Board", "type": "P"}},
    {"type": "user", "user": {"username": "alex.k", "first_name": "Alex"}},
    {"type": "user", "user": {"username": "alex.m", "first_name": "Alex"}},
]


@pytest.mark.parametrize(
    ("channel", "lists"),
    [
        ({"is_private": True}, {}),
        ({"is_im": True}, {}),
        ({"is_mpim": True}, {}),
        ({}, {"groups.json": [{"id": "C9", "name": "board"}]}),
        ({}, {"groups.json": [{"id": "C9"}]}),
        ({}, {"mpims.json": [{"id": "other", "name": "board"}]}),
        ({}, {"dms.json": [{"id": "C9", "members": ["U1", "U2"]}]}),
    ],
)
def test_a_private_room_among_the_public_ones_stays_out(
    tmp_path: Path, channel: dict[str, Any], lists: dict[str, Any]
) -> None:
    rooms = [{"id": "C1", "name": "garden"}, {"id": "C9", "name": "board", **channel}]
    secret = {"board/2023-11-15.json": [said(ts(0), "Salaries"), said(ts(1), "More salaries")]}
    days = {"2023-11-15": [said(ts(0), "Hello")]}
    threads, account = read(slack_zip(tmp_path, days, **{"channels.json": rooms}, **secret, **lists))
    assert [lines for _, lines in threads] == [["Alex: Hello"]]
    sentences = " ".join(account.sentences())
    assert "1 channel left out: it is a private channel or a direct message, and those stay out" in sentences
    assert "2 messages left out: it is in a private channel or a direct message" in sentences


def test_replies_to_replies_come_in_with_their_post(tmp_path: Path) -> None:
    deepest = {"user": "alex.k", "message": "three", "create_at": 1_700_000_003_000}
    middle = {"user": "alex.m", "message": "two", "create_at": 1_700_000_002_000, "replies": [deepest]}
    replies = [{"user": "alex.m", "message": "no time", "replies": [middle, 7]}]
    board = mm("alex.k", "Salaries", 1_700_000_000_000, channel="board", replies=replies)
    direct = {"type": "direct_post", "direct_post": {"user": "alex.k", "message": "psst", "replies": replies}}
    file = tmp_path / "bulk.jsonl"
    file.write_text(as_jsonl([*MATTERMOST, mm("alex.k", "one", 1_700_000_001_000, replies=replies), board, direct]))
    threads, account = read(file)
    assert [lines for _, lines in threads] == [["Alex: one", "Alex: two", "Alex: three"]]
    sentences = " ".join(account.sentences())
    assert "5 messages left out: its channel is private" in sentences
    assert "5 messages left out: it is a direct message" in sentences


def test_replies_without_end_stop_no_import(tmp_path: Path) -> None:
    reply: dict[str, Any] = {"user": "alex.m", "message": "deep", "create_at": 1_700_000_002_000}
    for number in range(200):
        reply = {"user": "alex.m", "message": f"{number}", "create_at": 1_700_000_003_000 + number, "replies": [reply]}
    file = tmp_path / "bulk.jsonl"
    file.write_text(as_jsonl([*MATTERMOST, mm("alex.k", "one", 1_700_000_001_000, replies=[reply])]))
    assert [len(lines) for _, lines in read(file)[0]] == [202]


def mm(user_name: str, message: str, at: object, **more: Any) -> dict[str, Any]:
    content = {"team": "t", "channel": "town", "user": user_name, "message": message, "create_at": at, **more}
    return {"type": "post", "post": content}


MATTERMOST_POSTS = [
    mm("alex.k", "Alex K says cedar :tada:", 1_700_000_000_000, reactions=[{"user": "alex.m", "emoji_name": "+1"}]),
    mm("alex.m", "Alex M says oak, `:tada:` @alex.k", 1_700_000_001_000),
    mm("ci", "", 1_700_000_002_000, props={"attachments": [{"title": "Build 12 failed", "text": "unit tests red"}]}),
    mm(
        "ci",
        "",
        1_700_000_002_500,
        props=json.dumps({"attachments": [{"fallback": "Build 13"}], "from_webhook": "true"}),
    ),
    mm("alex.k", "a time as text", "1700000003000"),
    mm("alex.k", "a time with a point", 1_700_000_004_000.5),
    mm("alex.k", "no time", 0),
    mm("alex.k", "none either", None),
    mm("alex.k", "Salaries", 1_700_000_005_000, channel="board"),
]


@pytest.mark.parametrize("is_zip", [False, True])
def test_a_mattermost_export_with_its_oddities(ana: Member, tmp_path: Path, *, is_zip: bool) -> None:
    text = "\n".join(map(json.dumps, MATTERMOST + MATTERMOST_POSTS))
    file = tmp_path / ("bulk.zip" if is_zip else "bulk.jsonl")
    if is_zip:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("import.jsonl", text)
            archive.writestr("data/20260101/plan.pdf", b"%PDF")
    else:
        file.write_text(text)
    report = run(file)
    bodies = [*Message.objects.order_by("created_at").values_list("body", flat=True)]
    cedar = Message.objects.get(body__contains="cedar").author
    assert bodies == [
        "Alex K says cedar 🎉",
        f"Alex M says oak, `:tada:` @{cedar.handle}",
        "**Build 12 failed**\nunit tests red",
        "Build 13",
        "a time as text",
        "a time with a point",
    ]
    assert Participant.objects.filter(name="Alex").count() == 2
    assert Reaction.objects.get().emoji == "👍"
    assert Channel.objects.get(name="town").description == "All"
    assert "messages: 9 read = 6 imported + 3 left out." in report
    assert ("1 file left out" in report) is is_zip
    check_sums(ConversationImport.objects.get().account)


CHATGPT = [
    {
        "title": "Roses",
        "conversation_id": "c-1",
        "current_node": "n4",
        "mapping": {
            "root": {"message": None, "parent": None},
            "n1": {
                "parent": "root",
                "message": {
                    "author": {"role": "user"},
                    "create_time": 1_700_000_000.5,
                    "content": {
                        "content_type": "multimodal_text",
                        "parts": ["When?", {"content_type": "image_asset_pointer", "asset_pointer": "file-1"}],
                    },
                },
            },
            "n2": {
                "parent": "n1",
                "message": {"author": {"role": "assistant"}, "content": {"content_type": "text", "parts": ["In May."]}},
            },
            "n3": {
                "parent": "n1",
                "message": {
                    "author": {"role": "assistant"},
                    "create_time": 1_700_000_002,
                    "content": {"content_type": "code", "language": "python", "text": "print(1)"},
                },
            },
            "n4": {
                "parent": "n3",
                "message": {
                    "author": {"role": "tool", "name": "python"},
                    "create_time": 1_700_000_003,
                    "content": {"content_type": "execution_output", "text": "1"},
                },
            },
        },
    }
]
CLAUDE = [
    {
        "uuid": "u-1",
        "name": "Soup",
        "chat_messages": [
            {
                "uuid": "m1",
                "sender": "human",
                "text": "Leek?",
                "created_at": "2026-03-01T09:30:00Z",
                "attachments": [{"file_name": "a.txt", "extracted_content": "Leeks, 3"}],
            },
            {
                "uuid": "m2",
                "sender": "assistant",
                "created_at": "2026-03-01T09:31:00Z",
                "content": [
                    {"type": "thinking", "thinking": "hm"},
                    {"type": "text", "text": "Yes."},
                    {"type": "tool_use", "name": "look", "input": {"q": "leek"}},
                ],
            },
        ],
    }
]
OPEN_WEBUI = [
    {
        "id": "w-1",
        "title": "Bread",
        "chat": {
            "history": {
                "currentId": "b",
                "messages": {
                    "a": {"id": "a", "parentId": None, "role": "user", "content": "Rye?", "timestamp": 1_700_000_000},
                    "x": {
                        "id": "x",
                        "parentId": "a",
                        "role": "assistant",
                        "content": "No.",
                        "timestamp": 1_700_000_001,
                    },
                    "b": {
                        "id": "b",
                        "parentId": "a",
                        "role": "assistant",
                        "content": "Yes.",
                        "timestamp": 1_700_000_002,
                    },
                },
            }
        },
    }
]
API_LOG = [
    {"role": "user", "content": [{"type": "text", "text": "hi there"}]},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "1", "function": {"name": "look", "arguments": "{}"}}],
    },
    {"role": "tool", "content": "result", "tool_call_id": "1"},
    {"role": "assistant", "content": "done"},
]
CLAUDE_CODE = [
    {"type": "summary", "summary": "Pump"},
    {
        "type": "user",
        "sessionId": "s",
        "uuid": "1",
        "timestamp": "2026-03-01T09:30:00Z",
        "message": {"role": "user", "content": "Mend it"},
    },
    {
        "type": "assistant",
        "sessionId": "s",
        "uuid": "2",
        "message": {"role": "assistant", "content": [{"type": "tool_use", "name": "Bash", "input": {"command": "ls"}}]},
    },
    {
        "type": "user",
        "sessionId": "s",
        "uuid": "3",
        "message": {
            "role": "user",
            "content": [{"type": "tool_result", "content": [{"type": "text", "text": "pump.py"}]}],
        },
    },
    {
        "type": "assistant",
        "sessionId": "s",
        "uuid": "4",
        "message": {"role": "assistant", "content": [{"type": "thinking", "thinking": "x"}]},
    },
    {"type": "user", "sessionId": "s", "uuid": "5", "isMeta": True, "message": {"role": "user", "content": "caveat"}},
]


def as_jsonl(rows: list[Any]) -> str:
    return "\n".join(map(json.dumps, rows))


@pytest.mark.parametrize(
    ("name", "text", "form", "threads"),
    [
        (
            "conversations.json",
            json.dumps(CHATGPT),
            "chats",
            [("Roses", ["User: When?", "Assistant: ```python\nprint(1)\n```", "Tool: ```\n1\n```"])],
        ),
        (
            "claude.json",
            json.dumps(CLAUDE),
            "chats",
            [
                (
                    "Soup",
                    [
                        "User: Leek?\n\nLeeks, 3",
                        'Assistant: Yes.\n\nCalled `look`:\n\n```json\n{\n  "q": "leek"\n}\n```',
                    ],
                )
            ],
        ),
        ("webui.json", json.dumps(OPEN_WEBUI), "chats", [("Bread", ["User: Rye?", "Assistant: Yes."])]),
        (
            "log.jsonl",
            as_jsonl(API_LOG),
            "jsonl",
            [("log", ["User: hi there", "Assistant: Called `look`.", "Tool: result", "Assistant: done"])],
        ),
        (
            "log.json",
            json.dumps(API_LOG),
            "chats",
            [("log", ["User: hi there", "Assistant: Called `look`.", "Tool: result", "Assistant: done"])],
        ),
        (
            "many.jsonl",
            as_jsonl([{"messages": API_LOG[:1]}, {"messages": [{"role": "user", "content": "other"}]}]),
            "chats",
            [("hi there", ["User: hi there"]), ("other", ["User: other"])],
        ),
        (
            "lists.json",
            json.dumps([API_LOG[:1], API_LOG[3:]]),
            "chats",
            [("hi there", ["User: hi there"]), ("done", ["Assistant: done"])],
        ),
        ("one.json", json.dumps({"messages": API_LOG[3:]}, indent=1), "chats", [("done", ["Assistant: done"])]),
        (
            "shared.json",
            json.dumps([{"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Ho"}]}]),
            "chats",
            [("Hi", ["User: Hi", "Assistant: Ho"])],
        ),
        (
            "session.jsonl",
            as_jsonl(CLAUDE_CODE),
            "claude-code",
            [
                (
                    "Mend it",
                    [
                        "User: Mend it",
                        'Assistant: Called `Bash`:\n\n```json\n{\n  "command": "ls"\n}\n```',
                        "Tool: pump.py",
                    ],
                )
            ],
        ),
    ],
)
def test_chats_with_assistants(tmp_path: Path, name: str, text: str, form: str, threads: list[Any]) -> None:
    file = tmp_path / name
    file.write_text(text)
    assert guess_format(file) == form
    found, account = read(file)
    assert found == threads
    zipped = tmp_path / "export.zip"
    if name == "conversations.json":
        with zipfile.ZipFile(zipped, "w") as archive:
            archive.writestr("export/conversations.json", text)
            archive.writestr("user.json", "{}")
        assert read(zipped)[0] == threads
    assert all("Nothing" not in sentence for sentence in account.sentences())


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        ({"role": "user", "content": 7}, 'its "content" is not a text'),
        ({"content": "x"}, 'it has no "role"'),
        (7, "it is not an object"),
        ({"role": "assistant", "content": [{"type": "thinking", "thinking": "x"}]}, "only what a model thought"),
        ({"role": "user", "content": ""}, "nothing in it can be seen"),
    ],
)
def test_an_odd_message_stops_no_chat(tmp_path: Path, odd: object, reason: str) -> None:
    for number, value in enumerate(([API_LOG[0], odd, API_LOG[3]], [{"messages": [API_LOG[0], odd, API_LOG[3]]}])):
        file = tmp_path / f"{number}.json"
        file.write_text(json.dumps(value))
        threads, account = read(file, "chats")
        assert [line for _, lines in threads for line in lines] == ["User: hi there", "Assistant: done"]
        assert reason in " ".join(account.sentences())


def test_a_line_that_is_broken_stops_no_chats(tmp_path: Path) -> None:
    lines = [json.dumps({"messages": [{"role": "user", "content": text}]}) for text in ("one", "two")]
    for number, broken in enumerate((["{broken", *lines], [lines[0], "{broken", lines[1]], [*lines, "{broken"])):
        file = tmp_path / f"{number}.jsonl"
        file.write_text("\n".join(broken))
        threads, account = read(file)
        assert [lines for _, lines in threads] == [["User: one"], ["User: two"]]
        assert any(sentence.startswith("1 record left out: it is not JSON") for sentence in account.sentences())


def test_an_export_in_several_files_is_one(tmp_path: Path) -> None:
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number, text in enumerate(("one", "two", "three")):
            chats = [{"title": text, "messages": [{"role": "user", "content": text}]}, 7]
            archive.writestr(f"data/conversations-00{number}.json", json.dumps(chats)[: -2 if number == 1 else None])
        archive.writestr("data/user.json", "{}")
    threads, account = read(path)
    assert [title for title, _ in threads] == ["one", "two", "three"]
    assert "data/conversations-001.json record 2" in " ".join(account.sentences())


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("log.jsonl", '{"author": "Zoë", "text": "Grüße 🎉"}\n{"author": "Zoë", "text": "two"}', 2),
        ("chats.json", json.dumps([{"messages": [{"role": "user", "content": "Grüße"}]}], ensure_ascii=False), 1),
        (
            "session.jsonl",
            json.dumps({"type": "user", "sessionId": "s", "message": {"role": "user", "content": "ü"}}),
            1,
        ),
        ("bulk.jsonl", "\n".join(map(json.dumps, [*MATTERMOST, mm("alex.k", "ü", 1_700_000_000_000)])), 1),
    ],
    ids=["jsonl", "chats", "claude-code", "mattermost"],
)
def test_files_in_the_encodings_of_windows_are_read(
    ana: Member, tmp_path: Path, name: str, text: str, lines: int, encoding: str
) -> None:
    file = tmp_path / name
    file.write_text(text, encoding=encoding)
    run(file, *([] if name == "bulk.jsonl" else ["--channel", "general", "--create-channel"]))
    assert Message.objects.count() == lines


def test_a_thread_is_called_by_words_without_markdown(tmp_path: Path) -> None:
    day = [
        said(
            ts(0), "", attachments=[{"title": "Build 7", "title_link": "https://ci.example/7", "text": "*main* is red"}]
        ),
        said(ts(8), "*Who* prunes, <@U2>?", thread_ts=ts(8), reply_count=1),
        said(ts(9), "I", "U2", thread_ts=ts(8)),
    ]
    titles = [title for title, _ in read(slack_zip(tmp_path, {"2023-11-15": day}))[0]]
    assert titles == ["15 November 2023: Build 7 main is red", "Who prunes, @alex?"]
    file = tmp_path / "bulk.jsonl"
    file.write_text(as_jsonl([*MATTERMOST, mm("alex.k", "**Who** [prunes](https://a.example)?", 1_700_000_000_000)]))
    assert [title for title, _ in read(file)[0]] == ["14 November 2023: Who prunes?"]
    file = tmp_path / "chats.json"
    file.write_text(json.dumps([{"messages": [{"role": "user", "content": "# Roses\n\nWhen?"}]}]))
    assert [title for title, _ in read(file)[0]] == ["Roses When?"]


def test_a_thread_is_called_after_what_somebody_asked(tmp_path: Path) -> None:
    file = tmp_path / "log.json"
    messages = [{"role": "system", "content": "You help."}, {"role": "user", "content": "When?"}]
    file.write_text(json.dumps([{"messages": messages}, {"messages": messages[:1]}]))
    assert [title for title, _ in read(file)[0]] == ["When?", "You help."]


def test_an_image_of_a_chat_is_named_once(tmp_path: Path) -> None:
    image = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-abc"}
    message = {
        "author": {"role": "user"},
        "content": {"content_type": "multimodal_text", "parts": [image, "What is this?"]},
        "metadata": {"attachments": [{"id": "file-abc", "name": "cat.png"}]},
    }
    file = tmp_path / "conversations.json"
    file.write_text(json.dumps([{"current_node": "a", "mapping": {"a": {"message": message}}}]))
    [thread] = READERS["chats"](file, account := Account(), "")
    assert [line.files for line in thread.lines] == [("cat.png",)]
    assert account.totals()[1].read == 1


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 100_000, "[1, 2", "[NaN, {]", "\x00", '[{"messages": {}}]', "[]", "{}"]
)
@pytest.mark.parametrize("form", sorted(READERS))
def test_what_is_no_export_is_a_sentence_in_every_format(ana: Member, tmp_path: Path, text: str, form: str) -> None:
    file = tmp_path / "odd.json"
    file.write_text(text)
    with pytest.raises(CommandError):
        run(file, "--format", form, "--channel", "general")
    assert not Message.objects.exists()


def test_the_account_is_written_to_a_file(channel: Channel, tmp_path: Path) -> None:
    log = tmp_path / "talk.jsonl"
    log.write_text('{"author": "Mara", "text": "x"}\n{}')
    for name in ("account.csv", "account.json"):
        run(log, "--channel", "general", "--account", str(tmp_path / name))
    assert 'message,,,,1,"it has no ""author""",line 2' in (tmp_path / "account.csv").read_text()
    assert json.loads((tmp_path / "account.json").read_text())["kinds"] == [
        {"kind": "message", "read": 2, "imported": 1, "present": 1, "left_out": 1}
    ]
