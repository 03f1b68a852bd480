"""Runs, of agents here and elsewhere: what the API takes and gives."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from agents.agent.models import Permission, Run, RunStep
from agents.api.prompt_serializers import PromptMessageOut, SeenCallOut
from agents.runs.external.reported_steps import MAX_FILES, MAX_STEP_CHARACTERS
from agents.runs.thoughts import MAX_THOUGHT_CHARACTERS
from openvibe.api.fields import ChoiceField, IdField, TextField, WholeNumberField
from openvibe.engines.text.cleaning import MAX_BODY_CHARACTERS
from openvibe.workspaces.api.serializers import ParticipantOut

MAX_TOKENS = 100_000_000
"""Tokens that one run may be said to have used."""


class RunOut(serializers.ModelSerializer[Run]):
    agent = serializers.CharField(source="agent.participant.handle", read_only=True)
    trigger = serializers.IntegerField(source="trigger_id", read_only=True, help_text="The message that caused it.")
    requested_by = ParticipantOut(read_only=True)
    approval = serializers.IntegerField(
        source="approval_id", read_only=True, allow_null=True, help_text="What it waits, or waited, for."
    )
    error_code = serializers.CharField(
        read_only=True,
        help_text="Why it failed. Of one that is `queued`: `not_connected` where the program that is to begin it was "
        "not heard since it was asked.",
    )
    regenerates = serializers.IntegerField(
        source="regenerates_id", read_only=True, allow_null=True, help_text="The run whose answer this one gives anew."
    )

    class Meta:
        model = Run
        fields: tuple[str, ...] = (
            "id",
            "agent",
            "thread",
            "trigger",
            "reply",
            "requested_by",
            "task",
            "state",
            "attempt",
            "approval",
            "regenerates",
            "stop_requested_at",
            "error_code",
            "error",
            "model",
            "first_model",
            "first_error",
            "input_tokens",
            "output_tokens",
            "cached_tokens",
            "queued_at",
            "started_at",
            "finished_at",
        )
        read_only_fields = fields


class RunIn(serializers.Serializer[Any]):
    message = IdField(help_text="A person's, that names the agent, or is said in its dive or a thread it follows.")


class AttemptIn(serializers.Serializer[Any]):
    attempt = WholeNumberField(min_value=1, max_value=32_767, help_text="As the run was begun with.")


class RunContextIn(AttemptIn):
    budget = WholeNumberField(
        required=False, allow_null=True, default=None, min_value=1, max_value=10_000_000, help_text="Tokens, at most."
    )
    model = serializers.CharField(
        required=False, allow_null=True, default=None, max_length=120, help_text="Whose tokens are counted."
    )
    after_run = IdField(
        required=False,
        allow_null=True,
        default=None,
        help_text="The run whose context the session read last that is to go on: what is new since is enough for it.",
    )


class ReplyPieceIn(AttemptIn):
    offset = WholeNumberField(
        min_value=0, max_value=MAX_BODY_CHARACTERS, help_text="Characters (Unicode code points) ahead of this piece."
    )
    body = TextField(max_length=MAX_BODY_CHARACTERS, help_text="What comes next. Empty: the agent is still there.")


class ReplyStateOut(serializers.Serializer[Any]):
    state = ChoiceField(choices=Run.State.choices, help_text="`stopped`: people want no more words.")
    reply = serializers.IntegerField(source="reply_id", allow_null=True, help_text="The message, once it has words.")
    length = serializers.IntegerField(help_text="Characters of the reply by now: the next offset.")
    unheard = serializers.IntegerField(
        help_text="Messages of people in the thread, said since its context, that it was not told of (`heard/`)."
    )
    interrupt = serializers.BooleanField(
        help_text="Somebody pressed Interrupt: it is to end its turn now and go on with what `heard/` tells."
    )

    attempt = serializers.IntegerField(help_text="The one that holds: what is sent names it.")


class ResumeIn(AttemptIn):
    rewrite = serializers.BooleanField(
        default=False,
        help_text="The words so far go, and the reply is written anew from offset 0. Else they stay and are followed.",
    )


class HeardMessageOut(serializers.Serializer[Any]):
    id = serializers.IntegerField(help_text="Of the message.")
    author = serializers.CharField()


class HeardOut(serializers.Serializer[Any]):
    """What people said meanwhile. `messages` are for the model, after all that it has read; none: nothing is new."""

    messages = PromptMessageOut(many=True)
    heard = HeardMessageOut(many=True, help_text="The messages of the thread that they are made of.")
    interrupt = serializers.BooleanField(help_text="Somebody pressed Interrupt since the last such call.")


class FinishIn(AttemptIn):
    body = TextField(
        required=False,
        allow_null=True,
        default=None,
        max_length=MAX_BODY_CHARACTERS,
        help_text="The whole answer, in place of what was sent.",
    )
    error = TextField(
        required=False, allow_null=True, default=None, max_length=20_000, help_text="Why there is no (whole) answer."
    )
    model = serializers.CharField(required=False, default="", allow_blank=True, max_length=120)
    input_tokens = WholeNumberField(
        required=False, allow_null=True, default=None, min_value=0, max_value=MAX_TOKENS, help_text="Else counted here."
    )
    output_tokens = WholeNumberField(
        required=False, allow_null=True, default=None, min_value=0, max_value=MAX_TOKENS, help_text="Else counted here."
    )
    cached_tokens = WholeNumberField(
        required=False,
        allow_null=True,
        default=None,
        min_value=0,
        max_value=MAX_TOKENS,
        help_text="Of `input_tokens`, those that its provider read from a cache. Left out: nobody knows.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs["body"] is not None and attrs["error"] is not None:
            raise serializers.ValidationError({"error": "Send the whole answer, or why there is none, not both."})
        if attrs["cached_tokens"] is not None and attrs["cached_tokens"] > (attrs["input_tokens"] or 0):
            raise serializers.ValidationError(
                {"cached_tokens": "They are part of input_tokens: say those too, and no more of them than there are."}
            )
        return attrs


class RunsQuery(serializers.Serializer[Any]):
    thread = IdField(required=False, source="thread_id")
    agent = serializers.CharField(
        required=False, max_length=40, help_text="A handle.", source="agent__participant__handle"
    )
    state = ChoiceField(choices=Run.State.choices, required=False)


class ChangedFileOut(serializers.Serializer[Any]):
    path = serializers.CharField()
    diff = serializers.CharField(help_text="Unified; its beginning where it is long.")
    added = serializers.IntegerField(help_text="Lines, of the whole diff.")
    removed = serializers.IntegerField(help_text="Lines, of the whole diff.")
    unkept_lines = serializers.IntegerField(help_text="Lines of the diff that are not kept.")


class PermissionSeenOut(serializers.ModelSerializer[Permission]):
    """A call of its own tools that an agent elsewhere asked leave for, and the answer."""

    class Meta:
        model = Permission
        fields = (
            *("key", "kind", "title", "command", "paths", "arguments", "diff", "added", "removed", "unkept_lines"),
            *("state", "scope", "why", "note", "created_at", "expires_at", "decided_at"),
        )
        read_only_fields = fields


class RunStepOut(serializers.ModelSerializer[RunStep]):
    """A step as an agent elsewhere reported it."""

    files = ChangedFileOut(many=True, read_only=True, help_text="What it changed.")
    seconds = serializers.SerializerMethodField()

    class Meta:
        model = RunStep
        fields = (
            *("key", "kind", "state", "text", "tool", "tool_kind", "arguments", "result", "files", "seconds"),
            "created_at",
        )
        read_only_fields = fields

    def get_seconds(self, step: RunStep) -> float:
        return step.milliseconds / 1000


class TimelineEventOut(serializers.Serializer[Any]):
    """Something that happened to a run. `tool_call` is what was called, as in the run's context."""

    at = serializers.DateTimeField()
    kind = serializers.CharField(
        help_text="queued, claimed, assembled, called, notice, switched, answered, thought, tool, note, permission, "
        "waiting, resumed, stop_requested, stopped, retried, failed or done."
    )
    text = serializers.CharField()
    detail = serializers.CharField(allow_blank=True, help_text="Figures of it, or what went wrong; may be empty.")
    attempt = serializers.IntegerField(help_text="From 1; 0 for what no worker did.")
    seconds = serializers.FloatField(help_text="Since the event before.")
    tool_call = SeenCallOut(source="call", allow_null=True)
    step = RunStepOut(allow_null=True, help_text="What an agent elsewhere reported.")
    permission = PermissionSeenOut(allow_null=True, help_text="What an agent elsewhere asked leave for.")


class ReasoningOut(serializers.Serializer[Any]):
    """What the run's model thought. It is no part of the answer."""

    seconds = serializers.FloatField()
    tokens = serializers.IntegerField(allow_null=True, help_text="Among the run's output tokens. Null: not counted.")
    text = serializers.CharField(
        help_text="Empty where the provider does not show it, and once it is no longer kept (30 days, or what the "
        "operator set)."
    )
    is_thinking = serializers.BooleanField(help_text="It goes on.")


class ChangedFileIn(serializers.Serializer[Any]):
    path = TextField(max_length=1_000, help_text="As people are to read it.")
    diff = TextField(
        required=False,
        default="",
        max_length=1_000_000,
        help_text="Unified. At most 20,000 characters of one and 100,000 of a step are kept.",
    )
    added = WholeNumberField(
        required=False, allow_null=True, default=None, min_value=0, max_value=2_147_483_647, help_text="Else counted."
    )
    removed = WholeNumberField(
        required=False, allow_null=True, default=None, min_value=0, max_value=2_147_483_647, help_text="Else counted."
    )


class RunStepIn(AttemptIn):
    key = serializers.CharField(max_length=100, help_text="Yours, one for each step of the run.")
    kind = ChoiceField(choices=RunStep.Kind.choices)
    state = ChoiceField(choices=RunStep.State.choices, default=RunStep.State.DONE)
    text = TextField(
        required=False,
        default="",
        max_length=MAX_THOUGHT_CHARACTERS,
        help_text="In words for people: what is thought or done. 20,000 characters at most but for a thought.",
    )
    tool = TextField(required=False, default="", max_length=100, help_text="Its name, of a `tool`.")
    tool_kind = serializers.CharField(
        required=False,
        default="",
        allow_blank=True,
        max_length=40,
        help_text="Of a `tool`: its kind as in the Agent Client Protocol (read, edit, execute …).",
    )
    arguments = TextField(required=False, default="", max_length=MAX_STEP_CHARACTERS)
    result = TextField(required=False, default="", max_length=MAX_STEP_CHARACTERS)
    files = serializers.ListField(
        child=ChangedFileIn(), required=False, default=list, max_length=MAX_FILES, help_text="What it changed."
    )
    seconds = serializers.FloatField(
        required=False, default=0.0, min_value=0, max_value=86_400, help_text="How long it took."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs["kind"] != RunStep.Kind.THOUGHT and len(attrs["text"]) > MAX_STEP_CHARACTERS:
            raise serializers.ValidationError({"text": f"At most {MAX_STEP_CHARACTERS:,} characters."})
        return attrs


class RunDetailOut(RunOut):
    """With everything that happened to it, oldest first."""

    cost = serializers.DecimalField(
        max_digits=None, decimal_places=None, read_only=True, allow_null=True, help_text="Null where no price is set."
    )
    first_word_seconds = serializers.FloatField(
        read_only=True, allow_null=True, help_text="Since it was last queued; null where it said nothing."
    )
    total_seconds = serializers.FloatField(read_only=True, allow_null=True, help_text="Null while it is not over.")
    reasoning = serializers.SerializerMethodField()
    events = serializers.SerializerMethodField()

    class Meta(RunOut.Meta):
        fields = (*RunOut.Meta.fields, "cost", "first_word_seconds", "total_seconds", "reasoning", "events")
        read_only_fields = fields

    @extend_schema_field(ReasoningOut(allow_null=True))
    def get_reasoning(self, run: Run) -> Any:
        reasoning = self.context["reasoning"]
        return ReasoningOut(reasoning).data if reasoning is not None else None

    @extend_schema_field(TimelineEventOut(many=True))
    def get_events(self, run: Run) -> Any:
        return TimelineEventOut(self.context["events"], many=True).data
