"""What can be wrong with a SOUL, said so that its author can mend it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing to mend. `line` counts from 1; 0 means the SOUL did not come from a text.

    `field` is a dotted path such as `constraints.escalation_rules[0].action`, empty for the whole text.
    """

    line: int
    field: str
    message: str

    def __str__(self) -> str:
        where = ", ".join(part for part in (f"line {self.line}" if self.line else "", self.field) if part)
        return f"{where}: {self.message}" if where else self.message


class SoulError(ValueError):
    """The SOUL cannot be used. `problems` holds every problem found, in the order of the text."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))
