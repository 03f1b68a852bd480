from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("search", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="vectorspace",
            name="address",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                max_length=500,
                help_text="Where the endpoint was when this space began: somewhere else may be another model.",
            ),
        ),
    ]
