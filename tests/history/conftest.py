from __future__ import annotations

from tests.support.databases import database_url as database_url
from tests.support.databases import kind as kind
from tests.support.databases import postgres_url as postgres_url
from tests.support.databases import store as store
