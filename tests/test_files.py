"""Files are written whole or not at all, through devices and pipes, and links stay links."""

import os
import stat
import threading
from pathlib import Path

import pytest

from study import files
from study.errors import InputError


def test_a_file_is_replaced_whole_and_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "deep" / "target", tmp_path / "link"
    link.symlink_to("deep/target")  # it dangles until the first write
    files.write(link, "old")
    target.chmod(0o640)
    files.write(link, "né")
    assert link.is_symlink()
    assert target.read_bytes() == "né".encode()
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    files.write(tmp_path / ("n" * 255), b"")  # the longest name that there is
    with pytest.raises(ZeroDivisionError), files.replacing(target) as temporary:
        temporary.write_text(str(1 // 0))
    with pytest.raises(IsADirectoryError) as refusal:
        files.write(tmp_path / "deep", "")
    assert refusal.value.filename == str(tmp_path / "deep")
    assert target.read_text() == "né"
    assert not files.leftovers(tmp_path)
    assert not files.leftovers(target.parent)


def test_nobody_can_prepare_the_temporary_file(tmp_path: Path) -> None:
    """A guessed name with a link behind it would make the writer overwrite what the link names."""
    seen = set()
    for _ in range(3):
        with files.replacing(tmp_path / "file") as temporary:
            seen.add(temporary.name)
            assert files.leftovers(tmp_path) == [temporary]
    assert len(seen) == 3


def test_devices_and_pipes_are_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    null, link = tmp_path / "null", tmp_path / "link"
    try:
        os.mknod(null, stat.S_IFCHR | 0o666, os.makedev(1, 3))  # a null device of our own
        null.write_bytes(b"")
    except OSError:
        null = Path("/dev/null")
    link.symlink_to(null)
    for path in (null, link):
        files.write(path, "gone")
        assert stat.S_ISCHR(path.stat().st_mode)
    os.mkfifo(pipe := tmp_path / "pipe")
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    files.write(pipe, "through")
    reader.join()
    assert got == [b"through"]
    monkeypatch.setattr(files, "PATIENCE", 0.05)
    with pytest.raises(OSError, match="No such device or address"):
        files.write(pipe, "nobody reads this")
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_stream_keeps_its_place(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    print("before")
    files.write(Path("/dev/stdout"), "between\n")
    print("after")
    assert capfd.readouterr().out == "before\nbetween\nafter\n"


def test_reading_has_limits(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert files.read(tmp_path / "file", 5) == b"12345"
    os.mkfifo(tmp_path / "pipe")
    for path, reason in (
        (tmp_path / "file", "expected at most 4 bytes, got more"),
        (Path("/dev/zero"), "expected at most 4 bytes"),
        (tmp_path / "pipe", "got a pipe or a device"),
        (tmp_path, "got a folder"),
    ):
        with pytest.raises(InputError, match=reason):
            files.read(path, 4)
    handle, end = os.pipe()
    os.write(end, b"abc")
    os.close(end)
    assert files.read(Path(f"/dev/fd/{handle}"), 3) == b"abc"
    os.close(handle)
