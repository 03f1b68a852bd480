"""Twenty facts told in a conversation, each asked for, and what a right answer holds."""

import re
from typing import NamedTuple


class Fact(NamedTuple):
    """`speaker` told it; `answer` is found in a right answer, in any case."""

    speaker: str
    told: str
    question: str
    answer: str

    def is_in(self, text: str) -> bool:
        return re.search(self.answer, text, re.IGNORECASE) is not None


FACTS = (
    Fact("Ana", "The spare key lies under the blue pot.", "Where is the spare key?", r"blue pot"),
    Fact(
        "Dora", "The beans come up in the third bed, by the wall.", "In which bed do the beans grow?", r"\bthird|\b3\b"
    ),
    Fact(
        "Ana",
        "The seed shop in Harwich closes at four on Fridays.",
        "When does the seed shop close on Fridays?",
        r"four|\b4",
    ),
    Fact("Emil", "I paid 38 euros for the new hose.", "How much did the new hose cost?", r"\b38\b"),
    Fact(
        "Dora",
        "Our neighbour with the ladder is called Mr Kowalski.",
        "What is the neighbour with the ladder called?",
        r"Kowalski",
    ),
    Fact("Ana", "The code of the shed is 4417.", "What is the code of the shed?", r"4417"),
    Fact("Emil", "The apple tree is a Gravenstein.", "Which kind of apple tree do we have?", r"Gravenstein"),
    Fact(
        "Ana",
        "The compost is turned every second Sunday.",
        "On which day of the week is the compost turned?",
        r"Sunday",
    ),
    Fact("Dora", "The pump takes a fuse of 16 amperes.", "What fuse does the pump take?", r"\b16\b|sixteen"),
    Fact("Emil", "The hens are fed by Priya while I am away.", "Who feeds the hens while Emil is away?", r"Priya"),
    Fact(
        "Ana", "The meeting of the allotment is on 12 May.", "On what date is the meeting of the allotment?", r"\b12\b"
    ),
    Fact(
        "Dora",
        "The greenhouse must stay above 9 degrees.",
        "Above how many degrees must the greenhouse stay?",
        r"\b9\b|nine",
    ),
    Fact("Emil", "The van is parked in Mill Lane.", "Where is the van parked?", r"Mill Lane"),
    Fact("Ana", "The roses were pruned by Tomas in February.", "Who pruned the roses?", r"Tomas"),
    Fact("Dora", "Our bees live in six hives.", "How many hives do our bees live in?", r"\bsix\b|\b6\b"),
    Fact("Emil", "The paint for the gate is dark green.", "Which colour is the paint for the gate?", r"green"),
    Fact(
        "Ana",
        "The water is turned off on Tuesdays in the morning.",
        "On which day is the water turned off?",
        r"Tuesday",
    ),
    Fact(
        "Dora",
        "The strawberries are covered with straw from Bremen.",
        "Where does the straw for the strawberries come from?",
        r"Bremen",
    ),
    Fact("Emil", "The old mower was sold to Ingrid.", "To whom was the old mower sold?", r"Ingrid"),
    Fact(
        "Ana",
        "The first frost came on 3 November last year.",
        "When did the first frost come last year?",
        r"3\W+Nov|Nov\w*\W+3|third",
    ),
)
assert len(FACTS) == 20
