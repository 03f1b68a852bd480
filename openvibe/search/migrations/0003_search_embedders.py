"""People read of search embedders, not of vector spaces."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("search", "0002_address"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="vectorspace", options={"ordering": ["id"], "verbose_name": "search embedder"}
        ),
    ]
