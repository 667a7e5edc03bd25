"""Files are written whole or not at all, and no content of a stranger's folder stops a reader or leads it elsewhere."""

import json
import os
import stat
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from study import files
from study.errors import InputError


def test_a_file_is_replaced_whole(tmp_path):
    target = tmp_path / "deep" / "target"
    files.write(target, "old")
    files.write(target, "né")
    assert target.read_bytes() == "né".encode()
    with pytest.raises(ZeroDivisionError), files.replacing(target) as temporary:
        temporary.write_text(str(1 // 0))
    with pytest.raises(IsADirectoryError) as refusal:
        files.write(tmp_path / "deep", "")
    assert refusal.value.filename == str(tmp_path / "deep")
    assert target.read_text() == "né"
    assert not files.leftovers(tmp_path)
    assert not files.leftovers(target.parent)


def test_nothing_is_written_through_a_link_or_into_a_pipe(tmp_path):
    victim, link = tmp_path / "victim", tmp_path / "link"
    victim.write_text("mine")
    link.symlink_to(victim)
    with pytest.raises(OSError, match="symbolic"):
        files.append(link, "theirs")
    files.write(link, "theirs")
    assert (victim.read_text(), link.read_text(), link.is_symlink()) == ("mine", "theirs", False)
    files.append(link, " too")
    assert link.read_text() == "theirs too"
    os.mkfifo(pipe := tmp_path / "pipe")
    for write in (files.write, files.append):
        with pytest.raises(OSError, match=r"a pipe or a device|No such device"):
            write(pipe, "nobody reads this")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert not files.leftovers(tmp_path)


def test_reading_has_limits(tmp_path):
    (tmp_path / "file").write_bytes(b"12345")
    assert files.read(tmp_path / "file", 5) == b"12345"
    for path in (tmp_path / "file", Path("/dev/zero")):
        with pytest.raises(InputError, match="expected at most 4 bytes, got more"):
            files.read(path, 4)
    with pytest.raises(IsADirectoryError):
        files.read(tmp_path, 4)


def test_links_are_followed_only_above_the_folder(tmp_path):
    (tmp_path / "run" / "maps").mkdir(parents=True)
    (tmp_path / "run" / "maps" / "one").write_text("1")
    (tmp_path / "secret").write_text("s")
    (tmp_path / "link").symlink_to("run")
    (tmp_path / "run" / "out").symlink_to("../secret")
    (tmp_path / "run" / "up").symlink_to("..")
    run = tmp_path / "link"
    assert files.read(run / "maps" / "one", below=run) == b"1"
    assert files.read(run / "out") == b"s"
    for name in ("out", "up/secret", "maps/../out", "../secret"):
        with pytest.raises(InputError, match="got a link"):
            files.read(run / name, below=run)
    with pytest.raises(FileNotFoundError):
        files.read(run / "none", below=run)


READERS = {"json": files.read_json, "text": files.read_text, "parquet": files.read_parquet}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A valid file of each kind."""
    path = tmp_path_factory.mktemp("whole") / "file"
    table = pd.DataFrame({"id": ["a-s1", "b-s1"] * 20, "value": [0.5, None] * 20, "subset": [None, "x"] * 20})
    table.to_parquet(path)
    return {"json": b'{"a": [1, 2.5, null, "\\u00e9"]}', "text": "né".encode(), "parquet": path.read_bytes()}


@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data(), kind=st.sampled_from(sorted(READERS)))
def test_any_bytes_give_a_value_or_a_line(tmp_path, whole, data, kind):
    content = bytearray(whole[kind])
    how = data.draw(st.sampled_from(["random", "truncated", "flipped"]))
    if how == "random":
        content = bytearray(data.draw(st.binary(max_size=300) | st.sampled_from([b"[" * 100_000, b"1" * 5000])))
    elif how == "truncated":
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    else:
        for place in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=8)):
            content[place] ^= 1 << data.draw(st.integers(0, 7))
    path = tmp_path / "file"
    path.write_bytes(content)
    said = ""
    try:
        READERS[kind](path, below=tmp_path)
    except InputError as problem:
        said = str(problem)
    assert not said or (said.startswith(f"{path}: ") and "\n" not in said)


def test_no_bit_of_the_statistics_of_a_table_ends_the_process(tmp_path, whole):
    """pyarrow's own reader of statistics does so for three of these bytes."""
    table, path = whole["parquet"], tmp_path / "file"
    footer = len(table) - 8 - int.from_bytes(table[-8:-4], "little")
    for place in range(8 * footer, 8 * (footer + 24)):
        content = bytearray(table)
        content[place // 8] ^= 1 << place % 8
        path.write_bytes(content)
        with suppress(InputError):
            files.read_parquet(path, first="a-s1")


def test_a_table_without_a_column_or_a_file_is_refused(tmp_path):
    path = tmp_path / "table.parquet"
    pd.DataFrame({"a": ["same"]}).to_parquet(path)
    with pytest.raises(InputError, match="columns a"):
        files.read_parquet(path, columns=["b"])
    with pytest.raises(InputError, match="No such file"):
        files.read_parquet(path.with_name("none"))
    assert json.loads(files.read_parquet(path, first="x").to_pandas().to_json()) == {"a": {}}
