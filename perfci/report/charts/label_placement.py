"""Find room for labels: a label that would overlap another one is not placed."""

from __future__ import annotations

from perfci.report.charts.plot_axes import CHARACTER_WIDTH_PX
from perfci.report.charts.scene import SceneText

LABEL_HEIGHT_PX, GAP_PX = 13.0, 4.0

Box = tuple[float, float, float, float]


class LabelSpace:
    """The room that labels have taken so far."""

    def __init__(self) -> None:
        self._taken: list[Box] = []

    def take(self, label: SceneText) -> bool:
        """Take the room of a label unless it would overlap another; says whether it did."""
        box = label_box(label)
        if any(boxes_overlap(box, other) for other in self._taken):
            return False
        self._taken.append(box)
        return True


def label_box(label: SceneText) -> Box:
    """Left, top, right and bottom of a label, about."""
    width = text_width_px(label.text)
    left = label.x - {"start": 0.0, "middle": width / 2, "end": width}[label.anchor]
    return left, label.y - LABEL_HEIGHT_PX + 3, left + width, label.y + 3


def boxes_overlap(box: Box, other: Box) -> bool:
    """Whether two boxes come closer than a gap."""
    apart_in_x = box[2] + GAP_PX <= other[0] or other[2] + GAP_PX <= box[0]
    return not (apart_in_x or box[3] <= other[1] or other[3] <= box[1])


def text_width_px(text: str) -> float:
    """The approximate width of a text of the chart."""
    return len(text) * CHARACTER_WIDTH_PX
