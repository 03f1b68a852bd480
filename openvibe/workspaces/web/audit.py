"""The audit log of a workspace, for owners and admins: a page with filters, and the same rows as a file."""

import csv
import io
import json
from collections.abc import Iterable, Iterator

from django import forms
from django.http import HttpResponseBase, StreamingHttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from openvibe.base.audit import AuditAction, record_audit
from openvibe.base.models import AuditRecord
from openvibe.base.params import int_param
from openvibe.base.problems import Problem, Refused
from openvibe.engines.text.cleaning import escape_formula
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view
from openvibe.workspaces.queries import audit_records

PAGE_SIZE = 50
CONTENT_TYPES = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}
COLUMNS = ("when", "who", "what", "subject", "before", "after", "note")


class AuditFilter(forms.Form):
    who = forms.CharField(required=False, max_length=80, label="Who (name or handle)")
    what = forms.ChoiceField(required=False, label="What", choices=[("", "Everything"), *AuditAction.choices])
    since = forms.DateField(required=False, label="From", widget=forms.DateInput({"type": "date"}, format="%Y-%m-%d"))
    until = forms.DateField(required=False, label="To", widget=forms.DateInput({"type": "date"}, format="%Y-%m-%d"))


@workspace_view
@require_safe
def audit_log(request: WorkspaceRequest) -> HttpResponseBase:
    """The newest first, `?before=` an id the older ones; with `?format=` csv or jsonl all that the filters leave."""
    if not request.access.administers:
        raise Refused("Only owners and admins read the audit log. Ask one of them.")
    form = AuditFilter(request.GET)
    rows = audit_records(request.access, **form.cleaned_data) if form.is_valid() else AuditRecord.objects.none()
    if (file_format := request.GET.get("format")) is not None and form.is_valid():
        return _export(request, rows, file_format)
    if (before := int_param(request.GET, "before")) is not None:
        rows = rows.filter(pk__lt=before)
    records = list(rows[: PAGE_SIZE + 1])
    query = request.GET.copy()
    for name in ("before", "format"):
        query.pop(name, None)
    page = {
        "form": form,
        "records": records[:PAGE_SIZE],
        "older": records[PAGE_SIZE - 1].pk if len(records) > PAGE_SIZE else None,
        "query": query.urlencode(),
        "is_filtered": any(form.data.get(name) for name in form.fields),
    }
    return render(request, "workspaces/audit.html", page, status=200 if form.is_valid() else 400)


def _export(request: WorkspaceRequest, rows: Iterable[AuditRecord], file_format: str) -> HttpResponseBase:
    if file_format not in CONTENT_TYPES:
        raise Problem("A file is csv or jsonl.", code="bad_format", field="format")
    record_audit(
        AuditAction.EXPORT,
        workspace_id=request.workspace.pk,
        by=request.access,
        subject="the audit log",
        after=f"as {file_format}",
    )
    cells = map(_cells, rows)
    lines = _csv_lines(cells) if file_format == "csv" else (json.dumps(row, ensure_ascii=False) + "\n" for row in cells)
    response = StreamingHttpResponse(lines, content_type=CONTENT_TYPES[file_format])
    response.headers["Content-Disposition"] = f'attachment; filename="{request.workspace.slug}-audit.{file_format}"'
    return response


def _cells(record: AuditRecord) -> dict[str, str]:
    words = (record.actor, record.action, record.subject, record.before, record.after, record.note)
    return dict(zip(COLUMNS, (record.created_at.isoformat(), *words), strict=True))


def _csv_lines(rows: Iterable[dict[str, str]]) -> Iterator[str]:
    yield ",".join(COLUMNS) + "\r\n"
    for row in rows:
        line = io.StringIO()
        csv.writer(line).writerow(escape_formula(row[name]) for name in COLUMNS)
        yield line.getvalue()
