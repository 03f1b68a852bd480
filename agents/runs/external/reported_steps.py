"""Steps that an agent elsewhere reports of a run of its own: what it thinks, calls and notes, for its readers.

A step is named by a key of the agent's. Reported again it is changed, never doubled."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction
from django.utils import timezone

from agents.agent.models import Run, RunStep
from agents.agent.trust import call_kind
from agents.runs.diffs import cut_diff
from agents.runs.store import lock_external_run
from agents.runs.thoughts import MAX_THOUGHT_CHARACTERS, bounded_thought, emit_step
from openvibe.base.problems import Conflict, Problem
from openvibe.engines.llm.tokens import count_tokens
from openvibe.engines.llm.transcripts import clean_name
from openvibe.engines.text.invisible import reveal_invisible
from openvibe.engines.text.masking import mask_secrets

MAX_REPORTED_STEPS = 200
"""The most steps of one run."""

MAX_STEP_CHARACTERS = 20_000
"""The most characters of a note, of arguments, and of a result."""

MAX_FILES, MAX_DIFF_CHARACTERS = 50, 20_000
"""The most files of a step, and the most of one diff that is kept."""

MAX_DIFFS_CHARACTERS = 100_000
"""The most of all diffs of a step that is kept: of what comes after, the figures."""


@transaction.atomic
def report_step(*, run: Run, key: str, kind: str, **facts: Any) -> tuple[RunStep, bool]:
    """The step as it stands now, and whether it is new. `facts`: `state`, `text`, `tool`, `tool_kind`, `arguments`,
    `result`, `files`, `seconds`; secrets in them are masked. No `files` and no `tool_kind` leave what was said before.

    Raises Conflict `run_over`, `other_kind` for a key that names a step of another kind, and `too_many_steps`; Problem
    where a thought or note has no text, or a tool no name.
    """
    current = lock_external_run(run)
    _check(kind, facts)
    step = current.own_steps.filter(key=key).first()
    if step is not None and step.kind != kind:
        raise Conflict(f"This key names a step of another kind: {step.kind}.", code="other_kind")
    if step is None and current.own_steps.count() >= MAX_REPORTED_STEPS:
        raise Conflict(f"A run has at most {MAX_REPORTED_STEPS} steps. This one was not taken.", code="too_many_steps")
    is_new, state_before = step is None, step.state if step else ""
    step = step or RunStep(run=current, key=key, kind=kind, attempt=current.attempt, created_at=timezone.now())
    limit = MAX_THOUGHT_CHARACTERS if kind == RunStep.Kind.THOUGHT else MAX_STEP_CHARACTERS
    step.state, step.text = facts["state"], bounded_thought(facts["text"], limit)
    step.tool = clean_name(facts["tool"])[:100] if facts["tool"] else ""
    step.arguments = bounded_thought(facts["arguments"], MAX_STEP_CHARACTERS)
    step.result = bounded_thought(facts["result"], MAX_STEP_CHARACTERS)
    step.milliseconds = round(facts["seconds"] * 1000)
    step.tool_kind = call_kind(facts["tool_kind"]) if facts.get("tool_kind") else step.tool_kind
    if facts.get("files"):
        step.files = _kept_files(facts["files"])
    if kind == RunStep.Kind.THOUGHT:
        step.tokens = count_tokens(step.text)
    step.save()
    current.heard_at = timezone.now()
    current.save(update_fields=["heard_at"])
    if is_new or step.state != state_before:
        emit_step(current)
    return step, is_new


def _kept_files(files: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The files as they are kept and shown, the diffs in whole lines as far as there is room."""
    kept, room = [], MAX_DIFFS_CHARACTERS
    for file in files:
        diff = cut_diff(file["diff"].replace("\r\n", "\n"), min(MAX_DIFF_CHARACTERS, room))
        text = mask_secrets(reveal_invisible(diff.text))
        room = max(room - len(diff.text), 0)
        kept.append(
            {
                "path": mask_secrets(reveal_invisible(file["path"])),
                "diff": text,
                "added": diff.added if file.get("added") is None else file["added"],
                "removed": diff.removed if file.get("removed") is None else file["removed"],
                "unkept_lines": diff.unkept_lines,
            }
        )
    return kept


def _check(kind: str, facts: dict[str, Any]) -> None:
    if kind == RunStep.Kind.TOOL and not facts["tool"].strip():
        raise Problem("Name the tool that was called.", code="required", field="tool")
    if kind != RunStep.Kind.TOOL and not facts["text"].strip():
        raise Problem("A thought and a note have a text.", code="required", field="text")
