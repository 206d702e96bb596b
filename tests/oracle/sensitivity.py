"""Does the oracle notice? ``python -m tests.oracle.sensitivity [--histories 12] [--seed N] [--only TEXT]``.

Each deliberate fault is put into the lake for a while, and histories are played until one fails. A fault that no history
notices is told, and makes this fail. The last line is a summary as JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from icefloe.lake import changes, content, history, manifests, pins, predicates
from icefloe.lake.content import ManifestSlice
from icefloe.lake.manifests import EntryStatus
from icefloe.lake.ranges import RangeBuilder
from icefloe.spark.session import connect
from tests.oracle.tally import Tally
from tests.oracle.walk import FailedHistoryError, Place, play
from tests.spark_server import shared_project


@dataclass(frozen=True)
class Fault:
    """``put`` takes what is replaced and gives the faulty one."""

    what: str
    owner: Any
    name: str
    put: Callable[[Any], Any]


def _after(act: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A fault in what comes out."""
    return lambda original: lambda *args, **named: act(original(*args, **named))


def _wants_existing(original: Any) -> Any:
    def wants(self: ManifestSlice, entry: Any) -> bool:
        carried_over = self.which == "added" and entry["status"] == EntryStatus.EXISTING
        return carried_over or bool(original(self, entry))

    return wants


def _wants_removed(original: Any) -> Any:
    def wants(self: ManifestSlice, entry: Any) -> bool:
        return self.which == "live" or bool(original(self, entry))

    return wants


def _without_sequence_numbers(original: Any) -> Any:
    def filtered(manifest: Any, keep: Any) -> Any:
        return original(replace(manifest, file=replace(manifest.file, sequence_number=0)), keep)

    return filtered


def _forgetful(original: Any) -> Any:
    """Every other value does not widen the range."""
    seen = [0]

    def widen(self: RangeBuilder, value: Any) -> None:
        seen[0] += 1
        if seen[0] % 2:
            original(self, value)

    return widen


def _guessing(original: Any) -> Any:
    """Files without bounds are passed over instead of making the range unknown."""

    def result(self: RangeBuilder) -> Any:
        found = original(self)
        return replace(found, min_known=True, max_known=True, min=self._min, max=self._max)

    return result


FAULTS = (
    Fault(
        "a compaction counts as an append",
        content,
        "_operation",
        _after(lambda found: "append" if found == "replace" else found),
    ),
    Fault("the last commit of a range is forgotten", changes.history, "between", _after(lambda chain: chain[:-1])),
    Fault("the first commit of a range is forgotten", changes.history, "between", _after(lambda chain: chain[1:])),
    Fault("files carried over in a merged manifest are shown as new", ManifestSlice, "wants", _wants_existing),
    Fault("removed files are shown in the table as it is", ManifestSlice, "wants", _wants_removed),
    Fault(
        "a cherry-pick shows its files twice",
        content,
        "_without_known",
        lambda original: lambda table, added, known: added,
    ),
    Fault(
        "deletes are not applied in the table as it is",
        content,
        "full",
        _after(lambda found: replace(found, slices={**found.slices, "deletes": ()})),
    ),
    Fault("filtered manifests lose their sequence numbers", manifests, "_filtered", _without_sequence_numbers),
    Fault("an overwrite is said to be append-only", content, "log", _after(lambda f: replace(f, append_only=True))),
    Fault("skipped operations are not told", content, "log", _after(lambda f: replace(f, skipped={}))),
    Fault("every other upper bound is missed", RangeBuilder, "_raise", _forgetful),
    Fault("every other lower bound is missed", RangeBuilder, "_lower", _forgetful),
    Fault("files without bounds are passed over", RangeBuilder, "result", _guessing),
    Fault(
        "a range filter has no exception for NULL", predicates, "_any_of", _after(lambda text: text.split(" OR ")[0])
    ),
    Fault(
        "one partition is missing in the filter",
        predicates,
        "partition_filter",
        lambda original: lambda found, specs, schema: original(found[:-1] or found, specs, schema),
    ),
    Fault(
        "a lost history is answered with what is left",
        history,
        "_explain",
        lambda original: (
            lambda metadata, since, chain, **named: history.TableReplacedError("lost", where=named["table"])
        ),
    ),
    Fault("only the end of the range is pinned", content, "log", _after(lambda found: replace(found, holds=()))),
    Fault("pins have no age of their own", pins, "_age", lambda original: lambda *args: 1),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=12, help="at most so many for each fault")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="faults whose description has this")
    asked = parser.parse_args()
    missed: list[str] = []
    noticed: dict[str, int] = {}
    with shared_project() as config:
        spark = connect(config)
        place = Place.on(spark, config)
        for fault in FAULTS:
            if asked.only not in fault.what:
                continue
            after = _noticed_after(place, fault, range(asked.seed, asked.seed + asked.histories))
            if after is None:
                missed.append(fault.what)
            else:
                noticed[fault.what] = after
        spark.stop()
    print(json.dumps({"faults": len(noticed) + len(missed), "noticed_after_histories": noticed, "missed": missed}))
    return 1 if missed else 0


def _noticed_after(place: Place, fault: Fault, seeds: range) -> int | None:
    with ExitStack() as stack:
        stack.enter_context(patch.object(fault.owner, fault.name, fault.put(getattr(fault.owner, fault.name))))
        for number, seed in enumerate(seeds, 1):
            try:
                play(place, seed, Tally())
            except FailedHistoryError as error:
                reason = str(error).splitlines()[0]
                print(f"noticed by history {seed} ({number}): {fault.what}\n    {reason[:200]}", flush=True)
                return number
    print(f"MISSED by {len(seeds)} histories: {fault.what}", flush=True)
    return None


if __name__ == "__main__":
    sys.exit(main())
