from django.db import migrations, models
from django.db.models.functions import Now
from pgtrigger.compiler import Trigger, UpsertTriggerSql


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.RunSQL(
            sql="CREATE SEQUENCE base_event_position AS bigint", reverse_sql="DROP SEQUENCE base_event_position"
        ),
        migrations.CreateModel(
            name="Event",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("position", models.BigIntegerField(editable=False, null=True, unique=True)),
                ("workspace_id", models.BigIntegerField()),
                ("kind", models.CharField(max_length=40)),
                ("channel_id", models.BigIntegerField(null=True)),
                ("thread_id", models.BigIntegerField(null=True)),
                ("message_id", models.BigIntegerField(null=True)),
                ("participant_id", models.BigIntegerField(null=True)),
                ("created_at", models.DateTimeField(db_default=Now(), editable=False)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["workspace_id", "position"], name="base_event_replay"),
                    models.Index(fields=["created_at"], name="base_event_age"),
                ],
                "triggers": [
                    Trigger(
                        name="number_at_commit",
                        sql=UpsertTriggerSql(
                            constraint="CONSTRAINT",
                            declare="DECLARE place bigint;",
                            func="PERFORM pg_advisory_xact_lock(7001, NEW.workspace_id::int); place := nextval('base_event_position'); UPDATE base_event SET position = place WHERE id = NEW.id; PERFORM pg_notify('openvibe_events', NEW.workspace_id || ':' || place); RETURN NULL;",
                            hash="2ac338214733882febe1c9ca168b21864167e67d",
                            operation="INSERT",
                            pgid="pgtrigger_number_at_commit_38845",
                            table="base_event",
                            timing="DEFERRABLE INITIALLY DEFERRED",
                            when="AFTER",
                        ),
                    )
                ],
            },
        ),
    ]
