"""What the API of knowledge takes and gives: fields, filters, file bodies, input and output of every view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import IO, Any

from django.core.files.uploadedfile import UploadedFile
from django.utils import timezone
from django_filters.rest_framework import CharFilter, ChoiceFilter, FilterSet
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.parsers import BaseParser

from knowledge.exchange.csv_jsonl import MAX_BYTES
from knowledge.expiry import FRESHNESS_STATES, compute_freshness, parse_expiry
from knowledge.filters import filter_entries
from knowledge.models import Contradiction, Entry, EntryQuerySet, Revision
from openvibe.api.fields import ChoiceField, IdField, TextField, WholeNumberField
from openvibe.api.problems import TooLarge
from openvibe.workspaces.api.serializers import ParticipantOut

EXPIRY_HELP = (
    "Until when it holds: an ISO date-time with its offset (UTC where it has none), a date (the end of that day, UTC), "
    "`30d`, `90d`, `1y` or `never`."
)


class ExpiryField(serializers.CharField):
    """An instant in UTC; None for never, as an empty text is. What cannot be read, or is past, is refused in words."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("help_text", EXPIRY_HELP)
        super().__init__(allow_null=True, allow_blank=True, **options)

    def run_validation(self, data: Any = serializers.empty) -> datetime | None:
        return super().run_validation(data) or None  # a CharField passes an empty text on as it is

    def to_internal_value(self, data: Any) -> datetime | None:  # type: ignore[override]  # a CharField gives a text
        return parse_expiry(super().to_internal_value(data), now=timezone.now())


class TagsField(serializers.ListField):
    """Tags as they are written; the service cleans them."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            child=serializers.CharField(max_length=1_000, allow_blank=True),
            max_length=100,
            help_text="At most 10, of at most 40 characters; kept in lower case.",
            **options,
        )


NOTE_HELP = "Why, at most 2,000 characters; kept with the revision."
CONTENT_HELP = "Markdown, at most 2,000 tokens."
TOPIC_HELP = "One line of 1 to 120 characters."
OWNER_HELP = "A member's handle; they are told when it needs a review. Left out: the caller."


class FreshnessOut(serializers.Serializer[Any]):
    state = ChoiceField(choices=FRESHNESS_STATES)
    words = serializers.CharField(help_text="For people, such as `expires in 6 d`.")


class EntryOut(serializers.ModelSerializer[Entry]):
    author = ParticipantOut(read_only=True)
    owner = ParticipantOut(read_only=True)
    decided_by = ParticipantOut(read_only=True, allow_null=True)
    freshness = serializers.SerializerMethodField()
    source_thread = serializers.SerializerMethodField(help_text="Null where the caller may not see it.")
    source_message = serializers.SerializerMethodField(help_text="Null where the caller may not see it.")
    supersedes = serializers.IntegerField(source="earlier_seen", read_only=True, allow_null=True)
    successor = serializers.IntegerField(source="later_seen", read_only=True, allow_null=True)
    tags = serializers.ListField(child=serializers.CharField(), read_only=True)

    class Meta:
        model = Entry
        fields = (
            "id",
            "topic",
            "content",
            "tokens",
            "kind",
            "visibility",
            "status",
            "status_since",
            "reason",
            "reason_note",
            "freshness",
            "expires_at",
            "source",
            "source_thread",
            "source_message",
            "author",
            "owner",
            "decided_by",
            "decided_at",
            "supersedes",
            "successor",
            "tags",
            "is_pinned",
            "use_count",
            "last_used_at",
            "version",
            "created_at",
            "updated_at",
        )
        read_only_fields = fields

    @extend_schema_field(FreshnessOut)
    def get_freshness(self, entry: Entry) -> dict[str, Any]:
        result = compute_freshness(entry)
        return {"state": result.state, "words": result.words}

    def get_source_thread(self, entry: Entry) -> int | None:
        return entry.source_thread_id if getattr(entry, "source_is_seen", False) else None

    def get_source_message(self, entry: Entry) -> int | None:
        return entry.source_message_id if getattr(entry, "source_is_seen", False) else None


class NoteIn(serializers.Serializer[Any]):
    note = TextField(required=False, default="", help_text=NOTE_HELP)


class EntryTextChange(NoteIn):
    """Words of an entry that is there: what is left out stays as it is."""

    topic = TextField(required=False, help_text=TOPIC_HELP)
    content = TextField(required=False, help_text=CONTENT_HELP)
    kind = ChoiceField(choices=Entry.Kind.choices, required=False)
    visibility = ChoiceField(choices=Entry.Visibility.choices, required=False)
    expires_at = ExpiryField(required=False)
    tags = TagsField(required=False)


class EntryChange(EntryTextChange):
    """What is left out stays as it is."""

    is_pinned = serializers.BooleanField(
        required=False, allow_null=True, default=None, help_text="Kept though unused. Left out: as it is."
    )
    owner = serializers.CharField(required=False, max_length=40, help_text=OWNER_HELP)


class NewEntry(serializers.Serializer[Any]):
    topic = TextField(help_text=TOPIC_HELP)
    content = TextField(help_text=CONTENT_HELP)
    kind = ChoiceField(choices=Entry.Kind.choices, required=False, help_text="Left out: fact.")
    visibility = ChoiceField(
        choices=Entry.Visibility.choices,
        required=False,
        help_text="Left out: shared; restricted where it comes from a private channel or a thread that is not open.",
    )
    expires_at = ExpiryField(required=False)
    tags = TagsField(required=False)
    message = IdField(required=False, help_text="The result or message it is made from.")
    supersedes = IdField(required=False, help_text="The entry whose place it takes.")
    client_id = TextField(
        required=False, help_text="Your own key, at most 100 characters: the same key is the same entry."
    )


class EntryIn(NewEntry, NoteIn):
    owner = serializers.CharField(required=False, max_length=40, help_text=OWNER_HELP)
    is_pinned = serializers.BooleanField(required=False, default=False, help_text="Kept though nobody uses it.")


class SuggestIn(NewEntry):
    why = TextField(required=False, default="", help_text="Why it should be known, for whoever decides.")


class SuggestionOut(serializers.ModelSerializer[Entry]):
    owner = ParticipantOut(read_only=True, help_text="Who decides.")

    class Meta:
        model = Entry
        fields = ("id", "topic", "kind", "visibility", "status", "expires_at", "owner", "version", "created_at")
        read_only_fields = fields


class RenewIn(NoteIn):
    expires_at = ExpiryField()


class AcceptIn(EntryTextChange):
    """Better words, where they are needed; what is left out stays as it was suggested."""


class SupersedeIn(EntryTextChange):
    """Either `successor`, an entry that holds already, or the `content` of a new one; what else is left out is as in
    the entry superseded, but that it never expires."""

    successor = IdField(required=False)


class FlagIn(NoteIn):
    reason = ChoiceField(choices=["wrong", "asked", "contradiction"], default="asked")


class RevisionOut(serializers.ModelSerializer[Revision]):
    by = ParticipantOut(read_only=True, allow_null=True, help_text="Null where a job made it.")
    changes = serializers.DictField(read_only=True, help_text="`{field: [before, after]}`")

    class Meta:
        model = Revision
        fields = ("id", "number", "action", "by", "how", "note", "changes", "created_at")
        read_only_fields = fields


class ContradictionOut(serializers.ModelSerializer[Contradiction]):
    first = serializers.IntegerField(source="first_id", read_only=True, help_text="The older entry.")
    second = serializers.IntegerField(source="second_id", read_only=True)
    settled_by = ParticipantOut(read_only=True, allow_null=True)

    class Meta:
        model = Contradiction
        fields = ("id", "first", "second", "why", "found_by", "found_at", "settled_at", "settled_by", "settled_how")
        read_only_fields = fields


class ContradictionsQuery(serializers.Serializer[Any]):
    settled = serializers.BooleanField(required=False, allow_null=True, default=False, help_text="Settled ones.")


class SettleIn(NoteIn):
    how = ChoiceField(
        choices=["both_hold", "superseded", "archived"], help_text="The last two happen to the one that is not kept."
    )
    keep = IdField(required=False, help_text="The entry that stays as it is.")


class SearchQuery(serializers.Serializer[Any]):
    q = serializers.CharField(max_length=10_000, help_text="A question or words; nothing in it is an operator.")
    budget = WholeNumberField(
        required=False, min_value=1, max_value=100_000, help_text="Most tokens of content together."
    )
    limit = WholeNumberField(
        source="most", required=False, min_value=1, max_value=50, default=20, help_text="Most entries."
    )
    topic = serializers.CharField(required=False, max_length=120)
    tag = serializers.CharField(required=False, max_length=40)
    kind = ChoiceField(choices=Entry.Kind.choices, required=False)
    status = ChoiceField(choices=Entry.Status.choices, required=False, help_text="Left out: what holds.")
    owner = serializers.CharField(required=False, max_length=40, help_text="A handle.")
    freshness = ChoiceField(choices=FRESHNESS_STATES, required=False)


class NearCopyOut(serializers.Serializer[Any]):
    id = serializers.IntegerField(source="pk")
    topic = serializers.CharField()


class FoundEntryOut(serializers.Serializer[Any]):
    score = serializers.FloatField(help_text="Comparable within one answer only.")
    entry = EntryOut()
    near_copies = NearCopyOut(many=True, help_text="Entries that say the same, for which this one stands.")


class FoundEntriesOut(serializers.Serializer[Any]):
    results = FoundEntryOut(many=True, help_text="The best first.")
    tokens = serializers.IntegerField(help_text="Tokens of the content of all of them.")
    by_words = serializers.BooleanField(help_text="Whether any of the words was found.")
    by_vectors = serializers.BooleanField(help_text="Whether nearness in meaning had a say.")


class SimilarIn(serializers.Serializer[Any]):
    text = serializers.CharField(max_length=100_000, help_text="What would be written, topic and content.")
    limit = WholeNumberField(
        source="most", required=False, min_value=1, max_value=20, default=5, help_text="Most entries."
    )
    without = IdField(required=False, help_text="An entry that is not to be among them.")


class SimilarOut(serializers.Serializer[Any]):
    results = FoundEntryOut(many=True, help_text="The most similar first.")


class TopicOut(serializers.Serializer[Any]):
    topic = serializers.CharField()
    entries = serializers.IntegerField()


class IndexedKindOut(serializers.Serializer[Any]):
    kind = ChoiceField(choices=Entry.Kind.choices)
    topics = TopicOut(many=True)


class IndexOut(serializers.Serializer[Any]):
    results = IndexedKindOut(many=True)
    is_whole = serializers.BooleanField(help_text="False: there are more topics than an index names.")


def _choice_filter(choices: Sequence[tuple[str, Any]]) -> ChoiceFilter:
    """What is refused is told which values there are."""
    words = f'"%(value)s" is not one of: {", ".join(value for value, _ in choices)}.'
    return ChoiceFilter(choices=choices, error_messages={"invalid_choice": words})


class EntryFilter(FilterSet):  # type: ignore[misc]  # the library has no types
    topic = CharFilter(max_length=120, help_text="The whole topic, whatever its case.")
    tag = CharFilter(max_length=40)
    status = _choice_filter(Entry.Status.choices)
    owner = CharFilter(max_length=40, help_text="A handle.")
    kind = _choice_filter(Entry.Kind.choices)
    source = _choice_filter(Entry.Source.choices)
    freshness = _choice_filter([(state, state) for state in FRESHNESS_STATES])

    class Meta:
        model = Entry
        fields: tuple[str, ...] = ()

    def filter_queryset(self, queryset: EntryQuerySet) -> EntryQuerySet:
        lookups: dict[str, Any] = {name: value for name, value in self.form.cleaned_data.items() if value}
        handle = lookups.pop("owner", "").lstrip("@")
        return filter_entries(queryset.filter(owner__handle=handle) if handle else queryset, **lookups)


FILE_TOO_LARGE = f"A file has at most {MAX_BYTES:,} bytes. Nothing was imported. Split it."


class FileBody(dict[str, str]):
    """A body that is the file itself: `form`, and `text` that turns back into the very bytes, whatever their code."""

    @property
    def raw(self) -> bytes:
        return self["text"].encode("utf-8", "surrogateescape")


class FileBodyParser(BaseParser):
    """Reads the body as the file itself."""

    form = ""

    def parse(
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> FileBody:
        raw = stream.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise TooLarge(FILE_TOO_LARGE)
        return FileBody(form=self.form, text=raw.decode("utf-8", "surrogateescape"))


class CsvParser(FileBodyParser):
    media_type = "text/csv"
    form = "csv"


class JsonlParser(FileBodyParser):
    media_type = "application/x-ndjson"
    form = "jsonl"


class MarkdownZipParser(FileBodyParser):
    media_type = "application/zip"
    form = "zip"


class ImportIn(serializers.Serializer[Any]):
    """A file that comes in JSON, of at most 2 MB. Larger ones are sent as the body itself."""

    form = ChoiceField(choices=["csv", "jsonl"])
    text = TextField()


class KnowledgeUploadIn(serializers.Serializer[Any]):
    """A file that comes as a form, as browsers and `curl -F` send it."""

    file = serializers.FileField(allow_empty_file=True, help_text="The file, at most 10 MB.")
    form = ChoiceField(
        choices=["csv", "jsonl", "md", "zip"], required=False, help_text="Left out, it is guessed from the file."
    )

    def validate_file(self, value: UploadedFile[Any]) -> UploadedFile[Any]:
        if (value.size or 0) > MAX_BYTES:
            raise TooLarge(FILE_TOO_LARGE)
        return value


class RowReportOut(serializers.Serializer[Any]):
    number = serializers.IntegerField(help_text="Its line in the file or spreadsheet, from 1.")
    outcome = ChoiceField(choices=["imported", "same", "updated", "refused"])
    why = serializers.CharField(help_text="A sentence; empty where there is nothing to say.")
    entry = serializers.IntegerField(source="entry_id", allow_null=True)
    place = serializers.CharField(help_text="The file and heading of a Markdown section; empty for a row of a table.")


class ImportReportOut(serializers.Serializer[Any]):
    rows = RowReportOut(many=True)
    summary = serializers.CharField(help_text="Such as `3 imported, 1 there already, 2 refused`.")
    note = serializers.CharField(help_text="Which columns were not read; empty where all were.")


class ExportQuery(serializers.Serializer[Any]):
    form = ChoiceField(choices=["csv", "jsonl"], default="csv")
    status = ChoiceField(choices=Entry.Status.choices, required=False, help_text="Left out: all.")
