"""Vectors of the small languages: idsets, hostlists, durations, ranges, shapes, constraint queries and job ids."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn, get_args

from fluxres.syntax import constraint_query, count, duration, fluid, hostlist, idset, moment, shape
from fluxres.syntax import range as ranges
from fluxres.syntax.constraint_query import REQUIRES, Options
from fluxres.syntax.hostlist import Hostlist, Hostname
from fluxres.syntax.idset import IDset
from tests.conformance.runner import Case, NotCovered
from tests.conformance.vectors import given, has, not_covered, suite, text

EXPANDED_MAX = 1 << 40
"""Values of a range up to which it is expanded."""


# -- idsets (RFC 22) -----------------------------------------------------------------------------------------------------


def of_idset(case: Case) -> Any:
    match case["kind"]:
        case "expand" | "reject" if isinstance(case["input"], str):
            return idset.parse(text(case))
        case "count":
            return len(IDset(text(case)))
        case "format" | "reject":
            return _idset_text(case["input"].get("format", case["input"]), case)
        case "op":
            return _idset_operation(case)
    raise not_covered(case)


def _idset_text(asked: dict[str, Any], case: Case) -> str:
    """`{"idset": text, "range": …, "brackets": …}`, or the members themselves under "construct"."""
    if asked.keys() == {"construct"}:
        made = asked["construct"]
        assert str(IDset(made)) == idset.format(IDset(made))
        return str(IDset(made))
    if asked.keys() != {"idset", "range", "brackets"}:
        raise not_covered(case)
    return idset.format(idset.parse(asked["idset"]), brackets=asked["brackets"], ranges=asked["range"])


def _idset_operation(case: Case) -> Any:
    asked = dict(case["input"])
    op, ids = asked.pop("op"), IDset(asked.pop("a"))
    match op, asked:
        case "union" | "add" | "intersect" | "difference" | "subtract", {"b": other, **rest} if not rest:
            made = _idset_algebra(op, ids, [other])
        case "union" | "intersect" | "difference", {"args": list(others), **rest} if not rest:
            made = _idset_algebra(op, ids, others)
        case "set" | "clear", {"range": [first, last], **rest} if not rest:
            span = IDset.of_ranges([(first, last)])
            made = ids | span if op == "set" else ids - span
        case "first" | "last", {**rest} if not rest:
            return ids.first() if op == "first" else ids.last()
        case "next" | "prev", {"prev": id_, **rest} if not rest:
            return ids.next(id_) if op == "next" else ids.prev(id_)
        case _:
            raise not_covered(case)
    return list(made) if isinstance(case["expected"], list) else str(made)


def _idset_algebra(op: str, ids: IDset, others: list[Any]) -> IDset:
    if op in ("union", "add"):
        return ids.union(*others)
    return ids.intersect(*others) if op == "intersect" else ids.difference(*others)


# -- hostlists (RFC 29) --------------------------------------------------------------------------------------------------


def of_hostlist(case: Case) -> Any:
    match case["kind"]:
        case "expand":
            return hostlist.parse(text(case))
        case "count":
            hosts = text(case)
            assert len(Hostlist(hosts)) == hostlist.count(hosts)
            return hostlist.count(hosts)
        case "format":
            hosts = hostlist.parse(text(case))
            return {"encoded": hostlist.format(hosts), "count": len(hosts)}
        case "find":
            asked = given(case, "hostlist", "host")
            return Hostlist(asked["hostlist"]).find(asked["host"])
        case "parse" | "reject" if has(case, "hostname"):
            found = Hostname.of(given(case, "hostname")["hostname"])
            parts = {} if found.number is None else {"num": found.number, "suffix": found.digits, "width": len(found.digits)}
            return {"prefix": found.prefix, **parts}
        case "reject":
            return hostlist.parse(text(case))
        case "op":
            return _hostlist_operation(case)
    raise not_covered(case)


def _hostlist_operation(case: Case) -> Any:
    asked = dict(case["input"])
    match asked:
        case {"op": "flux-hostlist", "args": list(words)}:
            return flux_hostlist(words)
        case {"op": "sort" | "uniq" as op, "hostlist": hosts}:
            return str(Hostlist(hosts).sort() if op == "sort" else Hostlist(hosts).uniq())
        case {"op": "nth", "hostlist": hosts, "n": int(at)}:
            return Hostlist(hosts)[at]
        case {"op": "index", "hostlist": hosts, "hosts": wanted, "ignore_nomatch": bool(ignored)}:
            return Hostlist(hosts).indices(wanted, ignore_nomatch=ignored)
        case {"op": "delete", "hostlist": hosts, "arg": gone}:
            left = Hostlist(hosts).delete(gone)
            return {"removed": len(Hostlist(hosts)) - len(left), "result": str(left)}
        case {"op": "delete-sequence", "hostlist": hosts, "args": list(several)}:
            left, removed = Hostlist(hosts), []
            for gone in several:
                rest = left.delete(gone)
                removed.append(len(left) - len(rest))
                left = rest
            return {"removed": removed, "result": str(left)}
        case {"op": "append-sequence", "items": list(items), "report_after": list(moments)}:
            return [str(Hostlist().append(*items[:number])) for number in moments]
    raise not_covered(case)


class _Words(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise NotCovered(f"RFC 29 flux-hostlist: {message}")


def flux_hostlist(words: list[str]) -> str:
    """What `flux hostlist` prints, by the operations of `Hostlist`."""
    parser = _Words(add_help=False)
    for names in (
        ["-e", "--expand"],
        ["-c", "--count"],
        ["-S", "--sort"],
        ["-u", "--union", "--unique"],
        ["-i", "--intersect"],
        ["-m", "--minus"],
        ["-X", "--xor"],
    ):
        parser.add_argument(*names, action="store_true")
    for names in ["-n", "--nth"], ["-F", "--find"], ["-x", "--exclude"]:
        parser.add_argument(*names)
    parser.add_argument("-d", "--delimiter", default=" ")
    parser.add_argument("-L", "--limit", type=int)
    parser.add_argument("sources", nargs="+")
    asked = parser.parse_args(words)
    first, *others = map(Hostlist, asked.sources)
    found = first.append(*others)
    if asked.intersect:
        found = first.intersect(*others)
    elif asked.minus:
        found = first
        for other in others:
            found = found.delete(other)
    elif asked.xor:
        found = first
        for other in others:
            found = found.xor(other)
    if asked.exclude:
        # Hosts, or positions if none of them is present.
        left = found.exclude(asked.exclude)
        found = left if len(left) < len(found) else found[IDset(range(len(found))) - asked.exclude]
    found = found.sort() if asked.sort else found
    found = found.uniq() if asked.union else found
    if asked.limit:
        found = found[: asked.limit] if asked.limit > 0 else found[asked.limit :]
    if asked.nth:
        away = asked.nth.startswith("-")
        places = [-place for place in reversed(IDset(asked.nth[1:]))] if away else list(IDset(asked.nth))
        found = Hostlist(found[place] for place in places)
    if asked.find:
        return " ".join(map(str, found.indices(asked.find)))
    if asked.count:
        return str(len(found))
    return asked.delimiter.replace("\\n", "\n").join(found) if asked.expand else str(found)


# -- durations (RFC 23) --------------------------------------------------------------------------------------------------


def of_duration(case: Case) -> Any:
    match case["kind"], case["input"]:
        case "format", {"duration": seconds, "precision": int(digits), **rest} if not rest:
            return duration.format(float(seconds), digits)
        case "format", str() | int() | float() as seconds:
            return duration.format(float(seconds))
        case "reject", {"format": str() | int() | float() as seconds, **rest} if not rest:
            return duration.format(float(seconds))
        case "parse" | "reject", str(length):
            return duration.parse(length)
        case "parse" | "reject", {"datetime_offset": str(away), **rest} if not rest and away != "-":  # `-` means no end here
            now = 1_000_000.0
            return round(moment.parse(away, now) - now, 6)
    raise not_covered(case)


# -- ranges (RFC 45) -----------------------------------------------------------------------------------------------------


def of_range(case: Case) -> Any:
    asked = case["input"]
    if case["kind"] == "format":
        short, brackets = asked.get("short", asked.get("form") == "short"), asked.get("brackets", False)
        if "range" in asked:
            return ranges.format(ranges.parse(asked["range"]), short=short, brackets=brackets)
        return count.format(count.parse(asked["count"]), short=short, brackets=brackets)
    if case["kind"] == "expand":
        return list(ranges.parse(text(case)).values(EXPANDED_MAX))
    if case["kind"] == "parse":
        found = ranges.parse(text(case))
        return {"min": found.min, "max": found.max, "operand": found.operand, "operator": found.operator}
    if case["kind"] == "reject":
        return str(count.parse(asked))
    raise not_covered(case)


# -- shapes (RFC 46) -----------------------------------------------------------------------------------------------------


def of_shape(case: Case) -> Any:
    if case["kind"] == "reject":
        return shape.parse(case["input"]["shape"])
    asked = given(case, "shape", "default_label", "range_as_dict")
    return shape.parse(asked["shape"], default_label=asked["default_label"], range_as_mapping=asked["range_as_dict"])


# -- constraint queries (RFC 35) -----------------------------------------------------------------------------------------


def of_query(case: Case) -> Any:
    asked = dict(case["input"])
    query = asked.pop("query")
    if asked == {"parser": "requires"}:
        return constraint_query.parse(query, REQUIRES)
    chosen = Options(
        asked.pop("default_operator", None),
        {None if name in ("None", "null") else name: value for name, value in asked.pop("operator_map", {}).items()},
        asked.pop("split_values", {}),
        asked.pop("combined_terms", ()),
    )
    if asked:
        raise not_covered(case)
    return constraint_query.parse(query, chosen)


# -- job ids (RFC 19) ----------------------------------------------------------------------------------------------------


def of_id(case: Case) -> Any:
    asked = case["input"]
    if isinstance(asked, str):
        return str(fluid.decode(asked))
    match dict(asked):
        case {"timestamp_ms": int(time), "generator": int(generator), "sequence": int(sequence)}:
            return str(fluid.join(fluid.Parts(time, generator, sequence)))
        case {"id": id_, "form": str(form)} if form in _FORMS:
            return fluid.encode(int(id_), form)  # type: ignore[arg-type]  # one of them
        case {**one} if len(one) == 1 and set(one) <= _FORMS:
            ((form, value),) = one.items()
            return str(fluid.decode(value, form))
    raise not_covered(case)


_FORMS = set(get_args(fluid.Form))

SUITES = [
    suite("idset", 22, of_idset),
    suite("hostlist", 29, of_hostlist),
    suite("duration", 23, of_duration),
    suite("range", 45, of_range),
    suite("shape", 46, of_shape, lambda case: has(case, "shape")),
    suite("query", 35, of_query, lambda case: has(case, "query")),
    suite("fluid", 19, of_id),
]
