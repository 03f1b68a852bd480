"""An example for every operation of the API: the schema shows them, and a test sends each of the requests.

Rows are numbered as in one story: thread 12 in channel 3, message 345, the agent `vibe`.
"""

from typing import Any, Final

from openvibe.api.descriptions import SAME_PROPERTIES
from openvibe.api.example_answers import SOUL, TEXTS, VALUES

PARAMETERS: Final[dict[str, Any]] = {
    "handle": "vibe",
    "agent": "vibe",
    "person": "ana",
    "key": "call-1",
    "label": "notes",
    "thread": 12,
    "q": "When do I prune the roses?",
    "kind": "message",
    "ref": 346,
    "emoji": "🎉",
    "number": 7,
    "If-Match": '"1"',
}
"""Examples by name, for those that have to be given, and for whose blocks and notes are meant."""

IDS: Final[dict[str, str]] = {
    "approvals": "Approval",
    "attachments": "Attachment",
    "channels": "Channel",
    "compactions": "Compaction",
    "contradictions": "Contradiction",
    "dives": "Dive",
    "episodes": "Episode",
    "images": "Image",
    "imports": "ConversationImport",
    "knowledge": "Entry",
    "messages": "Message",
    "proposals": "Proposal",
    "rules": "CallRule",
    "runs": "Run",
    "schedules": "Schedule",
    "sessions": "Session",
    "snippets": "Snippet",
    "summaries": "MemorySummary",
    "threads": "Thread",
    "tokens": "Token",
    "watches": "Watch",
    "webhooks": "Webhook",
    "work": "Work",
}
"""The object whose id `{id}` is in an example's address, by the word before it."""

BODIES: Final[dict[str, Any]] = {
    "agents_apply_feedback": {
        "feedback": [678],
        "rule": "Name the month when you speak of a season.",
        "place": "principle",
        "note": "From Ana's feedback",
    },
    "agents_create": {"name": "Reed", "purpose": "Reviews what we change in the shop", "level": 2, "channels": [3]},
    "agents_create_join_code": {"command": "claude"},
    "agents_save_soul": {"source": SOUL, "note": "Its first version"},
    "agents_update": {"level": 3, "note": "Eight of ten answers were accepted"},
    "agents_create_rule": {"kind": "execute", "effect": "allow", "pattern": "pytest *"},
    "approvals_allow_always": {"pattern": "pytest *"},
    "approvals_create": {"thread": 12, "what": "Order 40 litres of mulch", "reason": "The beds are bare."},
    "approvals_decide": {"granted": True, "note": "At most 60 euros"},
    "blocks_append": {"content": "The north beds get compost first."},
    "blocks_create": {
        "label": "beds",
        "content": "Six beds, two of them in the shade.",
        "description": "What there is",
    },
    "blocks_update": {"content": "Roses are pruned in late winter."},
    "channels_create": {"name": "garden", "description": "All that grows"},
    "channels_notify": {"level": "nothing"},
    "channels_update": {"instructions": "Answer in one sentence.", "daily_token_budget": 200_000},
    "context_assemble": {"thread": 12, "task": "mention", "agent": "vibe", "request": "When do I prune?"},
    "dives_create": {"message": 345, "agent": "vibe", "body": "Is it right for every rose?", "client_id": "dive-1"},
    "dives_publish": {
        "headline": "Prune in late winter",
        "bullets": ["Before the buds open", "On a dry day", "Climbers after they bloom"],
        "body": "Ana's roses were pruned in March for five years, and bloomed each time.",
        "questions": ["What of the climbers in the shade?"],
    },
    "sidebar_update": {"order": "unread", "folded": ["people"]},
    "do_not_disturb_update": {"start": "22:00", "end": "07:00", "time_zone": "Europe/Berlin"},
    "join_create": {"code": "7K3M-QX2P-9RTD", "host": "reed-laptop", "command": "claude", "client": "0.1.0"},
    "feedback_create": {"message": 345, "verdict": "down", "text": "Name the month.", "tags": ["not_useful"]},
    "knowledge_accept": {"topic": "When roses are pruned", "note": "Checked with Dora"},
    "knowledge_archive": {"note": "The bed is gone"},
    "knowledge_create": {
        "topic": "When climbers are pruned",
        "content": "After they bloom, in July.",
        "expires_at": "1y",
        "tags": ["roses"],
        "client_id": "climbers-1",
    },
    "knowledge_find_similar": {"text": "Roses are pruned in March.", "limit": 3},
    "knowledge_flag": {"reason": "wrong", "note": "It was May this year"},
    "knowledge_import": {"form": "csv", "text": "topic,content\nMulch,Five centimetres in April.\n"},
    "knowledge_reject": {"note": "Nobody could say where it is from"},
    "knowledge_renew": {"expires_at": "90d", "note": "Still so"},
    "knowledge_restore": {"note": "The bed is back"},
    "knowledge_settle_contradiction": {"how": "both_hold", "note": "One is of the south beds"},
    "knowledge_suggest": {"topic": "Compost", "content": "Ready after nine months.", "why": "Ana asked twice."},
    "knowledge_supersede": {"content": "Roses are pruned in May.", "note": "Late frost"},
    "knowledge_undo": {"note": "Too early"},
    "knowledge_update": {"content": "Roses are pruned in March, on a dry day.", "note": "Said more exactly"},
    "memory_call_tool": {"thread": 12, "action": "search", "query": "roses", "limit": 5},
    "memory_compact": {"thread": 12, "full": False, "focus": "dates"},
    "memory_correct_summary": {"thread": 12, "version": 1, "content": "Ana said May, not March."},
    "messages_create": {"body": "@vibe when do I prune?", "client_id": "question-1"},
    "images_update": {"description": "A brick wall with a crack above the door"},
    "messages_update": {"body": "When do I prune the climbers?"},
    "notifications_update": {"level": "all"},
    "profile_update": {"content": "Ana likes short answers."},
    "progress_create": {"thread": 12, "checkpoint": "South beds pruned", "next_action": "Mulch them"},
    "reactions_add": {"emoji": "🎉"},
    "runs_begin": {"message": 345},
    "runs_ask_permission": {
        "attempt": 1,
        "key": "call-1",
        "kind": "execute",
        "title": "Run the tests",
        "command": "pytest -q",
    },
    "runs_finish": {"attempt": 1, "body": "In March, before the buds open.", "model": "our-own", "output_tokens": 9},
    "runs_hear": {"attempt": 1},
    "runs_read": {"attempt": 1, "after_run": 41},
    "runs_resume": {"attempt": 1, "rewrite": False},
    "runs_report_step": {
        "attempt": 1,
        "key": "look-1",
        "kind": "tool",
        "tool": "diary",
        "text": "Looked into the diary",
    },
    "runs_set_plan": {
        "attempt": 1,
        "entries": [{"content": "Look into the diary", "status": "completed"}, {"content": "Answer"}],
    },
    "runs_write": {"attempt": 1, "offset": 0, "body": "In March"},
    "schedules_create": {
        "agent": "vibe",
        "name": "What is due",
        "cron": "0 9 * * mon-fri",
        "time_zone": "Europe/Berlin",
        "prompt": "Say what is to be done in the garden today.",
        "channel": 3,
    },
    "schedules_update": {"cron": "30 8 * * mon", "is_active": True},
    "watches_create": {"agent": "vibe", "channel": 3, "rest_minutes": 10},
    "watches_update": {"rest_minutes": 15, "is_active": True},
    "sessions_append": {
        "messages": [
            {"role": "user", "body": "When do I prune?", "external_id": "m1", "name": "Zoë"},
            {"role": "assistant", "body": "In March.", "external_id": "m2"},
        ]
    },
    "sessions_create": {"channel": 3, "title": "Chat with Zoë", "external_id": "zoe-1", "info": {"source": "web shop"}},
    "sessions_update": {"info": {"source": "web shop", "language": "de"}},
    "snippets_create": {"name": "tone", "content": "Be brief."},
    "snippets_update": {"content": "Be brief and kind."},
    "direct_messages_open": {"to": "zoe"},
    "threads_create": {"channel": 3, "title": "Pruning the roses"},
    "threads_mark_read": {"seq": 1},
    "threads_notify": {"level": "all"},
    "threads_update": {"title": "Pruning roses and climbers"},
    "tokens_create": {"name": "watering script", "scopes": ["read", "write"], "days": 90},
    "webhooks_create": {"url": "https://hooks.example.com/garden", "kinds": ["mention"], "agent": "vibe"},
    "webhooks_update": {"kinds": ["mention", "message_posted"]},
    "work_create": {"thread": 12, "kind": "todo", "text": "Order mulch"},
    "work_decide": {"confirmed": True},
    "work_update": {"state": "done"},
    "workspace_update": {"description": "A garden of six beds."},
}
"""What each operation that takes a body can be sent, by its id."""


def add_examples(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Puts them into the schema (a hook of drf-spectacular)."""
    for path, methods in result["paths"].items():
        for operation in methods.values():
            for parameter in operation.get("parameters", ()):
                if parameter["name"] == "id":
                    component = IDS[path.partition("/{id}")[0].rpartition("/")[2]]
                    parameter["example"] = VALUES.get(f"{component}.id", VALUES["id"])
                elif parameter.get("required") or parameter["name"] in ("agent", "person"):
                    parameter["example"] = PARAMETERS[parameter["name"]]
            content = operation.get("requestBody", {}).get("content", {})
            if operation["operationId"] in BODIES:
                content["application/json"]["example"] = BODIES[operation["operationId"]]
            _add_answers(operation, result["components"]["schemas"])
    return result


def _add_answers(operation: dict[str, Any], components: dict[str, Any]) -> None:
    texts = TEXTS.get(operation["operationId"], {})
    for status, answer in operation["responses"].items():
        for media_type, content in answer.get("content", {}).items():
            if media_type in texts:
                content["example"] = texts[media_type]
            elif media_type == "application/json" and status != "default":
                content["example"] = _example(content["schema"], components)


def _example(schema: dict[str, Any], components: dict[str, Any], component: str = "", name: str = "") -> Any:
    """An answer of this form: what VALUES has, and one row of each list."""
    for owner in (component, SAME_PROPERTIES.get(component)):
        if f"{owner}.{name}" in VALUES:
            return VALUES[f"{owner}.{name}"]
    if "allOf" in schema or "oneOf" in schema:
        schema = (schema.get("allOf") or schema["oneOf"])[0]
    if "$ref" in schema:
        component = schema["$ref"].rpartition("/")[2]
        schema = components[component]
        if "properties" in schema:
            return {each: _example(one, components, component, each) for each, one in schema["properties"].items()}
    if schema.get("type") == "array" and "$ref" in schema["items"]:
        return [_example(schema["items"], components)]
    return VALUES.get(name, schema.get("enum", [None])[0])
