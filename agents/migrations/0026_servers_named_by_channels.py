"""What channels name of an MCP server goes by its new name, and is gone with it."""

from django.db import migrations
from pgtrigger.migrations import AddTrigger

from openvibe.engines.database.migration_operations import trigger

NAME_IN_CHANNELS = """
UPDATE chat_channel SET agent_tools = ARRAY(
    SELECT CASE WHEN tool = 'mcp:' || OLD.name THEN 'mcp:' || NEW.name
    WHEN starts_with(tool, 'mcp:' || OLD.name || '/') THEN 'mcp:' || NEW.name || substr(tool, length(OLD.name) + 5)
    ELSE tool END
    FROM unnest(agent_tools) WITH ORDINALITY AS named (tool, place)
    WHERE TG_OP = 'UPDATE' OR NOT (tool = 'mcp:' || OLD.name OR starts_with(tool, 'mcp:' || OLD.name || '/'))
    ORDER BY place
) WHERE workspace_id = OLD.workspace_id AND agent_tools IS NOT NULL;
RETURN NULL;
"""


class Migration(migrations.Migration):
    dependencies = [("agents", "0025_join_codes"), ("chat", "0019_agent_limits")]

    operations = [
        AddTrigger(
            model_name="mcpserver",
            trigger=trigger(
                "pgtrigger_channels_name_it_1a19e",
                "agents_mcpserver",
                "AFTER",
                'UPDATE OF "name" OR DELETE',
                func=NAME_IN_CHANNELS,
                hash="f9201d93f9805e5d5e9a6b0493df0612b56eced5",
            ),
        )
    ]
