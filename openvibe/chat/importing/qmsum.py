"""Meetings in the format of QMSum (Zhong et al., 2021): one JSON object per line, one meeting per object."""

from collections.abc import Iterator
from pathlib import Path

from openvibe.chat.importing.base import (
    ImportedLine,
    ImportedThread,
    ImportFailed,
    fingerprint,
    json_object,
    mended,
    open_for_reading,
    raw_lines,
    required_text,
    shortened,
)

_TITLE_CHARACTERS = 120


def read_qmsum(path: Path | str) -> Iterator[ImportedThread]:
    """Yield one thread per meeting, in the order of the file; one meeting is in memory at a time.

    The id comes from what was said, so a meeting is the same one in whatever file and place it stands.
    Utterances without text are left out. Raises ImportFailed with the number of the line that is wrong.
    """
    with open_for_reading(Path(path)) as source:
        for number, _, raw in raw_lines(source):
            meeting = json_object(raw, number)
            lines = tuple(_utterances(meeting, number))
            said = [part for line in lines for part in (line.author, line.text)]
            yield ImportedThread(f"qmsum:{fingerprint(*said)}", _title(meeting, number), lines)


def _utterances(meeting: dict[str, object], line: int) -> Iterator[ImportedLine]:
    transcript = meeting.get("meeting_transcripts")
    if not isinstance(transcript, list):
        raise ImportFailed(line, f'Line {line} has no "meeting_transcripts". Is this a QMSum file?')
    for place, each in enumerate(transcript, start=1):
        where = f", utterance {place},"
        if not isinstance(each, dict):
            raise ImportFailed(line, f'Line {line}{where} is not an object with "speaker" and "content".')
        author = required_text(each, "speaker", line, where).strip()
        text = required_text(each, "content", line, where).strip()
        if not author:
            raise ImportFailed(line, f'Line {line}{where} has an empty "speaker". Name who spoke.')
        if text:
            yield ImportedLine(author, text)


def _title(meeting: dict[str, object], number: int) -> str:
    topics = meeting.get("topic_list")
    named = [
        mended(topic["topic"])
        for topic in (topics if isinstance(topics, list) else [])
        if isinstance(topic, dict) and isinstance(topic.get("topic"), str)
    ]
    about = "; ".join(" ".join(name.split()) for name in named[:2] if name.strip())
    return shortened(f"Meeting {number}: {about}" if about else f"Meeting {number}", _TITLE_CHARACTERS)
