"""Rows of agents, for tests of what reads them."""

from django.utils import timezone
from factory.declarations import LazyFunction, Sequence, SubFactory
from factory.django import DjangoModelFactory

from agents.models import Citation, LoadedSkill, McpServer, McpTool, Permission, WatchLook
from openvibe.workspaces.models import Spending


class CitationFactory(DjangoModelFactory[Citation]):
    """What the answer of `run` cites, though it was not found in it."""

    class Meta:
        model = Citation


class LoadedSkillFactory(DjangoModelFactory[LoadedSkill]):
    """A skill that `agent` has open in `thread`; past the tool that opens it."""

    class Meta:
        model = LoadedSkill

    name = "pruning"


class McpServerFactory(DjangoModelFactory[McpServer]):
    """Somebody's MCP server in `workspace`."""

    class Meta:
        model = McpServer

    name = "shop"
    url = "https://shop.example/mcp"


class McpToolFactory(DjangoModelFactory[McpTool]):
    """A tool of `server`, as if it had been fetched."""

    class Meta:
        model = McpTool

    server = SubFactory(McpServerFactory)
    name = "order"
    fingerprint = "f1"
    fetched_at = LazyFunction(timezone.now)


class PermissionFactory(DjangoModelFactory[Permission]):
    """A look that `run` asked leave for, and that was allowed."""

    class Meta:
        model = Permission

    attempt = 1
    key = Sequence(lambda number: f"k{number}")
    kind = "read"
    digest = "d1"
    state = "allowed"
    decided_at = LazyFunction(timezone.now)


class SpendingFactory(DjangoModelFactory[Spending]):
    """A call of a model in the background, in `workspace`."""

    class Meta:
        model = Spending

    purpose = "review"
    model = "m9"


class WatchLookFactory(DjangoModelFactory[WatchLook]):
    """A look that came to silence."""

    class Meta:
        model = WatchLook

    upto_seq = 1
    outcome = "silent"
