"""Which memory plugin a workspace uses."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from openvibe.base.models import Timestamped
from openvibe.workspaces.models import Participant, Workspace

DEFAULT_PLUGIN = "memory/lcm"


class MemoryPlugin(Timestamped):
    """A plugin's place in a workspace: switched on or off, and its settings. Without rows, DEFAULT_PLUGIN is on."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="memory_plugins")
    name = models.CharField(max_length=80, help_text="For example memory/lcm.")
    enabled = models.BooleanField(default=False)
    config = models.JSONField(default=dict, blank=True)
    changed_by = models.ForeignKey(Participant, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workspace", "name"], name="memory_plugin_once"),
            models.UniqueConstraint(
                fields=["workspace"], condition=Q(enabled=True), name="memory_plugin_one_enabled_per_workspace"
            ),
        ]

    def __str__(self) -> str:
        return self.name
