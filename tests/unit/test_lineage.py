"""What is around a table: upstream and downstream as far as asked, and no further."""

from __future__ import annotations

from itertools import pairwise

from icefloe.service.lineage import MOST_NODES, LineageEdge, around


def edges(*pairs: tuple[str, str]) -> list[LineageEdge]:
    return [LineageEdge(source, target, "definition") for source, target in pairs]


CHAIN = edges(*pairwise(f"n{number}" for number in range(20)))


def test_it_goes_as_far_as_asked_in_both_directions() -> None:
    chosen, cut = around("n10", CHAIN, 2)
    assert (chosen, cut) == ({"n10": 0, "n9": 1, "n11": 1, "n8": 2, "n12": 2}, None)


def test_what_only_shares_a_source_is_not_in_it() -> None:
    chosen, _ = around("b", edges(("a", "b"), ("a", "sibling"), ("other", "c"), ("b", "c")), 5)
    assert set(chosen) == {"a", "b", "c"}


def test_a_circle_ends() -> None:
    chosen, _ = around("a", edges(("a", "b"), ("b", "a"), ("a", "a")), 10)
    assert set(chosen) == {"a", "b"}


def test_a_table_that_thousands_read_is_cut_at_the_nearest() -> None:
    crowd = edges(*(("a", f"w{number}") for number in range(5000)))
    chosen, cut = around("a", crowd, 4)
    assert len(chosen) == MOST_NODES
    assert cut == f"the nearest {MOST_NODES} are shown"
