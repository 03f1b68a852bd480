"""Other programs' MCP servers and their tools."""

from __future__ import annotations

import pgtrigger
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models import Q

from agents.agent.models.agent import Agent
from openvibe.engines.database.fields import EncryptedTextField, secret_hint
from openvibe.engines.database.models import TimestampedModel
from openvibe.engines.network.ssrf_guard import AddressRefused, check_url
from openvibe.workspaces.models import Workspace

NAME_IN_CHANNELS = """
UPDATE chat_channel SET agent_tools = (
    SELECT coalesce(array_agg(
        regexp_replace(tool.tool, '^mcp:' || OLD.name || '(/|$)', 'mcp:' || coalesce(NEW.name, '') || '\\1')
        ORDER BY tool.ordinality
    ), '{}')
    FROM unnest(agent_tools) WITH ORDINALITY AS tool
    WHERE TG_OP = 'UPDATE' OR tool.tool !~ ('^mcp:' || OLD.name || '(/|$)')
) WHERE workspace_id = OLD.workspace_id AND agent_tools IS NOT NULL;
RETURN NULL;
"""
"""What channels name of a server goes by its new name, and is gone with it: another of that name is another."""


class McpServer(TimestampedModel):
    """Another program's MCP server (streamable HTTP), whose tools a workspace's agents may be allowed to call."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="mcp_servers", db_index=False)
    name = models.CharField(
        max_length=24,
        validators=[RegexValidator(r"^[a-z][a-z0-9-]*$", "Use a–z, 0–9 and -, beginning with a letter.")],
        help_text="Its tools are called name__tool.",
    )
    url = models.CharField("URL", max_length=500, help_text="For example https://tools.example/mcp")
    token = EncryptedTextField(blank=True, default="")
    header = models.CharField(
        max_length=80,
        default="Authorization",
        validators=[RegexValidator(r"^[A-Za-z0-9-]+$", "A header's name is letters, digits and -.")],
        help_text="Which carries the token: in Authorization as “Bearer …”, in any other as it stands.",
    )
    timeout_seconds = models.PositiveIntegerField(
        default=30,
        validators=[MinValueValidator(1), MaxValueValidator(300)],
        help_text="How long a whole call may take, with everything it streams.",
    )
    max_bytes = models.PositiveIntegerField(
        default=1_000_000,
        validators=[MinValueValidator(1_000), MaxValueValidator(20_000_000)],
        help_text="The most that is read of one answer.",
    )
    is_active = models.BooleanField(default=True, help_text="Off: none of its tools is offered or called.")
    fetched_at = models.DateTimeField(null=True, editable=False, help_text="When its tools were fetched last.")
    failures = models.PositiveIntegerField(default=0, editable=False, help_text="Of calls, in a row.")
    rests_until = models.DateTimeField(null=True, editable=False)

    class Meta:
        verbose_name = "MCP server"
        ordering = ["workspace_id", "name"]
        constraints = [models.UniqueConstraint(fields=["workspace", "name"], name="mcp_server_name_once")]
        triggers = [
            pgtrigger.Trigger(
                name="channels_name_it",
                operation=pgtrigger.UpdateOf("name") | pgtrigger.Delete,
                when=pgtrigger.After,
                func=NAME_IN_CHANNELS,
            )
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def token_hint(self) -> str:
        return secret_hint(self.token, "token")

    def clean(self) -> None:
        problems: dict[str, str] = {}
        try:
            check_url(self.url, allow_private=settings.ALLOW_PRIVATE_ENDPOINTS)
        except AddressRefused as error:
            problems["url"] = str(error)
        if self.token and not (self.token.isprintable() and self.token.isascii()):
            problems["token"] = "A token is plain letters, digits and signs in one line."
        if problems:
            raise ValidationError(problems)


class McpTool(models.Model):
    """A tool of a server as it was fetched. `fingerprint` is of all that the server said of it: a server that says
    something else when the tool is called is not called (`agents.tools.mcp_servers.tools`)."""

    class Effect(models.TextChoices):
        READS = "reads", "only reads"
        ACTS = "acts", "acts"
        EXTERNAL = "external", "acts outside the workspace"

    server = models.ForeignKey(McpServer, on_delete=models.CASCADE, related_name="tools", db_index=False)
    name = models.CharField(max_length=128)
    description = models.TextField(blank=True)
    input_schema = models.JSONField(default=dict)
    fingerprint = models.CharField(max_length=64, help_text="SHA-256 of its definition.")
    effect = models.CharField(
        max_length=8,
        choices=Effect.choices,
        default=Effect.EXTERNAL,
        help_text="agents.agent.trust.GATES says who may what.",
    )
    asks_first = models.BooleanField(default=False, help_text="Every call of it waits until a person approves.")
    is_listed = models.BooleanField(default=True, help_text="The server named it when its tools were fetched last.")
    fetched_at = models.DateTimeField()
    agents: models.ManyToManyField[Agent, models.Model] = models.ManyToManyField(
        Agent, blank=True, related_name="mcp_tools", help_text="Which may call it, as far as their level allows."
    )

    class Meta:
        verbose_name = "tool of an MCP server"
        verbose_name_plural = "tools of an MCP server"
        ordering = ["server_id", "name"]
        constraints = [
            models.UniqueConstraint(fields=["server", "name"], name="mcp_tool_once"),
            models.CheckConstraint(condition=Q(effect__in=["reads", "acts", "external"]), name="mcp_tool_effect_known"),
        ]

    def __str__(self) -> str:
        return self.name
