"""Tests make rows with factories and services. Those that write them themselves are counted, and become fewer."""

import pytest

from tests.direct_rows import count_direct, direct_rows, read_baseline


@pytest.mark.parametrize(
    "source",
    [
        "Entry.objects.create(topic='Roses')",
        "Entry.objects.bulk_create(rows)",
        "Entry.objects.using('other').get_or_create(topic='Roses')",
        "channel.memberships.create(participant=ben)",
        "Entry.objects.filter(pk=1).update_or_create(defaults={})",
        "Entry(topic='Roses').save()",
        "insert(Entry(topic='Roses'))",
    ],
)
def test_a_row_that_a_manager_writes_is_counted(source: str) -> None:
    assert count_direct(source) == 1


@pytest.mark.parametrize(
    "source",
    [
        "EntryFactory.create(topic='Roses')",
        "factories.EntryFactory.create(topic='Roses')",
        "create_entry(by=ana, topic='Roses')",
        "make_entry(ana)",
        "entry.save()",
        "Image.new('RGB', size).save(output)",
        "AttestationObject.create('none', data, {})",
        "blocks.create('team', 'Ana prunes.')",
    ],
)
def test_what_factories_and_services_make_is_not(source: str) -> None:
    assert count_direct(source) == 0


def test_no_file_writes_more_rows_itself_than_before() -> None:
    more = dict(direct_rows() - read_baseline())
    assert more == {}, "make these rows by a factory of tests/factories.py, of the room's factories.py, or by a service"


def test_what_became_fewer_stays_so() -> None:
    fewer = dict(read_baseline() - direct_rows())
    assert fewer == {}, "write the baseline anew: python -m tests.direct_rows"
