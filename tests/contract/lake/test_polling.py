"""Watching tables on every catalog: what has moved is noticed, and what has not costs nothing."""

from __future__ import annotations

from icefloe.config import Config
from icefloe.errors import UnreachableError
from icefloe.lake import Lake
from icefloe.lake.metadata_poll import MetadataPoll
from icefloe.triggers.table_watch import Question, TableWatch
from tests.contract.lake.conftest import MakeTable
from tests.contract.lake.playback import rows


def test_a_look_tells_which_tables_have_moved_and_which_are_missing(lake: Lake, make: MakeTable) -> None:
    one, other = make("one"), make("other")
    one.append(*rows(1))
    missing = (*one.identifier[:-1], "missing")
    names = [one.identifier, other.identifier, missing]
    polling = MetadataPoll(lake.tables)
    first = {name: look.location for name, look in polling.look(names, {}).items()}
    assert first[missing] is None and first[one.identifier] and first[other.identifier]
    assert {name: look.location for name, look in polling.look(names, first).items()} == first
    one.append(*rows(2))
    second = {name: look.location for name, look in polling.look(names, first).items()}
    assert second[one.identifier] != first[one.identifier]
    assert second[other.identifier] == first[other.identifier]


def test_questions_about_one_table_share_one_reading_of_its_metadata(lake: Lake, make: MakeTable) -> None:
    table = make()
    table.append(*rows(1, 2, 3))
    watch = TableWatch(lambda: lake, tick=5)
    start = lake.checkpoint(table.identifier)
    name = lake.canonical_name(table.identifier)
    everything = Question(name, "main", None, ("append",))
    since = Question(name, "main", start, ("append",))
    watch.ask([everything, since])
    assert watch.answer(everything) is None
    assert watch.look()
    first = watch.answer(everything)
    assert first is not None and first.rows == 3
    seen = watch.answer(since)
    assert seen is not None and not seen.moved
    loads = watch.loads
    assert watch.look() and watch.loads == loads
    table.append(*rows(4))
    assert watch.look()
    seen = watch.answer(since)
    assert seen is not None and (seen.snapshots, seen.rows) == (1, 1)
    assert watch.loads <= loads + 1


def test_while_the_catalog_is_away_the_last_answers_stand(lake: Lake, lake_config: Config, make: MakeTable) -> None:
    table = make()
    table.append(*rows(1))
    away = True

    def open_lake() -> Lake:
        if away:
            raise UnreachableError("the catalog does not answer")
        return Lake.open(lake_config)

    watch = TableWatch(open_lake, tick=5)
    question = Question(lake.canonical_name(table.identifier), "main", None, ("append",))
    watch.ask([question])
    assert not watch.look()
    assert "does not answer" in (watch.trouble or "")
    away = False
    assert watch.look()
    found = watch.answer(question)
    assert watch.trouble is None and found is not None and found.rows == 1
