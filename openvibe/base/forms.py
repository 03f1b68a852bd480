"""Forms of pages that call a service, and of rows: within one workspace, with a secret that never comes out."""

from typing import Any, NamedTuple

from django import forms
from django.core.exceptions import ValidationError
from django.db import models

from openvibe.base.problems import Problem
from openvibe.engines.database.fields import UnreadableSecret, secret_hint


class ServiceForm(forms.Form):
    """A form whose values the service checks, with the words it has for everybody. What it refuses stands at the field
    it is about, and everything typed stays."""

    refusal_status = 400

    def add_problem(self, problem: Problem) -> None:
        self.refusal_status = problem.status
        self.add_error(problem.field if problem.field in self.fields else None, problem.message)

    @property
    def status(self) -> int:
        """The HTTP status of the answer that shows the form."""
        return self.refusal_status if self.errors else 200


class SameWorkspaceForm(forms.ModelForm):  # type: ignore[type-arg]  # generic in the stubs alone
    """Refuses choices from two workspaces in one row, whoever makes them."""

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        fields = self.cleaned_data
        workspace_id = getattr(fields.get("workspace"), "pk", None) or getattr(self.instance, "workspace_id", None)
        for name, value in fields.items():
            for choice in value if isinstance(value, models.QuerySet) else [value]:
                chosen_workspace_id = getattr(choice, "workspace_id", None)
                if workspace_id is None:
                    workspace_id = chosen_workspace_id
                elif chosen_workspace_id not in (None, workspace_id):
                    self.add_error(name, ValidationError(f"{choice} belongs to another workspace."))
        return cleaned


class StoredSecretForm(SameWorkspaceForm):
    """A row with one secret, which goes in and never comes out: a new one, the stored one, or with `forget` none.

    A stored one is only for the address it was entered for: where `address_names` change it has to be entered again.
    """

    secret_name: str
    address_names: frozenset[str]
    forget = forms.BooleanField(required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial.pop(self.secret_name, None)
        field, secret = self.fields[self.secret_name], getattr(self.instance, self.secret_name)
        noun = str(field.label).lower()
        self.fields["forget"].label = f"Forget the stored {noun}"
        hint = secret_hint(secret, noun)
        field.help_text = f"A {noun} ending in {hint} is stored. Leave this empty to keep it."
        if isinstance(secret, UnreadableSecret):
            field.help_text = (
                f"The stored {noun} cannot be read: the server's secret key is another one now. Enter the {noun} again."
            )
        elif not hint:
            field.help_text = f"No {noun} is stored."

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        forgets = self.cleaned_data.get("forget") or self.address_names & set(self.changed_data)
        stored = "" if forgets else getattr(self.instance, self.secret_name)
        self.cleaned_data[self.secret_name] = self.cleaned_data.get(self.secret_name) or stored
        return cleaned


class FieldChange(NamedTuple):
    """What a form changed of one field, in words; nothing of a secret but that there is another one."""

    name: str
    label: str
    before: str
    after: str


SECRET_FIELDS = frozenset(("api_key", "token", "new_password", "forget"))


def field_changes(form: forms.BaseForm) -> list[FieldChange]:
    """What a valid form changes, field by field, for the audit log."""
    changes = []
    for name in (name for name in form.changed_data if name in form.fields):
        is_secret = name in SECRET_FIELDS
        before = "" if is_secret else _in_words(_initial_value(form, name))
        after = "another one" if is_secret else _in_words(form.cleaned_data.get(name))
        if before != after:
            changes.append(FieldChange(name, str(form.fields[name].label or name).lower(), before, after))
    return changes


def _initial_value(form: Any, name: str) -> object:
    """What the field held: a row where it is one's id."""
    value, field = form.initial.get(name), form.fields[name]
    is_id = isinstance(field, forms.ModelChoiceField) and isinstance(value, int)
    return field.queryset.filter(pk=value).first() if is_id else value


def _in_words(value: object) -> str:
    """A form's value: numbers with separators, rows by their name."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value or "nothing")
