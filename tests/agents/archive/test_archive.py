"""A workspace leaves as one file and comes back as it was; what is no archive, or a hostile one, changes nothing."""

import hashlib
import json
import os
import re
import shutil
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django.apps import apps
from django.conf import LazySettings
from django.core.management import CommandError, call_command
from django.db.models import BinaryField, JSONField, Model, Value
from django.test import Client, override_settings
from django.utils import timezone

from agents.agent.skills import skill_text
from agents.archive import restore
from agents.archive.delete import delete_workspace
from agents.archive.export import export_workspace
from agents.archive.json_columns import READERS
from agents.archive.restore import BadArchive, import_workspace
from agents.archive.tables import LEFT_OUT, REFERENCES, archived_tables, workspace_tables
from agents.management.commands.demo import create_demo_workspace
from agents.models import Agent, Run, Snapshot
from agents.prompts.snapshots.store import load_content
from agents.runs.executor import execute_run
from knowledge.models import Entry
from memory.episodes.services import give_feedback
from openvibe.api.services import issue_token
from openvibe.base.models import AuditRecord
from openvibe.chat.attachments import NewAttachment, NewOriginal, make_attachment
from openvibe.chat.models import (
    Attachment,
    Channel,
    ChannelMembership,
    ConversationImport,
    Favourite,
    Image,
    MailedMention,
    Message,
    MessageRevision,
    MessageToEmbed,
    NotificationPreference,
    Origin,
    Quote,
    Reaction,
    SavedMessage,
    SidebarSettings,
    StoredFile,
    Thread,
)
from openvibe.chat.services import (
    add_favourite,
    add_reaction,
    make_image,
    open_direct_messages,
    pin_thread,
    post_message,
    save_message,
    set_notification_level,
    update_sidebar,
)
from openvibe.engines.database.fields import EncryptedTextField, encrypt
from openvibe.workspaces.models import Member, User, Workspace
from openvibe.workspaces.services import note_presence
from tests.engines.llm.factories import EndpointFactory
from tests.factories import PASSWORD, access, attach, say, show, signed_in

CANARY = "sk-canary-0123456789abcdef"


@pytest.fixture(scope="module")
def made_willow(module_transaction: None) -> Member:
    """The demo workspace with a file, an answered question, a verdict, a key, a token, a reference to what is gone, and
    what people keep for themselves."""
    owner = create_demo_workspace(password="x" * 12)
    EndpointFactory.create(
        workspace=owner.workspace, name="Paid", model="m", base_url="https://models.example/v1", api_key=CANARY
    )
    issue_token(participant=owner.participant, name="script", scopes=["read"])
    thread = Thread.objects.get(title="Spring planting")
    attach(thread, owner, "The plan.", plan_md="# Plan\nRoses in March.\n")
    show(thread, owner, "The wall.", description="A red wall")
    question = say(thread, owner, "@vibe when do we prune the roses?")
    execute_run(Run.objects.get(trigger=question).pk)
    reply = Message.objects.get(run__trigger=question)
    give_feedback(message=reply, by=access(owner), verdict="down", text="Say who said it.")
    Quote.objects.create(message=question, kind="work", ref=987_654_321)
    by = access(owner)
    add_reaction(message=question, by=by, emoji="🎉")
    save_message(message=reply, by=by)
    pin_thread(thread=thread, by=by, pinned=True)
    direct, _ = open_direct_messages(by=by, recipient=reply.author)
    say(direct, owner, "Between us.")
    for scope in (thread, thread.channel):
        set_notification_level(scope=scope, by=by, level="nothing")
    for favourite in (direct.channel, thread.channel):
        add_favourite(channel=favourite, by=by)
    update_sidebar(by=by, order="unread", folded=["people", "agents"])
    MailedMention.objects.create(participant=owner.participant, message=reply)
    note_presence([owner.participant_id])
    Member.objects.filter(pk=owner.pk).update(notify_level="all", digest="hourly", digest_sent_at=timezone.now())
    owner.user.set_password(PASSWORD)
    owner.user.save()
    Client().post("/accounts/login/", {"login": owner.user.email, "password": PASSWORD})
    Authenticator.objects.create(user=owner.user, type="totp", data={"secret": encrypt(CANARY)})
    return owner


@pytest.fixture
def willow(made_willow: Member, db: None) -> Member:
    return Member.objects.select_related("workspace", "user", "participant").get(pk=made_willow.pk)


NOTES = b"\xff\x00 no text"
FOLDER_FILES = ["SYSTEM.md", "skills/graft/SKILL.md", "skills/graft/notes.txt"]


@pytest.fixture
def folder(settings: LazySettings, tmp_path: Path) -> Path:
    """Vibe's, with a skill, what is no text, and a link that leads out of it."""
    settings.HOME = tmp_path / "home"
    return write_folder(tmp_path / "home")


def write_folder(home: Path) -> Path:
    folder = home / "workspaces/vibe"
    (folder / "skills/graft").mkdir(parents=True)
    (folder / "SYSTEM.md").write_text("You garden.")
    (folder / "skills/graft/SKILL.md").write_text("Cut at an angle.")
    (folder / "skills/graft/notes.txt").write_bytes(NOTES)
    (folder / "SOUL.md").symlink_to("/etc/hostname")
    return folder


def export(workspace: Workspace, path: Path) -> str:
    export_workspace(workspace=workspace, path=path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def exported(made_willow: Member, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("exported")
    write_folder(home)
    with override_settings(HOME=home):
        export_workspace(workspace=made_willow.workspace, path=home / "willow.zip")
    return home / "willow.zip"


@pytest.fixture
def archive(exported: Path, folder: Path, willow: Member, tmp_path: Path) -> Path:
    """An archive of Willow, which still stands, with Vibe's folder."""
    return Path(shutil.copy(exported, tmp_path))


def test_an_archive_comes_back_as_it_was(willow: Member, tmp_path: Path, folder: Path) -> None:
    first = export(willow.workspace, tmp_path / "first.zip")
    assert (tmp_path / "first.zip").stat().st_mode & 0o777 == 0o600
    old_trigger, old_messages = Snapshot.objects.get().run.trigger_id, Message.objects.count()
    password = willow.user.password
    delete_workspace(workspace=willow.workspace)
    assert [table.model for table in workspace_tables() if table.model._base_manager.exists()] == [AuditRecord]
    records = AuditRecord.objects.values_list("workspace_name", "action", "after")
    assert list(records[:2]) == [("Willow & Co", "settings", "deleted"), ("Willow & Co", "export", "first.zip")]
    back = import_workspace(path=tmp_path / "first.zip")
    assert export(back, tmp_path / "second.zip") == first
    assert back.pk != willow.workspace_id
    restored = folder.with_name("vibe@willow")
    assert sorted(file.relative_to(restored).as_posix() for file in restored.rglob("*.*")) == FOLDER_FILES
    assert (restored / "skills/graft/notes.txt").read_bytes() == NOTES
    vibe = Agent.objects.get(workspace=back, participant__handle="vibe")
    assert skill_text(vibe, "graft") == "Cut at an angle."
    folder.with_name("vibe@other").mkdir()
    with pytest.raises(BadArchive, match="vibe@other"):
        import_workspace(path=tmp_path / "first.zip", slug="other")
    delete_workspace(workspace=Workspace.objects.get(pk=back.pk))
    assert not restored.exists()  # who makes a workspace of this name must not find it
    back = import_workspace(path=tmp_path / "first.zip")
    assert Quote.objects.get().ref > restore.FIRST_MISSING_ID
    snapshot = Snapshot.objects.get()
    keys = {item["key"] for item in load_content(snapshot)["items"]}
    assert f"message:{snapshot.run.trigger_id}" in keys
    assert f"message:{old_trigger}" not in keys
    assert Attachment.objects.get().content == "# Plan\nRoses in March.\n"
    image = Image.objects.get()
    assert (image.description, image.message.body, image.media_type) == ("A red wall", "The wall.", "image/png")
    assert make_image("again", bytes(image.content)).sha256 == image.sha256
    assert Message.objects.count() == old_messages
    assert MessageToEmbed.objects.exists()
    for model in (Reaction, SavedMessage, NotificationPreference, MailedMention):
        assert model._base_manager.exists()
    assert [each.channel.is_direct for each in Favourite.objects.order_by("id")] == [True, False]
    assert SidebarSettings.objects.values_list("order", "folded").get() == ("unread", ["people", "agents"])
    assert Thread.objects.get(title="Spring planting").pin_slot
    ana = Member.objects.get(workspace=back)
    assert (ana.notify_level, ana.digest, ana.digest_sent_at is None) == ("all", "hourly", False)
    assert sum(each.is_direct and ana.participant_id in each.direct_ids for each in Channel.objects.all()) == 1
    assert Member.objects.get(workspace=back, user__email=willow.user.email).user.password == password
    assert (
        Thread.objects.get(title="Spring planting").last_seq
        == Message.objects.filter(thread__title="Spring planting").latest("seq").seq
    )
    say(Thread.objects.get(title="Spring planting"), Member.objects.get(workspace=back), "Life goes on.")


def test_what_was_imported_comes_back_with_its_account_and_speakers(ana: Member, tmp_path: Path) -> None:
    """The same file again, brought into what came back, doubles nothing either."""
    days = {
        "channels.json": [{"id": "C1", "name": "garden", "topic": {"value": "Roses"}, "members": ["U1", "U2"]}],
        "users.json": [{"id": key, "profile": {"display_name": "Alex"}} for key in ("U1", "U2")],
        "garden/2023-11-14.json": [
            {"type": "message", "user": "U1", "ts": "1700000000.1", "text": "*Prune* :tada:", "reactions": [_PARTY]},
            {"type": "message", "user": "U2", "ts": "1700000001.1", "text": "Says <@U1>", "thread_ts": "1700000000.1"},
            {"type": "message", "user": "U2", "text": "No time"},
        ],
    }
    with zipfile.ZipFile(tmp_path / "slack.zip", "w") as packed:
        for name, value in days.items():
            packed.writestr(name, json.dumps(value))
    arguments = ["conversation", "import", str(tmp_path / "slack.zip"), "--workspace"]
    call_command(*arguments, ana.workspace.slug)
    thread = Thread.objects.get(channel__name="garden")
    post_message(thread=thread, by=access(ana), body="The report.", files=[_report()])
    before = _imported(ana.workspace)
    first = export(ana.workspace, tmp_path / "first.zip")
    delete_workspace(workspace=ana.workspace)
    assert not Origin.objects.exists()
    back = import_workspace(path=tmp_path / "first.zip")
    assert _imported(back) == before
    assert export(back, tmp_path / "second.zip") == first
    call_command(*arguments, back.slug)
    again = ConversationImport.objects.latest("pk").account["kinds"]
    assert [each["present"] for each in again if each["kind"] == "message"] == [2]
    assert [each["present"] for each in again if each["kind"] == "person"] == [2]
    jobs = ConversationImport.objects.order_by("pk").values_list("pk", flat=True)
    ConversationImport.objects.filter(pk=jobs[1]).delete()
    assert _imported(back) == before


def _report() -> NewAttachment:
    """A PDF of two pages as it came, with a picture."""
    text = make_attachment("report.pdf", b"The gate code is QUOKKA-7731.")
    original = NewOriginal(b"%PDF-1.7\x00\xff", b"RIFF\x04\x00\x00\x00WEBP")
    as_pdf = replace(text, format="pdf", media_type="application/pdf", page_count=2)
    return replace(as_pdf, preview_width=3, preview_height=4, original=original)


_PARTY = {"name": "tada", "users": ["U1", "U2"]}


def _imported(workspace: Workspace) -> dict[str, list[tuple[Any, ...]]]:
    """What imports and files leave, without the numbers of rows."""
    origins = Origin.objects.filter(workspace=workspace).order_by("external_id")
    reactions = Reaction.objects.order_by("participant__handle")
    return {
        "messages": list(Message.objects.order_by("created_at").values_list("body", "author__handle", "created_at")),
        "threads": list(Thread.objects.order_by("external_id").values_list("external_id", "title", "imported_count")),
        "origins": list(origins.values_list("external_id", "participant__handle", "channel__name")),
        "accounts": list(ConversationImport.objects.values_list("file_name", "state", "account", "read", "written")),
        "reactions": list(reactions.values_list("participant__handle", "emoji", "message__body")),
        "members": list(
            ChannelMembership.objects.filter(channel__name="garden")
            .order_by("participant__handle")
            .values_list("participant__handle")
        ),
        "files": [
            (file.size, bytes(file.content or b""), bytes(file.preview)) for file in StoredFile.objects.order_by("size")
        ],
        "texts": list(Attachment.objects.values_list("name", "format", "page_count", "content", "preview_width")),
    }


def test_what_a_killed_export_left_is_in_nobodys_way(ana: Member, tmp_path: Path) -> None:
    """A process in a container that tries again often has the number of the one that was killed."""
    path = tmp_path / "willow.zip"
    path.with_name(f".{path.name}.{os.getpid()}").write_bytes(b"half")

    export_workspace(workspace=ana.workspace, path=path)

    assert zipfile.is_zipfile(path)
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_a_killed_import_left_is_in_nobodys_way(archive: Path, folder: Path) -> None:
    half = folder.parent / f".vibe@elm.{os.getpid()}/SYSTEM.md"
    half.parent.mkdir()
    half.write_text("You ga")

    import_workspace(path=archive, slug="elm")

    assert (folder.parent / "vibe@elm/SYSTEM.md").read_text() == "You garden."
    assert sorted(place.name for place in folder.parent.iterdir()) == ["vibe", "vibe@elm"]


def test_no_secret_is_in_an_archive(willow: Member, archive: Path) -> None:
    with zipfile.ZipFile(archive) as file:
        everything = b"\n".join(file.read(name) for name in file.namelist())
    session = UserSession.objects.get().session_key
    for secret in (CANARY, "enc1:", willow.user.password, "token_hash", "pbkdf2", "ovk_", session, "Presence"):
        assert secret.encode() not in everything
    assert b"Roses in March" in everything


def test_people_without_an_account_get_one_that_opens_nothing(willow: Member, archive: Path) -> None:
    delete_workspace(workspace=willow.workspace)
    User.objects.all().delete()
    back = import_workspace(path=archive, slug="elm")
    ana = Member.objects.get(workspace=back).user
    assert not ana.has_usable_password()
    assert not ana.is_superuser
    assert back.slug == "elm"


def test_a_name_that_reads_as_another_does_not_come_in(willow: Member, tmp_path: Path) -> None:
    """An archive may hold such a name, written by hand, or before such names were refused."""
    Thread.objects.filter(title="Spring planting").update(title=Value("Spring\u202e planting"))
    willow.workspace.participants.filter(handle="vibe").update(name=Value("V\u200bibe"))
    export(willow.workspace, tmp_path / "willow.zip")
    back = import_workspace(path=tmp_path / "willow.zip", slug="elm")
    assert back.threads.filter(title="Spring planting").exists()
    assert back.participants.get(handle="vibe").name == "Vibe"


def test_names_that_look_alike_are_found_out_when_they_come_in(willow: Member, tmp_path: Path) -> None:
    """Whatever the archive says: only the name counts."""
    willow.workspace.participants.filter(handle="vibe").update(name="Ana")
    export(willow.workspace, tmp_path / "willow.zip")
    back = import_workspace(path=tmp_path / "willow.zip", slug="elm")
    assert set(back.participants.filter(name="Ana").values_list("label", flat=True)) == {"Ana (@ana)", "Ana (@vibe)"}
    assert b"name_key" not in (tmp_path / "willow.zip").read_bytes()


def test_an_index_of_topics_names_its_entries_where_it_comes_in() -> None:
    """A reader who may not see them would be shown it, or nobody at all."""
    reference = REFERENCES[Snapshot, "content"]
    item = {"key": "topics:shared", "ref": "topics:shared", "text": "knowledge:7", "origins": "knowledge:7 knowledge:9"}

    def translate(model: type[Model], pk: int) -> int:
        return pk + 100 if model is Entry else pk

    (back,) = reference.translate({"items": [item]}, {}, translate)["items"]
    assert back == item | {"origins": "knowledge:107 knowledge:109"}


def test_every_table_of_ours_is_in_the_archive_or_left_out_with_a_reason() -> None:
    """A failure for a new model means that its rows would be lost or their ids would lead astray: see tables.py."""
    tables = workspace_tables()
    of_people = {"workspaces.User", "workspaces.User_groups", "workspaces.User_user_permissions", "api.CallCount"}
    of_people |= {"base.OutgoingMail"}  # about accounts
    of_people |= {"chat.PushSubscription"}  # of a session of an account
    of_processes = {"base.CacheEntry", "base.JobRun"}  # limits of sign-in; how the server's own jobs went
    of_processes |= {"base.Heartbeat", "base.QueueProbe"}  # who was heard, and how long jobs wait
    of_processes |= {"chat.PushKey"}  # of this server; browsers that trust it know its address
    ours = {"base", "search", "llm", "api", "workspaces", "chat", "webhooks", "memory", "lcm", "knowledge", "agents"}
    models = [m for m in apps.get_models(include_auto_created=True) if m._meta.app_label in ours]
    assert {m._meta.label for m in models} - {table.name for table in tables} == of_people | of_processes
    assert set(LEFT_OUT) <= {table.model for table in tables if table.reason}
    for table in archived_tables():
        for field in table.fields():
            label = f"{table.name}.{field.name}"
            assert not re.search("secret|password|hash$|api_key|^token$", field.name), f"{label} is a secret"
            looks_like_ids = re.search("(^|_)(ids?|refs?)$", field.name) and field.name not in NO_IDS
            assert field.is_relation or not looks_like_ids or (table.model, field.name) in REFERENCES, label
        for field in table.stored_fields():
            assert isinstance(field, EncryptedTextField) <= (field not in table.fields())


NO_IDS = {"call_id", "client_id", "external_id"}  # what callers name things


def test_texts_are_not_all_in_memory_at_once(ana: Member, thread: Thread, tmp_path: Path) -> None:
    """Revisions, since nothing indexes them: every table goes the same way."""
    message = say(thread, ana, "Roses.")
    MessageRevision.objects.bulk_create(MessageRevision(message=message, body="Roses. " * 3_000) for _ in range(400))
    path = tmp_path / "long.zip"
    assert peak_megabytes(lambda: export(ana.workspace, path)) < 5
    assert peak_megabytes(lambda: import_workspace(path=path, slug="other")) < 5
    assert MessageRevision.objects.count() == 800


def peak_megabytes(work: Callable[[], object]) -> float:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / 1024**2
    finally:
        tracemalloc.stop()


def forged(source: Path, **changes: Callable[[bytes], bytes] | None) -> Path:
    """A copy of an archive with entries (named by the end of their names) changed, or added where there is none."""
    path = source.with_name("forged.zip")
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            change = changes.pop(name, None)
            new.writestr(name, change(old.read(name)) if change else old.read(name))
        for name, make in changes.items():
            new.writestr(name, make(b"") if make else b"")
    return path


MESSAGES = "tables/chat.Message.jsonl"


def with_digest(table: str, change: Callable[[bytes], bytes]) -> dict[str, Callable[[bytes], bytes]]:
    """Changes to a table that its manifest agrees with: what somebody who means harm would send."""
    parts: dict[str, bytes] = {}

    def change_rows(rows: bytes) -> bytes:
        parts["rows"] = change(rows)
        return parts["rows"]

    def change_manifest(raw: bytes) -> bytes:
        manifest = json.loads(raw)
        for each in manifest["tables"]:
            if each["name"] == table:
                each["sha256"] = hashlib.sha256(parts["rows"]).hexdigest()
        return json.dumps(manifest).encode()

    return {f"tables/{table}.jsonl": change_rows, "manifest.json": change_manifest}


def manifest_says(**values: object) -> Callable[[bytes], bytes]:
    return lambda raw: json.dumps({**json.loads(raw), **values}).encode()


BAD_PATHS = (b"../../evil", b"/etc/evil", b"a//b", b"..", b"x" * 400, b"a\\\\b", b"a\\n")


def renamed(path: bytes) -> Callable[[bytes], bytes]:
    """The rows of agents' files, the first with another path."""
    return lambda rows: rows.replace(b"SYSTEM.md", path)


HOSTILE: dict[str, tuple[dict[str, Callable[[bytes], bytes]], str]] = {
    "traversal": ({"files/../../etc/passwd": lambda _: b"x"}, "leads out"),
    "absolute": ({"/etc/passwd": lambda _: b"x"}, "belongs to none"),
    "newer format": ({"manifest.json": manifest_says(version=2)}, "newer OpenVibe"),
    "newer tables": ({"manifest.json": manifest_says(migrations={"chat": "0999_later"})}, "newer OpenVibe"),
    "foreign": ({"manifest.json": lambda _: b"[1, 2]"}, "no archive of a workspace"),
    "deep": ({"manifest.json": lambda _: b"[" * 100_000}, "no archive of a workspace"),
    "changed": ({MESSAGES: lambda rows: rows.replace(b"roses", b"tulips")}, "was changed after"),
    "rows missing": ({MESSAGES: lambda rows: rows[: rows.index(b"\n") + 1]}, "was changed after"),
    "reference": (
        with_digest("chat.Mention", lambda rows: re.sub(rb'"message":\d+', b'"message":99999', rows)),
        "refers",
    ),
    "kind": (with_digest("chat.Mention", lambda rows: re.sub(rb'"message":\d+', b'"message":[1]', rows)), "refers"),
    "NUL": (with_digest("chat.Message", lambda rows: rows.replace(b"roses", b"ro\\u0000es")), "no workspace has"),
    "no number": (
        with_digest("chat.Message", lambda rows: re.sub(rb'"seq":\d+', b'"seq":1', rows)),
        "no workspace has",
    ),
    "endless number": (
        with_digest("chat.Message", lambda rows: re.sub(rb'"seq":\d+', b'"seq":1e400', rows)),
        "no workspace has",
    ),
    "no changes": (
        with_digest("knowledge.Revision", lambda rows: re.sub(rb'"changes":{[^}]*}', b'"changes":[1]', rows)),
        "no workspace has",
    ),
    "no steps": (
        with_digest("agents.Run", lambda rows: re.sub(rb'"steps":\[.*?\]', b'"steps":[[1]]', rows)),
        "no workspace has",
    ),
    **{f"folder {path!r}": (with_digest("folders", renamed(path)), "could not be") for path in BAD_PATHS},
    "folder of nobody": (with_digest("folders", lambda rows: rows.replace(b'"agent":', b'"agent":9')), "refers"),
    "folder file missing": (with_digest("folders", renamed(b"B.md")), "no workspace has"),
    "folder file changed": ({"files/agents/1/SYSTEM.md": lambda text: text + b"!"}, "was changed after"),
    "handle": (
        with_digest("workspaces.Participant", lambda rows: rows.replace(b'"vibe"', b'"<b>"')),
        "no workspace has",
    ),
}


def test_a_hostile_archive_is_refused_with_a_sentence(archive: Path, tmp_path: Path, folder: Path) -> None:
    for changes, sentence in HOSTILE.values():
        with pytest.raises(BadArchive, match=sentence):
            import_workspace(path=forged(archive, **changes), slug="other")
    assert Workspace.objects.count() == 1
    assert [place.name for place in folder.parent.iterdir()] == ["vibe"]
    assert list(tmp_path.rglob("evil*")) == []


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_an_archive_packed_by_another_method_is_refused(archive: Path, method: int) -> None:
    """LZMA says itself how much memory it takes."""
    path = archive.with_name("other.zip")
    with zipfile.ZipFile(archive) as old, zipfile.ZipFile(path, "w", method) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    with pytest.raises(BadArchive, match="packed in a way"):
        import_workspace(path=path, slug="other")


def test_an_archive_cannot_say_where_folders_go(archive: Path, tmp_path: Path, folder: Path) -> None:
    table = "workspaces.Workspace"
    changes = with_digest(table, lambda rows: re.sub(rb'"slug":"[^"]*",', b"", rows))
    agree = changes["manifest.json"]

    def change_manifest(raw: bytes) -> bytes:
        manifest = json.loads(agree(raw))
        manifest["workspace"]["slug"] = "../../../evil"
        for each in manifest["tables"]:
            each["columns"] = [name for name in each["columns"] if (each["name"], name) != (table, "slug")]
        return json.dumps(manifest).encode()

    with pytest.raises(BadArchive, match="no workspace has"):
        import_workspace(path=forged(archive, **{**changes, "manifest.json": change_manifest}))
    assert list(tmp_path.rglob("evil*")) == []
    assert [place.name for place in folder.parent.iterdir()] == ["vibe"]


def test_what_is_cut_off_too_large_or_no_zip_is_refused(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = archive.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", b"<html>", whole[:200] + b"\xff" * 50 + whole[250:]):
        (tmp_path / "damaged.zip").write_bytes(damaged)
        with pytest.raises(CommandError, match="Nothing was changed"):
            call_command("workspace", "import", str(tmp_path / "damaged.zip"), "--slug=other")
    with pytest.raises(BadArchive, match="larger than"):
        import_workspace(path=archive, slug="other", max_bytes=10_000)
    monkeypatch.setattr(restore, "MAX_LINE_BYTES", 500)
    with pytest.raises(BadArchive, match="longer than"):
        import_workspace(path=archive, slug="other")
    assert Workspace.objects.count() == 1


def test_every_json_column_of_an_archive_has_a_reader() -> None:
    columns = {
        (table.model, field.name)
        for table in archived_tables()
        for field in table.fields()
        if isinstance(field, JSONField | BinaryField)
    }
    assert columns == set(READERS)


STRANGE: list[object] = [
    *(None, 7, "text", True, [], [7], [[]], [None], [{"kind": 7}], [{"kind": "done", "at": "2026-11-28"}]),
    *({}, {"key": 7}, {"key": None}, {"items": [{}]}, {"P0": -1}, {"tools": "x"}, {"topic": "x"}, {"topic": [1, 2]}),
    *({"messages": [], "items": [{"key": "file:x"}], "dropped": []}, {"version": 99}),
]
JSON_COLUMNS = sorted((model._meta.label, name) for model, name in READERS)


def with_column(table: str, column: str, value: object) -> Callable[[bytes], bytes]:
    """Every row with this value in a column."""

    def change(raw: bytes) -> bytes:
        rows = [json.loads(line) for line in raw.splitlines()]
        for row in rows:
            row[column] = value
        return b"".join(json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode() + b"\n" for row in rows)

    return change


def pages_of(workspace: Workspace) -> Iterator[str]:
    """What shows a JSON column of the archive's rows."""
    slug, of_workspace = workspace.slug, {"workspace": workspace}
    for thread in Thread.objects.filter(**of_workspace).order_by("pk"):
        yield from (f"/w/{slug}/t/{thread.pk}/{page}" for page in ("", "memory/", "work/"))
    for run in Run.objects.filter(**of_workspace):
        yield from (f"/w/{slug}/runs/{run.pk}/{page}" for page in ("", "context/", "context/raw/", "context/compared/"))
        yield f"/w/{slug}/t/{run.thread_id}/memory/prompts/{run.pk}/"
    for agent in Agent.objects.filter(**of_workspace):
        yield from (f"/w/{slug}/agents/{agent.handle}/{page}" for page in ("", "soul/", "settings/"))
    for entry in Entry.objects.filter(**of_workspace):
        yield f"/w/{slug}/knowledge/{entry.pk}/"
    yield from (f"/w/{slug}/settings/{page}/" for page in ("general", "memory", "agents"))


def imported_or_refused(path: Path, slug: str) -> Workspace | None:
    try:
        return import_workspace(path=path, slug=slug)
    except BadArchive:  # anything else would be a fault
        return None


@pytest.mark.parametrize(("table", "column"), JSON_COLUMNS, ids=".".join)
def test_a_strange_value_is_refused_or_every_page_opens(
    archive: Path, folder: Path, willow: Member, table: str, column: str
) -> None:
    with zipfile.ZipFile(archive) as file:
        has_rows = bool(file.read(f"tables/{table}.jsonl"))
    for number, value in enumerate(STRANGE if has_rows else []):
        bad = forged(archive, **with_digest(table, with_column(table, column, value)))
        slug = f"strange-{number}"
        workspace = imported_or_refused(bad, slug)
        if workspace is None:
            continue
        client = signed_in(Member.objects.get(workspace=workspace, user=willow.user))
        for page in pages_of(workspace):
            assert client.get(page).status_code < 500, (value, page)
        delete_workspace(workspace=workspace)


def test_a_refused_value_is_named_with_its_row(archive: Path, folder: Path) -> None:
    steps = with_column("agents.Run", "steps", [{"kind": "queued", "at": "yesterday"}])
    bad = forged(archive, **with_digest("agents.Run", steps))
    with pytest.raises(BadArchive, match=r"Row 1 of agents\.Run: its steps cannot be read \(0\.at: .*no time\)"):
        import_workspace(path=bad, slug="elm")


def test_a_reserved_handle_does_not_come_in(archive: Path, folder: Path) -> None:
    def rename(raw: bytes) -> bytes:
        return raw.replace(b'"handle":"fern"', b'"handle":"here"')

    bad = forged(archive, **with_digest("workspaces.Participant", rename))
    with pytest.raises(BadArchive, match="@here is reserved"):
        import_workspace(path=bad, slug="elm")


def test_a_table_comes_once(archive: Path, folder: Path) -> None:
    def double(raw: bytes) -> bytes:
        manifest = json.loads(raw)
        manifest["tables"].append(manifest["tables"][-1])
        return json.dumps(manifest).encode()

    with pytest.raises(BadArchive, match="names a table twice"):
        import_workspace(path=forged(archive, **{"manifest.json": double}), slug="elm")


def test_pages_survive_a_prompt_that_cannot_be_read(willow: Member, tmp_path: Path) -> None:
    Snapshot.objects.update(content=b"damaged")
    client = signed_in(willow)
    run = Run.objects.get(snapshot__isnull=False)
    for page in pages_of(willow.workspace):
        assert client.get(page).status_code < 500, page
    assert "cannot be read" in client.get(f"/w/willow/runs/{run.pk}/context/").content.decode()
    assert "cannot be read" in client.get(f"/w/willow/t/{run.thread_id}/memory/prompts/{run.pk}/").content.decode()
    export_workspace(workspace=willow.workspace, path=tmp_path / "willow.zip")
    imported = import_workspace(path=tmp_path / "willow.zip", slug="elm")
    assert Snapshot.objects.get(run__workspace=imported).content is None
