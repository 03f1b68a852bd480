"""The words the rule knows: stop words, generic nouns, verbs, denials, opposites, contrasts. English. Pure."""

from __future__ import annotations

_STOP = """
a an the this that these those our your their its his her my we you they it he she i us them of in on at to for from
by with as and or but so if then than when while which who whose what there here is are was were be been being am
has have had having will would shall should must may might can could do does did done also just only very each every
all any some both per about please currently now today still already after before within until since during into
over under up out more less most least up same such own other others everything everybody always ever again new
current longer anymore yet
"""
STOP = frozenset(_STOP.split())

_GENERIC = """
price cost fee charge rate plan tier pricing budget limit deadline date time day number amount total policy rule
period window term team people staff everyone value size length maximum minimum max min cap level status state
setting default version thing item entry customer user member client employee company call cost
"""
GENERIC = frozenset(_GENERIC.split())
"""Nouns that name an attribute rather than the thing that has it."""

_VERBS = """
is are was were be has have had will shall must may can cannot should does do did cost costs take takes run runs use
uses need needs require requires get gets include includes start starts begin begins end ends close closes open
opens expire expires ship ships happen happens last lasts allow allows hold holds support supports go goes move
moved moves pay pays offer offers keep keeps stay stays remain remains equal equals mean means give gives charge
charges receive receives launch launches meet meets serve serves listen listens deploy deploys fall falls rise rises
grow grew grows host hosts answer answers reply replies respond responds retain retains store stores accept accepts
reject rejects lie lies sit sits live lives release releases renew renews contain contains cover covers return
returns send sends report reports permit permits isn't aren't don't doesn't didn't can't won't mustn't shouldn't
wasn't weren't hasn't haven't
"""
VERBS = frozenset(_VERBS.split())
"""Where one of these stands, with something before it, the subject ends."""

_NOT = """
not no never none neither nor cannot without isn't aren't don't doesn't didn't can't won't mustn't shouldn't wasn't
weren't hasn't haven't couldn't wouldn't
"""
NOT = frozenset(_NOT.split())

_DENIES = """
forbidden prohibited disallowed banned forbid prohibit disabled disable off optional closed unsupported unavailable
impossible exclude excluded rejected declined false inactive paid public refused refuse reject denied discontinued
deprecated unlimited invalid unsafe insecure incompatible
"""
DENIES = frozenset(_DENIES.split())
"""Of each pair of opposites, the word that says no."""

SAME = {
    "fee": "price", "cost": "price", "charge": "price", "pricing": "price", "priced": "price", "rate": "rate",
    "reply": "answer", "respond": "answer", "response": "answer", "vacation": "holiday", "leave": "holiday",
    "employee": "staff", "begin": "start", "launch": "release", "ship": "release", "deliver": "release", "shipped":
    "release", "meet": "meeting", "due": "deadline", "client": "customer", "max": "maximum", "min": "minimum",
    "logon": "login", "sign-in": "login", "retain": "keep", "kept": "keep", "store": "keep", "retention": "keep",
    "timeout": "limit", "cap": "limit", "signup": "register", "host": "run", "ran": "run",
}  # fmt: skip
"""Words that mean the same here."""

OPPOSITES = {
    "forbidden": "allowed", "prohibited": "allowed", "disallowed": "allowed", "banned": "allowed", "forbid":
    "allowed", "prohibit": "allowed", "permitted": "allowed", "permit": "allowed", "allow": "allowed", "disabled":
    "enabled", "disable": "enabled", "enable": "enabled", "off": "enabled", "on": "enabled", "optional": "required",
    "mandatory": "required", "require": "required", "need": "required", "closed": "open", "unsupported": "supported",
    "support": "supported", "unavailable": "available", "impossible": "possible", "exclude": "include", "excluded":
    "include", "included": "include", "rejected": "approved", "declined": "approved", "false": "true", "inactive":
    "active", "paid": "free", "public": "private", "accept": "accepted", "refused": "accepted", "refuse": "accepted",
    "reject": "accepted", "denied": "approved", "discontinued": "available", "deprecated": "supported", "down": "up",
    "unlimited": "limited", "invalid": "valid", "unsafe": "safe", "insecure": "secure", "incompatible": "compatible",
}  # fmt: skip
"""Each word of a pair of opposites, and the one that says yes."""

_CONTRASTS = """
staging production development test testing sandbox demo preview prod dev
starter basic free pro plus premium business enterprise team standard gold silver bronze hobby scale
internal external
frontend backend
ios android web desktop mobile windows linux macos
monthly annual annually yearly weekly daily quarterly hourly month year
inbound outbound
read write
upload download
junior senior lead
summer winter spring autumn
morning afternoon evening night
first second third fourth last next previous
europe eu us usa uk asia africa america germany france
full-time part-time
admin guest member owner
buyer seller
student teacher
adult child children
after within
before after
minimum maximum
remote onsite office home
primary secondary backup
request response
gross net
east west north south
weekday weekend
cat dog
draft final
small medium large
domestic international
average median peak
planned actual
red green blue
old legacy
hardware software
revenue profit cost
open close
lower upper
start end
"""
CONTRASTS = tuple(frozenset(line.split()) for line in _CONTRASTS.splitlines() if line)
"""Groups of which a thing is one or the other: what is said of one says nothing of the others."""
