from django.db import migrations


class Migration(migrations.Migration):
    """The counter that `number_at_commit` takes positions from."""

    dependencies = [("base", "0001_initial")]

    operations = [
        migrations.RunSQL("CREATE SEQUENCE base_event_position AS bigint", "DROP SEQUENCE base_event_position")
    ]
