"""What admins say of a webhook."""

from typing import Any

from django import forms
from django.utils.html import format_html

from openvibe.base.forms import ServiceForm
from openvibe.webhooks.models import KINDS
from openvibe.workspaces.models import Participant

KIND_LABELS = {
    "mention": "somebody mentions the agent, or you",
    "message_posted": "a message is posted",
    "message_changed": "a message is edited or deleted, or an answer is finished",
    "thread_changed": "a thread is begun, renamed or archived",
    "run_changed": "an agent begins to answer, or is done",
    "work_changed": "to-dos, plans or approvals change",
    "memory_changed": "a conversation is summarised",
    "knowledge_changed": "an entry of knowledge changes",
    "pins_changed": "something is pinned, or not any more",
    "dive_changed": "a dive begins or ends",
    "channel_changed": "a channel changes, or who is in it",
    "agent_changed": "an agent changes",
    "members_changed": "somebody joins, leaves or is renamed",
    "workspace_changed": "settings of the workspace change",
    "test": "a test",
}
"""What each kind means, in words for people."""


class WebhookForm(ServiceForm):
    url = forms.CharField(
        required=False,
        label="Address",
        widget=forms.URLInput(attrs={"maxlength": 500, "required": True}),
        help_text="Where deliveries are posted, beginning with https://. Redirects are not followed. Once "
        "saved, only its beginning is shown, and … for the rest: that may be a secret.",
    )
    kinds = forms.MultipleChoiceField(
        required=False,
        label="What it is told",
        choices=[(kind, format_html("<span>{} <code>{}</code></span>", KIND_LABELS[kind], kind)) for kind in KINDS],
        widget=forms.CheckboxSelectMultiple,
    )


class NewWebhookForm(WebhookForm):
    agent = forms.ModelChoiceField(
        Participant.objects.none(),
        required=False,
        label="Sees as",
        to_field_name="handle",
        empty_label="The workspace: what you see yourself",
        error_messages={"invalid_choice": "It is gone, or reads a private channel without you. Choose another one."},
    )
    field_order = ("agent", "url", "kinds")

    def __init__(self, *args: Any, agents: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["agent"].queryset = agents  # type: ignore[attr-defined]  # a field of models
