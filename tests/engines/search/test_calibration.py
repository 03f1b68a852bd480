"""What is near by chance: measured with sentences that nobody means, for the language that is asked in."""

import pytest

from openvibe.engines.llm.models import Endpoint
from openvibe.engines.search.calibration import chance_level
from openvibe.engines.search.embedder_choice import use_embedder
from openvibe.engines.search.significance import min_z_score
from openvibe.engines.search.space_lifecycle import advance_spaces
from openvibe.engines.search.spaces import embed_query
from openvibe.workspaces.models import Member
from tests.engines.search.fakes import FakeEmbedder
from tests.factories import access


def floor(by: Member, text: str) -> float:
    question = embed_query(by.workspace_id, text)
    assert question is not None
    found = chance_level(by.workspace_id, question)
    assert found is not None
    return found.mean + 3 * found.deviation


def test_texts_of_one_language_are_somewhat_alike_and_each_has_its_own_measure(ana: Member) -> None:
    english = floor(ana, "Customers pay their invoices within thirty days.")
    german = floor(ana, "Die Kunden zahlen ihre Rechnungen innerhalb von dreißig Tagen.")
    assert 0.1 < english < german < 0.6


def test_without_an_embedder_that_serves_nothing_is_said(ana: Member, cleo: Member) -> None:
    question = embed_query(ana.workspace_id, "Customers pay invoices.")
    assert question is not None
    assert chance_level(cleo.workspace_id, question) is None


@pytest.mark.parametrize("trouble", ["down", "another dimension"])
def test_an_embedder_in_trouble_leaves_it_to_words(
    ana: Member, trouble: str, endpoint: Endpoint, fake_embedder: FakeEmbedder
) -> None:
    fake_embedder.dimension = 256
    use_embedder(workspace=ana.workspace, kind="openai", endpoint=endpoint, by=access(ana))
    assert advance_spaces() == 1
    question = embed_query(ana.workspace_id, "Customers pay invoices.")
    assert question is not None
    if trouble == "down":
        fake_embedder.trouble = RuntimeError("Nobody answers.")
    else:
        fake_embedder.dimension = 128
    assert chance_level(ana.workspace_id, question) is None


def test_the_more_texts_there_are_the_farther_out_the_nearest_by_chance() -> None:
    floors = [min_z_score(size) for size in (0, 1, 10, 100, 1_000, 10_000, 1_000_000)]
    assert floors == sorted(floors)
    assert 2 < floors[0] < 3 < floors[3] < 4 < floors[-1] < 6
