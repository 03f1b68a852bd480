from django.db import migrations, models

FORGET_ZEROS = "UPDATE workspaces_spending SET cached_tokens = NULL WHERE cached_tokens = 0"
"""Until now 0 also stood for a provider that said nothing; which of the two it was is not known any more."""

ZEROS_AGAIN = "UPDATE workspaces_spending SET cached_tokens = 0 WHERE cached_tokens IS NULL"


class Migration(migrations.Migration):
    dependencies = [("workspaces", "0002_invitation")]

    operations = [
        migrations.AlterField(
            model_name="spending",
            name="cached_tokens",
            field=models.PositiveIntegerField(
                help_text="Of the input, read from the provider's cache. Empty where the provider did not say.",
                null=True,
            ),
        ),
        migrations.RunSQL(FORGET_ZEROS, ZEROS_AGAIN),
    ]
