"""What must be true of knowledge as it is stored; every sentence is a row that breaks it."""

from __future__ import annotations

from collections.abc import Iterator

from django.db.models import Count, F, Max, Q

from knowledge.models import Contradiction, Entry
from openvibe.llm.tokens import count


def check(workspace_id: int | None = None) -> Iterator[str]:
    """Sentences about broken entries of a workspace, or of all; none when all is well."""
    entries = Entry.objects.filter(workspace_id=workspace_id) if workspace_id else Entry.objects.all()
    revised = entries.annotate(kept=Count("revisions"), newest=Max("revisions__number"))
    for pk in revised.exclude(kept=F("version"), newest=F("version")).order_by("pk").values_list("pk", flat=True):
        yield f"Entry {pk} has not one revision for each of its versions."
    alone = entries.filter(status=Entry.Status.SUPERSEDED, successor=None)
    for pk in alone.order_by("pk").values_list("pk", flat=True):
        yield f"Entry {pk} is superseded, but nothing supersedes it."
    standing = entries.filter(status=Entry.Status.ACTIVE, supersedes__status=Entry.Status.ACTIVE)
    for pk, earlier in standing.order_by("pk").values_list("pk", "supersedes"):
        yield f"Entry {pk} supersedes entry {earlier}, and both are active."
    foreign = ~Q(first__workspace=F("workspace")) | ~Q(second__workspace=F("workspace"))
    for pk in Contradiction.objects.filter(foreign, first__in=entries).values_list("pk", flat=True):
        yield f"Contradiction {pk} is between two workspaces."
    for pk, content, tokens in entries.order_by("pk").values_list("pk", "content", "tokens").iterator(chunk_size=500):
        if count(content) != tokens:
            yield f"Entry {pk} says that it has {tokens:,} tokens; it has {count(content):,}."
