"""Which workspace a command is about."""

from django.core.management.base import CommandError

from openvibe.workspaces.models import Workspace


def workspace_called(slug: str) -> Workspace:
    """The workspace of that slug; for an empty one the only workspace there is. Raises CommandError naming them."""
    found = list((Workspace.objects.filter(slug=slug) if slug else Workspace.objects.all())[:2])
    if len(found) == 1:
        return found[0]
    known = ", ".join(Workspace.objects.order_by("slug").values_list("slug", flat=True)[:20])
    if not known:
        raise CommandError("There is no workspace yet. `manage.py demo` makes a first one.")
    if slug:
        raise CommandError(f"There is no workspace {slug!r}. There is: {known}.")
    raise CommandError(f"Say which workspace with --workspace. There is: {known}.")
