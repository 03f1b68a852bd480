"""What is known of how an endpoint wants its requests, in the database: for every process, until it is forgotten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields

import structlog
from django.db import DatabaseError, models, transaction
from django.utils import timezone

from openvibe.engines.llm.adaptations.adaptations import KINDS, Adaptation, CallPlan, changing_kinds
from openvibe.engines.llm.adaptations.adapted_calls import AdaptationMemory
from openvibe.engines.llm.adaptations.request_options import MESSAGES_LACKS, RESPONSES_LACKS
from openvibe.engines.llm.models import Endpoint, EndpointAdaptation
from openvibe.engines.llm.values import CallOptions

log = structlog.get_logger(__name__)

_PROTOCOL_LACKS: dict[str, Mapping[str, str]] = {
    Endpoint.Kind.ANTHROPIC: MESSAGES_LACKS,
    Endpoint.Kind.RESPONSES: RESPONSES_LACKS,
}


class StoredAdaptations(AdaptationMemory):
    """Those of one endpoint and its model. Read once; what is learned is written down at once, or with `defers` by
    `save`, and only while the endpoint is what it was when it was read. Of an unsaved one nothing is written."""

    def __init__(self, endpoint: Endpoint, *, defers: bool = False) -> None:
        super().__init__()
        self._endpoint, self._defers = endpoint, defers
        self._unsaved: list[Adaptation] = []
        self._is_saved: bool = endpoint.pk is not None
        self._is_read = not self._is_saved

    def values(self) -> Mapping[str, str]:
        if not self._is_read:
            self._is_read = True
            self._values |= {
                kind: value for kind, value in self._rows().values_list("kind", "value") if _is_known(kind, value)
            }
        return self._values

    def remember(self, learned: Sequence[Adaptation], plan: CallPlan) -> None:
        news = [each for each in learned if self._values.get(each.kind) != each.value]
        super().remember(learned, plan)
        if self._is_saved:
            self._unsaved += news
        if not self._defers:
            self.save()

    def save(self) -> None:
        unsaved, self._unsaved = self._unsaved, []
        if unsaved:
            self._write(list({each.kind: each for each in unsaved}.values()), ())

    def _rows(self) -> models.QuerySet[EndpointAdaptation]:
        return EndpointAdaptation.objects.filter(endpoint=self._endpoint.pk, model=self._endpoint.model)

    def _write(self, learned: Sequence[Adaptation], needless: Sequence[str]) -> None:
        """Two who learn one thing write it one after the other; nobody does where the endpoint was changed."""
        endpoint = self._endpoint
        stored = Endpoint.objects.select_for_update(no_key=True).filter(pk=endpoint.pk, updated_at=endpoint.updated_at)
        try:
            with transaction.atomic():
                if not stored.exists():
                    return
                if needless:
                    self._rows().filter(kind__in=needless).delete()
                EndpointAdaptation.objects.bulk_create(
                    [
                        EndpointAdaptation(
                            endpoint_id=endpoint.pk,
                            model=endpoint.model,
                            kind=each.kind,
                            value=each.value[:100],
                            words=each.words[:300],
                            learned_at=timezone.now(),
                        )
                        for each in learned
                    ],
                    update_conflicts=True,
                    unique_fields=["endpoint", "model", "kind"],
                    update_fields=["value", "words", "learned_at"],
                )
                kinds = [each.kind for each in learned]
                log.info("endpoint_adapted", endpoint=endpoint.pk, kinds=kinds, forgot=list(needless))
        except DatabaseError:  # the answer is there: what helped is learned again another time
            log.warning("adaptations_not_saved", endpoint=endpoint.pk, exc_info=True)


class TestedAdaptations(StoredAdaptations):
    """The adaptations for a try of the endpoint, which asks as if nothing was known. Once it is answered, what it took
    is forgotten, and what it still refused is kept; what the try did not show stays."""

    def values(self) -> Mapping[str, str]:
        return {}

    def remember(self, learned: Sequence[Adaptation], plan: CallPlan) -> None:
        if not self._is_saved:
            return
        kinds = {each.kind for each in learned}
        known = {kind: value for kind, value in self._rows().values_list("kind", "value") if _is_known(kind, value)}
        needless = [kind.name for kind in changing_kinds(plan, known) if kind.name not in kinds]
        news = [each for each in learned if known.get(each.kind) != each.value]
        if news or needless:
            self._write(news, needless)


def _is_known(kind: str, value: str) -> bool:
    """Whether this version has the kind, and the value is one of its: a row may come from another one."""
    return kind in KINDS and (kind != "lower_limit" or value.isdecimal())


def untaken_options(endpoint: Endpoint | None) -> frozenset[str]:
    """Names of the `CallOptions` that an endpoint is known not to take, by its protocol and by what it refused before.

    A format of answers is never among them: where the endpoint does not take it, its model is told in words."""
    names = {field.name for field in fields(CallOptions)} - {"response_format"}
    if endpoint is None or endpoint.kind == Endpoint.Kind.OFFLINE:
        return frozenset(names)
    lacks = {*_PROTOCOL_LACKS.get(endpoint.kind, {}), *StoredAdaptations(endpoint).values()}
    return frozenset(name for name in names if f"no_{name}" in lacks)
