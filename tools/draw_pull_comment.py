"""Draw the comment of docs/github.md as GitHub shows it: ``python -m tools.draw_pull_comment [FORM]``.

The text is a file of ``tests/expected``, rendered by GitHub's own Markdown engine below a plain style like
GitHub's.
"""

from __future__ import annotations

import sys
from pathlib import Path

from cmarkgfm import Options, github_flavored_markdown_to_html

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "web"))
from browsing import a_browser

TESTS = Path(__file__).parents[1] / "tests"
PICTURE = TESTS.parent / "docs" / "comment.png"
WIDTH = 900

STYLE = """
body { margin: 0; padding: 16px; width: 868px; color: #1f2328; background: #fff; }
body { font: 14px/1.5 -apple-system, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif; }
.box { border: 1px solid #d1d9e0; border-radius: 6px; }
.author { padding: 8px 16px; background: #f6f8fa; border-bottom: 1px solid #d1d9e0;
  border-radius: 6px 6px 0 0; }
.author { color: #59636e; } .author b { color: #1f2328; }
.author span { border: 1px solid #d1d9e0; padding: 0 7px; }
.author span { border-radius: 2em; font-size: 12px; }
.body { padding: 16px; } .body > :last-child { margin-bottom: 0; }
h3 { margin: 0 0 16px; font-size: 1.25em; line-height: 1.25; } p, table, details, ul { margin: 0 0 16px; }
a { color: #0969da; }
blockquote { margin: 0 0 16px; padding: 0 1em; color: #59636e; border-left: .25em solid #d1d9e0; }
code { font: 85% ui-monospace, SFMono-Regular, "Liberation Mono", monospace; background: #818b981f; }
code { padding: .2em .4em; border-radius: 6px; }
table { display: block; width: max-content; max-width: 100%; overflow: auto; border-collapse: collapse; }
th, td { padding: 6px 13px; border: 1px solid #d1d9e0; } tr:nth-child(2n) { background: #f6f8fa; }
summary { cursor: pointer; }
"""


def main(form: str) -> None:
    text = (TESTS / "expected" / f"{form}.md").read_text(encoding="utf-8")
    with a_browser() as browser:
        page = browser.new_page(viewport={"width": WIDTH, "height": 400}, color_scheme="light")
        page.set_content(render_comment_html(text))
        page.screenshot(path=PICTURE, full_page=True)
    print(f"{PICTURE}: {PICTURE.stat().st_size // 1024} KiB")


def render_comment_html(text: str) -> str:
    body = github_flavored_markdown_to_html(text, options=Options.CMARK_OPT_UNSAFE)
    author = '<div class="author"><b>perfci</b> <span>bot</span> commented</div>'
    return (
        f'<!doctype html><style>{STYLE}</style><div class="box">{author}<div class="body">{body}</div></div>'
    )


if __name__ == "__main__":
    main(*(sys.argv[1:2] or ["regressions"]))
