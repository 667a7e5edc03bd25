import itertools
import json
import math

import pytest
import yaml
from plot_cases import Case

from study import metrics
from study.analysis import measures
from study.analysis.comparison import compare_arms
from study.analysis.figures import drawings, points
from study.analysis.measures import Measure
from study.analysis.runs import Runs
from study.claims.evaluate import evaluate
from study.claims.schema import ClaimFile, read
from study.config import Grammar
from study.errors import InputError
from study.files import CHECKOUT as ROOT
from study.metrics import KEPT
from study.records import Score

SITES = ("encoder_self", "decoder_self", "cross")
ABOVE = 350 / 11 - 25
"""The mean over the steps of an order that holds, above that of a straight line: (4 · 50 + 350 − 200) / 11 − 25."""
HEADS = [f"{site} {layer} {head}" for site in SITES for layer in range(2) for head in range(4)]
MODEL = "\n  model.family: {value: transformer}\n  model.layers: {value: 2}\n  data.name: {value: grammar}\n"


def curve(experiment):
    """The share of random orders falls evenly from 50; any other holds to the third step, then loses evenly; + seed."""
    even = [50.0 - 5 * tenth for tenth in range(11)]
    held = [50.0] * 4 + [50.0 - 50 / 7 * (step + 1) for step in range(7)]
    lost = even if experiment.pruning.order == "random" else held
    return [value + experiment.seed for value in lost]


def answer(experiment):
    """Return a record as a curve, each head alone and each layer's best leave it."""
    question = experiment.pruning.question
    if question == "curve":
        bleu, free = curve(experiment), 0.0 if experiment.pruning.order == "random" else 30.0
        found = [part("bleu", v, subset) for v, subset in zip(bleu, reversed(KEPT), strict=True)]
        return [*found, part("free", free + experiment.seed), part("area", sum(bleu) / 11), part("cliff", 5.0)]
    if question == "each_head":
        # Seed + 1 heads cost 5 of 40 BLEU when they go alone, one costs .6, the others .4.
        cost = [5.0] * (experiment.seed + 1) + [0.6] + [0.4] * (len(HEADS) - experiment.seed - 2)
        alone = [part("bleu", 40.0 - c, f"without {head}") for c, head in zip(cost, HEADS, strict=True)]
        return [part("needed", (10.0, 15.0, 20.0, 25.0, 30.0)[experiment.seed - 1]), *alone]
    layers = {f"{site} {layer}": -experiment.seed for site in SITES for layer in range(2)} | {"cross 1": -20.0}
    return [part("bleu", 40.0 + value, f"one of {name}") for name, value in layers.items()]


def part(metric, value, subset=None):
    return Score(split="test", metric=metric, value=value, n=50, subset=subset)


def order(experiment):
    """Encoder heads first, then those of the decoder, then cross; of a random order several."""
    found = {"order": HEADS, "removed": []}
    return {"pruning": found | ({"draws": {"bleu": []}} if experiment.pruning.order == "random" else {})}


@pytest.fixture
def case(tmp_path):
    """The sweep of orders by site, as it is declared but for the sizes."""
    arms = [f"pruning.order={o} pruning.site={s}" for s in ("all", "cross") for o in ("random", "gradient")]
    made = Case(tmp_path, "pruning", f"  arm: {{values: {json.dumps(arms)}}}{MODEL}", metric="test/area")
    made.write(lambda e: sum(curve(e)) / 11, scores=lambda e: answer(e)[:-2], diagnostics=order)
    return made


def test_heads_left_and_heads_free_by_hand(case):
    """24 heads of which 35% go for free are 8 (8.4), the 8 of the encoder; 30 + seed 1 is 31%: 7 (7.44)."""
    path = case.path(1, pruning__order="gradient", pruning__site="all")
    record = json.loads(path.read_text())
    assert measures.free_heads(record) == (HEADS, 7.0)
    assert [measures.diagnostic(record, f"{metrics.LEFT}{site}") for site in SITES] == [1 / 8, 1.0, 1.0]
    runs = Runs(case.runs)
    assert runs.value(record["id"], Measure("diagnostics/pruning/left/encoder_self")) == 1 / 8
    assert runs.value(record["id"], Measure("test/bleu/kept 0.0")) == 1.0
    chance = json.loads(case.path(1, pruning__order="random", pruning__site="all").read_text())
    assert measures.free_heads(chance)[1] == pytest.approx(0.24)
    assert measures.diagnostic(chance, f"{metrics.LEFT}cross") is None
    assert (metrics.unit_of("test/cliff"), metrics.unit_of("test/bleu/kept 0.5")) == ("bleu",) * 2
    for wrong in ("test/aer/kept 0.5", "test/bleu/kept 0.55", "test/bleu/one of mlp 0"):
        with pytest.raises(InputError, match="grammar has no "):
            metrics.check_claimed(wrong, Grammar())


def test_a_table_of_pruned_runs_by_site(case):
    table = compare_arms(case.spec, Runs(case.runs)).table
    assert [block.head for block in table.blocks] == ["all sites", "cross-attention"]
    scores = ["test/bleu", "test/exact", "test/free", "test/area"]
    assert [column.key for column in table.columns] == ["arm", "n", *scores, "difference", "interval", "holm", "freed"]
    base, other = table.blocks[0].rows
    assert (base.cells["interval"], other.cells["arm"]) == ("baseline", "gradient")
    assert other.cells["test/free"] == "33.0 ± 1.6"
    assert (base.cells["freed"], other.cells["freed"]) == ("0.7 of 24", "7.8 of 24")
    assert other.numbers["difference"] == pytest.approx(ABOVE, abs=1e-4)
    assert "entropy" not in table.csv()


def test_the_figure_of_curves_by_hand(case):
    case.path(2, pruning__order="gradient", pruning__site="cross").unlink()
    table = points.pruning(Runs(case.runs), case.spec)
    assert list(dict.fromkeys(table["column"])) == ["all sites", "cross-attention"]
    here = table[(table["column"] == "all sites") & (table["line"] == "order=random") & (table["x"] == 20)]
    assert here["score"].tolist() == [41.0, 42.0, 43.0, 44.0, 45.0]
    half = 2.7764451051977987 * math.sqrt(2.5 / 5)
    assert (set(here["mean"]), set(here["low"])) == ({43.0}, {round(43 - half, 4)})
    assert here["free"].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    hole = table[(table["column"] == "cross-attention") & (table["line"] == "gradient")]
    assert hole["mean"].isna().all()
    said = [text.get_text() for text in drawings.pruning(table).legends[0].get_texts()]
    assert said == ["random orders", "gradient", "no result"]


def asked(folder, *ids):
    """The verdicts of claims on sweeps of the same arms in a folder, with a margin of 4 for named ones."""
    path = ROOT / "study" / "claims" / "claims.yaml"
    wanted = [claim for claim in read(path).claims if claim.id in ids]
    plain = []
    for claim in wanted:
        named = [
            q.model_copy(update={"margin": 4.0 if isinstance(q.margin, str) else q.margin}) for q in claim.questions
        ]
        plain.append(claim.model_copy(update={"questions": tuple(named)}))
    runs = Runs(folder / "results" / "runs", folder / "sweeps")
    rows = evaluate([ClaimFile(path=path, claims=tuple(plain))], runs)
    return [list(own) for _, own in itertools.groupby(rows, key=lambda row: id(row.question))]


def declared(folder, name, metric):
    """The arms of our own sweep."""
    tree = yaml.safe_load((ROOT / "sweeps" / f"{name}.yaml").read_text())
    arms = tree["parameters"]["arm"]["values"]
    return Case(folder, name, f"  arm: {{values: {json.dumps(arms)}}}{MODEL}", metric=metric)


def test_single_heads_and_one_head_a_layer_by_hand(tmp_path):
    """A sixth of the heads costs more than 1 BLEU. The last cross layer costs 20, the others their seed: 17 more."""
    made = declared(tmp_path, "heads_alone", "test/bleu")
    made.write(lambda e: 40.0, scores=answer)
    table = compare_arms(made.spec, Runs(made.runs)).table
    _, best = table.blocks[0].rows
    assert (best.cells["test/needed"], best.cells["with_one_head"]) == ("–", "20.0")
    assert "difference" not in [column.key for column in table.columns]  # both arms are the same model
    (every,), (above,), (costly,), _, enough, (last,) = asked(tmp_path, 12, 13)
    assert (every.word, every.test.method, every.test.difference) == ("undecided", "exact", 50.0)
    test = costly.test  # at a margin of 1: 2 to 6 heads of 24, at .5 one more, at .25 all
    assert (costly.word, costly.verdict, test.method, test.df) == ("supported", "holds", "within", 4)
    assert (test.difference, test.se) == pytest.approx((400 / 24 - 50, 100 / 24 * math.sqrt(2.5 / 5)))
    assert test.detectable == pytest.approx((2.776445 + 0.940965) * test.se, rel=1e-6)
    assert costly.name() == "heads that cost more than 1.0 BLEU − 50 %"
    assert costly.margin is None
    assert (above.verdict, above.test.difference) == ("holds", pytest.approx(500 / 24 - 50))
    assert enough[0].verdict == "open"
    assert [f.test.difference for f in enough] == [-3.0] * 5
    test = last.test
    assert (last.word, test.difference, test.se) == ("supported", -17.0, pytest.approx(math.sqrt(2.5 / 5)))


def test_free_area_and_cliff_by_hand(tmp_path):
    """33% free, 13 over a fifth. Means over the steps: random 25, on the straight line, the others 31.8."""
    made = declared(tmp_path, "pruning", "test/area")
    made.write(
        lambda e: sum(curve(e)) / 11, scores=lambda e: [s for s in answer(e) if s.metric != "area"], diagnostics=order
    )
    (fifth,), found, late, steep, sites, together = asked(tmp_path, 14, 15)
    assert (fifth.word, fifth.test.difference) == ("supported", 13.0)
    assert [f.test.difference for f in found] == pytest.approx([ABOVE] * 6, abs=1e-4)
    assert late[0].test.difference == pytest.approx(ABOVE, abs=1e-4)
    assert (steep[0].verdict, sites[0].verdict) == ("open", "fails")
    means = [f.test.difference for f in together]
    assert means == pytest.approx([0.0, 1 - 1 / 8 / 5])
    made.path(3, pruning__order="gates", pruning__site="all").unlink()
    assert asked(tmp_path, 15)[1][0].verdict == "not yet run"
