"""Second looks: what a first look suspected is measured again on fresh pairs, and only those convict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfci.measure.adaptive_pairs import OnLook, Pairing
from perfci.measure.measurement_session import Session
from perfci.measure.open_session import Subject, open_session
from perfci.measure.progress import Watcher
from perfci.measure.questions import Question
from perfci.measure.record_decisions import record
from perfci.model import Stage, Status, Verdict
from perfci.report.number_format import counting
from perfci.verdicts.compare.false_discovery import FALSE_DISCOVERY_RATE, control
from perfci.verdicts.policy import Policy


@dataclass(frozen=True, slots=True)
class Settled:
    """What fresh pairs said of what was suspected; nothing where nothing was."""

    session: str = ""
    verdicts: Sequence[Verdict] = ()
    statuses: Sequence[Status] = ()


def settle(
    session: Session, subject: Subject, suspected: Sequence[Verdict], policy: Policy, watcher: Watcher
) -> Settled:
    """Convict or acquit each suspicion on pairs that no earlier look has seen, then control the false discoveries."""
    if not suspected:
        return Settled()
    fresh, found = look_again(session, subject, questions_of(suspected, subject), policy, watcher)
    verdicts = control([verdict for verdicts in found.values() for verdict in verdicts], FALSE_DISCOVERY_RATE)
    record(fresh, verdicts, rate=FALSE_DISCOVERY_RATE)
    fresh.finish()
    return Settled(fresh.uid, verdicts, fresh.statuses)


def look_again(
    session: Session, subject: Subject, questions: Sequence[Question], policy: Policy, watcher: Watcher
) -> tuple[Session, dict[Question, list[Verdict]]]:
    """Ask the same questions on fresh pairs, measured by fresh processes in a session of their own."""
    watcher.stage("fresh pairs", 2 * policy.default.looks[0] * len(questions))
    watcher.say(f"{counting(len(questions), 'suspected change')} to settle on fresh pairs")
    session.workbench.renew()
    fresh = open_session(
        session.store, session.workbench, session.project, subject, "confirm", about=session.uid,
        on_process=watcher.process, say=watcher.say,
    )  # fmt: skip
    pairing = Pairing(
        fresh, questions, policy, Stage.CONVICTION, on_look=told(watcher), rate=FALSE_DISCOVERY_RATE
    )  # fmt: skip
    return fresh, pairing.settle()


def questions_of(suspected: Sequence[Verdict], subject: Subject) -> list[Question]:
    cells = {cell.name: cell for cell in subject.cells}
    return list(dict.fromkeys(Question(v.base, v.head, cells[v.series.cell]) for v in suspected))


def told(watcher: Watcher) -> OnLook:
    """Tell a watcher what every look leaves open."""

    def on_look(questions: int, pairs: int) -> None:
        watcher.expect(2 * pairs)
        watcher.step(f"{counting(pairs, 'pair')} for {counting(questions, 'open question')}")

    return on_look
