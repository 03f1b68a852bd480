"""Words of messages and titles are cut by our own tokenizer and stored. What PostgreSQL cut stays until the background job
has come to a row (`openvibe.engines.search.lexeme_backfill`): no row is rewritten here but those of threads."""

from django.contrib.postgres.indexes import GinIndex
from django.db import migrations, models
from django.db.models import Q
from pgtrigger.migrations import AddTrigger, RemoveTrigger

from openvibe.engines.database.migration_operations import trigger
from openvibe.engines.search.lexeme_fields import LexemesField, LexemesVersionField

KEEP_MESSAGE_LEXEMES = """
ALTER TABLE chat_message ALTER COLUMN search DROP EXPRESSION;
ALTER TABLE chat_message ALTER COLUMN search SET DEFAULT '', ALTER COLUMN search SET NOT NULL;
"""
MAKE_TITLE_LEXEMES = """
ALTER TABLE chat_thread ADD COLUMN search tsvector NOT NULL
GENERATED ALWAYS AS (setweight(to_tsvector('simple'::regconfig, title), 'A')) STORED;
ALTER TABLE chat_thread ALTER COLUMN search DROP EXPRESSION;
ALTER TABLE chat_thread ALTER COLUMN search SET DEFAULT '';
"""


class Migration(migrations.Migration):
    dependencies = [("chat", "0017_documents"), ("workspaces", "0002_invitation_squashed_0012_names_that_look_alike")]

    operations = [
        RemoveTrigger(model_name="message", name="tell_change"),
        migrations.RemoveIndex(model_name="thread", name="thread_title_words"),
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(KEEP_MESSAGE_LEXEMES), migrations.RunSQL(MAKE_TITLE_LEXEMES)],
            state_operations=[
                migrations.RemoveIndex(model_name="message", name="message_search"),
                migrations.RemoveField(model_name="message", name="search"),
                migrations.AddField(model_name="message", name="search", field=LexemesField(sources={"body": "BD"})),
                migrations.AddIndex(
                    model_name="message",
                    index=GinIndex(fields=["search"], gin_pending_list_limit=256, name="message_search"),
                ),
                migrations.AddField(model_name="thread", name="search", field=LexemesField(sources={"title": "AC"})),
            ],
        ),
        migrations.AddField(model_name="message", name="lexemes_version", field=LexemesVersionField()),
        migrations.AddField(model_name="thread", name="lexemes_version", field=LexemesVersionField()),
        migrations.AddIndex(
            model_name="message",
            index=models.Index(condition=Q(lexemes_version=0), fields=["-id"], name="message_lexemes_due"),
        ),
        migrations.AddIndex(model_name="thread", index=GinIndex(fields=["search"], name="thread_search")),
        migrations.AddIndex(
            model_name="thread",
            index=models.Index(condition=Q(lexemes_version=0), fields=["-id"], name="thread_lexemes_due"),
        ),
        AddTrigger(
            model_name="message",
            trigger=trigger(
                "pgtrigger_loses_lexemes_c4871",
                "chat_message",
                "BEFORE",
                'UPDATE OF "body", "state"',
                condition="WHEN ((NEW.body IS DISTINCT FROM OLD.body OR (OLD.state = 'writing' AND NEW.state <> 'writing')) AND NEW.search IS NOT DISTINCT FROM OLD.search)",
                func="IF NEW.body = '' OR NEW.state = 'writing' THEN NEW.search := ''; NEW.lexemes_version := 1; ELSE NEW.lexemes_version := 0; END IF; RETURN NEW;",
                hash="943b1c6294b2a6adb88ceb2d576fa25c60e5bed6",
            ),
        ),
        AddTrigger(
            model_name="message",
            trigger=trigger(
                "pgtrigger_tell_change_ef4e8",
                "chat_message",
                "AFTER",
                "UPDATE",
                condition="WHEN ((OLD.author_id, OLD.kind, OLD.state, OLD.body, OLD.token_count, OLD.edited_at, OLD.deleted_at, OLD.created_at, OLD.seq, OLD.call_id, OLD.client_id, OLD.thread_id) IS DISTINCT FROM (NEW.author_id, NEW.kind, NEW.state, NEW.body, NEW.token_count, NEW.edited_at, NEW.deleted_at, NEW.created_at, NEW.seq, NEW.call_id, NEW.client_id, NEW.thread_id))",
                func="INSERT INTO base_event (kind, workspace_id, channel_id, thread_id, message_id, created_at) SELECT 'message_changed', workspace_id, channel_id, id, NEW.id, now() FROM chat_thread WHERE id = NEW.thread_id; RETURN NULL;",
                hash="d8ae2ed03e8e9df5baf941ae44aa26e9dc693083",
            ),
        ),
        AddTrigger(
            model_name="thread",
            trigger=trigger(
                "pgtrigger_loses_lexemes_db05f",
                "chat_thread",
                "BEFORE",
                'UPDATE OF "title"',
                condition="WHEN ((NEW.title IS DISTINCT FROM OLD.title) AND NEW.search IS NOT DISTINCT FROM OLD.search)",
                func="IF NEW.title = '' THEN NEW.search := ''; NEW.lexemes_version := 1; ELSE NEW.lexemes_version := 0; END IF; RETURN NEW;",
                hash="14702a5aef22eba7c8940ddafe3248bd97b504a8",
            ),
        ),
    ]
