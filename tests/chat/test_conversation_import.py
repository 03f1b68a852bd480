import json
import zipfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from openvibe.chat.importing import slack, values
from openvibe.chat.importing.account import Account
from openvibe.chat.importing.readers import read_jsonl, read_qmsum
from openvibe.chat.importing.values import ImportedLine, ImportedThread, ImportFailed


def read_slack(path: Path, account: Account | None = None) -> list[ImportedThread]:
    """All threads with all their lines."""
    return [replace(thread, lines=tuple(thread.lines)) for thread in slack.read_slack(path, account)]


def _written(folder: Path, *lines: object, name: str = "talk.jsonl") -> Path:
    path = folder / name
    path.write_text("\n".join(each if isinstance(each, str) else json.dumps(each) for each in lines), "utf-8")
    return path


def _export(folder: Path, days: dict[str, object], **more: object) -> Path:
    path = folder / "export.zip"
    files: dict[str, object] = {
        "channels.json": [{"id": "C1", "name": "garden"}],
        "users.json": [
            {"id": "U1", "name": "ana", "profile": {"display_name": "Ana Lind", "real_name": "Ana"}},
            {"id": "U2", "name": "ben", "profile": {"display_name": "", "real_name": "Ben"}},
        ],
        **{f"garden/{day}.json": value for day, value in days.items()},
        **more,
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in files.items():
            archive.writestr(name, value if isinstance(value, str | bytes) else json.dumps(value))
    return path


def _said(ts: str, text: str, **more: object) -> dict[str, object]:
    return {"type": "message", "ts": ts, "user": "U1", "text": text, **more}


class TestQmsum:
    meeting = {
        "topic_list": [{"topic": "Market survey"}, {"topic": "Budget"}, {"topic": "Colour"}],
        "meeting_transcripts": [
            {"speaker": "Marketing", "content": "People want fewer buttons ."},
            {"speaker": "Designer", "content": "  "},
            {"speaker": "Designer", "content": "Then a wheel ."},
        ],
    }

    def test_a_meeting_becomes_a_thread_named_after_its_topics(self, tmp_path: Path) -> None:
        (thread,) = read_qmsum(_written(tmp_path, self.meeting))

        assert thread.title == "Meeting 1: Market survey; Budget"
        assert list(thread.lines) == [
            ImportedLine("Marketing", "People want fewer buttons ."),
            ImportedLine("Designer", "Then a wheel ."),
        ]

    def test_a_meeting_keeps_its_id_wherever_it_stands(self, tmp_path: Path) -> None:
        other = {"meeting_transcripts": [{"speaker": "A", "content": "b"}]}
        (alone,) = read_qmsum(_written(tmp_path, self.meeting))
        _, second = read_qmsum(_written(tmp_path, other, "", self.meeting))

        assert alone.external_id == second.external_id

    @pytest.mark.parametrize(
        ("line", "says"),
        [
            ("{", ["1 record left out: it is not JSON: each line has to be one object, as in JSONL (line 2)"]),
            ("[1]", ["1 record left out: it is JSON but not an object: it has to start with { (line 2)"]),
            (
                "{}",
                ['1 record left out: it has no "meeting_transcripts", as the meetings of a QMSum file have (line 2)'],
            ),
            (
                '{"meeting_transcripts": [{"content": "x"}, {"speaker": " ", "content": "x"}, 3]}',
                [
                    '1 message left out: it has no "speaker" (line 2, utterance 1)',
                    '1 message left out: its "speaker" is empty (line 2, utterance 2)',
                    '1 message left out: it is not an object with "speaker" and "content" (line 2, utterance 3)',
                    "1 record left out: nobody says anything in it (line 2)",
                ],
            ),
        ],
    )
    def test_a_bad_line_is_named_and_the_others_come_in(self, tmp_path: Path, line: str, says: list[str]) -> None:
        account = Account()
        file = _written(tmp_path, self.meeting, line, {"meeting_transcripts": [{"speaker": "Ida", "content": "x"}]})
        _, last = read_qmsum(file, account)
        blank = ["1 message left out: nothing in it can be seen (line 1, utterance 2)"]
        assert (sorted(account.sentences()), account.count_left_out()) == (sorted(blank + says), 1 + len(says))
        assert list(last.lines) == [ImportedLine("Ida", "x")]


class TestJsonl:
    def test_one_thread_per_name_and_times_in_every_form(self, tmp_path: Path) -> None:
        path = _written(
            tmp_path,
            {"author": "Ana", "text": "When do I prune?", "time": "2026-03-01T10:30:00+01:00", "thread": "Roses"},
            {"author": "Ben", "text": "Soup", "time": 1772357400},
            {"author": "Ben", "text": "In March.", "time": 1772357400000, "thread": "Roses"},
            {"author": "Ben", "text": "  "},
            {"author": "Ana", "text": "Bread", "time": "2026-03-01T09:30:00"},
        )

        roses, rest = [(thread.title, list(thread.lines)) for thread in list(read_jsonl(path))]

        moment = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
        assert roses == (
            "Roses",
            [ImportedLine("Ana", "When do I prune?", moment), ImportedLine("Ben", "In March.", moment)],
        )
        assert rest == ("talk", [ImportedLine("Ben", "Soup", moment), ImportedLine("Ana", "Bread", moment)])

    def test_a_role_says_who_was_an_assistant_and_chat_logs_are_read_with_their_times(self, tmp_path: Path) -> None:
        path = _written(
            tmp_path,
            {"role": "user", "content": "When?", "timestamp": 1772357400},
            {"role": "assistant", "content": "In March.", "created_at": "2026-03-01T09:30:01Z"},
            {"role": "Assistant", "author": "Vibe", "text": "Or in April."},
            {"role": "editor", "author": "Ana", "text": "Fine."},
        )

        (thread,) = read_jsonl(path)

        moment = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
        assert list(thread.lines) == [
            ImportedLine("User", "When?", moment),
            ImportedLine("Assistant", "In March.", moment + timedelta(seconds=1), is_assistant=True),
            ImportedLine("Vibe", "Or in April.", is_assistant=True),
            ImportedLine("Ana", "Fine."),
        ]

    def test_a_file_that_grew_is_the_same_conversation(self, tmp_path: Path) -> None:
        first = {"author": "Ana", "text": "Hello"}
        (before,) = read_jsonl(_written(tmp_path, first))
        (after,) = read_jsonl(_written(tmp_path, first, {"author": "Ben", "text": "Hi"}))
        (other,) = read_jsonl(_written(tmp_path, {"author": "Ana", "text": "Another talk"}))

        assert before.external_id == after.external_id != other.external_id

    def test_what_a_database_cannot_keep_is_mended(self, tmp_path: Path) -> None:
        (thread,) = read_jsonl(_written(tmp_path, r'{"author": "Ana", "text": "a\u0000b\ud800"}'))

        assert [line.text for line in thread.lines] == ["ab\ufffd"]

    @pytest.mark.parametrize(
        ("line", "says"),
        [
            ("not json", "it is not JSON"),
            ("[" * 100_000, "it is not JSON"),
            ('{"text": "x"}', 'it has no "author"'),
            ('{"author": "", "text": "x"}', '"author" is empty'),
            ('{"author": "Ana"}', 'it has no "text"'),
            ('{"author": "Ana", "text": 3}', "not a text"),
            ('{"author": "Ana", "text": "x", "role": 3}', '"role" is not a text'),
            ('{"author": "Ana", "text": "x", "time": "soon"}', "cannot be read"),
            ('{"author": "Ana", "text": "x", "time": 1e999}', "cannot be read"),
            ('{"author": "Ana", "text": "x", "time": ' + "9" * 400 + "}", "cannot be read"),
            ('{"author": "Ana", "text": "x", "time": "0001-01-01T00:00:00+14:00"}', "cannot be read"),
            ('{"author": "Ana", "text": "x", "time": "0001-01-01T00:00:00Z"}', "cannot be read"),
            ('{"author": "Ana", "text": "x", "time": "9999-12-31T00:00:00Z"}', "cannot be read"),
            ('{"author": "Ana", "text": "x", "thread": []}', "neither a text nor a number"),
            ('{"author": "Ana", "text": " \\u200b\\n"}', "nothing in it can be seen"),
            ('{"author": "Ana", "text": "x", "files": "notes.md"}', '"files" are not a list of names'),
            ('{"author": "Ana", "text": "x", "files": [1]}', '"files" are not a list of names'),
            ('{"author": "Ana", "text": "x", "files": [{"size": 3}]}', '"files" are not a list of names'),
            ("null", "not an object"),
        ],
    )
    def test_a_bad_line_is_named_and_the_others_come_in(self, tmp_path: Path, line: str, says: str) -> None:
        account = Account()
        file = _written(tmp_path, {"author": "Ana", "text": "x"}, line, {"author": "Ben", "text": "y"})
        (thread,) = read_jsonl(file, account)
        assert [said.text for said in thread.lines] == ["x", "y"]
        (sentence,) = account.sentences()
        assert sentence.startswith("1 message left out: ")
        assert says in sentence
        assert sentence.endswith(" (line 2)")

    def test_lines_that_are_endless_or_of_another_encoding_are_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(values, "MAX_LINE_BYTES", 50)
        good, file = b'{"author": "Ana", "text": "x"}\n', tmp_path / "talk.jsonl"
        file.write_bytes(
            good + b'{"author": "Ana", "text": "' + b"x" * 200 + b'"}\n' + good.replace(b"x", b"\xeb") + good
        )
        (thread,) = read_jsonl(file, account := Account())
        assert [said.text for said in thread.lines] == ["x", "x"]
        assert account.sentences() == [
            "1 message left out: it is not UTF-8 text (line 3)",
            "1 record left out: it is longer than 64 MB (line 2)",
        ]

    def test_of_many_the_first_are_named_and_all_are_counted(self, tmp_path: Path) -> None:
        list(read_jsonl(_written(tmp_path, *["["] * 1_030), account := Account()))
        (sentence,) = account.sentences()
        assert sentence.startswith("1,030 messages left out: it is not JSON")
        assert sentence.endswith("(line 1, line 2, line 3, and 1,027 more)")

    def test_reasons_are_not_without_end(self) -> None:
        account = Account()
        for number in range(1_000):
            account.refuse(f"line {number}", f"it is of kind {number}")
        assert (len(account.sentences()), account.count_left_out()) == (201, 1_000)
        assert account.sentences()[0].startswith("800 messages left out: for other reasons")

    def test_a_file_that_changes_while_it_is_read_is_not_half_of_it(self, tmp_path: Path) -> None:
        file = _written(tmp_path, {"author": "Ana", "text": "x"}, {"author": "Ben", "text": "y"})
        (thread,) = read_jsonl(file)
        file.write_text("[" * 100)
        with pytest.raises(ImportFailed, match="changed while it was read"):
            list(thread.lines)

    def test_a_missing_file_and_a_folder_are_refused(self, tmp_path: Path) -> None:
        for path, says in ((tmp_path / "no", "no file"), (tmp_path, "folder")):
            with pytest.raises(ImportFailed, match=says):
                list(read_jsonl(path))


class TestSlack:
    def test_reply_threads_and_days_of_the_rest(self, tmp_path: Path) -> None:
        path = _export(
            tmp_path,
            {
                "2026-03-02": [_said("1772440000.000100", "In March.", user="U2", thread_ts="1772350000.000100")],
                "2026-03-01": [
                    _said("1772350000.000100", "When do I prune?", thread_ts="1772350000.000100"),
                    _said("1772350001.000100", "Soup at noon"),
                ],
            },
        )

        threads = list(read_slack(path))

        assert [(each.external_id, each.title) for each in threads] == [
            ("slack:C1:1772350000.000100", "When do I prune?"),
            ("slack:C1:2026-03-01", "1 March 2026: Soup at noon"),
        ]
        assert [(line.author, line.text) for line in threads[0].lines] == [
            ("Ana Lind", "When do I prune?"),
            ("Ben", "In March."),
        ]
        assert next(iter(threads[1].lines)).at == datetime(2026, 3, 1, 7, 26, 41, 100, tzinfo=UTC)

    @pytest.mark.parametrize(
        ("marked", "text"),
        [
            ("<@U1> and <@U9>", "@ana-lind and @u9"),
            (
                "see <https://a.example|the page> or <https://b.example>",
                "see [the page](https://a.example) or https://b.example",
            ),
            ("in <#C1|old-name>, <!here>", "in #garden, @here"),
            ("<mailto:ana@a.example|ana@a.example>", "ana@a.example"),
            ("<!date^1392734382^{date}|18 February>", "18 February"),
            ("1 &lt; 2 &amp;amp; &lt;script&gt;", "1 < 2 &amp; <script>"),
        ],
    )
    def test_slack_markup_becomes_text(self, tmp_path: Path, marked: str, text: str) -> None:
        (thread,) = read_slack(_export(tmp_path, {"2026-03-01": [_said("1.0", marked)]}))

        assert [values.plain_mentions(line.text) for line in thread.lines] == [text]

    def test_system_and_deleted_messages_are_left_out_and_bots_speak(self, tmp_path: Path) -> None:
        day = [
            _said("1.0", "joined", subtype="channel_join"),
            _said("2.0", "gone", subtype="tombstone"),
            _said("3.0", "secret", hidden=True),
            _said("4.0", "deploy done", subtype="bot_message", user=None, username="Deployer"),
            _said("5.0", "", files=[{"name": "plan.txt"}]),
            _said("6.0", ""),
        ]

        (thread,) = read_slack(_export(tmp_path, {"2026-03-01": day}))

        assert [(line.author, line.text) for line in thread.lines] == [
            ("Deployer", "deploy done"),
            ("Ana Lind", "[file: plan.txt]"),
        ]

    def test_private_channels_are_not_read(self, tmp_path: Path) -> None:
        path = _export(
            tmp_path, {}, **{"groups.json": [{"id": "G", "name": "hr"}], "hr/2026-03-01.json": [_said("1.0", "pay")]}
        )

        assert list(read_slack(path)) == []

    @pytest.mark.parametrize(
        ("name", "content", "says"),
        [
            ("../evil.json", "[]", "leads out"),
            ("/etc/evil.json", "[]", "leads out"),
            ("garden\\..\\evil.json", "[]", "leads out"),
            ("garden/2026-03-01.json", b" " * 20_000_000, "far too much"),
            ("channels.json", "{", "channels.json to go by: it does not hold"),
            ("channels.json", "{}", "it does not hold a list"),
        ],
    )
    def test_unsafe_zips_and_those_without_channels_are_refused(
        self, tmp_path: Path, name: str, content: object, says: str
    ) -> None:
        with pytest.raises(ImportFailed, match=says):
            list(read_slack(_export(tmp_path, {}, **{name: content})))

    @pytest.mark.parametrize(
        ("content", "says"),
        [
            ("{", "2026-03-02.json)"),
            ("{}", "it does not hold a list (garden/2026-03-02.json)"),
            (b"\xff[]", "it is not UTF-8 text (garden/2026-03-02.json)"),
            ([_said("never", "x")], 'its "ts" is no time (garden/2026-03-02.json record 1)'),
            ([{"type": "message", "text": "x"}], 'it has no "ts", the time that Slack knows it by ('),
            ([{"type": "message", "text": "x", "ts": ["1.0"]}], 'it has no "ts"'),
            ([{"type": "message", "text": "x", "ts": None}], 'it has no "ts"'),
            ([_said("1.0", "x"), 7], "it is not an object (garden/2026-03-02.json record 2)"),
            ([_said("1.0", "")], "nothing in it can be seen"),
            ([_said("1.0", "x", subtype="channel_join")], "nobody said it: it tells of the room (channel_join)"),
            ([_said("1.0", "x", hidden=True)], "it was deleted"),
            ([_said("1.0", "x"), _said("1.0", "x")], "it stands there already"),
            ([_said("1.0", "x", type={})], "nobody said it"),
        ],
    )
    def test_odd_records_are_named_and_the_others_come_in(self, tmp_path: Path, content: object, says: str) -> None:
        days: dict[str, object] = {
            "2026-03-01": [_said("1772350000.000100", "First")],
            "2026-03-03": [_said("1772540000.000100", "Last")],
        }
        account = Account()
        threads = list(read_slack(_export(tmp_path, days, **{"garden/2026-03-02.json": content}), account))
        texts = [line.text for thread in threads for line in thread.lines]
        assert {"First", "Last"} <= {*texts} <= {"First", "Last", "x"}
        (sentence,) = account.sentences()
        assert says in sentence
        assert "garden/2026-03-02.json" in sentence

    def test_a_day_that_is_damaged_is_named(self, tmp_path: Path) -> None:
        path = _export(tmp_path, {"2026-03-01": [_said("1772350000.000100", "First")]})
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("garden/2026-03-02.json", "[7, 7, 7]")
        path.write_bytes(path.read_bytes().replace(b"[7, 7, 7]", b"[7, 7, 8]"))
        (thread,) = read_slack(path, account := Account())
        assert [line.text for line in thread.lines] == ["First"]
        assert account.sentences() == ["1 record left out: it is damaged (garden/2026-03-02.json)"]

    def test_people_and_channels_may_be_odd_too(self, tmp_path: Path) -> None:
        path = _export(
            tmp_path,
            {"2026-03-01": [_said("1772350000.000100", "First", user="U9")]},
            **{"users.json": "{", "hr/2026-03-01.json": [], "garden/notes.json": []},
        )
        (thread,) = read_slack(path, account := Account())
        assert [(line.author, line.text) for line in thread.lines] == [("U9", "First")]
        assert sorted(account.sentences()) == [
            "1 record left out: it does not hold a list (users.json)",
            "1 record left out: its name is not that of a day (garden/notes.json)",
        ]

    @pytest.mark.parametrize(
        ("record", "place", "damage"),
        [(b"PK\x01\x02", 46, b"\xff"), (b"PK\x01\x02", 28, b"\x00\x00\x02\x00"), (b"PK\x05\x06", 17, b"\x7f")],
    )
    def test_a_zip_whose_list_of_files_is_damaged_is_refused(
        self, tmp_path: Path, record: bytes, place: int, damage: bytes
    ) -> None:
        """A name that is no UTF-8, an empty one, files that begin before the zip."""
        path = _export(tmp_path, {}, ä=[])
        raw = bytearray(path.read_bytes())
        start = raw.rindex(record) + place
        raw[start : start + len(damage)] = damage
        path.write_bytes(raw)

        with pytest.raises(ImportFailed, match=r"not a readable zip|it is damaged"):
            list(read_slack(path))

    def test_what_is_no_export_is_refused(self, tmp_path: Path) -> None:
        text = _written(tmp_path, "hello", name="export.zip")
        with pytest.raises(ImportFailed, match="not a readable zip"):
            list(read_slack(text))
        with zipfile.ZipFile(text, "w") as archive:
            archive.writestr("readme.txt", "hello")
        with pytest.raises(ImportFailed, match=r"no channels\.json"):
            list(read_slack(text))
