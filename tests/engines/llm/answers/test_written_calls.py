"""Markup of chat templates in answers: calls are made, thoughts are thought, and what people may write stays words.

Each form is one that a server let through; what is said of it does not depend on how the text is cut into pieces."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openvibe.engines.llm.answers.markup import mark_at, may_become_mark, normalize
from openvibe.engines.llm.answers.thoughts import AnswerText, find_last_calls, read_answer, spoken_text
from openvibe.engines.llm.errors import EmptyAnswer
from openvibe.engines.llm.values import ReasoningDelta, TextDelta, TextReset, ToolCallRequest, ToolSpec
from tests.examples import examples

MEMORY = ToolSpec(
    "memory",
    "Looks something up.",
    {
        "type": "object",
        "properties": {"action": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["action"],
    },
)
SEARCH = ToolSpec("knowledge_search", "Searches.", {"type": "object", "properties": {"query": {"type": "string"}}})
TOOLS = (MEMORY, SEARCH)
STATUS = '{"action": "status"}'
CALL = ["memory", {"action": "status"}]

CALLS = {
    "Hermes and Qwen": f'<tool_call>\n{{"name": "memory", "arguments": {STATUS}}}\n</tool_call>',
    "arguments as text": '<tool_call>{"name": "memory", "arguments": "{\\"action\\": \\"status\\"}"}</tool_call>',
    "single quotation marks": "<tool_call>{'name': 'memory', 'arguments': {'action': 'status'}}</tool_call>",
    "a trailing comma": '<tool_call>{"name": "memory", "arguments": {"action": "status",},}</tool_call>',
    "fenced within": f'<tool_call>\n```json\n{{"name": "memory", "arguments": {STATUS}}}\n```\n</tool_call>',
    "no closing tag": f'<tool_call>\n{{"name": "memory", "arguments": {STATUS}}}',
    "a sign of the end after it": f'<tool_call>\n{{"name": "memory", "arguments": {STATUS}}}\n</tool_call><|im_end|>',
    "Granite": f'<|tool_call|>[{{"name": "memory", "arguments": {STATUS}}}]',
    "Granite's function call": f'<function_call> {{"name": "memory", "arguments": {STATUS}}}',
    "Jamba": f'<tool_calls>[{{"name": "memory", "arguments": {STATUS}}}]</tool_calls>',
    "Qwen2.5-Coder": f'<tools>\n{{"name": "memory", "arguments": {STATUS}}}\n</tools>',
    "Qwen2.5-Coder as a response": f'<response>{{"name": "memory", "arguments": {STATUS}}}</response>',
    "Qwen2.5-Coder as a response on lines of its own": (
        f'<response>\n{{"name": "memory", "arguments": {STATUS}}}\n</response>'
    ),
    "a response with doubled braces": (
        '<response>{{"name": "memory", "arguments": {{"action": "status"}}}}</response>'
    ),
    "Nemotron": f'<TOOLCALL>[{{"name": "memory", "arguments": {STATUS}}}]</TOOLCALL>',
    "LongCat": f'<longcat_tool_call>{{"name": "memory", "arguments": {STATUS}}}</longcat_tool_call>',
    "Apertus": f'<|tools_prefix|>[{{"memory": {STATUS}}}]<|tools_suffix|>',
    "Command A": (
        f'<|START_ACTION|>[{{"tool_call_id": "0", "tool_name": "memory", "parameters": {STATUS}}}]<|END_ACTION|>'
    ),
    "InternLM": f'<|action_start|><|plugin|>{{"name": "memory", "parameters": {STATUS}}}<|action_end|>',
    "Llama's function": f"<function=memory>{STATUS}</function>",
    "Llama's function without its bracket": f"<function=memory{STATUS}</function>",
    "Llama's function with a sign": f"<function=memory={STATUS}</function>",
    "Qwen3-Coder": (
        "<tool_call>\n<function=memory>\n<parameter=action>\nstatus\n</parameter>\n</function>\n</tool_call>"
    ),
    "Qwen3-Coder without the opening tag": (
        "<function=memory>\n<parameter=action>\nstatus\n</parameter>\n</function>\n</tool_call>"
    ),
    "Qwen3-Coder without closing tags": "<tool_call>\n<function=memory>\n<parameter=action>\nstatus\n</parameter>\n",
    "Seed-OSS": (
        "<seed:tool_call>\n<function=memory>\n<parameter=action>status</parameter>\n</function>\n</seed:tool_call>"
    ),
    "MiniMax M2": (
        '<minimax:tool_call>\n<invoke name="memory">\n<parameter name="action">status</parameter>\n</invoke>\n'
        "</minimax:tool_call>"
    ),
    "Claude's own": (
        '<function_calls>\n<invoke name="memory">\n<parameter name="action">status</parameter>\n</invoke>\n'
        "</function_calls>"
    ),
    "only the invocation": '<invoke name="memory">\n<parameter name="action">status</parameter>\n</invoke>',
    "GLM": "<tool_call>memory\n<arg_key>action</arg_key>\n<arg_value>status</arg_value>\n</tool_call>",
    "GLM 4.7": "<tool_call>memory<arg_key>action</arg_key><arg_value>status</arg_value></tool_call>",
    "DeepSeek V3": (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>memory\n```json\n"
        f"{STATUS}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>"
    ),
    "DeepSeek V3.1": (
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>memory<｜tool▁sep｜>{STATUS}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    ),
    "DeepSeek without the section": f"<｜tool▁call▁begin｜>memory<｜tool▁sep｜>{STATUS}<｜tool▁call▁end｜>",
    "DSML": (
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="memory">\n'
        '<｜DSML｜parameter name="action" string="true">status</｜DSML｜parameter>\n'
        "</｜DSML｜invoke>\n</｜DSML｜function_calls>"
    ),
    "DSML with two bars": (
        '<｜｜DSML｜｜tool_calls>\n<｜｜DSML｜｜invoke name="memory">\n'
        '<｜｜DSML｜｜parameter name="action" string="true">status</｜｜DSML｜｜parameter>\n'
        "</｜｜DSML｜｜invoke>\n</｜｜DSML｜｜tool_calls>"
    ),
    "Kimi K2": (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.memory:0<|tool_call_argument_begin|>"
        f"{STATUS}<|tool_call_end|><|tool_calls_section_end|>"
    ),
    "Kimi K2 in the singular": (
        "<|tool_call_section_begin|><|tool_call_begin|>functions.memory:0<|tool_call_argument_begin|>"
        f"{STATUS}<|tool_call_end|><|tool_call_section_end|>"
    ),
    "Mistral": f'[TOOL_CALLS][{{"name": "memory", "arguments": {STATUS}}}]',
    "Mistral, newer": f"[TOOL_CALLS]memory[ARGS]{STATUS}",
    "Mistral with an id": f"[TOOL_CALLS]memory[CALL_ID]abc123DEF[ARGS]{STATUS}",
    "Mistral without a sign": f"[TOOL_CALLS]memory{STATUS}</s>",
    "Llama 3.1": f'<|python_tag|>{{"name": "memory", "parameters": {STATUS}}}<|eom_id|>',
    "Llama's built-in form": '<|python_tag|>memory.call(action="status")',
    "LFM2": '<|tool_call_start|>[memory(action="status")]<|tool_call_end|>',
    "FunctionGemma": "<start_function_call>call:memory{action:<escape>status<escape>}<end_function_call>",
    "Gemma 4": '<|tool_call>call:memory{action:<|"|>status<|"|>}<tool_call|>',
    "gpt-oss": "<|channel|>commentary to=functions.memory <|constrain|>json<|message|>" + STATUS + "<|call|>",
    "gpt-oss, to in the role": (
        "<|start|>assistant to=functions.memory<|channel|>commentary json<|message|>" + STATUS + "<|call|>"
    ),
    "gpt-oss flattened": "<|start|>assistantcommentary to=functions.memory " + STATUS + "<|call|>",
    "gpt-oss without its marks": "analysisWe need the tool.assistantcommentary to=functions.memory json" + STATUS,
    "bare JSON": f'{{"name": "memory", "arguments": {STATUS}}}',
    "bare JSON with doubled braces": f'{{{{"name": "memory", "arguments": {STATUS}}}}}}}',
    "bare JSON with every brace doubled": '{{"name": "memory", "arguments": {{"action": "status"}}}}',
    "bare JSON with a brace too many": '{{"name": "memory", "arguments": {"action": "status"}}',
    "bare JSON of a tool and parameters": f'{{"tool": "memory", "parameters": {STATUS}}}',
    "bare JSON of Llama": f'{{"type": "function", "name": "memory", "parameters": {STATUS}}}',
    "bare JSON in the shape of the API": (
        f'{{"type": "function", "function": {{"name": "memory", "arguments": {STATUS}}}}}'
    ),
    "a list": f'[{{"name": "memory", "arguments": {STATUS}}}]',
    "fenced as JSON": f'```json\n{{"name": "memory", "arguments": {STATUS}}}\n```',
    "fenced without a word": f'```\n{{"name": "memory", "arguments": {STATUS}}}\n```\n',
    "Phi-4-mini": f'functools[{{"name": "memory", "arguments": {STATUS}}}]',
    "Gemma 3": '```tool_code\nprint(default_api.memory(action="status"))\n```',
    "Llama 4": '[memory(action="status")]',
}


def play(pieces: Iterable[str], tools: tuple[ToolSpec, ...] = TOOLS) -> tuple[str, str, list[list[object]]]:
    """What somebody who listens has in the end: the text, the reasoning and the calls."""
    answer = AnswerText(tools)
    text = reasoning = ""
    for event in [*(event for piece in pieces for event in answer.add(piece)), *answer.end()]:
        match event:
            case TextReset():
                text = reasoning = ""
            case TextDelta(text=more):
                assert more
                text += more
            case ReasoningDelta(text=more):
                assert more
                reasoning += more
    assert (text, reasoning) == (answer.text, answer.reasoning)
    return text, reasoning, [[call.name, json.loads(call.arguments)] for call in answer.all_calls(())]


def cuts(text: str) -> Iterable[list[str]]:
    """The text whole, letter by letter, and cut elsewhere."""
    yield [text]
    yield list(text)
    for size in (2, 3, 7, 19):
        yield [text[start : start + size] for start in range(0, len(text), size)]


@pytest.mark.parametrize("form", CALLS)
def test_a_call_that_is_written_is_a_call(form: str) -> None:
    for pieces in cuts(CALLS[form]):
        text, reasoning, calls = play(pieces)
        assert (text, calls) == ("", [CALL])
        assert reasoning == ("We need the tool." if "without its marks" in form else "")


IN_TEXT = [form for form, text in CALLS.items() if text.startswith(("<", "[TOOL_CALLS]")) and "flattened" not in form]


@pytest.mark.parametrize("form", IN_TEXT)
@pytest.mark.parametrize("before", ["I look it up.\n\n", "I look it up. ", "I look it up:"])
def test_words_before_a_call_stay(form: str, before: str) -> None:
    for pieces in cuts(before + CALLS[form]):
        text, _, calls = play(pieces)
        assert (text.rstrip(), calls) == (before.rstrip(), [CALL])
        assert not text.endswith("\n")


BARE = [form for form in CALLS if form.startswith("bare JSON")]


@pytest.mark.parametrize("form", BARE)
@pytest.mark.parametrize("before", ["Let me look.\n", "Let me look:\n\n", "First this.\n\n- one\n- two\n\n"])
def test_words_before_a_bare_call_that_ends_the_answer_stay(form: str, before: str) -> None:
    for after in ("", "\n", "<|im_end|>"):
        for pieces in cuts(before + CALLS[form] + after):
            text, _, calls = play(pieces)
            assert (text, calls) == (before.rstrip(), [CALL])


@pytest.mark.parametrize("form", BARE)
def test_a_bare_call_that_is_spoken_of_is_words(form: str) -> None:
    markup = CALLS[form]
    for words in (
        f"It is written so:\n\n```json\n{markup}\n```",
        f"So: {markup}",
        f"{markup}\nis how it is written.",
        f"It is written so:\n{markup}\nThat is all.",
        f"> {markup}",
        f'It writes "{markup}"',
        f"So:\n\n    {markup}",
        f"So:\n{markup.replace('memory', 'launch')}",
    ):
        for pieces in cuts(words):
            assert play(pieces) == (words, "", [])


@pytest.mark.parametrize(
    "words",
    [
        "<response>In March.</response>",
        '<response>{"answer": "In March."}</response>',
        '<response>{"answer": {"month": "March"}}</response>',
        "<response>memory</response>",
        '<response>{"name": "launch", "arguments": {}}</response>',
        "<response> is a tag.",
        'They are: {{"name": "Rosa"}}',
        '{{"name": "Rosa"}}',
        '{"month": "March"}\n{"month": "April"}',
        'In lines:\n{"month": "March"}\n{"month": "April"}',
        'Half of it:\n{"name": "memory", "argu',
    ],
)
def test_what_looks_like_a_bare_call_is_words(words: str) -> None:
    for pieces in cuts(words):
        assert play(pieces) == (words, "", [])


@pytest.mark.parametrize("form", IN_TEXT)
def test_what_explains_a_call_is_words(form: str) -> None:
    markup = CALLS[form]
    for words in (
        f"It is written so:\n\n```xml\n{markup}\n```\n\nThat is all.",
        f"It is written so:\n\n~~~\n{markup}\n~~~\nThat is all.",
        f"1. So:\n   ```\n   {markup}\n   ```\n",
        f'It writes "{markup}" then.' if "\n" not in markup else "",
        f"`{markup}` is how." if "\n" not in markup and "`" not in markup else "",
        "\n".join(f"> {line}" for line in f"So:\n{markup}".split("\n")),
    ):
        for pieces in cuts(words):
            assert play(pieces) == (words, "", [])


@pytest.mark.parametrize("form", IN_TEXT)
def test_a_thought_before_a_call_is_one(form: str) -> None:
    for pieces in cuts(f"<think>\nI need it.\n</think>\n\n{CALLS[form]}"):
        assert play(pieces) == ("", "I need it.", [CALL])


@pytest.mark.parametrize("form", [form for form in IN_TEXT if "gpt-oss" not in form])
def test_a_call_that_ends_a_thought_is_made_where_no_answer_follows(form: str) -> None:
    for thought in (f"<think>I need it.\n{CALLS[form]}", f"<think>I need it.\n{CALLS[form]}\n</think>\n"):
        for pieces in cuts(thought):
            assert play(pieces) == ("", "I need it.", [CALL])
    assert play([f"<think>Not\n{CALLS[form]}\n</think>\nIn March."])[::2] == ("In March.", [])


def test_a_call_in_what_the_provider_tells_apart_as_thought_is_made_where_nothing_else_is_said() -> None:
    answer = AnswerText(TOOLS)
    assert [*answer.add_reasoning("I need it. "), *answer.add_reasoning(CALLS["Hermes and Qwen"])]
    list(answer.end())
    assert answer.reasoning == "I need it."
    assert [call.name for call in answer.all_calls(())] == ["memory"]
    native = ToolCallRequest("c1", "knowledge_search", "{}")
    assert answer.all_calls([native]) == (native,)


def test_several_calls_are_made_in_order() -> None:
    one, other = (
        CALLS["Hermes and Qwen"],
        '<tool_call>{"name": "knowledge_search", "arguments": {"query": "x"}}</tool_call>',
    )
    for text in (f"{one}\n{other}", f"{one}{other}", f"Two.\n{one}\n\n{other}\n"):
        for pieces in cuts(text):
            assert play(pieces)[2] == [CALL, ["knowledge_search", {"query": "x"}]]
    listed = '[{"name": "memory", "arguments": {"action": "a"}}, {"name": "memory", "arguments": {"action": "b"}}]'
    assert play([f"<tool_call>{listed}</tool_call>"])[2] == [["memory", {"action": "a"}], ["memory", {"action": "b"}]]
    kimi = "<|tool_call_begin|>functions.memory:{}<|tool_call_argument_begin|>{}<|tool_call_end|>"
    section = f"<|tool_calls_section_begin|>{kimi.format(0, STATUS)}{kimi.format(1, STATUS)}<|tool_calls_section_end|>"
    assert play([section])[2] == [CALL, CALL]


CHANNELS = [
    (
        "<|channel|>analysis<|message|>User wants a plan. Let me think.<|end|><|start|>assistant<|channel|>final"
        "<|message|>Here is the plan.<|return|>",
        ("Here is the plan.", "User wants a plan. Let me think.", []),
    ),
    (
        "User wants a plan.<|end|><|start|>assistant<|channel|>final<|message|>Here is the plan.",
        ("Here is the plan.", "User wants a plan.", []),
    ),
    (
        "<|start|>assistant<|channel|>commentary<|message|>I look first.<|end|><|start|>assistant<|channel|>commentary"
        f" to=functions.memory <|constrain|>json<|message|>{STATUS}<|call|>",
        ("I look first.", "", [CALL]),
    ),
    (
        "<|channel|>analysis<|message|>I need it.<|end|><|start|>assistant to=functions.memory<|channel|>commentary"
        f"<|constrain|>json<|message|>{STATUS}<|call|>",
        ("", "I need it.", [CALL]),
    ),
    ("<|channel|>final<|message|>In `March`.\n\n- one\n- two<|return|>", ("In `March`.\n\n- one\n- two", "", [])),
    ("<|channel|>analysis<|message|>Only this.<|end|>", ("", "Only this.", [])),
    (
        "analysisUser says hello. Respond.assistantfinalHello! How can I help?",
        ("Hello! How can I help?", "User says hello. Respond.", []),
    ),
    ("<|message|>In March.<|return|>", ("In March.", "", [])),
]


@pytest.mark.parametrize(("raw", "expected"), CHANNELS)
def test_channels_are_told_apart(raw: str, expected: tuple[str, str, list[object]]) -> None:
    for pieces in cuts(raw):
        assert play(pieces) == expected


THOUGHTS = [
    "<think>{}</think>",
    "<THINK>\n{}\n</THINK>",
    '<thinking budget="3">{}</thinking>',
    "<thought>{}</thought>",
    "<thoughts>{}</thoughts>",
    "<reasoning effort=1>{}</reasoning>",
    "<REASONING_SCRATCHPAD>{}</REASONING_SCRATCHPAD>",
    "<seed:think>{}</seed:think>",
    "[THINK]{}[/THINK]",
    "◁think▷{}◁/think▷",
    "<|begin_of_thought|>\n{}\n<|end_of_thought|>",
    "<|START_THINKING|>{}<|END_THINKING|>",
    "<|inner_prefix|>{}<|inner_suffix|>",
    "<|channel>thought\n{}<channel|>",
    "<|channel>{}<channel|>",
    "<unused94>thought\n{}<unused95>",
]


@pytest.mark.parametrize("form", THOUGHTS)
def test_thoughts_are_thought_in_every_form(form: str) -> None:
    thought = "They ask when. A 3 < 4, [so] it is March."
    whole = form.format(thought)
    _, ending = whole.split(thought)
    cases: list[tuple[str, tuple[str, str, list[object]]]] = [
        (f"{whole}\n\nIn March.", ("In March.", thought, [])),
        (f"\n{whole}In March.\n", ("In March.\n", thought, [])),
        (whole, ("", thought, [])),
        (whole.removesuffix(ending), ("", thought, [])),
        (f"{whole}\n{form.format('Or April.')}\nIn March.", ("In March.", f"{thought}\n\nOr April.", [])),
        (f"{thought}{ending}\nIn March.", ("In March.", thought, [])),
        (f"First this.\n\n{whole}\n\nThen that.", ("First this.\n\nThen that.", thought, [])),
    ]
    for raw, expected in cases:
        for pieces in cuts(raw):
            assert play(pieces) == expected


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (
            "<|begin_of_thought|>A.<|end_of_thought|>\n\n<|begin_of_solution|>\nIn March.\n<|end_of_solution|>",
            "In March.\n",
        ),
        ("<think>A.</think>\n<answer>\nIn March.\n</answer>", "In March."),
        ("<|START_THINKING|>A.<|END_THINKING|><|START_RESPONSE|>In March.<|END_RESPONSE|>", "In March."),
    ],
)
def test_frames_around_the_answer_are_no_part_of_it(raw: str, text: str) -> None:
    for pieces in cuts(raw):
        said, reasoning, calls = play(pieces)
        assert (said.strip(), reasoning, calls) == (text.strip(), "A.", [])


@pytest.mark.parametrize(
    "sign", ["<|im_end|>", "<|eot_id|>", "<|endoftext|>", "<end_of_turn>", "</s>", "<｜end▁of▁sentence｜>", "<eos>"]
)
def test_a_sign_that_the_turn_ends_is_no_word(sign: str) -> None:
    for pieces in cuts(f"In March.{sign}\n"):
        assert play(pieces)[0] == "In March."
    for words in (f"It ends with {sign}", f"`{sign}` ends it.", f"A {sign} in the middle.", f'It ends with "{sign}"'):
        for pieces in cuts(words):
            assert play(pieces)[0] == words


WORDS = [
    "<tool_call> is a tag that Qwen writes.",
    "Qwen writes <tool_call>{name, arguments}</tool_call> around its calls.",
    'In the middle <tool_call>{"name": "memory", "arguments": {"action": "status"}}</tool_call> of a sentence.',
    "[TOOL_CALLS] is Mistral's sign.",
    "    <tool_call>{}</tool_call>",
    "{ not JSON",
    '{"name": "Rosa", "arguments": {"colour": "red"}}',
    '{"name": "memory", "colour": "red"}',
    '{"answer": "In March."}',
    '```json\n{"name": "Rosa"}\n```',
    '```json\n{"name": "memory", "arguments": {"action": "status"}}\n```\nThat is a call.',
    "```python\nmemory(action='status')\n```",
    "[1] In March.\n[2] In April.",
    "[a link](https://example.org) and [x] done",
    "analysis of the data shows March",
    "analysisX is a variable.",
    "a <b>bold</b> word, a<b, <table><tr></tr></table>, x << 3, <http://example.org>",
    "<s>struck</s>",
    "Use <thinkpad> or <function> or <invoke> tags.",
    "<details>\n<summary>More</summary>\n\nText\n</details>",
    "The tags are:\n<think>\nand\n<thinking>\nand so on.",
    "print('<|im_start|>')",
    "",
    "\n\n",
    "Ends with blanks \n\n",
]


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("tools", [TOOLS, ()])
def test_words_pass_unchanged(words: str, tools: tuple[ToolSpec, ...]) -> None:
    for pieces in cuts(words):
        assert play(pieces, tools) == (words, "", [])


def test_a_call_of_a_tool_that_was_not_offered_is_words_beside_words_and_else_a_call() -> None:
    foreign = '<tool_call>{"name": "launch", "arguments": {}}</tool_call>'
    for words in (f"I do it.\n{foreign}", f"{foreign}\nDone."):
        for pieces in cuts(words):
            assert play(pieces) == (words, "", [])
            assert play(pieces, ()) == (words, "", [])
    for pieces in cuts(foreign):
        assert play(pieces) == ("", "", [["launch", {}]])


def test_a_call_where_no_tools_were_offered_is_no_answer() -> None:
    for form in IN_TEXT:
        answer = read_answer(CALLS[form])
        assert answer.text.strip() == ""
        with pytest.raises(EmptyAnswer, match="in place of an answer"):
            answer.all_calls(())


def test_a_call_that_cannot_be_read_keeps_what_was_written_for_the_refusal() -> None:
    for broken in (
        '<tool_call>{"name": "memory", "arguments": {"action": "sta',
        '<tool_call>{"name": "memory", "arguments": {"action": status}}</tool_call>',
        "<function=memory>\n<parameter=action>\nsta",
    ):
        (call,) = read_answer(broken, TOOLS).all_calls(())
        assert call.name == "memory"
        with pytest.raises(ValueError, match=r"Expecting|Unterminated|char"):
            json.loads(call.arguments)


def test_closing_tags_within_arguments_do_not_end_a_call() -> None:
    text = '<tool_call>{"name": "memory", "arguments": {"action": "say </tool_call> and <think>"}}</tool_call>'
    for pieces in cuts(text):
        assert play(pieces)[2] == [["memory", {"action": "say </tool_call> and <think>"}]]


def test_a_call_that_the_protocol_has_too_is_made_once() -> None:
    answer = read_answer(f"{CALLS['Hermes and Qwen']}", TOOLS)
    native = ToolCallRequest("c1", "memory", '{"action":"status"}')
    assert answer.all_calls([native]) == (native,)
    other = ToolCallRequest("c1", "memory", '{"action":"other"}')
    assert [call.id for call in answer.all_calls([other])] == ["c1", "written_0"]


@pytest.mark.parametrize(
    ("raw", "spoken"),
    [
        ("Ana decided.\n" + CALLS["Hermes and Qwen"], "Ana decided."),
        (CALLS["bare JSON"], ""),
        ("<think>A.</think>Ana decided.", "Ana decided."),
        ("`<tool_call>` was spoken of.", "`<tool_call>` was spoken of."),
    ],
)
def test_what_is_kept_holds_no_call_whatever_it_names(raw: str, spoken: str) -> None:
    assert spoken_text(raw) == spoken


def test_plain_text_is_not_held_back() -> None:
    answer = AnswerText(TOOLS)
    for word in ("In", "March,", "says", "the", "book.", "A", "3", "<", "4", "and", "[so]", "on."):
        given = "".join(event.text for event in answer.add(f"{word} ") if isinstance(event, TextDelta))
        assert given == f"{word} "


PIECES = (
    *(
        "<think>",
        "</think>",
        "<tool_call>",
        "</tool_call>",
        '{"name": "memory", "arguments": {}}',
        "`",
        "```\n",
        "\n",
        " ",
    ),
    *("<|channel|>analysis<|message|>", "<|start|>assistant<|channel|>final<|message|>", "<|end|>", "<|im_end|>", "> "),
    *(
        "word",
        "[THINK]",
        "[/THINK]",
        "[TOOL_CALLS]",
        "memory[ARGS]{}",
        "<function=memory>",
        "</function>",
        '"',
        "<",
        "[",
        "{",
    ),
    *(
        "<|channel|>commentary to=functions.memory<|message|>",
        "analysisA",
        "assistantfinal",
        "<answer>",
        "</answer>",
        "◁think▷",
    ),
    *(
        '<invoke name="memory">',
        "</invoke>",
        "<parameter=action>",
        "</parameter>",
        "｜",
        "<｜tool▁calls▁begin｜>",
        "é",
        "</s>",
    ),
)
TEXTS = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


@settings(deadline=None, max_examples=examples(400))
@given(TEXTS, st.randoms(use_true_random=False), st.booleans())
def test_however_a_text_is_cut_it_says_the_same(text: str, dice: random.Random, has_tools: bool) -> None:
    tools = TOOLS if has_tools else ()
    whole = play_raw([text], tools)
    places = sorted(dice.randint(0, len(text)) for _ in range(dice.randint(0, 8)))
    pieces = [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]
    assert play_raw(pieces, tools) == whole
    assert play_raw(list(text), tools) == whole


def play_raw(pieces: Iterable[str], tools: tuple[ToolSpec, ...]) -> tuple[str, str, tuple[object, ...]]:
    """Plays as `play`, where arguments may be no JSON."""
    answer = AnswerText(tools)
    text = reasoning = ""
    for event in [*(event for piece in pieces for event in answer.add(piece)), *answer.end()]:
        match event:
            case TextReset():
                text = reasoning = ""
            case TextDelta(text=more):
                text += more
            case ReasoningDelta(text=more):
                reasoning += more
    assert (text, reasoning) == (answer.text, answer.reasoning)
    return text, reasoning, (answer.calls, answer.foreign_call, answer.is_broken_off)


@settings(deadline=None, max_examples=examples(300))
@given(st.text(alphabet=st.characters(exclude_characters="<[◁{`", exclude_categories=["Cs"]), max_size=200))
def test_text_without_a_sign_of_markup_passes_unchanged(text: str) -> None:
    assert play([text]) == (text, "", [])
    assert play(list(text)) == (text, "", [])


def test_every_mark_is_known_by_each_of_its_beginnings() -> None:
    marks = {text[: mark.end] for text in map(normalize, (*CALLS.values(), *THOUGHTS)) if (mark := mark_at(text, 0))}
    assert len(marks) > 30
    for written in marks:
        assert all(may_become_mark(written[:length]) for length in range(1, len(written)))
    for words in ("<br", "<table", "[a", "< ", "<http", "<span class", "[link]"):
        assert not may_become_mark(words)


def test_endless_markup_is_read_to_its_end() -> None:
    for text in (
        "<tool_call>{" * 4_000,
        "<think>" + "word < " * 10_000,
        "\n<think>\n" * 5_000,
        '{"name": "memory", "arguments": {"action": "' + "x" * 250_000,
        "`<" * 10_000,
        "<|channel|>analysis<|message|>" * 2_000,
        "\n" * 30_000,
        '<tool_call>{"a": "' + '\\"' * 50_000,
    ):
        answer = AnswerText(TOOLS)
        for start in range(0, len(text), 50):
            list(answer.add(text[start : start + 50]))
        list(answer.end())
        assert len(answer.text) + len(answer.reasoning) <= len(text), "nothing is said twice"


def test_the_calls_a_text_ends_with_are_found() -> None:
    text = f"I need it. {CALLS['Kimi K2']}"
    start, calls = find_last_calls(text)
    assert (text[:start], [call.name for call in calls]) == ("I need it. ", ["functions.memory:0"])
    assert find_last_calls("Nothing.") == (8, [])
