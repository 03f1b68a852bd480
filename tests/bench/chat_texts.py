"""Sentences that made-up chats consist of: facts with questions about them, small talk, and advice.

`{name}` is a blank to be filled from SLOTS; `{me}` is whoever says the sentence."""

from pathlib import Path
from typing import NamedTuple

SLOTS: dict[str, tuple[str, ...]] = {
    "tool": ("ladder", "cordless drill", "hedge trimmer", "tile cutter", "wheelbarrow", "pressure washer", "jigsaw"),
    "place": ("garage", "attic", "cellar", "tool shed", "laundry room", "balcony cupboard", "hallway", "boiler room"),
    "plant": ("lemon tree", "fern", "monstera", "rosemary", "orchid", "fig tree", "lavender", "bay laurel"),
    "city": ("Lisbon", "Turin", "Ghent", "Aarhus", "Kraków", "Porto", "Leipzig", "Lyon", "Bergen", "Galway"),
    "country": ("Portugal", "Norway", "Slovenia", "Japan", "Canada", "Morocco", "Scotland", "Iceland", "Peru"),
    "month": ("January", "February", "March", "April", "May", "June", "July", "September", "October", "November"),
    "weekday": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"),
    "person": ("Irene", "Tobias", "Mirko", "Salma", "Pilar", "Henning", "Aroha", "Kofi", "Lucie", "Bjarne"),
    "relative": ("sister", "brother", "cousin", "aunt", "uncle", "niece", "grandmother", "father-in-law"),
    "dish": ("lasagne", "ramen", "pea soup", "paella", "shakshuka", "mushroom risotto", "pad thai", "dumplings"),
    "food": ("walnuts", "shellfish", "sesame", "celery", "strawberries", "lupin flour", "raw onions", "kiwi"),
    "drink": ("oat flat white", "ginger tea", "tonic water", "cold cocoa", "chai", "elderflower spritz"),
    "colour": ("dark green", "terracotta", "pale yellow", "navy blue", "off-white", "plum", "grey-blue", "ochre"),
    "animal": ("tortoise", "greyhound", "parrot", "tabby", "rabbit", "dachshund", "budgie", "gecko"),
    "pet_name": ("Pixel", "Biscuit", "Moppet", "Sultan", "Nelly", "Tango", "Radish", "Comet", "Waffle"),
    "book": ("The Salt Road", "Nine Winters", "A House of Reeds", "Glass Harbour", "The Quiet Ledger", "Low Tide"),
    "film": ("Paper Moons", "The Lighthouse Men", "Second Snow", "Orchard Street", "The Last Ferry"),
    "band": ("Velvet Kiosk", "Paper Foxes", "The Night Buses", "Copper Rain", "Small Comets"),
    "instrument": ("cello", "accordion", "clarinet", "bass guitar", "harmonica", "banjo", "piano"),
    "sport": ("bouldering", "fencing", "rowing", "badminton", "judo", "table tennis", "water polo"),
    "joint": ("left knee", "right shoulder", "ankle", "wrist", "lower back", "left hip", "elbow"),
    "doctor": ("dentist", "eye doctor", "physiotherapist", "dermatologist", "allergist", "vet"),
    "vehicle": ("van", "old Saab", "cargo bike", "scooter", "camper", "hatchback", "folding bike"),
    "street": ("Mill Lane", "Harbour Street", "Linden Square", "Canal Road", "Chapel Hill", "Station Row"),
    "number": ("3", "4", "6", "7", "9", "11", "14", "17", "22", "26", "31", "38"),
    "price": ("40", "65", "85", "120", "180", "240", "310", "475", "690", "1,150"),
    "hour": ("6:15", "7:40", "8:30", "10:45", "12:20", "14:10", "16:50", "18:05", "19:35", "21:15"),
    "code": ("4-7-1-9", "88-20", "5530", "0917", "6641", "2-2-8-3", "7405", "1352"),
    "material": ("birch plywood", "slate", "cork", "linen", "stainless steel", "oak", "recycled glass"),
    "room": ("kitchen", "bathroom", "study", "guest room", "stairwell", "nursery", "workshop"),
    "appliance": ("dishwasher", "washing machine", "oven", "freezer", "dryer", "coffee machine", "heat pump"),
    "language": ("Portuguese", "Danish", "Korean", "Welsh", "Arabic", "Polish", "Swahili"),
    "course": ("pottery", "first aid", "bookkeeping", "life drawing", "beekeeping", "bread baking", "sailing"),
    "company": ("Norvik Logistics", "Brightwell Labs", "Alder & Finch", "Tessera Print", "Morrow Dental"),
    "job": ("surveyor", "sound engineer", "midwife", "paralegal", "pastry chef", "bus driver", "archivist"),
    "gift": ("telescope", "bird feeder", "fountain pen", "hiking map", "enamel teapot", "chess clock", "wool blanket"),
    "charity": ("the food bank", "the animal shelter", "the sea rescue", "the youth orchestra", "the repair café"),
    "museum": ("tram museum", "maritime museum", "glass museum", "textile museum", "print museum"),
    "trail": ("Heron Loop", "Old Quarry Path", "Ridge Walk", "Three Bridges Trail", "Monk's Way"),
    "device": ("tablet", "router", "projector", "e-reader", "label printer", "thermostat", "smart plug"),
    "supplier": ("Hartmann", "Osei & Sons", "Green Valley", "Pettersson", "Delta Timber", "Marchetti"),
    "project": ("the fence", "the bunk bed", "the greenhouse", "the newsletter", "the allotment", "the street party"),
    "festival": ("lantern festival", "cheese market", "boat parade", "book fair", "harvest supper"),
    "weather": ("drizzle", "fog", "a heatwave", "sleet", "a thunderstorm", "strong wind"),
    "size": ("36", "38", "41", "43", "XL", "size 9", "medium", "128 cm"),
    "garment": ("rain jacket", "ski boots", "wetsuit", "choir dress", "work trousers", "running shoes"),
    "subject": ("chemistry", "geography", "Latin", "statistics", "woodwork", "ethics"),
    "game": ("backgammon", "canasta", "Catan", "dominoes", "darts", "pinball"),
    "train": ("night train", "regional express", "early ferry", "airport coach", "tram"),
    "adjective": ("lovely", "odd", "quiet", "busy", "long", "decent", "messy", "slow", "great", "so-so"),
}


class Fact(NamedTuple):
    """A fact, asked for in its own words and in others; and a sentence on the same matter that does not tell it."""

    statement: str
    question: str
    paraphrase: str = ""
    mention: str = ""


def read_texts(file: str) -> dict[str, tuple[str, ...]]:
    """The lines of a file of `texts` by subject: `# subject` on a line of its own, then its lines."""
    texts: dict[str, tuple[str, ...]] = {}
    subject = ""
    for line in (Path(__file__).parent / "texts" / file).read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            subject = line.removeprefix("# ")
        else:
            texts[subject] = (*texts.get(subject, ()), line)
    return texts


def read_facts(file: str) -> dict[str, tuple[Fact, ...]]:
    """The facts of a file of `texts` by subject: a fact on each line, its parts between bars."""
    return {subject: tuple(Fact(*line.split("|")) for line in lines) for subject, lines in read_texts(file).items()}


FACTS = read_facts("facts.txt")[""]

SMALL_TALK: tuple[str, ...] = tuple(
    """
Good morning everybody
How was your {weekday}?
It was {adjective}, thanks
Such {adjective} weather, {weather} all day
I am making {dish} tonight, who wants some?
Has anybody seen {film}?
I watched half of {film} and fell asleep
{person} says hello
Did {person} call you back?
Not yet, I will try again on {weekday}
I need more {drink} and less work
The {train} is late, again
I will be there around {hour}
Running {number} minutes late, sorry
No worries, take your time
Can we talk on {weekday} instead?
{weekday} works for me
I have to check with my {relative}
My {relative} is in town this week
The market had {food} for almost nothing
Never buying {food} there again
My {plant} is not doing well
Water it less, that is always it
I watered the {plant} and now it looks worse
The {animal} next door barks, or whatever it does, all night
{pet_name} stole my sandwich
Ha, that sounds like {pet_name}
Please send pictures of {pet_name}
I think I have a cold coming
Drink ginger tea and sleep
The meeting took {number} hours
A {adjective} meeting about nothing
Who is in for {game} later?
Count me in
Not today, too tired
I started {book}, a bit {adjective} so far
It gets better after chapter {number}
The {appliance} broke, of course on a {weekday}
Did you try turning it off and on?
Twice, and then I kicked it
The neighbours are renovating their {room}
What colour would you take for a {room}?
Not {colour}, please
I found {colour} curtains, quite {adjective}
How is your {relative} doing?
Better, home since {weekday}
So glad to hear that
Do we need anything from the shop?
Milk, bread and something sweet
I am at {street}, the road is closed
Go round by the canal then
{sport} was {adjective} today
I can't feel my legs after {sport}
Next time I come along to {sport}
The {festival} is soon, isn't it?
I hope for better weather than last year
{band} again, you never get tired of them
What is on your mind?
Thinking about {country} all the time
We should all go to {country} one day
It is {price} euros for a flight, I looked
That is a lot of money
My {vehicle} made it up the hill, barely
I cycled in {weather}, never again
The kids have {subject} tomorrow and no idea
School again, the holidays were too short
I practise {language} on the bus, people stare
How do you say thank you in {language}?
I forgot my umbrella at {company}
The people at {company} were {adjective}
A {job} came by and asked for you
I am reading about {course}, it is fascinating
You always start {adjective} new things
True, and I finish half of them
The {museum} has a new exhibition
We could go on {weekday} after lunch
The {trail} was closed because of {weather}
Then take the other path
My {device} died at {number} percent
Mine needs charging twice a day
I lost a glove somewhere near {street}
Somebody left a {garment} in the hallway
Not mine, wrong size
Found a {gift} on the flea market for {number} euros
What a bargain
I dreamt I had to play the {instrument} on stage
That is a nightmare
I said yes to too many things this {month}
{month} is always like that
Let us look at {project} on {weekday}
I have not touched {project} for days
Still waiting for {supplier} to answer
They never pick up the phone
I am so full of {dish}
Leave me some
The {tool} is heavier than I remembered
Careful with your {joint}
My {joint} hurts when it rains
You sound like my {relative}
I booked nothing yet, prices are {adjective}
Wait until {month}, it gets cheaper
Did it rain at yours?
Only {weather}, nothing serious
Sleep well everybody
See you on {weekday}
Thank you for yesterday, it was {adjective}
Happy birthday, {person}!
Congratulations, that is wonderful
I am sorry to hear that
Tell me more when we meet
I will write it down this time
What did the {doctor} say?
Nothing new, come back in {month}
""".strip().splitlines()
)

REACTIONS: tuple[str, ...] = (
    "Ha",
    "ok",
    "Same here",
    "Really?",
    "Oh no",
    "Nice",
    "Yes please",
    "No idea",
    "I think so",
    "Of course",
    "lol",
    "Good point",
    "Wow",
    "Not sure",
    "Sounds good",
    "On my way",
    "Sure",
    "Why?",
    "When?",
    "Me too",
    "👍",
    "❤️",
    "Fine by me",
    "You are right",
    "Sorry, was away",
    "Hm",
    "Let me see",
    "Thanks!",
    "That is true",
    "Never mind",
)

OPENERS: tuple[str, ...] = (
    "",
    "",
    "",
    "",
    "By the way: ",
    "Oh, and one more thing. ",
    "News: ",
    "You won't believe it. ",
    "Finally! ",
    "So, ",
    "Just so you know, ",
    "Sorry for the silence. ",
    "Update from me: ",
    "Guess what. ",
)
CLOSERS: tuple[str, ...] = (
    "",
    "",
    "",
    "",
    " 🙂",
    ", can you imagine?",
    ". More later",
    ". What about you?",
    ", finally",
    ". Took me long enough",
    ". Don't laugh",
    ". I told you",
    ". Long story",
)
