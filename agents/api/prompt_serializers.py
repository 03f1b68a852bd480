"""Prompts, what providers had of them in their caches, and uses of knowledge: what the API takes and gives."""

from typing import Any, get_args

from rest_framework import serializers

from agents.agent.models import KnowledgeUse, Run, ToolCall
from agents.prompts.assembler.items import DropReason
from openvibe.api.fields import ChoiceField, IdField, TextField, WholeNumberField


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


class UseOut(serializers.ModelSerializer[KnowledgeUse]):
    agent = serializers.CharField(source="run.agent.handle", read_only=True)
    task = ChoiceField(source="run.task", choices=Run.Task.choices, read_only=True)
    thread = serializers.IntegerField(source="run.thread_id", read_only=True)
    how: Any = ChoiceField(choices=["prompt", "tool"], read_only=True)

    class Meta:
        model = KnowledgeUse
        fields = ("id", "run", "agent", "task", "thread", "how", "created_at")
        read_only_fields = fields
