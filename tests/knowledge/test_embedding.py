"""Knowledge entries get their vectors in the background, and new ones when they change."""

import numpy as np

from knowledge import tasks
from knowledge.models import Entry, EntryToEmbed, EntryVector
from knowledge.search import ENTRY_VECTORS, embed_pending_entries
from openvibe.engines.search.embedders import StaticEmbedder
from openvibe.engines.search.models import VectorSpace
from openvibe.workspaces.models import Member

EMBEDDER = StaticEmbedder()


def entry(ana: Member, topic: str = "Roses", content: str = "Are pruned in March.") -> Entry:
    me = ana.participant
    return Entry.objects.create(workspace=ana.workspace, topic=topic, content=content, tokens=5, author=me, owner=me)


def alike(row: Entry, text: str) -> bool:
    return bool(np.allclose(EntryVector.objects.get(entry=row).own, EMBEDDER.embed([text])[0], atol=2e-3))


def test_topic_and_content_are_one_vector(ana: Member) -> None:
    row = entry(ana)

    assert embed_pending_entries() == 1

    assert alike(row, "Roses: Are pruned in March.")
    assert not EntryToEmbed.objects.exists()


def test_a_changed_entry_is_embedded_anew_and_a_touched_one_is_not(ana: Member) -> None:
    row = entry(ana)
    embed_pending_entries()

    Entry.objects.filter(pk=row.pk).update(use_count=3)
    assert embed_pending_entries() == 0
    Entry.objects.filter(pk=row.pk).update(content="Are pruned in February.")
    assert not EntryVector.objects.exists()
    tasks.embed_entries()
    assert alike(row, "Roses: Are pruned in February.")


def test_each_workspace_has_its_own_vectors(ana: Member, cleo: Member) -> None:
    entry(ana)
    entry(cleo, "Tulips", "Flower in April.")
    entry(cleo, "Keys", "password=hunter2hunter2")
    hers = VectorSpace.objects.get(workspace=cleo.workspace)

    assert embed_pending_entries(hers.pk) == 2
    assert ENTRY_VECTORS.count_vectors(hers.pk) == 2
    assert EntryToEmbed.objects.get().space.workspace == ana.workspace
    assert alike(Entry.objects.get(topic="Keys"), "Keys: password=[secret removed]")
