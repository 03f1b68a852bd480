"""Agents, runs, prompts and uses of knowledge: what the API takes and gives."""

from typing import Any, get_args

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from agents.agent.models import (
    MAX_PERMISSION_MINUTES,
    MAX_RUN_MINUTES,
    Agent,
    Effort,
    KnowledgeUse,
    Permission,
    Run,
    RunStep,
    SoulVersion,
    ToolCall,
)
from agents.agent.soul.rules import RULE_PLACES
from agents.prompts.assembler.items import DropReason
from agents.runs.external.reported_steps import MAX_FILES, MAX_STEP_CHARACTERS
from agents.runs.thoughts import MAX_THOUGHT_CHARACTERS
from openvibe.api.fields import ChoiceField, IdField, TextField, WholeNumberField
from openvibe.engines.text.cleaning import MAX_BODY_CHARACTERS
from openvibe.workspaces.api.serializers import ParticipantOut

MAX_TOKENS = 100_000_000
"""Tokens that one run may be said to have used."""


class AgentOut(serializers.ModelSerializer[Agent]):
    handle = serializers.CharField(source="participant.handle", read_only=True)
    name = serializers.CharField(source="participant.name", read_only=True)
    active = serializers.BooleanField(source="is_active", read_only=True)
    soul = serializers.IntegerField(
        source="soul.number", read_only=True, allow_null=True, default=None, help_text="The SOUL's newest version."
    )

    class Meta:
        model = Agent
        fields = (
            *("id", "handle", "name", "level", "active", "soul", "answers_itself", "daily_token_budget", "effort"),
            "run_minutes",
            "permission_minutes",
        )
        read_only_fields = fields


class AgentChange(serializers.Serializer[Any]):
    level = WholeNumberField(required=False, min_value=1, max_value=4, help_text="The trust level, 1 to 4.")
    note = TextField(required=False, help_text="Why this level, 1 to 300 characters: it is kept in the audit trail.")
    answers_itself = serializers.BooleanField(
        required=False, help_text="A program elsewhere writes its answers, through the API."
    )
    daily_token_budget = WholeNumberField(
        required=False, min_value=0, max_value=2_147_483_647, help_text="Tokens it may use in one day (UTC)."
    )

    effort = serializers.ChoiceField(
        required=False,
        choices=Effort.choices,
        allow_blank=True,
        help_text="How long its model may think before it answers, where it can be told. Empty: as the model does.",
    )
    run_minutes = WholeNumberField(
        required=False,
        min_value=1,
        max_value=MAX_RUN_MINUTES,
        help_text="Minutes that one answer may take where a program elsewhere writes it; then it fails.",
    )
    permission_minutes = WholeNumberField(
        required=False,
        min_value=1,
        max_value=MAX_PERMISSION_MINUTES,
        help_text="A call that it asks leave for is denied after so many.",
    )
    active = serializers.BooleanField(
        required=False,
        help_text=(
            "`false` deactivates it: it answers no more and its tokens are refused; what it said stays. `true` brings "
            "it back."
        ),
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if "level" in attrs and "note" not in attrs:
            raise serializers.ValidationError({"note": "Say why it gets this level."})
        if "note" in attrs and "level" not in attrs:
            raise serializers.ValidationError({"level": "Say which level the note is about."})
        return attrs


class AgentIn(serializers.Serializer[Any]):
    name = TextField(help_text="1 to 80 characters.")
    handle = TextField(required=False, default="", help_text="What people type after @. Empty: made from the name.")
    purpose = TextField(help_text="What it is for, in one line of at most 300 characters.")
    description = TextField(required=False, default="", help_text="What it should know about its job.")
    level = WholeNumberField(required=False, default=1, min_value=1, max_value=4, help_text="The trust level, 1 to 4.")
    channels = serializers.ListField(
        child=IdField(), required=False, default=list, max_length=500, help_text="The channels that it is in, by id."
    )
    answers_itself = serializers.BooleanField(
        required=False, default=True, help_text="A program elsewhere writes its answers, through the API."
    )


class SoulVersionOut(serializers.ModelSerializer[SoulVersion]):
    author = ParticipantOut(read_only=True, allow_null=True)
    tokens = serializers.IntegerField(source="token_count", read_only=True)

    class Meta:
        model = SoulVersion
        fields = ("number", "note", "author", "tokens", "created_at")
        read_only_fields = fields


class SoulOut(serializers.Serializer[Any]):
    """`ETag` carries the number as well: send it back as `If-Match` when saving."""

    number = serializers.IntegerField(help_text="0 before the first version.")
    source = serializers.CharField(help_text="YAML, as it was written.")  # type: ignore[assignment]  # DRF takes it off the class
    content = serializers.DictField(help_text="The same, as an object.")
    versions = SoulVersionOut(
        many=True, help_text="The newest hundred, the newest first: `number` says how many there are."
    )


class SoulIn(serializers.Serializer[Any]):
    source = TextField(max_length=200_000, help_text="YAML or JSON.")  # type: ignore[assignment]  # DRF takes it off the class
    note = TextField(help_text="What changed and why, 1 to 300 characters.")


class SoulRuleIn(serializers.Serializer[Any]):
    feedback = serializers.ListField(
        child=IdField(), min_length=1, max_length=20, help_text="Episodes: the feedback that the rule answers."
    )
    rule = TextField(
        required=False,
        default="",
        help_text="At most 2,000 characters; empty: the first feedback's own words, where everybody may read them.",
    )
    place = ChoiceField(
        choices=RULE_PLACES, default="principle", help_text="Of `rule`: a principle, or what it must never do."
    )
    note = TextField(help_text="What changed and why, 1 to 300 characters.")


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


class ToolCallOut(serializers.Serializer[Any]):
    id = serializers.CharField()
    name = serializers.CharField()
    arguments = serializers.CharField(help_text="JSON, as text.")


class PromptImageOut(serializers.Serializer[Any]):
    """An image of a message of a prompt; which one it is, its line in the message says."""

    name = serializers.CharField(help_text="Empty in a prompt that is stored.")
    width = serializers.IntegerField(help_text="Pixels.")
    height = serializers.IntegerField(help_text="Pixels.")
    description = serializers.CharField(help_text="As a person wrote it; empty in a prompt that is stored.")


class PromptMessageOut(serializers.Serializer[Any]):
    role = serializers.CharField(help_text="system, user, assistant or tool.")
    content = serializers.CharField()
    tool_calls = ToolCallOut(many=True)
    tool_call_id = serializers.CharField(allow_null=True)
    images = PromptImageOut(many=True, help_text="Sent with the message.")


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


class CacheQuery(serializers.Serializer[Any]):
    thread = IdField(required=False, source="thread_id")


class RateOut(serializers.Serializer[Any]):
    """A share of tokens. All null where nobody measured it."""

    part = serializers.IntegerField(allow_null=True)
    whole = serializers.IntegerField(allow_null=True)
    percent = serializers.FloatField(allow_null=True, help_text="0 to 100, one decimal.")


class CachePointOut(serializers.Serializer[Any]):
    run = serializers.IntegerField(source="run_id")
    thread = serializers.IntegerField(source="thread_id")
    at = serializers.DateTimeField()
    shared = RateOut(help_text="Of its first prompt, the prefix in common with the prompt before in this thread.")
    cached = RateOut(help_text="Of all it sent, what the provider read from its cache.")


class RatesAroundOut(serializers.Serializer[Any]):
    before = RateOut(help_text="Of up to five runs before the compaction.")
    first = RateOut(help_text="Of the first run after it.")
    after = RateOut(help_text="Of up to five runs after that one.")


class CompactionRatesOut(serializers.Serializer[Any]):
    compaction = serializers.IntegerField(source="compaction_id")
    thread = serializers.IntegerField(source="thread_id")
    at = serializers.DateTimeField()
    tokens_before = serializers.IntegerField(allow_null=True, help_text="Of the whole conversation's context.")
    tokens_after = serializers.IntegerField(allow_null=True)
    shared = RatesAroundOut()
    cached = RatesAroundOut()


class CacheHistoryOut(serializers.Serializer[Any]):
    points = CachePointOut(many=True)
    compactions = CompactionRatesOut(many=True)


class RunsQuery(serializers.Serializer[Any]):
    thread = IdField(required=False, source="thread_id")
    agent = serializers.CharField(
        required=False, max_length=40, help_text="A handle.", source="agent__participant__handle"
    )
    state = ChoiceField(choices=Run.State.choices, required=False)


class AssembleIn(serializers.Serializer[Any]):
    thread = IdField()
    task = serializers.CharField(max_length=20, help_text="mention, thread, dive, publish, scheduled or proactive.")
    request = TextField(
        required=False,
        allow_null=True,
        default=None,
        max_length=100_000,
        help_text="Text as if it were said now; the thread's newest human message when left out.",
    )
    agent = serializers.CharField(
        required=False, max_length=40, help_text="A handle; for admins. An agent assembles for itself."
    )
    budget = WholeNumberField(
        required=False,
        allow_null=True,
        default=None,
        min_value=1,
        max_value=10_000_000,
        help_text="Tokens of the whole prompt; can only lower the task's own ceiling.",
    )
    model = serializers.CharField(
        required=False, allow_null=True, default=None, max_length=120, help_text="Whose tokens are counted."
    )


class ToolOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    description = serializers.CharField()
    parameters = serializers.DictField(help_text="JSON Schema.")


class ItemOut(serializers.Serializer[Any]):
    layer = serializers.CharField()
    section = serializers.CharField()
    key = serializers.CharField()
    source = serializers.CharField()  # type: ignore[assignment]  # DRF takes it off the class
    author = serializers.CharField()
    ref = serializers.CharField()
    trust = serializers.CharField()
    tokens = serializers.IntegerField()
    text = serializers.CharField()


class SeenItemOut(ItemOut):
    hidden = serializers.CharField(help_text="Why text and author are withheld; empty when they are not.")


class LayerOut(serializers.Serializer[Any]):
    layer = serializers.CharField(help_text="P0 to P6, and frame for overhead.")
    tokens = serializers.IntegerField()
    items = ItemOut(many=True)


class SeenLayerOut(LayerOut):
    items = SeenItemOut(many=True)


class DroppedOut(serializers.Serializer[Any]):
    layer = serializers.CharField()
    section = serializers.CharField()
    source = serializers.CharField()  # type: ignore[assignment]  # DRF takes it off the class
    author = serializers.CharField()
    tokens = serializers.IntegerField()
    reason = serializers.CharField(help_text=f"One of: {', '.join(get_args(DropReason))}.")


class AssembledOut(serializers.Serializer[Any]):
    messages = PromptMessageOut(many=True)
    tools = ToolOut(many=True)
    tokens = serializers.IntegerField(help_text="Of the whole prompt.")
    budget = serializers.IntegerField(help_text="The ceiling, tokens.")
    counter = serializers.CharField(help_text="How tokens were counted.")
    model = serializers.CharField()
    layers = LayerOut(many=True)
    dropped = DroppedOut(many=True)
    prefix_shared = serializers.IntegerField(
        allow_null=True, help_text="Tokens in common with the start of the prompt before; null where there was none."
    )


class RunReadOut(AssembledOut):
    """What an agent elsewhere reads for a run. `tools` are all that it has, also where the session knows them."""

    is_continuation = serializers.BooleanField(
        help_text="Whether `messages` hold only what is new since the context of `after_run`, each once. False: all of "
        "it, for a session that begins."
    )
    continuation = serializers.CharField(help_text="What is new, or why it is the whole context, as a sentence.")


class SeenCallOut(serializers.Serializer[Any]):
    """A tool call that the run made, and what came of it."""

    attempt = serializers.IntegerField(help_text="Of the run; each attempt starts afresh.")
    round = serializers.IntegerField(help_text="From 1, at most 8.")
    id = serializers.CharField()
    name = serializers.CharField()
    arguments = serializers.CharField(help_text="JSON, as text, as the model wrote it.")
    decision = ChoiceField(choices=ToolCall.Decision.choices)
    why = serializers.CharField(help_text="Why it was refused, or what it waits for.")
    result = serializers.CharField(help_text="Empty once it is no longer kept (30 days, or what the operator set).")
    result_tokens = serializers.IntegerField()
    milliseconds = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    hidden = serializers.CharField(help_text="Why arguments and result are withheld; empty when they are not.")


class RunContextOut(serializers.Serializer[Any]):
    """`kept` is false once the texts are gone (30 days, or what the operator set), and where they cannot be read; the
    counts stay."""

    run = serializers.IntegerField(source="snapshot.run_id")
    task = serializers.CharField(source="snapshot.task")
    model = serializers.CharField(source="snapshot.model")
    soul = serializers.IntegerField(source="snapshot.soul.number", allow_null=True)
    kept = serializers.BooleanField()
    messages = PromptMessageOut(source="view.messages", many=True)
    tokens = serializers.IntegerField(source="snapshot.tokens")
    budget = serializers.IntegerField(source="snapshot.budget")
    counter = serializers.CharField(source="snapshot.counter")
    layers = SeenLayerOut(many=True)
    dropped = DroppedOut(source="view.dropped", many=True)
    hidden_count = serializers.IntegerField(source="view.hidden_count", help_text="Items withheld from the caller.")
    prefix_shared = serializers.IntegerField(
        source="snapshot.prefix_shared",
        allow_null=True,
        help_text="Tokens in common with the start of the prompt before; null where there was none.",
    )
    tool_calls = SeenCallOut(many=True)
    created_at = serializers.DateTimeField(source="snapshot.created_at")


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


class UseOut(serializers.ModelSerializer[KnowledgeUse]):
    agent = serializers.CharField(source="run.agent.handle", read_only=True)
    task = ChoiceField(source="run.task", choices=Run.Task.choices, read_only=True)
    thread = serializers.IntegerField(source="run.thread_id", read_only=True)
    how: Any = ChoiceField(choices=["prompt", "tool"], read_only=True)

    class Meta:
        model = KnowledgeUse
        fields = ("id", "run", "agent", "task", "thread", "how", "created_at")
        read_only_fields = fields
