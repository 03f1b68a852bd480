"""People read of background calls."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("workspaces", "0003_spending"),
    ]

    operations = [
        migrations.AlterModelOptions(name="spending", options={"ordering": ["-id"], "verbose_name": "background call"}),
    ]
