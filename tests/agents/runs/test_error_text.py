"""What is shown of errors that programs elsewhere send."""

import pytest

from agents.runs.error_text import MAX_SUMMARY_CHARACTERS, NO_SENTENCE, read_error

PYTHON = """Traceback (most recent call last):
  File "/srv/reed/agent.py", line 12, in <module>
    main()
  File "/srv/reed/agent.py", line 9, in main
    raise RuntimeError("The bed is full.")
RuntimeError: The bed is full."""
NODE = """Error: connect ECONNREFUSED 127.0.0.1:11434
    at TCPConnectWrap.afterConnect [as oncomplete] (node:net:1606:16)
    at process.processTicksAndRejections (node:internal/process/task_queues:95:5)"""
JAVA = """java.lang.IllegalStateException: No model is loaded.
\tat com.example.Agent.answer(Agent.java:42)
\t... 12 more"""
REFUSAL = '{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded, try later."}}'


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ("The model did not answer: it is out of memory.", "The model did not answer: it is out of memory."),
        (
            f"The command failed (exit code 1).\n{PYTHON}",
            "The command failed (exit code 1): RuntimeError: The bed is full.",
        ),
        (PYTHON, "Its program failed: RuntimeError: The bed is full."),
        (f"The command failed: {PYTHON}", "The command failed: RuntimeError: The bed is full."),
        (NODE, "Its program failed: Error: connect ECONNREFUSED 127.0.0.1:11434"),
        (f"claude ended with 1.\n{NODE}", "claude ended with 1: Error: connect ECONNREFUSED 127.0.0.1:11434"),
        (JAVA, "Its program failed: java.lang.IllegalStateException: No model is loaded."),
        (REFUSAL, "Overloaded, try later."),
        (f"API Error: 529 {REFUSAL}", "API Error: 529: Overloaded, try later."),
        ('{"error": "quota\\nexceeded"}', "quota exceeded"),
        ('[{"error": {"status": 400, "details": [{"reason": "API_KEY_INVALID"}], "message": ""}}]', NO_SENTENCE),
        ('{"detail": [{"loc": ["body"], "msg": "x"}]}', NO_SENTENCE),
        ('{"code": 7', NO_SENTENCE),
        ("First line.\nSecond line.\nThird line.", "First line."),
        ("Use {name} in the call.", "Use {name} in the call."),
        ("", ""),
        ("{" * 100_000, NO_SENTENCE),
        ("x" * 100_000, "x" * (MAX_SUMMARY_CHARACTERS - 1) + "…"),
        ('{"a":' * 100_000, NO_SENTENCE),
    ],
    ids=lambda value: value[:24],
)
def test_a_sentence_is_shown_and_the_rest_folded(text: str, summary: str) -> None:
    shown = read_error(text)
    assert shown.summary == summary
    assert shown.details == ("" if summary == text else text)
    assert "\n" not in shown.summary


def test_of_a_long_line_whole_sentences_are_shown() -> None:
    text = "One sentence. " * 100
    shown = read_error(text)
    assert shown.summary == ("One sentence. " * 17).strip()
    assert shown.details == text.strip()
