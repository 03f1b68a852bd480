"""Rules about taking messages in."""

from __future__ import annotations

from memory.providers.base import MemoryProvider, NewMessage
from memory.providers.conformance.scene import PLENTY, Scene, check, numbers, refused
from openvibe.chat.models import Message

CALL = (
    NewMessage("user", "When do I prune?", external_id="m1", name="Zoë"),
    NewMessage("tool_call", '{"q": "prune"}', external_id="m2", call_id="c1"),
    NewMessage("tool_result", "In March.", external_id="m3", call_id="c1"),
    NewMessage("assistant", "In March, before the buds open.", external_id="m4"),
)


def bootstrap_may_be_repeated(scene: Scene, provider: MemoryProvider) -> None:
    scene.talk(30)
    session = scene.session()
    provider.bootstrap(session)
    before = provider.stats(session), provider.assemble(session, PLENTY, 20)
    provider.bootstrap(session)
    check(before == (provider.stats(session), provider.assemble(session, PLENTY, 20)),
          "bootstrap() a second time changed what is recalled.")  # fmt: skip
    check(scene.thread.messages.count() == 30, "bootstrap() added or removed messages of the thread.")


def append_stores_what_was_said(scene: Scene, provider: MemoryProvider) -> None:
    scene.talk(2)
    stored = provider.append(scene.session(), CALL)
    rows = list(Message.objects.filter(thread=scene.thread, seq__gt=2).order_by("seq").select_related("author"))
    check(stored == [row.seq for row in rows] == [3, 4, 5, 6], "append() must give the messages' numbers, in order.")
    check([row.body for row in rows] == [one.text for one in CALL], "append() changed or lost words.")
    check([row.kind for row in rows] == ["text", "tool_call", "tool_result", "text"], "append() mixed up the kinds.")
    check([row.call_id for row in rows] == ["", "c1", "c1", ""], "append() lost which result answers which call.")
    check(all(row.author_id == scene.agent.pk for row in rows[1:]), "What the agent says must stand under its name.")
    check(rows[0].author.name == "Zoë", "A user of the outside agent must be its author, by the name given.")
    recalled = [entry.text for entry in provider.assemble(scene.session(), PLENTY, 20)]
    check(recalled[2:] == [one.text for one in CALL], "What was appended must be recalled.")


def append_is_all_or_nothing(scene: Scene, provider: MemoryProvider) -> None:
    scene.talk(1)
    batch = [*CALL, NewMessage("user", "half a\x00character", external_id="m5")]
    refused(lambda: provider.append(scene.session(), batch), "append() must raise Problem for text with NUL.")
    check(scene.thread.messages.count() == 1, "append() refused a batch, but kept a part of it.")


def append_knows_what_was_said_before(scene: Scene, provider: MemoryProvider) -> None:
    first = provider.append(scene.session(), CALL)
    again = provider.append(scene.session(), [*CALL, CALL[0], NewMessage("assistant", "More.", external_id="m5")])
    check(again[:5] == [*first, first[0]], "A known external id must give the number the message has.")
    check(scene.thread.messages.count() == 5, "A known external id must not be stored again.")
    seen = numbers(provider.assemble(scene.session(), PLENTY, 20))
    check(seen == [1, 2, 3, 4, 5], "Each message is recalled once, though it was sent twice.")


def append_keeps_equal_messages_apart(scene: Scene, provider: MemoryProvider) -> None:
    stored = provider.append(scene.session(), [NewMessage("user", "ok"), NewMessage("user", "ok")])
    check(len(set(stored)) == 2, "Two equal messages without external ids are two messages.")
    texts = [entry.text for entry in provider.assemble(scene.session(), PLENTY, 20)]
    check(texts == ["ok", "ok"], "Two equal messages must both be recalled.")
