"""Registers: what upper floors plug into lower ones. The lower floor owns one, the upper app's `wiring.py` fills it."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from django.core import checks
from django.core.exceptions import ImproperlyConfigured

T = TypeVar("T")


class Register(Generic[T]):
    """Items of one type, in the order they were added: that of INSTALLED_APPS. `name` is for people: its module and it.

    Filled once, from `AppConfig.ready`. A system check fails while a register is empty, unless it `may_be_empty`.
    """

    every: ClassVar[list["Register[Any]"]] = []

    def __init__(self, name: str, *, may_be_empty: bool = False) -> None:
        self.name, self.may_be_empty = name, may_be_empty
        self._items: tuple[T, ...] = ()
        Register.every.append(self)

    def __iter__(self) -> Iterator[T]:
        return iter(self._items)

    def add(self, item: T) -> None:
        self._items = (*self._items, item)

    def only(self) -> T:
        """The one item of a register that takes one. Raises ImproperlyConfigured when there is none or another."""
        if len(self._items) != 1:
            raise ImproperlyConfigured(f"{self.name} holds {len(self._items)} items and needs exactly one.")
        return self._items[0]


@checks.register
def check_registers(app_configs: Sequence[Any] | None = None, **_: Any) -> list[checks.CheckMessage]:
    """One error for each empty register."""
    return [
        checks.Error(
            f"{register.name} is empty.",
            hint="Add to it in the wiring.py of the app that fills it, called from its AppConfig.ready.",
            id="openvibe.E001",
        )
        for register in Register.every
        if not register.may_be_empty and not list(register)
    ]
