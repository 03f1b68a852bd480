"""Forms of pages that call a service."""

from django import forms

from openvibe.base.problems import Problem


class ServiceForm(forms.Form):
    """A form whose values the service checks, with the words it has for everybody. What it refuses stands at the field
    it is about, and everything typed stays."""

    refusal_status = 400

    def add_problem(self, problem: Problem) -> None:
        self.refusal_status = problem.status
        self.add_error(problem.field if problem.field in self.fields else None, problem.message)

    @property
    def status(self) -> int:
        """Of the answer that shows the form."""
        return self.refusal_status if self.errors else 200
