"""Finding contradictions: entries that are new or were changed, compared with their nearest neighbours.

No row is held while neighbours are looked for and a model is asked, only the entry's comparison is owned, so that no
model is asked twice; what was found is written in one transaction, and only if the entry is still as it was. A worker
that dies before that leaves the entry to the next one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import structlog
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from knowledge.contradiction import Claim, contradicts
from knowledge.finding import find_entries
from knowledge.judging import ANSWER_TOKENS, question_of, read_verdict
from knowledge.models import Contradiction, Entry, Revision
from knowledge.services.notices import admins_of, notify, who_answers_for
from knowledge.services.revising import hold
from openvibe.base.models import emit
from openvibe.base.ownership import Piece, owned
from openvibe.llm.answers import Unreadable
from openvibe.llm.errors import ModelError
from openvibe.llm.models import Endpoint
from openvibe.llm.protocol import ModelClient
from openvibe.llm.registry import client_for
from openvibe.workspaces.access import Access
from openvibe.workspaces.metering import metered
from openvibe.workspaces.models import Member, Spending

log = structlog.get_logger(__name__)
NEIGHBOURS = 10
"""Of each kind: the nearest in words and meaning, and the newest under the same topic."""

SHOWN_TO_MODEL = 5
LIMIT = 500


@dataclass(frozen=True, slots=True)
class _Finding:
    other_id: int
    other_version: int
    why: str
    found_by: str


def compare_waiting(*, limit: int = LIMIT, seconds: float | None = None, client: ModelClient | None = None) -> int:
    """Compare active entries that are newer than their last comparison; how many were.

    `client` judges in place of the workspace's own model (its endpoint for summaries, else its default; where there
    is none, whenever it fails, and when the workspace's tokens of the day are used up, the built-in rule alone). Stops
    after `seconds`.
    """
    began, done = time.monotonic(), 0
    waiting = Entry.objects.filter(status=Entry.Status.ACTIVE, compared_version__lt=F("version"))
    for pk in waiting.order_by("pk").values_list("pk", flat=True)[:limit]:
        with owned(Piece.COMPARISON, pk) as is_mine:
            entry = waiting.defer("search").filter(pk=pk).first() if is_mine else None
            if entry is not None:
                _write(entry, _findings(entry, _judge(entry.workspace_id, client)))
                done += 1
        if seconds is not None and time.monotonic() - began > seconds:
            break
    return done


# --- looking ------------------------------------------------------------------------------------------------
def _findings(entry: Entry, client: ModelClient | None) -> list[_Finding]:
    neighbours = neighbours_of(entry)
    claim = Claim(entry.topic, entry.content)
    said = {other.pk: contradicts(Claim(other.topic, other.content), claim) for other in neighbours}
    by_rule = [
        _Finding(other.pk, other.version, said[other.pk] or "", "rule") for other in neighbours if said[other.pk]
    ]
    if client is None or not neighbours:
        return by_rule
    shown = sorted(neighbours, key=lambda other: said[other.pk] is None)[:SHOWN_TO_MODEL]
    verdict = _asked(client, claim, shown)
    if verdict is None:
        return by_rule
    judged = {other.pk for other in shown}
    by_model = [_Finding(other.pk, other.version, verdict[other.pk], "model") for other in shown if other.pk in verdict]
    return by_model + [finding for finding in by_rule if finding.other_id not in judged]


def neighbours_of(entry: Entry) -> list[Entry]:
    """Entries that hold and are nearest to it, in meaning or by their topic. Whoever may read them."""
    everything = Access(entry.workspace_id, entry.owner_id, role="owner", knowledge="restricted")
    hits = find_entries(everything, f"{entry.topic}\n{entry.content}", most=NEIGHBOURS + 1).hits
    near = [hit.entry for hit in hits if hit.entry.pk != entry.pk][:NEIGHBOURS]
    same = Entry.objects.filter(workspace_id=entry.workspace_id, topic__iexact=entry.topic).holding()
    rows = [*near, *same.exclude(pk=entry.pk).defer("search")[:NEIGHBOURS]]
    found = {other.pk: other for other in rows if other.pk not in (entry.supersedes_id, entry.pk)}
    return [other for other in found.values() if other.supersedes_id != entry.pk]


def _asked(client: ModelClient, claim: Claim, shown: Sequence[Entry]) -> dict[int, str] | None:
    """`{entry id: why}` as the model says, None when it cannot say, or was not asked for want of tokens."""
    try:
        answer = client.complete(
            question_of(claim, [Claim(other.topic, other.content) for other in shown]), max_output_tokens=ANSWER_TOKENS
        )
        verdict = read_verdict(answer.text, len(shown))
    except (ModelError, Unreadable) as error:
        log.warning("contradictions_not_judged", error=type(error).__name__)
        return None
    return {shown[number - 1].pk: why for number, why in verdict.items()}


def _judge(workspace_id: int, client: ModelClient | None) -> ModelClient | None:
    judge = client or _model_of(workspace_id)
    if judge is None:
        return None
    return metered(judge, workspace_id=workspace_id, purpose=Spending.Purpose.CONTRADICTIONS)


def _model_of(workspace_id: int) -> ModelClient | None:
    endpoints = Endpoint.objects.filter(Q(is_for_summaries=True) | Q(is_default=True), workspace=workspace_id)
    endpoint = endpoints.order_by("-is_for_summaries").first()
    return None if endpoint is None or endpoint.kind == Endpoint.Kind.OFFLINE else client_for(endpoint)


# --- writing ------------------------------------------------------------------------------------------------
@transaction.atomic
def _write(entry: Entry, findings: Sequence[_Finding]) -> None:
    """Store what was found, unless the entry changed meanwhile: then it waits on."""
    held = {row.pk: row for row in hold([entry.pk, *(finding.other_id for finding in findings)])}
    current = held.get(entry.pk)
    if current is None or current.version != entry.version or current.status != Entry.Status.ACTIVE:
        return
    for finding in findings:
        other = held.get(finding.other_id)
        if other is not None and other.version == finding.other_version and other.status == Entry.Status.ACTIVE:
            _flag(current, other, finding)
    _settle_the_mended(current, {finding.other_id for finding in findings})
    Entry.objects.filter(pk=entry.pk).update(compared_version=entry.version)


def _flag(entry: Entry, other: Entry, finding: _Finding) -> None:
    first, second = sorted((entry, other), key=lambda one: one.pk)
    pair = Contradiction.objects.select_for_update().filter(first=first, second=second).first()
    if pair is not None and pair.settled_at is not None and not _reworded(pair):
        return
    is_new = pair is None or pair.settled_at is not None
    pair = pair or Contradiction(workspace_id=entry.workspace_id, first=first, second=second)
    pair.first_version, pair.second_version = first.version, second.version
    pair.why, pair.found_by = finding.why, finding.found_by
    pair.settled_at, pair.settled_by, pair.settled_how = None, None, ""
    pair.save()
    if is_new:
        for one, beside in ((first, second), (second, first)):
            notify(one, Entry.Reason.CONTRADICTION, _told_of(one, beside))
        emit("knowledge_changed", workspace_id=entry.workspace_id)


def _reworded(pair: Contradiction) -> bool:
    """Whether one of the two says something else than when people settled it."""
    said = Q(changes__has_any_keys=["topic", "content"])
    since = Q(entry=pair.first_id, number__gt=pair.first_version) | Q(
        entry=pair.second_id, number__gt=pair.second_version
    )
    return Revision.objects.filter(said & since).exists()


def _settle_the_mended(entry: Entry, still: set[int]) -> None:
    """Open pairs of the entry that contradict each other no more, since the words of one were changed."""
    pairs = Contradiction.objects.select_for_update().filter(Q(first=entry) | Q(second=entry), settled_at=None)
    for pair in pairs:
        other_id = pair.second_id if pair.first_id == entry.pk else pair.first_id
        if other_id not in still and _reworded(pair):
            pair.settled_at, pair.settled_how = timezone.now(), "edited"
            pair.save(update_fields=["settled_at", "settled_how"])


def _told_of(entry: Entry, beside: Entry) -> set[int]:
    """Who answers for the entry, if they may read both; else the admins."""
    own = who_answers_for(entry) & _who_may_read(beside)
    return own or admins_of(entry.workspace_id)


def _who_may_read(entry: Entry) -> set[int]:
    if entry.visibility == Entry.Visibility.SHARED:
        members = Member.objects.filter(workspace_id=entry.workspace_id, removed_at=None)
        return set(members.values_list("participant_id", flat=True))
    return admins_of(entry.workspace_id) | {entry.author_id, entry.owner_id}
