"""What an assistant's long messages consist of: facts with questions about them, and advice on sixteen subjects.

`{name}` is a blank: of a frame it is filled from the subject's own words, of a fact from ADVICE_SLOTS."""

from typing import NamedTuple

from tests.bench.chat_texts import read_facts


class Subject(NamedTuple):
    """What advice on one subject speaks of. `things` are plural nouns, `actions` infinitives, `reasons` clauses."""

    name: str
    things: tuple[str, ...]
    actions: tuple[str, ...]
    reasons: tuple[str, ...]


def _subject(name: str, things: str, actions: str, reasons: str) -> Subject:
    return Subject(name, *(tuple(part.strip() for part in text.split(",")) for text in (things, actions, reasons)))


SUBJECTS: tuple[Subject, ...] = (
    _subject(
        "growing vegetables",
        "seedlings, raised beds, compost heaps, drip hoses, seed trays, nets, weeds",
        "thin the rows, loosen the soil, water at dusk, rotate the beds, harden off young plants, mulch with straw",
        "roots need air, frost comes back late, slugs love shelter, wet leaves invite mildew, soil tires of one crop",
    ),
    _subject(
        "learning a language",
        "flash cards, podcasts, verbs, dialogues, accents, pronouns, dictations",
        "read aloud, repeat in the evening, keep a diary, shadow a speaker, label the furniture, sing along",
        "memory fades fast, hearing comes before speaking, small habits last, mistakes teach, grammar likes stories",
    ),
    _subject(
        "planning a trip",
        "timetables, hostels, day packs, rail passes, ferries, museum passes, maps",
        "book the first night, leave a free day, copy the papers, compare the passes, pack for layers, ask the locals",
        "plans meet weather, seats sell out, borders take time, rest is part of travel, prices rise near the date",
    ),
    _subject(
        "baking bread",
        "sourdough starters, bannetons, tins, rye loaves, steam trays, flours, crusts",
        "fold the dough, weigh the salt, preheat the stone, score the loaf, chill overnight, feed the starter",
        "gluten needs rest, water differs by flour, heat escapes at the door, acid builds slowly, salt slows yeast",
    ),
    _subject(
        "saving money",
        "standing orders, receipts, subscriptions, envelopes, index funds, loans, bonuses",
        "list fixed costs, automate the transfer, cancel the unused, wait a night, compare the fees, set a target",
        "small sums add up, fees eat returns, habits beat willpower, surprises come yearly, interest compounds",
    ),
    _subject(
        "running a half marathon",
        "intervals, long runs, gels, shoes, hill repeats, rest days, splits",
        "build up slowly, run by feel, drink early, taper in time, strengthen the hips, vary the pace",
        "tendons adapt late, sleep repairs, the start tempts, heat costs pace, boredom ends plans",
    ),
    _subject(
        "repairing a bicycle",
        "chains, brake pads, spokes, bearings, cables, tyres, bottom brackets",
        "clean the drivetrain, true the wheel, grease the threads, check the wear, replace the cable, note the torque",
        "dirt grinds metal, rubber hardens, threads strip easily, slack shifts badly, rust starts inside",
    ),
    _subject(
        "teaching a class",
        "worksheets, seating plans, quizzes, group tasks, rubrics, field trips, parents",
        "start with a question, plan the pauses, mix the groups, give time to think, return marks soon, end early",
        "attention comes in waves, silence is work too, fairness is noticed, praise needs detail, noise spreads",
    ),
    _subject(
        "caring for a dog",
        "leashes, treats, crates, vaccinations, walks, toys, puppies",
        "reward at once, keep the hours, brush the coat, visit the vet, train in short bouts, meet other dogs",
        "dogs read bodies, boredom chews, fear lingers, teeth decay unseen, routine calms",
    ),
    _subject(
        "taking photographs",
        "lenses, tripods, filters, raw files, shadows, portraits, histograms",
        "move closer, wait for the light, clear the background, expose for the bright, back up twice, print a few",
        "noon flattens faces, sensors clip, memory cards fail, eyes follow lines, editing takes longer",
    ),
    _subject(
        "renovating a flat",
        "skirting boards, fuses, plaster, tiles, radiators, primers, permits",
        "draw the plan, cut the power, test the walls, order spare tiles, air the rooms, photograph the pipes",
        "old paint hides damp, dust travels, deliveries slip, floors are never level, neighbours have ears",
    ),
    _subject(
        "writing a novel",
        "chapters, drafts, scenes, villains, timelines, readers, endings",
        "write daily, cut the prologue, give wants to everybody, read dialogue aloud, keep a ledger, finish first",
        "first drafts lie, tension needs cost, readers skip weather, names confuse, distance helps",
    ),
    _subject(
        "sleeping better",
        "curtains, alarms, naps, mattresses, screens, ear plugs, routines",
        "dim the lamps, rise at one hour, cool the bedroom, stop coffee at noon, write worries down, walk in daylight",
        "light sets the clock, warmth wakes, caffeine lingers, beds become offices, snoozing fragments",
    ),
    _subject(
        "organising a festival",
        "stages, volunteers, permits, toilets, sponsors, fences, generators",
        "walk the ground, brief the helpers, mark the exits, order early, plan for rain, thank the neighbours",
        "queues sour the mood, cables trip, noise has limits, cash runs out, helpers get hungry",
    ),
    _subject(
        "brewing coffee",
        "grinders, filters, kettles, scales, beans, espresso baskets, milk jugs",
        "weigh the dose, rinse the paper, grind last, descale monthly, pour in circles, taste side by side",
        "water carries the taste, old oil turns rancid, heat scorches, fines clog, beans breathe",
    ),
    _subject(
        "keeping bees",
        "hives, frames, smokers, queens, swarms, supers, mites",
        "inspect on warm days, read the brood, mark the queen, feed after harvest, treat in winter, move calmly",
        "bees remember, damp kills sooner than cold, mites multiply, honey draws robbers, space prevents swarming",
    ),
)

FRAMES: tuple[str, ...] = tuple(
    """
Before you {action}, have a look at the {thing}, because {reason}.
Most people begin with the {thing} and only later {action}; the other way round works better.
If the {thing} give you trouble, {action} first and wait a few days.
It pays to {action} even when nothing seems wrong, since {reason}.
The {thing} matter less than one thinks, but {reason}, so do not skip them entirely.
I would keep the {thing} simple at the beginning and {action} once a week.
There are two schools here: some always {action}, others swear by their {thing}.
As {reason}, it is wise to {action} and to keep spare {thing} at hand.
You can borrow {thing} before you buy any, and {action} in the meantime.
Do not worry about perfect {thing}; {reason}, and everybody starts somewhere.
When in doubt, {action}, note what happens, and compare it with the week before.
A common mistake is to buy expensive {thing} and then forget to {action}.
Remember that {reason}, which is why the {thing} deserve a second look.
With {subject}, patience is half of it: {action}, and let the {thing} be for a while.
Once a month, go through your {thing} and {action} where it is needed.
Some {thing} are sold as essential, yet to {action} costs nothing and helps more.
Whether you {action} in the morning or in the evening hardly matters, but {reason}.
Ask somebody with experience in {subject} to look at your {thing}; ten minutes of that save hours.
""".strip().splitlines()
)

ITEMS: tuple[str, ...] = (
    "**{Thing}**: {action}, because {reason}.",
    "{Action} before anything else.",
    "Check the {thing}; {reason}.",
    "{Thing} go on the list for later.",
    "{Action} and write down how it went.",
    "Fewer {thing}, better ones.",
)

LEADS: tuple[str, ...] = (
    "Good question. Here is how I would go about {subject}.",
    "Happy to help with {subject}. Let me go through it step by step.",
    "There is no single answer for {subject}, but these points come up again and again.",
    "Thanks for the details. For {subject} in your situation I would think along these lines.",
    "Let us break {subject} down into parts that can be done one after the other.",
)
LIST_LEADS: tuple[str, ...] = (
    "In short:",
    "A possible order:",
    "What to keep in mind:",
    "### Checklist",
    "Next steps:",
)
ENDINGS: tuple[str, ...] = (
    "Tell me how far you get, and we can adjust it.",
    "If something in there does not fit, say so and I will rework it.",
    "Shall I turn this into a plan for the coming weeks?",
    "Let me know which part you would like in more detail.",
)
REQUESTS: tuple[str, ...] = (
    "Can you give me an overview of {subject}? I am mostly unsure about the {thing}.",
    "I tried to {action} as you said. What about the {thing}?",
    "My problem with {subject} at the moment: the {thing}. What would you do next?",
    "Somebody told me that {reason}. Is that true, and should I {action}?",
    "Please make me a list for {subject}, with {thing} and whatever else belongs to it.",
    "Going on with {subject}: how often should I {action}?",
    "I have an hour on the weekend for {subject}. Where do I start, with the {thing}?",
    "Back to {subject}. The {thing} are done, what comes after?",
)

QUESTION_FRAMES: tuple[str, ...] = (
    "{question}",
    "Going back to what we said about {subject}: {question}",
    "You gave me advice on {subject} some time ago. {question}",
    "I am doing it now, {subject} I mean, and can't find your answer any more. {question}",
    "Remind me, when we talked about {subject} and you made a list, {question}",
)

ADVICE_SLOTS: dict[str, tuple[str, ...]] = {
    "number": ("3", "5", "8", "12", "16", "18", "24", "35", "42", "60", "75", "90"),
    "percent": ("4", "7", "12", "15", "22", "28", "33", "65", "68", "72", "78"),
    "price": ("35", "60", "95", "140", "220", "380", "520", "760", "1,300"),
    "month": ("February", "March", "May", "June", "August", "September", "November"),
    "town": ("Trieste", "Bruges", "Tromsø", "Évora", "Gdańsk", "Cork", "Maribor", "Uppsala"),
    "variety": ("Black Krim", "Sungold", "San Marzano", "Green Zebra", "Brandywine"),
    "tool": ("torque wrench", "broadfork", "spirit level", "refractometer", "spoke key", "hive tool", "bench scraper"),
    "author": ("Lindqvist", "Okafor", "Tanaka", "Bellamy", "Moreau", "Castellanos"),
    "brand": ("Fjordlin", "Kestrel", "Ombra", "Tallow & Rye", "Nordhus", "Pinecrest"),
    "breed": ("whippet", "collie", "spaniel", "poodle", "terrier", "husky"),
    "grain": ("spelt", "einkorn", "rye", "emmer", "barley", "kamut"),
    "bean": ("Yirgacheffe", "Huila", "Antigua", "Sidamo", "Mandheling"),
    "unit": ("grams", "litres", "minutes", "centimetres", "hours"),
    "character": ("Marguerite", "Old Pell", "Inspector Vane", "the ferryman", "Doctor Ilse"),
}

ADVICE_FACTS = read_facts("advice_facts.txt")
"""The facts by subject."""
