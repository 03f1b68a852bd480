"""Verbs of SOULs: every save is a new version, made on the newest one, with a note."""

from django.db import transaction

from agents.models import Agent, SoulVersion
from agents.soul import SOUL_TOKEN_LIMIT, Problem, Soul, SoulError, parse_soul, soul_to_dict, soul_tokens
from openvibe.base.models import emit
from openvibe.base.problems import Conflict, Refused
from openvibe.base.problems import Problem as Bad
from openvibe.llm.tokens import count
from openvibe.workspaces.access import Access


class StaleSoul(Conflict):
    """Somebody saved a newer version since this one was opened."""

    code = "stale"


def check_soul(text: str) -> tuple[Soul, int]:
    """The SOUL and its tokens in the fullest rendering. Raises SoulError naming line and field of every problem."""
    soul = parse_soul(text)
    tokens = soul_tokens(soul, count)
    if tokens > SOUL_TOKEN_LIMIT:
        too_long = f"It takes {tokens:,} tokens, and the limit is {SOUL_TOKEN_LIMIT:,}. Shorten it."
        raise SoulError((Problem(1, "", too_long),))
    return soul, tokens


@transaction.atomic
def save_soul(*, agent: Agent, by: Access, text: str, note: str, based_on: int) -> SoulVersion:
    """Save `text` (YAML or JSON) as the next version. `based_on` is the version number it was edited from, 0 for none.

    Raises SoulError (line, field), Bad (no note), StaleSoul when a newer version exists, Refused for non-admins.
    """
    if not by.administers or by.workspace_id != agent.workspace_id:
        raise Refused("Only owners and admins may change a SOUL.")
    soul, tokens = check_soul(text)
    cleaned_note = note.replace("\x00", "").strip()
    if not cleaned_note or len(cleaned_note) > 300:
        raise Bad("Say in a few words (at most 300 characters) what you changed and why.", code="no_note", field="note")
    current = Agent.objects.select_for_update(of=("self",)).select_related("soul").get(pk=agent.pk)
    newest = current.soul.number if current.soul else 0
    if newest != based_on:
        raise StaleSoul(
            f"Version {newest} was saved meanwhile; you began from version {based_on}. "
            "Your text is kept in the form: compare it with the newest version, then save again."
        )
    version = SoulVersion.objects.create(
        agent=current,
        number=newest + 1,
        content=soul_to_dict(soul),
        source=text,
        token_count=tokens,
        note=cleaned_note,
        author_id=by.participant_id,
    )
    current.soul = version
    current.save(update_fields=["soul", "updated_at"])
    agent.soul = version
    emit("agent_changed", workspace_id=agent.workspace_id)
    return version


def restore_soul(*, version: SoulVersion, by: Access, based_on: int) -> SoulVersion:
    """Roll back: the old text becomes a new version, so nothing in the history changes."""
    return save_soul(
        agent=version.agent,
        by=by,
        text=version.source,
        note=f"Back to version {version.number}",
        based_on=based_on,
    )
