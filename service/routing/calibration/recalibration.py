"""Keeps the router calibrated: fits by what persons have corrected, and remembers in a file.

The file, ``routing-calibration.json`` in the data folder, holds two numbers, what they were fitted
on and when, and the model that they belong to; no words. Without it, or where it cannot be used,
the model's own probabilities count.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import anyio
from anyio import to_thread
from pydantic import ValidationError

from service.domain.errors import StorageError
from service.domain.routes import CalibrationInUse, CalibrationReport, Measured
from service.memory.journal.protocol import Journal
from service.routing.calibration.corrections import LabelledRoute, labelled_routes
from service.routing.calibration.probability_calibration import (
    UNCALIBRATED,
    Calibration,
    Case,
    expected_quality,
    fitted,
    quality,
)
from service.routing.routing_model import shipped
from service.storage.concurrency import run_to_end
from service.tuning import (
    CALIBRATION_LEAST_CORRECTIONS,
    CALIBRATION_LEAST_GAIN,
    CALIBRATION_LEAST_RIGHT,
    CALIBRATION_LEFT_ALONE,
    CALIBRATION_MOST_DECISIONS,
    CALIBRATION_MOST_LOST,
)

log = logging.getLogger(__name__)

FILE = "routing-calibration.json"


class Recalibration:
    """The calibration in use, and the way to a better one."""

    def __init__(self, folder: Path, journal: Journal) -> None:
        """Name the parts; nothing is read yet.

        Args:
            folder: the data folder.
            journal: open, when it is used.
        """
        self._file = folder / FILE
        self._journal = journal
        self._turn = anyio.Lock()
        self._reading = threading.Lock()
        self._in_use: CalibrationInUse | None = None
        self._current: Calibration | None = None

    def current(self) -> Calibration:
        """The calibration that counts. Blocks when it is asked for first: the file is read then."""
        calibration = self._current
        return _map(self._read()) if calibration is None else calibration

    async def in_use(self) -> CalibrationInUse:
        """The calibration that counts, and where it comes from."""
        return await to_thread.run_sync(self._read)

    async def calibrate(self) -> CalibrationReport:
        """Fit to what persons have corrected, and use that, where it is enough and better.

        Raises:
            StorageError: the journal cannot be read, or the file cannot be written.
        """
        return await run_to_end(self._calibrate())

    async def reset(self) -> CalibrationReport:
        """Let the model's own probabilities count again.

        Raises:
            StorageError: the journal cannot be read, or the file cannot be removed.
        """
        return await run_to_end(self._reset())

    async def _calibrate(self) -> CalibrationReport:
        async with self._turn:
            routes = await labelled_routes(self._journal)
            return await to_thread.run_sync(self._fit, routes)

    async def _reset(self) -> CalibrationReport:
        async with self._turn:
            routes = await labelled_routes(self._journal)
            return await to_thread.run_sync(self._remove, routes)

    # --- in a worker thread

    def _fit(self, routes: Sequence[LabelledRoute]) -> CalibrationReport:
        present = self._read()
        cases, corrections = cases_of(routes, present.model)
        report = CalibrationReport(
            changed=False,
            reason="",
            corrections=corrections,
            needed=CALIBRATION_LEAST_CORRECTIONS,
            decisions=len(cases),
            in_use=present,
        )
        if corrections < CALIBRATION_LEAST_CORRECTIONS:
            return report.model_copy(update={"reason": _too_few(corrections)})
        right = sum(not each.corrected for each in _usable(routes, present.model))
        if right < CALIBRATION_LEAST_RIGHT:
            return report.model_copy(update={"reason": _too_few_right(right)})
        before = quality(cases, _map(present))
        after = expected_quality(cases)
        report = report.model_copy(
            update={
                "before": Measured(**before._asdict()),
                "after": Measured(**after._asdict()),
            }
        )
        gain = before.log_loss - after.log_loss
        if (
            gain < CALIBRATION_LEAST_GAIN
            or before.accuracy - after.accuracy > CALIBRATION_MOST_LOST
        ):
            reason = "what was fitted would not decide better than what is in use"
            return report.model_copy(update={"reason": reason})
        calibration = fitted(cases)
        new = CalibrationInUse(
            temperature=round(calibration.temperature, 4),
            new_offset=round(calibration.new_offset, 4),
            corrections=corrections,
            decisions=len(cases),
            fitted_at=datetime.now(UTC).replace(microsecond=0),
            model=present.model,
        )
        self._write(new)
        reason = f"fitted on {len(cases)} decisions, of which you have corrected {corrections}"
        return report.model_copy(update={"changed": True, "reason": reason, "in_use": new})

    def _read(self) -> CalibrationInUse:
        with self._reading:
            if self._in_use is None:
                self._take(self._stored() or CalibrationInUse(model=shipped().version))
            assert self._in_use is not None
            return self._in_use

    def _take(self, new: CalibrationInUse) -> None:
        self._in_use, self._current = new, _map(new)

    def _stored(self) -> CalibrationInUse | None:
        """What the file holds, if it can be used."""
        try:
            stored = CalibrationInUse.model_validate_json(self._file.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            log.warning(
                "%s cannot be read: the router goes by its model alone. `rondo loops calibrate`"
                " makes it anew. (%s)",
                self._file,
                _first_line(error),
            )
            return None
        if not _map(stored).is_sane:
            log.warning(
                "%s holds numbers that no calibration comes to: it is not used."
                " `rondo loops calibrate` fits anew.",
                self._file,
            )
            return None
        model = shipped().version
        if stored.model != model:
            log.warning(
                "%s belongs to model %s, and the router's is %s: it is not used."
                " `rondo loops calibrate` fits anew.",
                self._file,
                stored.model[:80],
                model,
            )
            return None
        return stored

    def _write(self, new: CalibrationInUse) -> None:
        """Write the file whole, or not at all."""
        beside = self._file.with_name(f".{self._file.name}.new")
        try:
            with beside.open("w", encoding="utf-8") as opened:
                opened.write(new.model_dump_json(indent=2) + "\n")
                opened.flush()
                os.fsync(opened.fileno())
            beside.replace(self._file)
        except OSError as error:
            raise _unusable(self._file, error) from error
        with self._reading:
            self._take(new)

    def _remove(self, routes: Sequence[LabelledRoute]) -> CalibrationReport:
        before = self._read()
        try:
            self._file.unlink(missing_ok=True)
        except OSError as error:
            raise _unusable(self._file, error) from error
        now = CalibrationInUse(model=before.model)
        with self._reading:
            self._take(now)
        cases, corrections = cases_of(routes, now.model)
        changed = before != now
        return CalibrationReport(
            changed=changed,
            reason="what was fitted is dropped" if changed else "nothing had been fitted",
            corrections=corrections,
            needed=CALIBRATION_LEAST_CORRECTIONS,
            decisions=len(cases),
            in_use=now,
        )


def cases_of(routes: Sequence[LabelledRoute], model: str) -> tuple[list[Case], int]:
    """The decisions to learn from, and how many of them a person has corrected or was asked about.

    Args:
        routes: oldest first; those that another model weighed do not count.
        model: the version of the model.
    """
    cases, corrections = list[Case](), 0
    for route in _usable(routes, model):
        then = Calibration(*route.calibration) if route.calibration else UNCALIBRATED
        by_person = route.corrected or route.answered
        corrections += by_person
        weight = 1.0 if by_person else CALIBRATION_LEFT_ALONE
        cases.append(Case(then.undone(route.probabilities), route.right or 0, weight))
    return cases, corrections


def _usable(routes: Sequence[LabelledRoute], model: str) -> Sequence[LabelledRoute]:
    usable = [each for each in routes if each.model == model and each.right is not None]
    return usable[-CALIBRATION_MOST_DECISIONS:]


def _map(in_use: CalibrationInUse) -> Calibration:
    return Calibration(in_use.temperature, in_use.new_offset)


def _too_few(corrections: int) -> str:
    return (
        f"{corrections} of your corrections can be learned from so far, and"
        f" {CALIBRATION_LEAST_CORRECTIONS} are needed"
    )


def _too_few_right(right: int) -> str:
    return (
        f"only {right} of the decisions were right so far, and {CALIBRATION_LEAST_RIGHT} are needed"
        " to weigh your corrections against"
    )


def _first_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return "; ".join(
            f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()
        )
    return str(error)


def _unusable(file: Path, error: OSError) -> StorageError:
    return StorageError(
        f"{file}: {error.strerror or error}",
        advice="Give this user the right to write there; the router goes on as before.",
    )
