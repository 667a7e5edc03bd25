"""Attention maps of training as a strip and as an animation."""

import json
import sys

import numpy as np
import pytest
from PIL import Image
from processes import output_of
from tiny_sweep import MAP

import study
from study.commands.show import main
from study.folders import CHECKOUT as ROOT

STEPS = [10, 20, 30]


def weights_at(step):
    return [[step / 100, 1 - step / 100, 0.0], [0.0, 0.5, 0.5]]


@pytest.fixture
def pair(tiny):
    """Two runs, the second with two validations of three."""
    for arm, steps in (("dot", STEPS), ("bilinear", STEPS[:2])):
        path = tiny.write(arm, 1, 80.0)
        points = [MAP | {"step": step, "weights": weights_at(step)} for step in steps]
        (path.parent / "maps.jsonl").write_text("".join(json.dumps(point) + "\n" for point in points))
    return tiny


def panels_of(figure):
    return [axes for axes in figure.axes if axes.images and axes.get_visible() and axes.get_label() != "<colorbar>"]


def test_a_strip_has_a_panel_for_each_validation_and_a_row_for_each_run(pair):
    first, second = (pair.cells[f"score={name}", 1].id for name in ("dot", "bilinear"))
    figure = study.load(first, runs=pair.runs).plot_maps(second)
    panels = panels_of(figure)
    assert [axes.get_title() for axes in panels] == ["step 10", "20", "30", "step 10", "20"]
    assert [axes.get_ylabel() for axes in panels] == ["dot", "", "", "bilinear", ""]
    for axes, step in zip(panels, [*STEPS, *STEPS[:2]], strict=True):
        assert np.asarray(axes.images[0].get_array()).tolist() == weights_at(step)
    few = panels_of(study.load(first, runs=pair.runs).plot_maps(panels=2))
    assert [axes.get_title() for axes in few] == ["step 10", "30"]  # the first and the last
    assert [axes.get_title() for axes in panels_of(study.load(first, runs=pair.runs).plot_maps(panels=1))] == [
        "step 10"
    ]
    with pytest.raises(study.InputError, match=r"^panels: expected "):
        study.load(first, runs=pair.runs).plot_maps(panels=0)


def test_an_animation_has_a_frame_for_each_validation_and_needs_no_torch(pair, tmp_path):
    first, second = (pair.cells[f"score={name}", 1].id for name in ("dot", "bilinear"))
    script = (
        "import sys; from study.__main__ import main; *words, a, b, c = sys.argv[1:]; "
        "sys.exit(any(main([*words, name]) for name in (a, b, c)) or 'torch' in sys.modules)"
    )
    files = [tmp_path / name for name in ("a.gif", "a.svg", "a.png")]
    words = ["show", first, "--versus", second, "--runs", str(pair.runs), "--maps"]
    names = [file.name for file in files]
    output_of(sys.executable, "-P", "-c", script, *words, *names, cwd=tmp_path, PYTHONPATH=str(ROOT))
    with Image.open(files[0]) as animation:
        assert animation.n_frames == 3
        frames = []
        for place in range(3):
            animation.seek(place)
            frames.append(np.asarray(animation.convert("L"), dtype=int))
    half = frames[0].shape[1] // 2
    assert np.abs(frames[1] - frames[0])[:, half:].max() > 20
    assert np.abs(frames[2] - frames[1])[:, :half].max() > 20
    below = slice(frames[0].shape[0] // 3, None)
    assert np.abs(frames[2] - frames[1])[below, half:].max() < 20  # the second run keeps its last map
    assert files[1].read_text().startswith("<?xml")
    assert files[2].read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "options", [["--maps", "a.jpg"], ["--maps", "a.gif", "--json"], ["--maps", "a.gif", "--sentences"]]
)
def test_other_files_and_other_questions_are_refused(pair, options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(study.InputError, match=r"^--maps: expected .*"):
        main([pair.cells["score=dot", 1].id, "--runs", str(pair.runs), *options])
    assert not list(tmp_path.glob("a.*"))


def test_a_run_without_maps_is_refused(pair):
    path = pair.write("dot", 2, 80.0)
    run = study.load(path.parent.name, runs=pair.runs)
    with pytest.raises(study.InputError, match="expected maps of the validations, got none"):
        run.plot_maps()
    (path.parent / "maps.jsonl").write_text("")
    with pytest.raises(study.InputError, match="got an empty file"):
        study.load(path.parent.name, runs=pair.runs).plot_maps()
