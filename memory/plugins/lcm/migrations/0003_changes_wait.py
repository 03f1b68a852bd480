"""A changed message waits for a summary that is just being written above it, and then wipes that one, too.

Without the conversation's lock, the containers were looked up before a condensed summary that was about to commit
could be seen, and it kept the words. The lock comes after the message's own, as everywhere.
"""

from django.db import migrations

BODY = """
CREATE OR REPLACE FUNCTION lcm_forget_changed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    held bigint;
BEGIN
    SELECT summary_id INTO held FROM lcm_summarymessage WHERE message_id = NEW.id;
    IF held IS NULL THEN
        RETURN NULL;
    END IF;
    {lock}WITH RECURSIVE above AS (
        SELECT held AS id
        UNION
        SELECT e.container_id FROM lcm_summaryedge e JOIN above ON e.constituent_id = above.id
    )
    UPDATE lcm_summary SET stale = true, token_count = 20, content =
        '[This part of the conversation is being summarised anew, because a message in it was changed.]'
    WHERE id IN (SELECT id FROM above);
    UPDATE lcm_conversation SET version = version + 1 WHERE thread_id = NEW.thread_id;
    RETURN NULL;
END $$;
"""
LOCK = "PERFORM FROM lcm_conversation WHERE thread_id = NEW.thread_id FOR UPDATE;\n    "


class Migration(migrations.Migration):
    dependencies = [("lcm", "0002_changed_messages")]
    operations = [migrations.RunSQL(BODY.replace("{lock}", LOCK), BODY.replace("{lock}", ""))]
