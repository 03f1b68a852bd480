"""What the list of entries can be narrowed by: the same filters as the page's and search's."""

from __future__ import annotations

from typing import Any

from django_filters.rest_framework import CharFilter, ChoiceFilter, DjangoFilterBackend, FilterSet

from knowledge.freshness import STATES
from knowledge.models import Entry, EntryQuerySet
from knowledge.narrowing import narrowed


class EntryFilter(FilterSet):  # type: ignore[misc]  # the library has no types
    topic = CharFilter(max_length=120, help_text="The whole topic, whatever its case.")
    tag = CharFilter(max_length=40)
    status = ChoiceFilter(choices=Entry.Status.choices)
    owner = CharFilter(max_length=40, help_text="A handle.")
    kind = ChoiceFilter(choices=Entry.Kind.choices)
    source = ChoiceFilter(choices=Entry.Source.choices)
    freshness = ChoiceFilter(choices=[(state, state) for state in STATES])

    class Meta:
        model = Entry
        fields: tuple[str, ...] = ()

    def filter_queryset(self, queryset: EntryQuerySet) -> EntryQuerySet:
        asked: dict[str, Any] = {name: value for name, value in self.form.cleaned_data.items() if value}
        handle = asked.pop("owner", "").lstrip("@")
        return narrowed(queryset.filter(owner__handle=handle) if handle else queryset, **asked)


class EntryFilters(DjangoFilterBackend):  # type: ignore[misc]
    """Reads the filters of the view's `filterset_class` from the query."""
