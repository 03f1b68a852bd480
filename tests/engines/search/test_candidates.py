"""What is looked up is expected to match a bounded number of texts, all words together."""

from openvibe.engines.search.candidates import TableStatistics, build_tsquery

STATISTICS = TableStatistics(
    corpus_size=100_000.0,
    document_frequencies={"rose": 400.0, "prune": 500.0, "plan": 20_000.0, "week": 30_000.0},
    max_unlisted_frequency=300.0,
)


def test_rare_words_are_looked_up_until_their_sum_is_reached() -> None:
    assert build_tsquery(["'prune'", "'rose'", "'zinc'"], STATISTICS, 1_200) == "'zinc' | 'rose' | 'prune'"
    assert build_tsquery(["'prune'", "'rose'", "'zinc'"], STATISTICS, 1_000).split(" | ")[:2] == ["'zinc'", "'rose'"]


def test_frequent_words_are_looked_up_two_by_two_or_not_at_all() -> None:
    assert build_tsquery(["'plan'", "'week'"], STATISTICS, 10_000) == "('plan' & 'week')"
    assert build_tsquery(["'plan'", "'week'"], STATISTICS, 1_000) == ""


def test_without_statistics_every_word_is_looked_up() -> None:
    assert build_tsquery(["'plan'", "'week'"], TableStatistics(), 1_000) == "'plan' | 'week'"
