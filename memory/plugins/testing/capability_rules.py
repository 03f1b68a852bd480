"""Rules about the capabilities a plugin may have besides: compaction, search, exploring, notes, sessions, reviews."""

from functools import partial
from typing import Any

from django.utils import timezone

from memory.plugins.base import Compactor, ContextEntry, Explorer, Session
from memory.plugins.testing.scenario import Scenario, covered_ordinals, expect_problem, ordinals, require

TIGHT_BUDGET = 4_000
"""A budget that the conversation of `_long_session` outgrows."""


def notes_are_kept_per_person(scenario: Scenario, provider: Any) -> None:
    ana, ben = (scenario.session(person_id=person.pk) for person in (scenario.ana, scenario.ben))
    require(provider.get_profile(ana) == "", "Before anything is noted, the notes are empty.")
    stored = provider.set_profile(ana, "Likes roses; 日本語 and 🌹.")
    require(stored == "Likes roses; 日本語 and 🌹.", "set_profile() gives the text as stored.")
    another: Any = scenario.make()
    require(another.get_profile(ana) == stored, "What was noted is read back.")
    require(provider.get_profile(ben) == "", "Notes about one person are not shown for another.")
    provider.set_profile(ana, "Likes beans.")
    require(provider.get_profile(ana) == "Likes beans.", "set_profile() replaces the notes.")
    expect_problem(lambda: provider.set_profile(ana, "word " * 501), "Notes over 500 tokens raise Problem.")
    require(provider.get_profile(ana) == "Likes beans.", "Refused notes change nothing.")


def info_of_sessions_is_kept(scenario: Scenario, provider: Any) -> None:
    first, second = scenario.session(), scenario.session(scenario.other)
    require(provider.load_info(first) == {}, "Before anything is saved, the info is empty.")
    provider.save_info(first, {"title": "Roses", "n": [1, {"x": None}]})
    provider.save_info(second, {"title": "Beans"})
    provider.save_info(first, {"title": "Roses, again"})
    require(provider.load_info(first) == {"title": "Roses, again"}, "save_info() replaces the info.")
    infos = provider.list_info(first.access)
    require(
        infos == [(scenario.other.pk, {"title": "Beans"}), (scenario.thread.pk, {"title": "Roses, again"})],
        "list_info() gives the agent's own sessions, newest first.",
    )


def history_is_given_page_by_page(scenario: Scenario, provider: Any) -> None:
    seqs = scenario.talk(23)
    history: list[ContextEntry] = []
    while page := provider.load_history(scenario.session(), after=history[-1].ordinal if history else 0, limit=10):
        require(len(page) <= 10, "load_history() gives at most `limit` messages.")
        require(
            not history or page[0].ordinal > history[-1].ordinal, "load_history() goes on after the number it is given."
        )
        history += page
    bodies = list(scenario.thread.messages.order_by("seq").values_list("body", flat=True))
    require(
        ordinals(history) == seqs and [one.text for one in history] == bodies,
        "History is every message, as it was said.",
    )


def searching_is_literal_and_bounded(scenario: Scenario, provider: Any) -> None:
    scenario.talk(40)
    scenario.say(
        "It grew by 100% in bed_7 \\ under (glass).", "It grew by 1000 in bedx7.", "まとめ: バラは三月に剪定する"
    )
    scenario.say("bed_7 is elsewhere", thread=scenario.other)
    scenario.say("bed_7 in the dive " + "deep " * 400, kind="dive_result")
    provider.bootstrap(scenario.session())

    def search(query: str, level: int = 2, limit: int = 20) -> list[Any]:
        hits: list[Any] = provider.search(scenario.session(level=level), query, limit)
        return hits

    require([hit.ordinal for hit in search("100%")] == [41], "A % in a search is a percent sign.")
    require([hit.ordinal for hit in search("bed_7")] == [41], "A _ in a search is an underscore, and scope holds.")
    require({hit.ordinal for hit in search("bed_7", level=3)} == {41, 44}, "Who reads dive results finds them.")
    require([hit.ordinal for hit in search("剪定")] == [43], "Words without blanks are found.")
    require(len(search("bed", limit=7)) == 7, "A search gives at most `limit` hits in all.")
    require(all(len(hit.snippet) <= 500 for hit in search("dive", level=3)), "A snippet has at most 500 characters.")
    for odd in ("", "   ", "(((", "'; --", "\\", "&|!", "a:*", "🌹"):
        require(search(odd) is not None, "Any characters may be searched for.")


def searching_knows_phrases_dates_and_people(scenario: Scenario, provider: Any) -> None:
    scenario.say("A red apple.", "An apple that is red.", "Une crème brûlée.")
    scenario.say("Another red apple.", by=scenario.ben)
    provider.bootstrap(scenario.session())
    today = timezone.localdate().isoformat()

    def found(query: str) -> set[int]:
        return {hit.ordinal for hit in provider.search(scenario.session(), query)}

    require(found('"red apple"') == {1, 4}, "What stands in quotes is found as it stands.")
    require(found("red apple -another") == {1, 2}, "A word behind a minus is left out.")
    require(found("brulee") == {3}, "Accents are no hindrance.")
    require(found('"red apple" from:ben') == {4}, "from: means who said it.")
    require(found(f"apple after:{today}") == {1, 2, 4}, "after: is from that day on.")
    require(found(f"apple before:{today}") == set(), "before: is until the day before.")
    expect_problem(lambda: found("apple after:soon"), "What is no date raises Problem.")


def other_threads_are_searched_as_far_as_they_are_seen(scenario: Scenario, provider: Any) -> None:
    scenario.say("The quokka is here.")
    scenario.say("The quokka is there.", thread=scenario.other)
    scenario.say("A quokka result.", thread=scenario.other, kind="dive_result")
    scenario.say("A quokka far away.", thread=scenario.elsewhere)

    def found(level: int = 3) -> set[tuple[int | None, int]]:
        hits = provider.search_everywhere(scenario.session(level=level), "quokka")
        return {(hit.thread_id, hit.ordinal) for hit in hits}

    other = scenario.other.pk
    require(found() == {(None, 1), (other, 1), (other, 2)}, "Other threads of the workspace are found, and this one.")
    require(found(2) == {(None, 1), (other, 1)}, "Results of dives are found by those who read them.")
    scenario.other.access = "human_only"
    scenario.other.save(update_fields=["access"])
    require(found() == {(None, 1)}, "Threads for people only are never found.")
    expect_problem(
        lambda: provider.read_message(scenario.session(), 1, thread_id=other), "What is not found is not read."
    )


def messages_are_read_piece_by_piece(scenario: Scenario, provider: Any) -> None:
    body = "\n".join(f"Line {number} of a long message." for number in range(3_000))
    scenario.say("Short.", body)
    pieces, offset = [], 0
    while offset < len(body):
        message, piece = provider.read_message(scenario.session(), 2, offset=offset)
        require(
            (piece.start, piece.total) == (offset, len(body)) and offset < piece.end,
            "A piece begins where it was asked for, and goes on.",
        )
        require(message.ordinal == 2 and message.thread_id is None, "The message is the one that was asked for.")
        pieces.append(piece.text)
        offset = piece.end
    require("".join(pieces) == body, "The pieces together are the message, word for word.")
    for number in (0, 3, 2**62):
        ask = partial(provider.read_message, scenario.session(), number)
        expect_problem(ask, "A message that is not there raises Missing.")
    expect_problem(lambda: provider.read_message(scenario.session(before=2), 2), "What is not seen yet raises Missing.")


def _long_session(scenario: Scenario, provider: Any) -> Session:
    """More than the budget, with pairs of tools, bootstrapped."""
    rows: list[dict[str, Any]] = []
    for n in range(6):
        rows += scenario.talk_rows(len(rows), 20)
        rows += scenario.tool_rows(f"c{n}")
    scenario.write(rows)
    provider.bootstrap(scenario.session())
    return scenario.session()


def compaction_is_due_only_when_it_helps(scenario: Scenario, provider: Any) -> None:
    scenario.talk(5, thread=scenario.other)
    require(
        not provider.needs_compaction(scenario.session(scenario.other), TIGHT_BUDGET),
        "A short conversation is left alone.",
    )
    session = _long_session(scenario, provider)
    require(provider.needs_compaction(session, TIGHT_BUDGET), "A conversation over its budget is due.")
    for _ in range(60):
        if not provider.needs_compaction(session, TIGHT_BUDGET):
            return
        require(provider.compact(session, TIGHT_BUDGET).created, "Due means that compacting makes something.")
    require(False, "A conversation that does not grow stops being due.")


def compaction_makes_it_smaller(scenario: Scenario, provider: Any) -> None:
    session = _long_session(scenario, provider)
    for _ in range(60):
        before = provider.stats(session).tokens
        result = provider.compact(session, TIGHT_BUDGET)
        after = provider.stats(session).tokens
        require((result.tokens_before, result.tokens_after) == (before, after), "Compacted must tell the true sizes.")
        require(
            after < before if result.created else after == before, "What makes summaries makes the context smaller."
        )
        if not result.created:
            break
    reports: list[tuple[int, int]] = []
    scenario.talk(60)
    provider.bootstrap(session)
    provider.compact(session, TIGHT_BUDGET, full=True, progress=lambda did, of: reports.append((did, of)))
    require(all(did <= of for did, of in reports), "Progress never tells more than there is.")
    require(
        not provider.compact(session, TIGHT_BUDGET, full=True).created, "After a full compaction nothing is left to do."
    )


def compaction_loses_nothing(scenario: Scenario, provider: Any) -> None:
    session = _long_session(scenario, provider)
    all_seqs = set(scenario.thread.messages.values_list("seq", flat=True))
    tail = scenario.recall(provider, budget=TIGHT_BUDGET)[-10:]
    rows = scenario.thread.messages.order_by("seq").values_list("body", "deleted_at")
    bodies = list(rows)
    for full in (False, True):
        provider.compact(session, TIGHT_BUDGET, full=full)
        entries = scenario.recall(provider)
        require(covered_ordinals(entries) == all_seqs, "Every message is recalled, or stands in one summary that is.")
        require(sum(entry.last - entry.ordinal + 1 for entry in entries) == len(all_seqs), "No message stands in two.")
        require(entries[-10:] == tail, "The newest messages are never summarised.")
    require(list(rows.all()) == bodies, "Compaction never changes a message.")
    seqs = scenario.talk(5)
    require(set(seqs) <= set(ordinals(scenario.recall(provider))), "The conversation goes on after it.")


def summaries_can_be_opened(scenario: Scenario, provider: Any) -> None:
    session = _long_session(scenario, provider)
    require(isinstance(provider, Compactor), "A plugin with summaries to explore makes them: it is a Compactor.")
    provider.compact(session, TIGHT_BUDGET, full=True)
    summaries = [entry for entry in scenario.recall(provider) if entry.summary_id is not None]
    require(summaries, "A conversation of ten times its budget has summaries.")
    bodies = dict(scenario.thread.messages.values_list("seq", "body"))
    for entry in summaries:
        description = provider.describe(session, entry.summary_id)
        require(
            (description.first, description.last, description.content) == (entry.ordinal, entry.last, entry.text),
            "describe() tells what the entry shows.",
        )
        messages = dict(_expand_all(provider, session, int(entry.summary_id or 0)))
        expected = {seq: bodies[seq] for seq in range(entry.ordinal, entry.last + 1)}
        require(messages == expected, "Expanding again and again gives back every message, word for word.")
    _check_out_of_scope(scenario, provider, int(summaries[0].summary_id or 0))


def _expand_all(provider: Explorer, session: Session, summary_id: int) -> list[tuple[int, str]]:
    """The messages below a summary, each once."""
    messages: list[tuple[int, str]] = []
    cursor: int | None = None
    for _ in range(10_000):
        page = provider.expand(session, summary_id, cursor)
        require(page.entries, "Each step of expanding gives at least one entry.")
        for entry in page.entries:
            if entry.summary_id is not None:
                messages += _expand_all(provider, session, entry.summary_id)
            else:
                messages.append((entry.ordinal, entry.text))
        cursor = page.cursor
        if cursor is None:
            return messages
    require(False, "Expanding never ends.")
    return messages


def _check_out_of_scope(scenario: Scenario, provider: Explorer, summary_id: int) -> None:
    unknown = expect_problem(
        lambda: provider.describe(scenario.session(), 987_654_321), "An unknown id raises Missing."
    )
    for act in (provider.describe, provider.expand):
        elsewhere = partial(act, scenario.session(scenario.other), summary_id)
        other = expect_problem(elsewhere, "A summary of another conversation raises Missing.")
        require(
            (type(other), other.message) == (type(unknown), unknown.message),
            "An id out of scope and one that is unknown give the same answer.",
        )


def reviews_take_each_message_once(scenario: Scenario, provider: Any) -> None:
    scenario.talk(250)
    session = scenario.session()
    (due_session,) = [
        one for one in provider.list_unreviewed(session.access) if one.thread_id == scenario.thread.pk
    ] or [None]
    require(due_session is not None, "A conversation never reviewed is listed.")
    require(
        (due_session.since, due_session.upto, due_session.messages) == (0, 250, 250),
        "The list tells exactly what is new.",
    )
    scenario.talk(3)
    context = provider.build_review_context(session, 50, 250)
    new_entries = [entry for entry in context if entry.summary_id is None and entry.ordinal > 50]
    require(0 < len(new_entries) <= 200, "A review reads at most 200 messages.")
    require(max(ordinals(context)) <= 250, "What came after the mark was taken waits for the next review.")
    provider.mark_reviewed(session, 250)
    (rest,) = [one for one in provider.list_unreviewed(session.access) if one.thread_id == scenario.thread.pk] or [None]
    require(rest is not None and (rest.since, rest.upto, rest.messages) == (250, 253, 3), "What came since is new.")
    provider.mark_reviewed(session, 253)
    due_ids = [one.thread_id for one in provider.list_unreviewed(session.access)]
    require(scenario.thread.pk not in due_ids, "What was reviewed is not listed again.")
    require(scenario.thread.messages.count() == 253, "Reviewing changes no message.")
