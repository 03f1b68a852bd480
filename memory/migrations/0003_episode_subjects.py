from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memory", "0002_constraints_confirmed"), ("workspaces", "0002_invitation")]

    operations = [
        migrations.AddField(
            model_name="episode", name="subject", field=models.CharField(blank=True, default="", max_length=40)
        ),
        migrations.AddConstraint(
            model_name="episode",
            constraint=models.UniqueConstraint(
                condition=models.Q(("subject", ""), _negated=True),
                fields=("agent", "kind", "subject"),
                name="episode_once_per_subject",
            ),
        ),
    ]
