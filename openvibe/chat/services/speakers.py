"""Speakers of imported conversations: participants who are who their id at the source says, or else their name."""

from collections.abc import Iterable

from django.db import transaction

from openvibe.base.events import emit
from openvibe.chat.importing.account import Account
from openvibe.chat.importing.values import MENTION, ImportedLine, fingerprint, former_key
from openvibe.chat.models import Channel, ChannelMembership, Origin
from openvibe.chat.models.conversation_import import MAX_ORIGIN_CHARACTERS
from openvibe.engines.text.cleaning import clean_handle, remove_invisible
from openvibe.workspaces.models import Participant, Workspace
from openvibe.workspaces.services import generate_handle

MAX_NAME_CHARACTERS = 80


def clean_speaker_name(author: str) -> str:
    """A display name on one line, at most MAX_NAME_CHARACTERS."""
    return remove_invisible(author[: 20 * MAX_NAME_CHARACTERS])[:MAX_NAME_CHARACTERS].strip() or "Unknown"


def clean_origin(key: str) -> str:
    """The key as it is kept: long ones by their fingerprint."""
    return key if len(key) <= MAX_ORIGIN_CHARACTERS else f"{key[:20]}…{fingerprint(key)}"


def get_or_create_speaker(workspace: Workspace, name: str, *, is_assistant: bool = False, key: str = "") -> int:
    """The id of the workspace's imported participant of this key, made when there is none; without a key, of this
    display name and kind among those who have none."""
    return _find_or_create(workspace, name, is_assistant=is_assistant, key=key)[0].pk


def _find(workspace: Workspace, name: str, kind: str, key: str) -> Participant | None:
    if key:
        origins = Origin.objects.select_related("participant").filter(workspace=workspace)
        origin = origins.filter(external_id=key).first()
        if origin is None and (former := former_key(key)):
            origin = origins.filter(external_id=former, participant__name=name).first()
        return origin.participant if origin else None
    unknown = Participant.objects.filter(workspace=workspace, kind=kind, name=name, origins=None)
    return unknown.order_by("pk").first()


@transaction.atomic
def _find_or_create(workspace: Workspace, name: str, *, is_assistant: bool, key: str) -> tuple[Participant, bool]:
    """The participant, and whether it was made now."""
    name, key = clean_speaker_name(name), clean_origin(key)
    kind = Participant.Kind.ASSISTANT if is_assistant else Participant.Kind.IMPORTED
    speaker = _find(workspace, name, kind, key)
    if speaker is None:
        Workspace.objects.select_for_update(no_key=True).get(pk=workspace.pk)  # two imports at once agree on one row
        speaker = _find(workspace, name, kind, key)
    if speaker is None:
        handle = generate_handle(workspace, clean_handle(name))
        speaker = Participant.objects.create(workspace=workspace, kind=kind, handle=handle, name=name)
        if key:
            Origin.objects.create(workspace=workspace, external_id=key, participant=speaker)
        emit("members_changed", workspace_id=workspace.pk)
        return speaker, True
    if key and speaker.name != name and key.endswith(f":{speaker.name}"):  # only the id was known before
        speaker.name = name
        speaker.save(update_fields=["name"])
    return speaker, False


class Speakers:
    """Speakers of one import, each looked for once."""

    def __init__(self, workspace: Workspace, account: Account) -> None:
        self._workspace = workspace
        self._account = account
        self._known: dict[tuple[str, str, bool], tuple[int, str]] = {}
        self.ids: set[int] = set()
        """Ids of those who spoke."""

    def author_id(self, line: ImportedLine) -> int:
        speaker_id, _ = self._get(line.author_key, line.author, is_assistant=line.is_assistant)
        self.ids.add(speaker_id)
        return speaker_id

    def person_id(self, key: str, name: str) -> int:
        return self._get(key, name)[0]

    def with_handles(self, text: str) -> str:
        """The text with the handles of whom it mentions."""
        return MENTION.sub(lambda match: f"@{self._get(match[1], match[2])[1]}", text) if "\x00" in text else text

    def add_to(self, channel: Channel, members: Iterable[tuple[str, str]]) -> None:
        """Puts people of the export into the channel as they were there: it says so, and lets nobody in."""
        ids = dict.fromkeys(self.person_id(key, name) for key, name in members)
        rows = [ChannelMembership(channel=channel, participant_id=pk) for pk in ids]
        ChannelMembership.objects.bulk_create(rows, batch_size=500, ignore_conflicts=True)

    def _get(self, key: str, name: str, *, is_assistant: bool = False) -> tuple[int, str]:
        place = (key, "", False) if key else ("", name, is_assistant)
        if place not in self._known:
            speaker, is_new = _find_or_create(self._workspace, name, is_assistant=is_assistant, key=key)
            self._known[place] = speaker.pk, speaker.handle
            self._account.meet_person(key, present=not is_new)
        return self._known[place]
