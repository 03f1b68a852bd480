"""The context viewer shows what a run saw, to whoever may see it."""

import html
import re
from collections import Counter
from dataclasses import replace
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.models import Agent, Run, Snapshot
from agents.prompts.assembler.assemble import assemble
from agents.prompts.assembler.items import DroppedItem, Item, shorten_message
from agents.prompts.assembler.stack import STACK
from agents.prompts.descriptions import SECTION_TITLES, count_left_out, item_anchor, read_parts
from agents.prompts.snapshots.redaction import read_snapshot, view_of_prompt
from agents.prompts.snapshots.store import store_snapshot
from agents.runs.executor import execute_run
from agents.web.answer_words import mark_passages
from agents.web.context_viewer import BAR_UNITS, bar_segments
from memory.episodes.services import give_feedback
from memory.work.services import close_work_item, create_work_item
from openvibe.chat.models import Message, Thread
from openvibe.chat.services import add_to_channel, delete_message, save_draft
from openvibe.engines.llm.tokens import counter_for
from openvibe.engines.text.markdown import render_markdown
from openvibe.workspaces.models import Member, User, Workspace
from tests.factories import access, make_channel, make_thread, say, signed_in


@pytest.mark.parametrize("tab", ["", "sections/", "dropped/", "raw/", "compared/"])
@pytest.mark.parametrize("htmx", [{}, {"HX-Request": "true"}])
def test_every_tab_opens_as_page_and_panel(tab: str, htmx: dict[str, str], ana: Member, answered: Run) -> None:
    response = signed_in(ana).get(f"/w/{ana.workspace.slug}/runs/{answered.pk}/context/{tab}", headers=htmx)
    assert response.status_code == 200
    page = response.content.decode()
    snapshot = Snapshot.objects.get(run=answered)
    assert f"{snapshot.tokens:,} / {snapshot.budget:,} tokens" in page
    assert ("<html" in page) is (not htmx)
    assert "style=" not in page


def test_an_unknown_tab_is_unknown(ana: Member, answered: Run) -> None:
    assert signed_in(ana).get(f"/w/{ana.workspace.slug}/runs/{answered.pk}/context/nonsense/").status_code == 404


def test_the_texts_stand_there_with_source_author_and_label(ana: Member, answered: Run) -> None:
    page = signed_in(ana).get(f"/w/{ana.workspace.slug}/runs/{answered.pk}/context/").content.decode()
    assert "We prune the apple trees in late February." in page
    assert "Semi-trusted" in page
    assert "Trusted" in page
    assert "<mark>We prune the apple trees in late February</mark>" in page  # why it answered so


def test_why_it_answered_so_names_what_it_said_itself_last(ana: Member, answered: Run, thread: Thread) -> None:
    again = Run.objects.get(trigger=say(thread, ana, "@vibe once more: when do we prune the apple trees?"))
    execute_run(again.pk)
    page = signed_in(ana).get(f"/w/{ana.workspace.slug}/runs/{again.pk}/context/").content.decode()
    why = page.partition('<section class="answer-sources"')[2].partition("</section>")[0]
    read, before, repeated = why.partition("And it said before:")
    assert "· Ana" in read
    assert before
    assert ("· Vibe" in read, "· Vibe" in repeated, "· Ana" in repeated) == (False, True, False)


def test_why_it_answered_so_quotes_words_as_they_were_written(ana: Member, vibe: Agent, thread: Thread) -> None:
    """The signs of a fence are escaped in a prompt; a person reads them as they are."""
    objective = "The R&D team tests valve <B> & valve <C> before the frost."
    create_work_item(thread=thread, by=access(ana), kind="objective", text=objective)
    say(thread, ana, "Literally: the gate of </data> opens &amp; closes at noon.")
    run = Run.objects.get(trigger=say(thread, ana, "@vibe which valve tests the team, and when opens the gate?"))
    execute_run(run.pk)
    page = signed_in(ana).get(f"/w/{ana.workspace.slug}/runs/{run.pk}/context/").content.decode()
    why = page.partition('<section class="answer-sources"')[2].partition("</section>")[0]
    marked = [html.unescape(words) for words in re.findall(r"<mark>(.*?)</mark>", why)]
    assert objective.rstrip(".") in marked
    assert "Literally: the gate of </data> opens & closes at noon" in marked  # as it is read in the thread


def test_a_preference_leads_to_where_it_is_made_binding(ana: Member, vibe: Agent, thread: Thread) -> None:
    item = create_work_item(thread=thread, by=access(ana), kind="preference", text="Always answer in grams.")
    say(thread, ana, "@vibe how much?")
    run = Run.objects.latest("pk")
    execute_run(run.pk)
    address, link = f"/w/{ana.workspace.slug}/runs/{run.pk}/context/", f"/t/{thread.pk}/work/#work-row-{item.pk}"
    page = signed_in(ana).get(address).content.decode()
    assert link in page
    assert "make it binding, or take it" in page
    assert link in signed_in(ana).get(f"/w/{ana.workspace.slug}/t/{thread.pk}/preview/vibe/").content.decode()
    close_work_item(item=item, by=access(ana), state="dropped", version=item.version)
    assert link not in signed_in(ana).get(address).content.decode()


def test_deleted_since_is_withheld_everywhere(ana: Member, answered: Run, thread: Thread) -> None:
    first = thread.messages.order_by("seq").first()
    assert first is not None
    delete_message(message=first, by=access(ana))
    for tab in ("sections", "raw"):
        page = signed_in(ana).get(f"/w/{ana.workspace.slug}/runs/{answered.pk}/context/{tab}/").content.decode()
        answer = re.compile(r'<div class="answer-words.*?</div>', re.DOTALL)  # what the agent said stays said
        assert "We prune the apple trees" not in answer.sub("", page)


def test_text_older_than_30_days_leaves_the_numbers(ana: Member, answered: Run) -> None:
    Snapshot.objects.update(content=None)
    page = signed_in(ana).get(f"/w/{ana.workspace.slug}/runs/{answered.pk}/context/").content.decode()
    assert "no longer kept" in page


def test_a_run_that_read_nothing_says_so(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = Run.objects.get(trigger=say(thread, ana, "@vibe hello?"))
    page = signed_in(ana).get(f"/w/{ana.workspace.slug}/runs/{run.pk}/context/").content.decode()
    assert "has read nothing yet" in page


def test_the_bar_adds_up(ana: Member, vibe: Agent, thread: Thread) -> None:
    prompt = assemble(agent=vibe, thread=thread, task="mention", request="When?", asked_by=ana.participant)
    drawn = bar_segments(view_of_prompt(prompt, access(ana)))
    assert sum(segment.tokens for segment in drawn) == prompt.ceiling
    assert abs(sum(segment.width for segment in drawn) - BAR_UNITS) < 1


def test_the_preview_says_what_would_be_read(ana: Member, vibe: Agent, thread: Thread) -> None:
    address = f"/w/{ana.workspace.slug}/t/{thread.pk}/preview/"
    page = signed_in(ana).get(address, {"text": "@vibe when?"}, headers={"HX-Request": "true"}).content.decode()
    assert "Vibe (L2) will read this thread" in page
    assert "of 8k tokens" in page
    assert "<html" not in page


def test_the_preview_says_why_an_agent_stays_silent(ana: Member, vibe: Agent, thread: Thread) -> None:
    Thread.objects.filter(pk=thread.pk).update(access="human_only")
    address = f"/w/{ana.workspace.slug}/t/{thread.pk}/preview/"
    assert "people only" in signed_in(ana).get(address, {"text": "@vibe when?"}).content.decode()


def test_the_full_preview_reads_the_draft_and_stores_nothing(ana: Member, vibe: Agent, thread: Thread) -> None:
    save_draft(thread=thread, by=access(ana), body="@vibe what about the quinces?")
    page = signed_in(ana).get(f"/w/{ana.workspace.slug}/t/{thread.pk}/preview/vibe/").content.decode()
    assert "what about the quinces?" in page
    assert not Snapshot.objects.exists()
    assert not Run.objects.exists()


def test_the_full_preview_has_the_times_of_the_prompt_wherever_the_reader_is(
    ana: Member, vibe: Agent, thread: Thread
) -> None:
    User.objects.filter(pk=ana.user_id).update(time_zone="Asia/Kathmandu")
    page = signed_in(ana).get(f"/w/{ana.workspace.slug}/t/{thread.pk}/preview/vibe/").content.decode()
    assert "All times here are UTC." in page


def words_of(html_text: str) -> str:
    return " ".join(html.unescape(re.sub("<[^>]+>", " ", html_text)).split())


def test_on_top_stand_the_words_of_the_answer_and_what_they_rest_on(ana: Member, answered: Run) -> None:
    page = signed_in(ana).get(f"/w/{ana.workspace.slug}/runs/{answered.pk}/context/").content.decode()
    answer, _, rest = page.partition('<div class="answer-words')[2].partition("</div>")
    assert "<mark>We prune the apple trees in late February</mark>" in answer
    (number,) = re.findall(r'href="#source-(\d)"', answer)
    source = rest.partition(f'id="source-{number}"')[2].partition("</details>")[0]
    (anchor,) = re.findall(r'data-layer href="#(item-[^"]+)"', source)
    message = answered.thread.messages.order_by("seq")[0]
    assert anchor == item_anchor(f"message:{message.pk}")
    assert page.count(f'id="{anchor}"') == 1
    places = [
        page.index(part)
        for part in ("answer-words", "context-read", "What it was made of", "By priority", "Model, tokens")
    ]
    assert places == sorted(places)


def test_an_answer_is_marked_where_its_markdown_allows_it() -> None:
    text = (
        "**We prune the apples** in late February, see [the apple tree plan](https://example.org/we-prune-the-apples)."
    )
    end = text.index(" February") + len(" February")
    marked = mark_passages(text, [(2, end, 1)])
    assert "<strong><mark>We prune the apples</mark></strong><mark> in late February</mark><sup>" in marked
    at = text.index("we-prune-the-apples")
    assert mark_passages(text, [(at, at + 8, 2)]) == render_markdown(text), "an address stays an address"
    link = text.index("the apple tree plan")
    assert "<mark>the apple tree plan</mark><sup>3</sup></a>" in mark_passages(text, [(link, link + 19, 3)])
    titled = '[the plan](https://example.org "x > y we prune the apple trees")'
    inside = titled.index("we prune")
    assert "<mark>" not in mark_passages(titled, [(inside, inside + 20, 1)])
    assert mark_passages("a \uf8a0 sign", [(0, 1, 1)]) == render_markdown("a \uf8a0 sign")


def test_markdown_is_rendered_in_what_is_quoted_and_definitions_stand_as_they_are(
    ana: Member, vibe: Agent, thread: Thread
) -> None:
    say(thread, ana, "We **always** prune `espaliers` in March.")
    run = Run.objects.get(trigger=say(thread, ana, "@vibe when do we prune espaliers?"))
    execute_run(run.pk)
    page = signed_in(ana).get(f"/w/{ana.workspace.slug}/runs/{run.pk}/context/").content.decode()
    history = page.partition('id="context-history"')[2].partition("</section>")[0]
    assert "<strong>always</strong> prune <code>espaliers</code>" in history
    tools = page.partition('id="context-tools"')[2].partition("</details>")[0]
    assert '<pre class="context-text"' in tools
    assert 'class="context-words' not in tools


def test_what_an_agent_said_is_shown_whole_whatever_colons_are_in_it(
    ana: Member, answered: Run, thread: Thread
) -> None:
    assert answered.reply is not None
    Message.objects.filter(pk=answered.reply.pk).update(body="Note of mine: prune in February.")
    run = Run.objects.get(trigger=say(thread, ana, "@vibe and the pears?"))
    execute_run(run.pk)
    page = signed_in(ana).get(f"/w/{ana.workspace.slug}/runs/{run.pk}/context/").content.decode()
    item = page.partition(f'id="{item_anchor(f"message:{answered.reply_id}")}"')[2].partition("</li>")[0]
    assert "Note of mine: prune in February." in words_of(item)


def test_shares_are_those_of_the_whole_prompt_and_the_numbers_those_of_the_api(ana: Member, answered: Run) -> None:
    page = signed_in(ana).get(f"/w/{ana.workspace.slug}/runs/{answered.pk}/context/").content.decode()
    headers = {"X-Workspace": ana.workspace.slug}
    seen = signed_in(ana).get(f"/api/v1/runs/{answered.pk}/context/", headers=headers).json()
    shares = page.partition("What it was made of")[2].partition("By priority")[0]
    by_section: Counter[str] = Counter()
    for layer in seen["layers"]:
        for item in layer["items"]:
            by_section[item["section"]] += item["tokens"]
    frame = next(layer["tokens"] for layer in seen["layers"] if layer["layer"] == "frame")
    rows = re.findall(r'share-more">(.*?)</span>', shares, re.DOTALL)
    shown = [int(re.findall(r"([\d,]+) token", row)[0].replace(",", "")) for row in rows]
    assert sum(shown) == seen["tokens"]
    assert sorted(shown) == sorted([*by_section.values(), frame])
    percents = [int(number) for number in re.findall(r'share-number">(\d+) %', shares)]
    assert 95 <= sum(percents) <= 101
    layers = page.partition('class="layer-list"')[2].partition("</dl>")[0]
    for layer in seen["layers"]:
        if layer["tokens"] and layer["layer"] != "frame":
            row = layers.partition(f'id="context-{layer["layer"]}"')[2].partition("</div>")[0]
            assert f"{layer['tokens']:,} token" in row


def test_the_numbers_stay_once_the_texts_are_gone(ana: Member, answered: Run) -> None:
    address = f"/w/{ana.workspace.slug}/runs/{answered.pk}/context/"
    before = signed_in(ana).get(address).content.decode()
    Snapshot.objects.update(content=None)
    after = signed_in(ana).get(address).content.decode()
    shares = r'share-name">([^<]*)</span>\s*<span class="share-number">([^<]*)<'
    assert re.findall(shares, before) == re.findall(shares, after)
    assert "answer-words" not in after
    assert "only their numbers" not in signed_in(ana).get(address + "compared/").content.decode()  # it is the first


def test_a_hidden_item_has_no_address(ana: Member, answered: Run, thread: Thread) -> None:
    first = thread.messages.order_by("seq").first()
    assert first is not None
    delete_message(message=first, by=access(ana))
    page = signed_in(ana).get(f"/w/{ana.workspace.slug}/runs/{answered.pk}/context/").content.decode()
    assert item_anchor(f"message:{first.pk}") not in page


def test_what_changed_between_two_prompts_is_told_with_its_words(ana: Member, answered: Run, thread: Thread) -> None:
    first = thread.messages.order_by("seq").first()
    assert first is not None
    run = Run.objects.get(trigger=say(thread, ana, "@vibe **and** the pears?"))
    execute_run(run.pk)
    address = f"/w/{ana.workspace.slug}/runs/{run.pk}/context/compared/"
    page = signed_in(ana).get(address).content.decode()
    told = words_of(page.partition('class="context-changes"')[2].partition("</section>")[0])
    assert re.search(r"Since the prompt before : 2 added , 0 gone , \d changed , \d+ the same", told), told
    assert "<strong>and</strong> the pears?" in page
    situation = page.partition(">situation<")[2].partition("</li>")[0]
    assert re.search(r"<del\s*>[^<]+</del><ins>[^<]*3[^<]*</ins>", situation), "it says how many messages are in view"
    order = [told.index(words) for words in ("Added message 3", "Changed situation", "Added request")]
    assert order == sorted(order)
    delete_message(message=first, by=access(ana))
    page = signed_in(ana).get(address).content.decode()
    assert (
        first.body
        not in page.partition('class="context-changes"')[2].partition('class="prompt-change prompt-change-added"')[0]
    )
    Snapshot.objects.filter(run=answered).update(content=None)
    assert "only their numbers can be compared" in signed_in(ana).get(address).content.decode()


def test_comparing_takes_as_many_statements_whatever_changed(ana: Member, answered: Run, thread: Thread) -> None:
    def cost(run: Run) -> int:
        client = signed_in(ana)
        address = f"/w/{ana.workspace.slug}/runs/{run.pk}/context/compared/"
        client.get(address)
        with CaptureQueriesContext(connection) as queries:
            assert client.get(address).status_code == 200
        return len(queries)

    costs = []
    for count in (1, 3):
        for n in range(count):
            say(thread, ana, f"Pear tree {n} of {count}.")
        run = Run.objects.get(trigger=say(thread, ana, "@vibe and the pears?"))
        execute_run(run.pk)
        costs.append(cost(run))
    assert costs[0] == costs[1]


def test_two_prompts_are_compared(ana: Member, answered: Run, vibe: Agent, thread: Thread) -> None:
    run = Run.objects.get(trigger=say(thread, ana, "@vibe and the pears?"))
    store_snapshot(run, assemble(agent=vibe, thread=thread, task="mention", request=run.trigger))
    page = signed_in(ana).get(f"/w/{ana.workspace.slug}/runs/{run.pk}/context/compared/").content.decode()
    assert "are the same as in the" in page


def test_compared_prompts_have_the_parts_of_their_bars_and_add_up(ana: Member, answered: Run, thread: Thread) -> None:
    run = Run.objects.get(trigger=say(thread, ana, "@vibe and the pear trees?"))
    execute_run(run.pk)
    page = signed_in(ana).get(f"/w/{ana.workspace.slug}/runs/{run.pk}/context/compared/").content.decode()
    row = r'<th scope="row">([^<]+)</th>\s*<td class="number">([\d,]+)</td>\s*<td class="number">([\d,]+)</td>'
    rows = {name: [int(tokens.replace(",", "")) for tokens in cells] for name, *cells in re.findall(row, page)}
    whole = rows.pop("All")
    assert [sum(column) for column in zip(*rows.values(), strict=True)] == whole
    assert {"P0 SOUL and policy", "Tools", "Wrappers"} <= set(rows)


def test_what_was_learned_elsewhere_is_hidden_from_who_may_not_read_there(
    ana: Member, ben: Member, vibe: Agent, answered: Run
) -> None:
    assert answered.reply is not None
    give_feedback(message=answered.reply, by=access(ana), verdict="down", text="Name the gardener Eve.")
    side = make_channel(ana, "side")
    add_to_channel(channel=side, participant=vibe.participant, by=access(ana))
    thread = make_thread(side, ana, "Quinces")
    run = Run.objects.get(trigger=say(thread, ana, "@vibe where is the quince?"))
    execute_run(run.pk)
    add_to_channel(channel=side, participant=ben.participant, by=access(ana))  # what he reads along is left out
    home = f"/w/{ana.workspace.slug}"
    assert "Name the gardener Eve." in signed_in(ana).get(f"{home}/runs/{run.pk}/context/").content.decode()
    for page in (f"/runs/{run.pk}/context/", f"/runs/{run.pk}/context/raw/", f"/t/{thread.pk}/preview/vibe/"):
        response = signed_in(ben).get(home + page)
        assert response.status_code == 200
        assert "1 item hidden by your access" in response.content.decode()  # the SOUL is for members, too
        assert "gardener Eve" not in response.content.decode()
    view = read_snapshot(run, access(ben))
    assert view is not None
    assert {item.section for section in view.sections for item in section.items if item.hidden} == {"soul", "feedback"}


def test_guests_do_not_read_the_organisations_instructions(
    ana: Member, dora: Member, ben: Member, vibe: Agent, thread: Thread
) -> None:
    add_to_channel(channel=thread.channel, participant=ben.participant, by=access(ana))
    Workspace.objects.filter(pk=ana.workspace_id).update(instructions="Margins are 40 percent.")
    Thread.objects.filter(pk=thread.pk).update(instructions="Answer in one sentence.")
    run = Run.objects.get(trigger=say(thread, ana, "@vibe when?"))
    execute_run(run.pk)
    home = f"/w/{ana.workspace.slug}"
    for page in (f"/runs/{run.pk}/context/", f"/runs/{run.pk}/context/raw/", f"/t/{thread.pk}/preview/vibe/"):
        assert "Margins are 40 percent." in signed_in(dora).get(home + page).content.decode()
        html = signed_in(ben).get(home + page).content.decode()
        assert "Margins" not in html
        assert "1 item hidden by your access" in html
        assert "Answer in one sentence." in html


def read_sentence(page: str) -> tuple[str, str]:
    """The sentence that says what was read: as HTML, and in words."""
    match = re.search(r'context-read">(.*?)</p>', " ".join(page.split()))
    assert match
    return match[1], " ".join(re.sub("<[^>]+>", "", match[1]).split())


def test_one_sentence_says_what_was_read(ana: Member, answered: Run) -> None:
    page = signed_in(ana).get(f"/w/{ana.workspace.slug}/runs/{answered.pk}/context/").content.decode()
    sentence_html, sentence = read_sentence(page)
    assert sentence.startswith("Vibe read 2 messages of this thread.")
    anchors = re.findall(r'<a data-layer href="#(context-[^"]*)">', sentence_html)
    assert anchors == ["context-history"]
    assert page.count('id="context-history"') == 1


def test_the_sentence_says_how_much_of_the_thread_did_not_fit(ana: Member, vibe: Agent, thread: Thread) -> None:
    for n in range(300):
        say(thread, ana, f"Bed {n}: " + "roses and hollyhock " * 20)
    run = Run.objects.get(trigger=say(thread, ana, "@vibe which bed?"))
    execute_run(run.pk)
    address = f"/w/{ana.workspace.slug}/runs/{run.pk}/context/"
    _, sentence = read_sentence(signed_in(ana).get(address).content.decode())
    counts = re.findall(
        r"(\d+) (?:messages? of this thread|older messages? that bear|older messages? did not fit)", sentence
    )
    assert sum(map(int, counts)) == 301, sentence
    assert "did not fit" in sentence
    assert f"{counts[-1]} older messages, not recalled" in signed_in(ana).get(address + "dropped/").content.decode()


def test_what_was_left_out_is_counted_by_messages_and_other_things() -> None:
    def dropped(key: str, source: str, reason: str = "over budget", section: str = "history") -> DroppedItem:
        return DroppedItem(key, "P1", section, source, "", 5, reason)  # type: ignore[arg-type]

    left_out = count_left_out(
        [
            dropped("older messages", "1,012 older messages, not recalled", section="recall"),
            dropped("message:7", "message 7"),
            dropped("message:8", "message 8", "superseded"),
            dropped("knowledge:3", "knowledge: Pruning", "expired", "knowledge"),
        ]
    )
    assert left_out == (1_013, 2)


def test_each_kind_is_counted_once_in_the_sentence() -> None:
    def item(section: str, key: str, ref: str = "", layer: str = "P1") -> Item:
        return Item(layer, section, "history", key, "text", 5, "untrusted", "source", ref=ref)  # type: ignore[arg-type]

    items = [
        item("policy", "policy", layer="P0"),
        item("history", "summary:1", "1-60"),
        item("history", "summary:2", "61-70"),
        *(item("history", f"message:{n}", str(n)) for n in range(71, 75)),
        item("recall", "message:5", "5", "P6"),
        item("knowledge", "knowledge:3", layer="P3"),
        item("work", "observation:7"),
        item("work", "work:8"),
        item("blocks", "block:notes", layer="P2"),
        item("profile", "profile:3", layer="P2"),
        item("request", "message:75", "75"),
    ]
    parts = read_parts(items)
    assert " ".join(part.words + part.ending for part in parts) == (
        "5 messages of this thread, 2 summaries of 70 older ones, 1 older message that bears on it,"
        " 1 entry of knowledge, 1 tool result, 1 item of work and its own notes"
    )
    assert [part.item.layer for part in parts] == ["P1", "P1", "P6", "P3", "P1", "P1", "P2"]

    counter = counter_for("offline")
    cut = replace(item("history", "message:76", "76"), text=shorten_message("a day " * 900, 400, counter, ref="76"))
    words = " ".join(part.words + part.ending for part in read_parts([*items[3:7], cut]))
    assert words == "5 messages of this thread (1 of them without its middle)"
    assert [part.words for part in read_parts([cut, cut])] == [
        "2 messages of this thread (2 of them without their middles)"
    ]
    assert [part.words for part in read_parts([item("request", "request")])] == ["the question"]
    assert read_parts(items[:1]) == []
    assert set(SECTION_TITLES) == {section for layer in STACK for section in layer.sections}


def test_a_bar_of_the_chart_of_prompts_says_its_time_as_the_table_does(ana: Member, answered: Run) -> None:
    zone = "Asia/Kathmandu"
    User.objects.filter(pk=ana.user_id).update(time_zone=zone)
    at = Snapshot.objects.get(run=answered).created_at.astimezone(ZoneInfo(zone))
    page = signed_in(ana).get(f"/w/{ana.workspace.slug}/t/{answered.thread_id}/memory/").content.decode()
    assert page.count(f"<title>{at:%-d %b %H:%M}: ") > 1
    assert f">{at:%-d %b %H:%M}</a>" in page
