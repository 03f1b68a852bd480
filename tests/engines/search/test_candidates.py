"""What is looked up is expected to match a bounded number of texts, all words together."""

from openvibe.engines.search.candidates import TableStatistics, build_tsquery
from openvibe.engines.search.lexemes import Operand, Term

STATISTICS = TableStatistics(
    corpus_size=100_000.0,
    document_frequencies={"rose": 400.0, "prune": 500.0, "plan": 20_000.0, "week": 30_000.0},
    max_unlisted_frequency=300.0,
)


def terms(*lexemes: str) -> list[Term]:
    return [Term((((Operand(lexeme),),),)) for lexeme in lexemes]


def test_rare_words_are_looked_up_until_their_sum_is_reached() -> None:
    assert build_tsquery(terms("prune", "rose", "zinc"), STATISTICS, 1_200) == "'zinc' | 'rose' | 'prune'"
    assert build_tsquery(terms("prune", "rose", "zinc"), STATISTICS, 1_000).split(" | ")[:2] == ["'zinc'", "'rose'"]


def test_frequent_words_are_looked_up_two_by_two_or_not_at_all() -> None:
    assert build_tsquery(terms("plan", "week"), STATISTICS, 10_000) == "(('plan') & ('week'))"
    assert build_tsquery(terms("plan", "week"), STATISTICS, 1_000) == ""


def test_without_statistics_every_word_is_looked_up() -> None:
    assert build_tsquery(terms("plan", "week"), TableStatistics(), 1_000) == "'plan' | 'week'"


def test_a_phrase_is_as_rare_as_its_rarest_word_and_alternatives_add_up() -> None:
    week, rose, unknown = Operand("week"), Operand("rose"), Operand("unknown")
    assert STATISTICS.term_frequency(Term((((week,), (rose,)),))) == 400
    assert STATISTICS.term_frequency(Term((((week,),), ((rose,),)))) == 30_400
    assert STATISTICS.term_frequency(Term((((unknown,),),)), unlisted=0.0) == 0
