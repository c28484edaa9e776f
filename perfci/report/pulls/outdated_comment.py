"""Mark the comment of a pull request as outdated while a newer head is being measured."""

from __future__ import annotations

from perfci.model import Commit
from perfci.report.escaping import code_span
from perfci.report.pulls.order_lines import remove_order_lines

OUTDATED_PREFIX = "> **Outdated:** there is a newer head, "


def render_outdated_comment(body: str, newer_head: Commit) -> str:
    """Mark a comment as outdated and fold its results; marking it again only updates the newer head.

    Lines of orders are left out: they are about the older head.
    """
    body = remove_order_lines(body)
    line = f"{OUTDATED_PREFIX}{code_span(newer_head.short_sha)}; its result will replace this comment."
    if body.startswith(OUTDATED_PREFIX):
        return line + body[body.index("\n") :]
    if not body.strip():
        return f"{line}\n"
    return (
        f"{line}\n\n<details><summary>Results of the older head</summary>\n\n{body.rstrip()}\n\n</details>\n"
    )
