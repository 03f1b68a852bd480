"""`manage.py secrets reencrypt`: after the secret key changed, every stored secret is encrypted with the new one."""

from argparse import FileType
from collections import Counter
from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import models, transaction
from django.db.models import F, Value
from django.db.models.functions import Cast

from openvibe.engines.database.fields import CannotDecrypt, EncryptedTextField, reencrypt
from openvibe.engines.text.cleaning import pluralize


class Command(BaseCommand):
    help = "Encrypt stored secrets anew with today's OPENVIBE_SECRET_KEY. Safe to run again; changes all or nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        verb = parser.add_subparsers(dest="verb", required=True).add_parser("reencrypt", help="use today's key for all")
        verb.add_argument(
            "--old-key-file",
            type=FileType(encoding="utf-8", errors="replace"),
            help="file that holds an earlier secret key, besides those in OPENVIBE_SECRET_KEY_FALLBACKS",
        )
        verb.add_argument("--skip-unreadable", action="store_true", help="leave what no key reads as it is")

    def handle(self, *args: Any, old_key_file: Any, skip_unreadable: bool, **options: Any) -> None:
        old_keys = [*settings.SECRET_KEY_FALLBACKS, *([old_key_file.read().strip()] if old_key_file else [])]
        unreadable: list[str] = []
        with transaction.atomic():
            for model, field in encrypted_fields():
                counts = _reencrypt_field(model, field, [key for key in old_keys if key], unreadable)
                name = f"{model._meta.label}.{field}"
                self.stdout.write(f"{name}: {counts[True]} encrypted anew, {counts[False]} had today's key already.")
            if unreadable and not skip_unreadable:
                raise CommandError(_unreadable_sentence(unreadable, "Nothing was changed. "))
        if unreadable:
            self.stdout.write(_unreadable_sentence(unreadable, "They were left as they are. "))


def encrypted_fields() -> Iterator[tuple[type[models.Model], str]]:
    """Every encrypted field of every table."""
    for model in apps.get_models():
        for field in model._meta.local_fields:
            if isinstance(field, EncryptedTextField):
                yield model, field.name


def _reencrypt_field(
    model: type[models.Model], field: str, old_keys: list[str], unreadable: list[str]
) -> Counter[bool]:
    """How many rows were changed (True) and how many were not; what no key reads is added to `unreadable`."""
    counts: Counter[bool] = Counter()
    as_text = models.TextField()
    rows = model._default_manager.select_for_update().annotate(stored=Cast(F(field), as_text)).exclude(**{field: ""})
    for pk, stored in rows.order_by("pk").values_list("pk", "stored"):
        if not stored:
            continue
        try:
            new_value = reencrypt(stored, old_keys=old_keys)
        except CannotDecrypt:
            unreadable.append(f"{model._meta.label} {pk}")
            continue
        if new_value != stored:
            model._default_manager.filter(pk=pk).update(**{field: Value(new_value, output_field=as_text)})
        counts[new_value != stored] += 1
    return counts


def _unreadable_sentence(unreadable: list[str], outcome: str) -> str:
    names = ", ".join(unreadable[:10]) + (" …" if len(unreadable) > 10 else "")
    return (
        f"{pluralize(len(unreadable), 'secret')} can be read with none of the keys: {names}. {outcome}"
        "Give the key they were saved with (--old-key-file or OPENVIBE_SECRET_KEY_FALLBACKS), or enter them again."
    )
