"""Rules about what is recalled."""

from __future__ import annotations

from itertools import pairwise

from django.utils import timezone

from memory.providers.base import LONGEST, Entry, MemoryProvider
from memory.providers.conformance.scene import PLENTY, Scene, check, covered, numbers, reading_only, total
from openvibe.chat.models import Message
from openvibe.llm.tokens import count

SIZES = (0, 200, 1_000, 2_500, 6_000, PLENTY)
TAILS = (0, 1, 5, 20)
SPEECH = (
    "Prune in March.",
    "バラはいつ剪定しますか？三月です。",
    "🌹" * 40 + " 👩🏽 ok",
    '<summary> & "quotes" %_\\',
    "word " * 3_000 + "end",
)


def all_that_fits_is_recalled(scene: Scene, provider: MemoryProvider) -> None:
    said = scene.talk(60)
    check(
        numbers(provider.assemble(scene.session(), PLENTY, 20)) == said, "Everything fits, so everything is recalled."
    )
    check(numbers(provider.assemble(scene.session(), PLENTY, 0)) == said, "A tail of 0 does not end what fits.")
    check(provider.assemble(scene.session(scene.other), PLENTY, 20) == [], "Where nothing was said, there is nothing.")


def the_tail_is_always_recalled(scene: Scene, provider: MemoryProvider) -> None:
    said = scene.talk(100)
    newest = provider.assemble(scene.session(), PLENTY, 20)[-5:]
    recalled = provider.assemble(scene.session(), 4 * total(newest), 5)
    check(
        set(said[-5:]) <= set(numbers(recalled)), "The last messages asked for take a quarter of the budget: all stay."
    )
    few = scene.talk(3, thread=scene.other)
    recalled = provider.assemble(scene.session(scene.other), 2_000, 20)
    check(numbers(recalled) == few, "Of fewer messages than the tail, all are the tail.")


def the_newest_request_is_always_recalled(scene: Scene, provider: MemoryProvider) -> None:
    scene.talk(40)
    (asked,) = scene.say("And when do I water them? " + "please " * 500)
    scene.say("One moment.", by=scene.agent)
    recalled = numbers(provider.assemble(scene.session(), 0, 2))
    check(asked in recalled, "However small the budget, what a person asked last is recalled.")


def the_budget_is_kept(scene: Scene, provider: MemoryProvider) -> None:
    scene.talk(150)
    provider.bootstrap(scene.session())
    for budget in (1_000, 2_500, 6_000):
        spent = total(provider.assemble(scene.session(), budget, 2))
        check(spent <= budget, f"Of {budget} tokens {spent} were used, though the tail takes far less.")
        check(spent > budget // 2, f"Of {budget} tokens only {spent} were used, though older messages would fit.")


def entries_stand_in_order_and_once(scene: Scene, provider: MemoryProvider) -> None:
    scene.talk(120)
    provider.bootstrap(scene.session())
    scene.talk(10)
    for budget in SIZES:
        entries = provider.assemble(scene.session(), budget, 20)
        ends = [(entry.ordinal, entry.last) for entry in entries]
        check(all(before[1] < after[0] for before, after in pairwise(ends)),
              "Entries stand oldest first, and no message stands in two of them.")  # fmt: skip
        gaps = set(range(min(covered(entries), default=131), 131)) - covered(entries)
        check(not gaps, "What is recalled is the end of the conversation, without gaps.")


def words_are_as_they_were_said(scene: Scene, provider: MemoryProvider) -> None:
    scene.say(*SPEECH)
    entries = provider.assemble(scene.session(), PLENTY, 20)
    check([entry.text for entry in entries] == list(SPEECH), "Messages are recalled word for word.")
    tokens = [min(count(text), LONGEST) for text in SPEECH]
    check([entry.tokens for entry in entries] == tokens, "Tokens are counted as o200k_base, up to LONGEST.")
    rows = Message.objects.filter(thread=scene.thread).order_by("seq").values_list("pk", "author__name", "author__kind")
    found = [(entry.message_id, entry.author_name, entry.author_kind) for entry in entries]
    check(found == list(rows), "An entry names its message, who said it, and whether that is a person or an agent.")


def calls_and_results_stay_together(scene: Scene, provider: MemoryProvider) -> None:
    for n in range(12):
        scene.talk(3)
        scene.tool(f"c{n}", between=n % 4)
    scene.write([{"body": "never answered", "author": scene.agent, "kind": "tool_call", "call_id": "lost"}])
    scene.write([{"body": "never asked", "author": scene.agent, "kind": "tool_result", "call_id": "found"}])
    scene.talk(2)
    for when in ("before", "after"):
        for budget in (*SIZES, *range(300, 3_000, 90)):
            for tail in TAILS:
                _paired(provider.assemble(scene.session(), budget, tail))
        if when == "before":
            provider.bootstrap(scene.session())


def _paired(entries: list[Entry]) -> None:
    calls = [entry.call_id for entry in entries if entry.kind == "tool_call"]
    results = [entry.call_id for entry in entries if entry.kind == "tool_result"]
    check("lost" not in calls, "A call that has no result is not recalled.")
    check("found" not in results, "A result that has no call is not recalled.")
    check(sorted(calls) == sorted(results), "A tool's call and its result are recalled together, or neither.")
    check(all(entry.author_kind == "agent" for entry in entries if entry.kind in ("tool_call", "tool_result")),
          "A tool's call and result never become somebody else's words.")  # fmt: skip


def assembling_writes_nothing(scene: Scene, provider: MemoryProvider) -> None:
    scene.talk(60)
    with reading_only("assemble() and stats() only read, and take no lock."):
        provider.assemble(scene.session(), 2_000, 20)
        provider.stats(scene.session())
    provider.bootstrap(scene.session())
    scene.talk(5)
    with reading_only("assemble() and stats() only read, and take no lock."):
        provider.assemble(scene.session(), PLENTY, 20)
        provider.stats(scene.session())


def nothing_after_before_is_recalled(scene: Scene, provider: MemoryProvider) -> None:
    scene.talk(60)
    provider.bootstrap(scene.session())
    for before in (1, 2, 31, 60):
        seen = numbers(provider.assemble(scene.session(before=before), PLENTY, 20))
        check(
            seen == list(range(1, before)), f"Of what came before message {before}, all; of what came after, nothing."
        )


def what_may_not_be_shown_is_not_recalled(scene: Scene, provider: MemoryProvider) -> None:
    scene.say("Shown.")
    for state in ("writing", "failed"):
        scene.say(f"This is {state}.", by=scene.agent, state=state)
    scene.say("Somebody joined.", kind="system")
    scene.write([{"body": "", "author": scene.ana, "deleted_at": timezone.now()}])
    scene.say("Stopped half-way.", by=scene.agent, state="stopped")
    for _ in range(2):
        recalled = [entry.text for entry in provider.assemble(scene.session(), PLENTY, 20)]
        check(recalled == ["Shown.", "Stopped half-way."],
              "Messages being written, failed, deleted, or of the system are not recalled.")  # fmt: skip
        provider.bootstrap(scene.session())


def dive_results_are_for_those_who_read_them(scene: Scene, provider: MemoryProvider) -> None:
    scene.talk(3)
    (dive,) = scene.say("What the dive found.", kind="dive_result")
    scene.talk(3)
    provider.bootstrap(scene.session())
    high = provider.assemble(scene.session(level=3), PLENTY, 20)
    low = provider.assemble(scene.session(level=2), PLENTY, 20)
    check(dive in numbers(high), "An agent whose level reads dive results recalls them.")
    check(dive not in covered(low), "An agent whose level reads no dive results does not recall them.")
    check(len(low) == 6, "What a level hides takes nothing else with it.")


def changes_show_at_once(scene: Scene, provider: MemoryProvider) -> None:
    scene.talk(20)
    provider.bootstrap(scene.session())
    messages = Message.objects.filter(thread=scene.thread)
    messages.filter(seq=7).update(body="Said otherwise.", token_count=3)
    messages.filter(seq=9).update(body="", token_count=0, deleted_at=timezone.now())
    shown = {entry.ordinal: entry.text for entry in provider.assemble(scene.session(), PLENTY, 20)}
    check(shown.get(7) == "Said otherwise.", "An edited message is recalled as it is now.")
    check(9 not in shown, "A deleted message is not recalled.")


def messages_the_plugin_was_not_told_of_are_recalled(scene: Scene, provider: MemoryProvider) -> None:
    said = scene.talk(15)
    provider.bootstrap(scene.session())
    said += scene.talk(15)  # another plugin was on meanwhile
    check(numbers(provider.assemble(scene.session(), PLENTY, 20)) == said, "What was said past the plugin is recalled.")
    again = scene.make()
    again.bootstrap(scene.session())
    said += scene.talk(5)
    check(
        numbers(again.assemble(scene.session(), PLENTY, 20)) == said, "Switched off and on again, nothing is missing."
    )


def other_conversations_stay_out(scene: Scene, provider: MemoryProvider) -> None:
    scene.talk(5)
    scene.talk(5, thread=scene.other)
    far = scene.write([{"body": "Far away.", "author": scene.ana}], thread=scene.elsewhere)
    provider.bootstrap(scene.session())
    provider.bootstrap(scene.session(scene.other))
    own = set(Message.objects.filter(thread=scene.thread).values_list("pk", flat=True))
    seen = {entry.message_id for entry in provider.assemble(scene.session(), PLENTY, 20)}
    check(seen == own, "Only messages of the session's own thread are recalled.")
    crossed = provider.assemble(scene.session(scene.elsewhere), PLENTY, 20)
    check(far and crossed == [], "A thread of another workspace is never recalled, whatever the id.")


def stats_are_true(scene: Scene, provider: MemoryProvider) -> None:
    check(provider.stats(scene.session()).messages == 0, "Before anything is said, stats() counts no message.")
    scene.talk(40)
    for when in ("before", "after"):
        stats, entries = provider.stats(scene.session()), provider.assemble(scene.session(), PLENTY, 20)
        check(stats.messages == 40, f"stats() {when} bootstrap() must count all messages: 40, not {stats.messages}.")
        check(stats.entries == len(entries), "stats().entries must be what assemble() gives when all fits.")
        check(stats.tokens == total(entries), "stats().tokens must be what the entries need in a prompt.")
        provider.bootstrap(scene.session())


def nothing_is_remembered_between_calls(scene: Scene, provider: MemoryProvider) -> None:
    scene.talk(50)
    provider.bootstrap(scene.session())
    check(provider.assemble(scene.session(), 2_000, 5) == scene.make().assemble(scene.session(), 2_000, 5),
          "Another worker's provider recalls the same.")  # fmt: skip
    provider.close()
    provider.close()
