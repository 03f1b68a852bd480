// All of our modules, in this order: collected, they stand in this one file (`engines/serving/bundles.py`).

import "./main.js";
import "./agents.js";
import "./notify.js";
import "./unread_badge.js";
import "./blocks.js";
import "./memory.js";
import "./work.js";
import "./run.js";
import "./knowledge.js";
import "./dive.js";
import "./marks.js";
import "./publish.js";
