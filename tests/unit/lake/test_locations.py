"""One place has many spellings; whether it lies inside another must not depend on them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.lake.storage import inside, normal

segments = st.lists(
    st.text(st.characters(categories=["L", "N"], include_characters=" -_.=%#?:"), min_size=1), min_size=1
)
LOCAL = ("{}", "file:{}", "file://{}", "file://{}/", "file:{}//")


@given(segments, st.sampled_from(LOCAL), st.sampled_from(LOCAL))
def test_all_spellings_of_a_local_file_are_one(parts: list[str], one: str, other: str) -> None:
    path = "/" + "/".join(parts)
    assert normal(one.format(path)) == normal(other.format(path)) == path


@given(segments, segments, st.sampled_from(LOCAL), st.sampled_from(LOCAL))
def test_a_file_below_a_folder_is_inside_however_both_are_spelt(
    folder: list[str], below: list[str], one: str, other: str
) -> None:
    base = "/" + "/".join(folder)
    assert inside(one.format(base + "/" + "/".join(below)), other.format(base))
    assert inside(one.format(base), other.format(base))
    assert not inside(one.format(base + "x/" + "/".join(below)), other.format(base))


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_the_names_of_s3_are_one(scheme: str) -> None:
    assert normal(f"{scheme}://bucket/a/b/") == "s3://bucket/a/b"
    assert inside(f"{scheme}://bucket/a/b", "s3://bucket/a")
    assert not inside(f"{scheme}://bucket/ab", "s3://bucket/a")
    assert not inside(f"{scheme}://other/a/b", "s3://bucket/a")


def test_different_stores_are_never_inside_each_other() -> None:
    assert not inside("s3://bucket/a", "gs://bucket/a")
    assert not inside("file:/bucket/a", "s3://bucket/a")
    assert not inside("hdfs://one/a", "hdfs://two/a")


def test_double_slashes_in_object_names_are_other_objects() -> None:
    assert normal("s3://bucket/a//b") != normal("s3://bucket/a/b")


def test_everything_local_is_inside_the_root() -> None:
    assert inside("file:///a/b", "/")
    assert inside("/a", "file:///")
