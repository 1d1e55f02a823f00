"""Why a request has no match: lines for a terminal, an error, plain values.

The wording is that of :mod:`fluxres.match.reasons`; this module adds the layout, and times in readable form.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fluxres.errors import FluxresError, InfeasibleRequest, InsufficientResources, UnknownType
from fluxres.match.admission import Objection
from fluxres.match.refusal import CUT, PartReport, Refusal
from fluxres.model import matching
from fluxres.model.several import Shortage
from fluxres.render.text import PLAIN, Style, seconds_or_none, when, when_from


def lines(refusal: Refusal, start: str, *, style: Style = PLAIN) -> list[str]:
    """The obstacles, part by part.

    Args:
        start: the requested time, as a word: now, a date.
    """
    found = [style.paint(_verdict(refusal, start), "heading")]
    if refusal.objections:
        return found + [each.sentence() for each in refusal.objections]
    for part in refusal.obstacles:
        found += [f"{refusal.marked(part)}{part.head()}", *(f"  {cause}" for cause in part.ruled_out(_until))]
    found += [f"{note[:1].upper()}{note[1:]}." for note in refusal.notes]
    if not refusal.notes and not any(part.is_short for part in refusal.parts):
        found.append(refusal.together())
    return found + refusal.would_match() + [CUT] * refusal.undecided


def _verdict(refusal: Refusal, start: str) -> str:
    if refusal.objections and (refusal.never or refusal.earliest is None):
        partition = f"partition '{refusal.objections[0].partition}'"
        return f"Never in {partition}." if refusal.never else f"Not {start}. {refusal.outlook()}"
    if refusal.never:
        return f"Never: the request exceeds the capacity of {refusal.bound}, even when idle with everything up."
    if refusal.earliest is not None:
        return f"Not {start}. The earliest start is {when_from(refusal.earliest)}."
    if refusal.undecided:
        return f"Undecided {start}: the search reached its limit. Ask for less at once."
    return f"Not {start}, and no later start is known."


def _until(seconds: float) -> str:
    return "without end" if math.isinf(seconds) else f"until {when(seconds)}"


def worded(raised: InsufficientResources | InfeasibleRequest) -> InsufficientResources | InfeasibleRequest:
    """A refusal of a request as commands show it: times as dates, and each reason with its part of the request."""
    match raised.explanation:
        case Refusal() as refusal:
            return error(refusal)
        case Shortage() as shortage:
            return shortage.error(error(shortage.refusal))
    return raised


def error(refusal: Refusal) -> InsufficientResources | InfeasibleRequest:
    """The first unsatisfied part, and each part by its place."""
    if refusal.objections:
        return matching.refused(refusal)
    short = [part for part in refusal.obstacles if part.is_short] or ([] if refusal.notes else list(refusal.parts))
    reasons = {part.place: part.sentence(_until).removesuffix(".") for part in short} | refusal.noted()
    is_explained = bool(refusal.notes) or any(part.is_short for part in refusal.parts)
    together = "" if is_explained else "; together the parts ask for the same pools"
    place, message = next(iter(reasons.items()), ("", "no pools found for the request"))
    if refusal.never:
        hint = f"{refusal.bound} can never satisfy it"
        return InfeasibleRequest(f"{message}{together}", where=place, hint=hint, reasons=reasons, explanation=refusal)
    return InsufficientResources(
        f"{message}{together}", where=place, earliest=refusal.earliest, reasons=reasons, explanation=refusal
    )


def needless(raised: FluxresError) -> frozenset[str]:
    """The places in an error that people need not see, because only one part of the request is for that type: they wrote -N4."""
    if isinstance(raised, UnknownType):
        return frozenset({raised.where} if raised.where.startswith("resources") else ())
    refusal = getattr(raised, "explanation", None)
    return (
        frozenset(part.place for part in refusal.parts if not refusal.marked(part))
        if isinstance(refusal, Refusal)
        else frozenset()
    )


def document(refusal: Refusal | None) -> dict[str, Any]:
    """The refusal as plain values; None for a request that matches."""
    return {
        "matches": refusal is None,
        "never": refusal is not None and refusal.never,
        "earliest": None if refusal is None else refusal.earliest,
        "undecided": refusal is not None and refusal.undecided,
        "enough": {} if refusal is None else refusal.enough,
        "partition": None if refusal is None or not refusal.objections else _partition(refusal.objections),
        "parts": [] if refusal is None else [_part(part) for part in refusal.parts],
        "notes": [] if refusal is None else list(refusal.notes),
    }


def _partition(objections: Sequence[Objection]) -> dict[str, Any]:
    return {
        "name": objections[0].partition,
        "reasons": [{"code": each.code, "text": each.sentence()} for each in objections],
    }


def _part(part: PartReport) -> dict[str, Any]:
    return {
        "place": part.place,
        "type": part.type,
        "asked": part.asked,
        "candidates": part.candidates,
        "left": part.left,
        "room": part.room,
        "unit": part.unit,
        "causes": [
            {
                "code": cause.code,
                "number": cause.number,
                "pools": list(cause.pools),
                "holders": [{"job": job, "until": seconds_or_none(until)} for job, until in cause.holders],
                "detail": list(cause.detail),
            }
            for cause in part.causes
        ],
    }
