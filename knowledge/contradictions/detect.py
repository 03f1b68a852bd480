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

from knowledge.contradictions.model_judge import MAX_ANSWER_TOKENS, build_prompt, parse_verdict
from knowledge.contradictions.rules import ComparedText, explain_contradiction
from knowledge.models import Contradiction, Entry, Revision
from knowledge.search import find_nearest_entries
from knowledge.services.revisions import admin_ids, create_notices, lock_rows, responsible_ids, withdraw_settled_notices
from openvibe.base.events import emit
from openvibe.engines.database.locks import LockKind, advisory_lock
from openvibe.engines.llm.answers.structured_output import UnparsableAnswer
from openvibe.engines.llm.endpoints.endpoints import client_for
from openvibe.engines.llm.errors import ContextTooLong, ModelError
from openvibe.engines.llm.models import Endpoint
from openvibe.engines.llm.protocol import ModelClient
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member, Spending
from openvibe.workspaces.services import meter_client

log = structlog.get_logger(__name__)
MAX_NEIGHBOURS = 10
"""The most neighbours of each kind: the nearest in words and meaning, and the newest under the same topic."""

MAX_JUDGED_ENTRIES = 5
BATCH_LIMIT = 500


@dataclass(frozen=True, slots=True)
class _DetectedContradiction:
    other: Entry
    why: str
    found_by: str


def detect_contradictions(
    *, limit: int = BATCH_LIMIT, seconds: float | None = None, client: ModelClient | None = None
) -> int:
    """Compares active entries that are newer than their last comparison; returns how many.

    `client` judges in place of the workspace's own model (its endpoint for summaries, else its default; where there
    is none, whenever it fails, and when the workspace's tokens of the day are used up, the built-in rule alone). Stops
    after `seconds`.
    """
    start_time, compared_count = time.monotonic(), 0
    pending = Entry.objects.filter(status=Entry.Status.ACTIVE, compared_version__lt=F("version"))
    for pk in pending.order_by("pk").values_list("pk", flat=True)[:limit]:
        with advisory_lock(LockKind.CONTRADICTION_SEARCH, pk) as is_mine:
            entry = pending.defer("search").filter(pk=pk).first() if is_mine else None
            if entry is not None:
                _save_contradictions(entry, _detect(entry, _metered_client(entry.workspace_id, client)))
                compared_count += 1
        if seconds is not None and time.monotonic() - start_time > seconds:
            break
    return compared_count


def _detect(entry: Entry, client: ModelClient | None) -> list[_DetectedContradiction]:
    neighbours = find_neighbours(entry)
    claim = ComparedText(entry.topic, entry.content)
    reasons = {other.pk: explain_contradiction(ComparedText(other.topic, other.content), claim) for other in neighbours}
    by_rule = [_DetectedContradiction(other, why, "rule") for other in neighbours if (why := reasons[other.pk])]
    if client is None or not neighbours:
        return by_rule
    judged_entries = sorted(neighbours, key=lambda other: reasons[other.pk] is None)[:MAX_JUDGED_ENTRIES]
    verdict = _judge_with_model(client, claim, judged_entries)
    if verdict is None:
        return by_rule
    by_model = [
        _DetectedContradiction(other, verdict[other.pk], "model") for other in judged_entries if other.pk in verdict
    ]
    return by_model + [finding for finding in by_rule if finding.other not in judged_entries]


def find_neighbours(entry: Entry) -> list[Entry]:
    """Entries that hold and are nearest to it, in meaning or by their topic. Whoever may read them."""
    full_access = Access(entry.workspace_id, entry.owner_id, role="owner", knowledge="restricted")
    hits = find_nearest_entries(full_access, f"{entry.topic}\n{entry.content}", most=MAX_NEIGHBOURS + 1)
    nearest = [hit.entry for hit in hits if hit.entry.pk != entry.pk][:MAX_NEIGHBOURS]
    same_topic = Entry.objects.filter(workspace_id=entry.workspace_id, topic__iexact=entry.topic).current()
    rows = [*nearest, *same_topic.exclude(pk=entry.pk).defer("search")[:MAX_NEIGHBOURS]]
    neighbours = {other.pk: other for other in rows if other.pk not in (entry.supersedes_id, entry.pk)}
    return [other for other in neighbours.values() if other.supersedes_id != entry.pk]


def _judge_with_model(client: ModelClient, claim: ComparedText, candidates: Sequence[Entry]) -> dict[int, str] | None:
    """`{entry id: why}` as the model says, None when it cannot say, or was not asked for want of tokens."""
    try:
        answer = client.complete(
            build_prompt(claim, [ComparedText(other.topic, other.content) for other in candidates]),
            max_output_tokens=MAX_ANSWER_TOKENS,
        )
        verdict = parse_verdict(answer.text, len(candidates))
    except ContextTooLong as error:
        if len(candidates) > 1:  # fewer at once
            middle = len(candidates) // 2
            verdicts = [_judge_with_model(client, claim, half) for half in (candidates[:middle], candidates[middle:])]
            return None if None in verdicts else {pk: why for half in verdicts for pk, why in (half or {}).items()}
        log.warning("contradictions_not_judged", error=type(error).__name__)
        return None
    except (ModelError, UnparsableAnswer) as error:
        log.warning("contradictions_not_judged", error=type(error).__name__)
        return None
    return {candidates[number - 1].pk: why for number, why in verdict.items()}


def _metered_client(workspace_id: int, client: ModelClient | None) -> ModelClient | None:
    """`client`, or that of the workspace's own model; None where it has none."""
    if client is None:
        endpoints = Endpoint.objects.filter(Q(is_for_summaries=True) | Q(is_default=True), workspace=workspace_id)
        endpoint = endpoints.order_by("-is_for_summaries").first()
        if endpoint is None or endpoint.kind == Endpoint.Kind.OFFLINE:
            return None
        client = client_for(endpoint)
    return meter_client(client, workspace_id=workspace_id, purpose=Spending.Purpose.CONTRADICTIONS)


@transaction.atomic
def _save_contradictions(entry: Entry, findings: Sequence[_DetectedContradiction]) -> None:
    """Stores what was found, unless the entry changed meanwhile: then it waits on."""
    rows_by_id = {row.pk: row for row in lock_rows([entry.pk, *(finding.other.pk for finding in findings)])}
    current = rows_by_id.get(entry.pk)
    if current is None or current.version != entry.version or current.status != Entry.Status.ACTIVE:
        return
    for finding in findings:
        other = rows_by_id.get(finding.other.pk)
        if other is not None and other.version == finding.other.version and other.status == Entry.Status.ACTIVE:
            _record_contradiction(current, other, finding)
    _settle_resolved_contradictions(current, {finding.other.pk for finding in findings})
    Entry.objects.filter(pk=entry.pk).update(compared_version=entry.version)


def _record_contradiction(entry: Entry, other: Entry, finding: _DetectedContradiction) -> None:
    first, second = sorted((entry, other), key=lambda one: one.pk)
    pair = Contradiction.objects.select_for_update().filter(first=first, second=second).first()
    if pair is not None and pair.settled_at is not None and not _changed_since_settled(pair):
        return
    is_new = pair is None or pair.settled_at is not None
    pair = pair or Contradiction(workspace_id=entry.workspace_id, first=first, second=second)
    pair.first_version, pair.second_version = first.version, second.version
    pair.why, pair.found_by = finding.why, finding.found_by
    pair.settled_at, pair.settled_by, pair.settled_how = None, None, ""
    pair.save()
    if is_new:
        recipients = _recipient_ids(entry, other)
        create_notices(entry, Entry.Reason.CONTRADICTION, recipients)
        create_notices(other, Entry.Reason.CONTRADICTION, _recipient_ids(other, entry) - recipients)
        emit("knowledge_changed", workspace_id=entry.workspace_id)


def _changed_since_settled(pair: Contradiction) -> bool:
    """Whether one of the two says something else than when people settled it."""
    is_reworded = Q(changes__has_any_keys=["topic", "content"])
    is_newer = Q(entry=pair.first_id, number__gt=pair.first_version) | Q(
        entry=pair.second_id, number__gt=pair.second_version
    )
    return Revision.objects.filter(is_reworded & is_newer).exists()


def _settle_resolved_contradictions(entry: Entry, still: set[int]) -> None:
    """Settles open pairs of the entry that do not contradict each other any more, since the words of one were
    changed."""
    pairs = Contradiction.objects.select_for_update().filter(Q(first=entry) | Q(second=entry), settled_at=None)
    for pair in pairs:
        other_id = pair.second_id if pair.first_id == entry.pk else pair.first_id
        if other_id not in still and _changed_since_settled(pair):
            pair.settled_at, pair.settled_how = timezone.now(), "edited"
            pair.save(update_fields=["settled_at", "settled_how"])
            withdraw_settled_notices((pair.first_id, pair.second_id))


def _recipient_ids(entry: Entry, beside: Entry) -> set[int]:
    """The people who answer for the entry, if they may read both; else the admins."""
    readers = responsible_ids(entry) & _reader_ids(beside)
    return readers or admin_ids(entry.workspace_id)


def _reader_ids(entry: Entry) -> set[int]:
    if entry.visibility == Entry.Visibility.SHARED:
        members = Member.objects.filter(workspace_id=entry.workspace_id, removed_at=None)
        return set(members.values_list("participant_id", flat=True))
    return admin_ids(entry.workspace_id) | {entry.author_id, entry.owner_id}
