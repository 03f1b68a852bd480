"""Words of entries are cut by our own tokenizer and stored. What PostgreSQL cut stays until the background job has come to
a row (`openvibe.engines.search.lexeme_backfill`)."""

from django.contrib.postgres.indexes import GinIndex
from django.db import migrations, models
from django.db.models import Q
from pgtrigger.migrations import AddTrigger

from openvibe.engines.database.migration_operations import trigger
from openvibe.engines.search.lexeme_fields import LexemesField, LexemesVersionField

KEEP_LEXEMES = """
ALTER TABLE knowledge_entry ALTER COLUMN search DROP EXPRESSION;
ALTER TABLE knowledge_entry ALTER COLUMN search SET DEFAULT '', ALTER COLUMN search SET NOT NULL;
"""


class Migration(migrations.Migration):
    dependencies = [("knowledge", "0001_squashed_0005_drop_covered_indexes")]

    operations = [
        migrations.RemoveIndex(model_name="entry", name="entry_topic_words"),
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(KEEP_LEXEMES)],
            state_operations=[
                migrations.RemoveIndex(model_name="entry", name="entry_search"),
                migrations.RemoveField(model_name="entry", name="search"),
                migrations.AddField(
                    model_name="entry", name="search", field=LexemesField(sources={"topic": "AC", "content": "BD"})
                ),
                migrations.AddIndex(
                    model_name="entry",
                    index=GinIndex(fields=["search"], gin_pending_list_limit=256, name="entry_search"),
                ),
            ],
        ),
        migrations.AddField(model_name="entry", name="lexemes_version", field=LexemesVersionField()),
        migrations.AddIndex(
            model_name="entry",
            index=models.Index(condition=Q(lexemes_version=0), fields=["-id"], name="entry_lexemes_due"),
        ),
        AddTrigger(
            model_name="entry",
            trigger=trigger(
                "pgtrigger_loses_lexemes_253a1",
                "knowledge_entry",
                "BEFORE",
                'UPDATE OF "topic", "content"',
                condition="WHEN ((NEW.topic IS DISTINCT FROM OLD.topic OR NEW.content IS DISTINCT FROM OLD.content) AND NEW.search IS NOT DISTINCT FROM OLD.search)",
                func="IF NEW.topic = '' AND NEW.content = '' THEN NEW.search := ''; NEW.lexemes_version := 1; ELSE NEW.lexemes_version := 0; END IF; RETURN NEW;",
                hash="21033617ce70c39cde8d213d0601777582f844d4",
            ),
        ),
    ]
