from __future__ import annotations

from databases import database_url as database_url
from databases import kind as kind
from databases import postgres_url as postgres_url
from databases import store as store
