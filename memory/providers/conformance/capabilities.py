"""Rules about the capabilities a plugin may have besides."""

from __future__ import annotations

from functools import partial
from typing import Any

from memory.providers.base import Compactor, Entry, Explorer, Session
from memory.providers.conformance.scene import PLENTY, Scene, check, covered, numbers, refused
from openvibe.chat.models import Message

BUDGET = 4_000
"""A budget that the conversation of `_long` outgrows."""


def notes_are_kept_per_person(scene: Scene, provider: Any) -> None:
    ana, ben = (scene.session(person_id=person.pk) for person in (scene.ana, scene.ben))
    check(provider.get_profile(ana) == "", "Before anything is noted, the notes are empty.")
    stored = provider.set_profile(ana, "Likes roses; 日本語 and 🌹.")
    check(stored == "Likes roses; 日本語 and 🌹.", "set_profile() gives the text as stored.")
    another: Any = scene.make()
    check(another.get_profile(ana) == stored, "What was noted is read back.")
    check(provider.get_profile(ben) == "", "Notes about one person are not shown for another.")
    provider.set_profile(ana, "Likes beans.")
    check(provider.get_profile(ana) == "Likes beans.", "set_profile() replaces the notes.")
    refused(lambda: provider.set_profile(ana, "word " * 501), "Notes over 500 tokens raise Problem.")
    check(provider.get_profile(ana) == "Likes beans.", "Refused notes change nothing.")


def info_of_sessions_is_kept(scene: Scene, provider: Any) -> None:
    first, second = scene.session(), scene.session(scene.other)
    check(provider.load_info(first) == {}, "Before anything is saved, the info is empty.")
    provider.save_info(first, {"title": "Roses", "n": [1, {"x": None}]})
    provider.save_info(second, {"title": "Beans"})
    provider.save_info(first, {"title": "Roses, again"})
    check(provider.load_info(first) == {"title": "Roses, again"}, "save_info() replaces the info.")
    listed = provider.list_info(first.access)
    check(listed == [(scene.other.pk, {"title": "Beans"}), (scene.thread.pk, {"title": "Roses, again"})],
          "list_info() gives the agent's own sessions, newest first.")  # fmt: skip


def history_is_given_page_by_page(scene: Scene, provider: Any) -> None:
    said = scene.talk(23)
    read: list[Entry] = []
    while page := provider.load_history(scene.session(), after=read[-1].ordinal if read else 0, limit=10):
        check(len(page) <= 10, "load_history() gives at most `limit` messages.")
        check(not read or page[0].ordinal > read[-1].ordinal, "load_history() goes on after the number it is given.")
        read += page
    bodies = list(scene.thread.messages.order_by("seq").values_list("body", flat=True))
    check(numbers(read) == said and [one.text for one in read] == bodies, "History is every message, as it was said.")


def searching_is_literal_and_bounded(scene: Scene, provider: Any) -> None:
    scene.talk(40)
    scene.say("It grew by 100% in bed_7 \\ under (glass).", "It grew by 1000 in bedx7.", "まとめ: バラは三月に剪定する")
    scene.say("bed_7 is elsewhere", thread=scene.other)
    scene.say("bed_7 in the dive " + "deep " * 400, kind="dive_result")
    provider.bootstrap(scene.session())

    def found(query: str, level: int = 2, limit: int = 20) -> list[Any]:
        hits: list[Any] = provider.search(scene.session(level=level), query, limit)
        return hits

    check([hit.ordinal for hit in found("100%")] == [41], "A % in a search is a percent sign.")
    check([hit.ordinal for hit in found("bed_7")] == [41], "A _ in a search is an underscore, and scope holds.")
    check({hit.ordinal for hit in found("bed_7", level=3)} == {41, 44}, "Who reads dive results finds them.")
    check([hit.ordinal for hit in found("剪定")] == [43], "Words without blanks are found.")
    check(len(found("bed", limit=7)) == 7, "A search gives at most `limit` hits in all.")
    check(all(len(hit.snippet) <= 500 for hit in found("dive", level=3)), "A snippet has at most 500 characters.")
    for odd in ("", "   ", "(((", "'; --", "\\", "&|!", "a:*", "🌹"):
        check(found(odd) is not None, "Any characters may be searched for.")


def _long(scene: Scene, provider: Any) -> Session:
    """More than the budget, with pairs of tools, bootstrapped."""
    for n in range(6):
        scene.talk(20)
        scene.tool(f"c{n}")
    provider.bootstrap(scene.session())
    return scene.session()


def compaction_is_due_only_when_it_helps(scene: Scene, provider: Any) -> None:
    scene.talk(5, thread=scene.other)
    check(not provider.needs_compaction(scene.session(scene.other), BUDGET), "A short conversation is left alone.")
    session = _long(scene, provider)
    check(provider.needs_compaction(session, BUDGET), "A conversation over its budget is due.")
    for _ in range(60):
        if not provider.needs_compaction(session, BUDGET):
            return
        check(provider.compact(session, BUDGET).created, "Due means that compacting makes something.")
    check(False, "A conversation that does not grow stops being due.")


def compaction_makes_it_smaller(scene: Scene, provider: Any) -> None:
    session = _long(scene, provider)
    for _ in range(60):
        before = provider.stats(session).tokens
        done = provider.compact(session, BUDGET)
        after = provider.stats(session).tokens
        check((done.tokens_before, done.tokens_after) == (before, after), "Compacted must tell the true sizes.")
        check(after < before if done.created else after == before, "What makes summaries makes the context smaller.")
        if not done.created:
            break
    reports: list[tuple[int, int]] = []
    scene.talk(60)
    provider.bootstrap(session)
    provider.compact(session, BUDGET, full=True, progress=lambda did, of: reports.append((did, of)))
    check(all(did <= of for did, of in reports), "Progress never tells more than there is.")
    check(not provider.compact(session, BUDGET, full=True).created, "After a full compaction nothing is left to do.")


def compaction_loses_nothing(scene: Scene, provider: Any) -> None:
    session = _long(scene, provider)
    everything = set(scene.thread.messages.values_list("seq", flat=True))
    tail = provider.assemble(session, BUDGET, 20)[-10:]
    bodies = list(scene.thread.messages.order_by("seq").values_list("body", "deleted_at"))
    for full in (False, True):
        provider.compact(session, BUDGET, full=full)
        entries = provider.assemble(session, PLENTY, 20)
        check(covered(entries) == everything, "Every message is recalled, or stands in one summary that is.")
        check(sum(entry.last - entry.ordinal + 1 for entry in entries) == len(everything), "No message stands in two.")
        check(entries[-10:] == tail, "The newest messages are never summarised.")
    check(list(scene.thread.messages.order_by("seq").values_list("body", "deleted_at")) == bodies,
          "Compaction never changes a message.")  # fmt: skip
    said = scene.talk(5)
    check(set(said) <= set(numbers(provider.assemble(session, PLENTY, 20))), "The conversation goes on after it.")


def summaries_can_be_opened(scene: Scene, provider: Any) -> None:
    session = _long(scene, provider)
    check(isinstance(provider, Compactor), "A plugin with summaries to explore makes them: it is a Compactor.")
    provider.compact(session, BUDGET, full=True)
    summaries = [entry for entry in provider.assemble(session, PLENTY, 20) if entry.summary_id is not None]
    check(summaries, "A conversation of ten times its budget has summaries.")
    bodies = dict(scene.thread.messages.values_list("seq", "body"))
    for entry in summaries:
        described = provider.describe(session, entry.summary_id)
        check((described.first, described.last, described.content) == (entry.ordinal, entry.last, entry.text),
              "describe() tells what the entry shows.")  # fmt: skip
        opened = dict(_opened(provider, session, int(entry.summary_id or 0)))
        wanted = {seq: bodies[seq] for seq in range(entry.ordinal, entry.last + 1)}
        check(opened == wanted, "Expanding again and again gives back every message, word for word.")
    _out_of_scope(scene, provider, int(summaries[0].summary_id or 0))


def _opened(provider: Explorer, session: Session, summary_id: int) -> list[tuple[int, str]]:
    """The messages below a summary, each once."""
    found: list[tuple[int, str]] = []
    cursor: int | None = None
    for _ in range(10_000):
        page = provider.expand(session, summary_id, cursor)
        check(page.entries, "Each step of expanding gives at least one entry.")
        for entry in page.entries:
            if entry.summary_id is not None:
                found += _opened(provider, session, entry.summary_id)
            else:
                found.append((entry.ordinal, entry.text))
        cursor = page.cursor
        if cursor is None:
            return found
    check(False, "Expanding never ends.")
    return found


def _out_of_scope(scene: Scene, provider: Explorer, summary_id: int) -> None:
    unknown = refused(lambda: provider.describe(scene.session(), 987_654_321), "An unknown id raises Missing.")
    for act in (provider.describe, provider.expand):
        elsewhere = partial(act, scene.session(scene.other), summary_id)
        other = refused(elsewhere, "A summary of another conversation raises Missing.")
        check((type(other), other.message) == (type(unknown), unknown.message),
              "An id out of scope and one that is unknown give the same answer.")  # fmt: skip


def reviews_take_each_message_once(scene: Scene, provider: Any) -> None:
    scene.talk(250)
    session = scene.session()
    (due,) = [one for one in provider.list_unreviewed(session.access) if one.thread_id == scene.thread.pk] or [None]
    check(due is not None, "A conversation never reviewed is listed.")
    check((due.since, due.upto, due.messages) == (0, 250, 250), "The list tells exactly what is new.")
    scene.talk(3)
    context = provider.build_review_context(session, 50, 250)
    said = [entry for entry in context if entry.summary_id is None and entry.ordinal > 50]
    check(0 < len(said) <= 200, "A review reads at most 200 messages.")
    check(max(numbers(context)) <= 250, "What came after the mark was taken waits for the next review.")
    provider.mark_reviewed(session, 250)
    (rest,) = [one for one in provider.list_unreviewed(session.access) if one.thread_id == scene.thread.pk] or [None]
    check(rest is not None and (rest.since, rest.upto, rest.messages) == (250, 253, 3), "What came since is new.")
    provider.mark_reviewed(session, 253)
    left = [one.thread_id for one in provider.list_unreviewed(session.access)]
    check(scene.thread.pk not in left, "What was reviewed is not listed again.")
    check(Message.objects.filter(thread=scene.thread).count() == 253, "Reviewing changes no message.")
