"""Looks up members and workspaces, and computes the `Access` of a member, a participant or an admin."""

from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from typing import Any, NamedTuple, cast

from django.core.management.base import CommandError
from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils import timezone

from openvibe.base.models import AuditRecord, Event
from openvibe.base.problems import Missing, Refused
from openvibe.engines.database.compiled_queries import CompiledQuery
from openvibe.engines.llm.tokens import count_tokens
from openvibe.engines.registers import Register
from openvibe.engines.text.includes import CutInclude, expand_includes
from openvibe.workspaces.access import Access, Role, role_access
from openvibe.workspaces.models import (
    MAX_INSTRUCTION_TOKENS,
    PRESENCE_SECONDS,
    Member,
    Participant,
    Presence,
    Snippet,
    Spending,
    User,
    Workspace,
)

AGENT_ACCESS: Register[Callable[[Participant], Access | None]] = Register("openvibe.workspaces.queries.AGENT_ACCESS")
"""What a participant that is an agent may see now; None once it is deactivated."""

AGENT_ACCESSES: Register[Callable[[Iterable[Participant]], dict[int, Access]]] = Register(
    "openvibe.workspaces.queries.AGENT_ACCESSES"
)
"""The same for many agents at once, by participant id; those that are deactivated are left out."""


def name_like(words: str, prefix: str = "") -> Q:
    """Participants whose name or handle holds the words, all without words; `prefix` leads to the participant."""
    return Q(**{f"{prefix}name__icontains": words}) | Q(**{f"{prefix}handle__icontains": words.removeprefix("@")})


def name_begins_with(prefix: str) -> Q:
    """Participants whose handle, or a word of whose name, begins so, whatever the case."""
    return Q(handle__istartswith=prefix) | Q(name__istartswith=prefix) | Q(name__icontains=f" {prefix}")


def is_here(participant: str) -> Exists:
    """Whether a page of somebody was seen open lately: of the participant that the rows name by this column."""
    presences = Presence.objects.filter(participant=OuterRef(participant))
    return Exists(presences.filter(seen_at__gt=Now() - timedelta(seconds=PRESENCE_SECONDS)))


def here_by_workspace(workspace_ids: Iterable[int]) -> dict[int, frozenset[int]]:
    """Participants who are here now, of these workspaces. One query, none without any."""
    ids = set(workspace_ids)
    here: dict[int, set[int]] = {workspace_id: set() for workspace_id in ids}
    if ids:
        rows = Participant.objects.filter(is_here("pk"), workspace__in=ids, kind=Participant.Kind.MEMBER)
        for workspace_id, pk in rows.order_by().values_list("workspace_id", "pk"):
            here[workspace_id].add(pk)
    return {workspace_id: frozenset(pks) for workspace_id, pks in here.items()}


@CompiledQuery
def _members_by_slug(user_id: int, slug: int) -> QuerySet[Member]:
    """Members with `stream_position`: that of the workspace's newest event."""
    events = Event.objects.filter(workspace_id=OuterRef("workspace_id"), position__isnull=False).order_by("-position")
    members = Member.objects.filter(removed_at=None, user=user_id, user__is_active=True, workspace__slug=slug)
    members = members.select_related("participant", "workspace", "user")
    return members.annotate(**{"stream_position": Subquery(events.values("position")[:1])})


def access_member(user_id: int, slug: str) -> Member:
    """The user's standing membership of a workspace. Raises Missing for strangers and for unknown workspaces."""
    members: list[Member] = [] if "\x00" in slug else _members_by_slug.objects(user_id, slug)
    if not members:
        raise Missing
    members[0].participant.workspace = members[0].workspace
    return members[0]


@CompiledQuery
def _members_by_user(user_id: int) -> QuerySet[Member]:
    return Member.objects.select_related("participant__workspace").filter(removed_at=None, user=user_id)


def list_memberships(user: User) -> list[Member]:
    """The user's standing memberships."""
    return _members_by_user.objects(user.pk)


def member_access(member: Member) -> Access:
    role = cast(Role, member.role)
    return role_access(workspace_id=member.workspace_id, participant_id=member.participant_id, role=role)


@CompiledQuery
def _members_by_participant(participant_id: int) -> QuerySet[Member]:
    return Member.objects.select_related("user").filter(participant=participant_id)


def participant_access(participant: Participant) -> Access | None:
    """Access of a participant, as it is now; None when it may see nothing any more (removed, deactivated, imported).

    No query for one that was read with its member and user: it is as old as they are."""
    if participant.kind == Participant.Kind.AGENT:
        return AGENT_ACCESS.only()(participant)
    member: Member | None = getattr(participant, "member", None) if Participant.member.is_cached(participant) else None
    if member is None or not Member.user.is_cached(member):
        member = next(iter(_members_by_participant.objects(participant.pk)), None)
    stands = member is not None and member.removed_at is None and member.user.is_active
    return member_access(member) if member is not None and stands else None


def resolve_workspace(slug: str) -> Workspace:
    """The workspace of that slug; for an empty one the only workspace there is. Raises CommandError naming them."""
    matches = list((Workspace.objects.filter(slug=slug) if slug else Workspace.objects.all())[:2])
    if len(matches) == 1:
        return matches[0]
    slugs = ", ".join(Workspace.objects.order_by("slug").values_list("slug", flat=True)[:20])
    if not slugs:
        raise CommandError("There is no workspace yet. `manage.py demo` makes a first one.")
    are = "There are:" if ", " in slugs else "There is:"
    if slug:
        raise CommandError(f"There is no workspace {slug!r}. {are} {slugs}.")
    raise CommandError(f"Say which workspace with --workspace. {are} {slugs}.")


def admin_access(request: HttpRequest, workspace_id: int) -> Access:
    """The access under which a superuser writes in this workspace from the admin: an owner's.

    Raises Refused for somebody who is no member: what is written needs a name to stand under.
    """
    user: Any = request.user
    member = Member.objects.filter(user=user, workspace_id=workspace_id, removed_at=None).first()
    if member is None:
        raise Refused(
            "You are not a member of this workspace, so there is no name this could be written under. "
            "Let one of its owners invite you first."
        )
    return role_access(workspace_id=workspace_id, participant_id=member.participant_id, role="owner")


class SnippetText(NamedTuple):
    """A snippet as prompts need it."""

    snippet_id: int
    name: str
    text: str
    version: int

    @property
    def ref(self) -> str:
        return f"snippet:{self.snippet_id}@{self.version}"


class ExpandedInstructions(NamedTuple):
    """Instructions with what they include; which snippets that are, and which includes could not be followed."""

    text: str
    snippets: tuple[SnippetText, ...] = ()
    cuts: tuple[CutInclude, ...] = ()


def read_snippets(workspace_id: int) -> tuple[SnippetText, ...]:
    """All snippets of a workspace."""
    return tuple(map(SnippetText._make, _snippet_texts.rows(workspace_id)))


@CompiledQuery
def _snippet_texts(workspace_id: int) -> QuerySet[Any, Any]:
    return Snippet.objects.filter(workspace=workspace_id).order_by("name").values_list("pk", "name", "text", "version")


@lru_cache(maxsize=1_024)
def expand_instructions(text: str, snippets: tuple[SnippetText, ...]) -> ExpandedInstructions:
    """The instructions of one scope as agents read them."""
    by_name = {snippet.name: snippet for snippet in snippets}
    texts = {name: snippet.text for name, snippet in by_name.items()}
    expansion = expand_includes(text.strip(), texts, max_tokens=MAX_INSTRUCTION_TOKENS, count=count_tokens)
    return ExpandedInstructions(
        expansion.text.strip(), tuple(by_name[name] for name in expansion.names), expansion.cuts
    )


def audit_records(
    access: Access, *, who: str = "", what: str = "", since: date | None = None, until: date | None = None
) -> QuerySet[AuditRecord]:
    """The workspace's audit log, newest first, none for who does not administer it.

    `who` is part of a name or handle, `what` an action; `since` and `until` are days in the time zone at work, both
    among those shown.
    """
    if not access.administers:
        return AuditRecord.objects.none()
    rows = AuditRecord.objects.filter(workspace_id=access.workspace_id)
    if who:
        rows = rows.filter(actor__icontains=who)
    if what:
        rows = rows.filter(action=what)
    if since:
        rows = rows.filter(created_at__gte=_day_start(since))
    if until and until < date.max:
        rows = rows.filter(created_at__lt=_day_start(until + timedelta(days=1)))
    return rows.order_by("-id")


def background_calls(access: Access) -> QuerySet[Spending]:
    """Models that were asked while nobody waited, newest first; none for who does not administer the workspace."""
    if not access.administers:
        return Spending.objects.none()
    return Spending.objects.filter(workspace=access.workspace_id).select_related("agent").order_by("-id")


def _day_start(day: date) -> datetime:
    in_range = min(max(day, date(1970, 1, 1)), date(9000, 1, 1))  # what every time zone has
    return datetime.combine(in_range, time.min, timezone.get_current_timezone())


def has_agent(workspace_id: int, handle: str) -> bool:
    """Whether an agent of the workspace has this handle."""
    agents = Participant.objects.filter(workspace=workspace_id, kind=Participant.Kind.AGENT)
    return agents.filter(handle=handle).exists()
