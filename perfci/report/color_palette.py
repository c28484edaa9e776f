"""The colours of pages, charts and offline pictures; a test checks their contrast."""

from __future__ import annotations

TOKENS: dict[str, tuple[str, str]] = {
    "paper": ("#fafaf7", "#14171c"),
    "surface": ("#ffffff", "#1a1e25"),
    "ink": ("#1a1d21", "#e9ebee"),
    "muted": ("#5b6470", "#a9b4c2"),
    "rule": ("#dcdbd5", "#343b46"),
    "grid": ("#ecebe6", "#272d36"),
    "control": ("#85898f", "#77818f"),
    "worse": ("#c2410c", "#ff9e7a"),
    "worse-tint": ("#fdeee6", "#3a231a"),
    "better": ("#0b62b8", "#7cc4ff"),
    "better-tint": ("#e5f0fa", "#15293c"),
    "same": ("#5b6470", "#a9b4c2"),
    "same-tint": ("#eef0f1", "#262c35"),
    "unsure": ("#8a5a00", "#f0c15c"),
    "unsure-tint": ("#fff3d6", "#382c12"),
    "unsure-hatch": ("#d69a1c", "#9a7526"),
    "dot": ("#6b7a8d", "#8fa1b7"),
    "band": ("#dbe2ea", "#2b3440"),
    "level": ("#22344c", "#d5e0ee"),
    "line-1": ("#0b62b8", "#7cc4ff"),
    "line-2": ("#c2410c", "#ff9e7a"),
    "line-3": ("#0f766e", "#5fd3c0"),
    "line-4": ("#a21caf", "#e7a0f0"),
    "line-5": ("#8a5a00", "#f0c15c"),
    "line-6": ("#4338ca", "#aab2ff"),
    "line-7": ("#4d7c0f", "#b2d977"),
    "line-8": ("#9f1239", "#ff9fb2"),
}
"""The light and the dark colour of each token."""

LIGHT = {name: colours[0] for name, colours in TOKENS.items()}
DARK = {name: colours[1] for name, colours in TOKENS.items()}


def css_declarations(colours: dict[str, str]) -> str:
    """Write a palette as CSS custom properties."""
    return "".join(f"--{name}:{colour};" for name, colour in colours.items())


def page_palette_css() -> str:
    """Write the page palette: that of the system, unless the root has ``data-theme``; light on paper."""
    light, dark = css_declarations(LIGHT), css_declarations(DARK)
    return (
        f":root{{color-scheme:light dark;{light}}}\n"
        f"@media (prefers-color-scheme:dark){{:root{{{dark}}}}}\n"
        f":root[data-theme=light]{{color-scheme:light;{light}}}\n"
        f":root[data-theme=dark]{{color-scheme:dark;{dark}}}\n"
        f"@media print{{:root,:root[data-theme=dark]{{color-scheme:light;{light}}}}}\n"
    )


def standalone_svg_palette_css() -> str:
    """Write the palette of a standalone SVG, which follows the system's colour scheme only."""
    light, dark = css_declarations(LIGHT), css_declarations(DARK)
    return f"svg{{{light}}}@media (prefers-color-scheme:dark){{svg{{{dark}}}}}"
