"""Compute the published tables again from the records, with nothing of the package, and compare.

By hand: `python tests/recompute.py [--tables DIR]`. Which arms a contrast has is read from study/claims/claims.yaml and
from the configurations in the records. Every number of a table is computed again, or counted with the reason why not.
"""

import argparse
import csv
import json
import math
import re
import sys
from collections import Counter, namedtuple
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import yaml
from scipy import stats

ROOT = Path(__file__).parents[1]
TABLES = ROOT / "results" / "tables"
ENDS = ("difference", "low", "high", "low90", "high90")
NUMBERS = (*ENDS, "se", "df", "p", "holm", "detectable")
LESS = {"nll", "aer", "perplexity", "nll_per_token_by_length", "cliff"}
"""Scores of which less is better."""
BY_SENTENCE = {"nll", "exact", "accuracy", "bleu"}
PRONOUN = re.compile(r"\b(he|him|she|her|it)\b", re.IGNORECASE)
WORD = re.compile(r"\w+|[^\w\s]")
RESAMPLES = 2000
SUMMED = ("id", "corpus", "family", "part", "metric", "contrast")
BESIDE = ("entropy", "tokens_per_second", "freed", "heads", "with_one_head")
COUNTED = ("sys_len", "ref_len", "correct1", "correct2", "correct3", "correct4")
Arm = namedtuple("Arm", "values diverged declared holes", defaults=(0, 10, 0))
"""Value by seed (none if a finished run has none), and how many runs diverged, were declared, and have no result."""


class Runs(list):
    """Runs of an arm, and how many are missing."""

    missing = 0

    @property
    def declared(self):
        return len(self) + self.missing


def arm_of(runs, read):
    values = {run["seed"]: read(run) for run in runs if run["status"] == "finished"}
    diverged = sum(run["status"] == "diverged" for run in runs)
    failed = sum(run["status"] == "failed" for run in runs)
    return Arm({} if None in values.values() else values, diverged, runs.declared, runs.missing + failed)


def arms_of(runs, missing):
    """Arm ↦ its runs."""
    arms = {name.rpartition("-s")[0]: Runs() for name in (*(run["id"] for run in runs), *missing)}
    for run in sorted(runs, key=lambda run: run["seed"]):
        arms[run["id"].rpartition("-s")[0]].append(run)
    for name in missing:
        arms[name.rpartition("-s")[0]].missing += 1
    return arms


def mean(values):
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def sd(values):
    return None if len(values) < 2 else 0.0 if np.ptp(values) == 0 else float(np.std(values, ddof=1))


def scores(arm):
    return [arm.values[seed] for seed in sorted(arm.values)]


def leaves(tree, path):
    if isinstance(tree, list):
        return [leaf for item in tree for leaf in leaves(item, path)]
    if path and isinstance(tree, dict):
        return leaves(tree[path[0]], path[1:]) if path[0] in tree else []
    return [] if path else [tree]


def value(run, metric, costing=None):
    """Return the value that a question reads: a score, a diagnostic, or a share of heads."""
    if metric.startswith("diagnostics/pruning/left/"):  # of a site's heads, when all have gone that go for free
        here = [head.split()[0] == metric.rpartition("/")[2] for head in run["diagnostics"]["pruning"]["order"]]
        return sum(here[math.floor(value(run, "test/free") / 100 * len(here) + 0.5) :]) / sum(here)
    if metric.startswith("diagnostics/"):
        return mean(leaves(run["diagnostics"], metric.split("/")[1:]))
    split, name, *part = metric.split("/", 2)
    parts = {s["subset"]: s for s in run["scores"] if (s["split"], s["metric"]) == (split, name)}
    whole = parts.get(part[0] if part else None, {"value": None})["value"]
    if costing is not None:
        cost = [whole - s["value"] for name, s in parts.items() if re.fullmatch(r"without \w+ \d+ \d+", name or "")]
        return 100 * mean([float(one > costing) for one in cost])
    return whole


def student(method, difference, se, df):
    half, half90 = stats.t.ppf(0.975, df) * se, stats.t.ppf(0.95, df) * se
    ends = zip(ENDS, (0, -half, half, -half90, half90), strict=True)
    p = 2 * stats.t.sf(abs(difference) / se, df)
    return {"method": method, "se": se, "df": df, "p": p} | {name: difference + end for name, end in ends}


def exact(method, difference, ways, as_large):
    """The permutation test of runs that agree exactly within each arm: so many of the ways are as large."""
    if difference and ways:
        return {"method": "exact", "difference": difference, "p": as_large / ways}
    return {"method": method, "difference": difference}


def one_sample(values):
    middle, largest = np.mean(values), max(1.0, np.abs(values).max())
    if np.abs(np.array(values) - middle).max() <= 1e-9 * largest:
        return exact("within", middle, 2 ** len(values), 2)
    return student("within", middle, sd(values) / math.sqrt(len(values)), len(values) - 1)


def statistics(arms, contrasts, noises=()):
    """The statistics of contrasts {arm: weight}: Welch's test, with Holm's p and Bonferroni's intervals over all.

    `noises`: for each contrast the variance of its estimate over sentences, and their number.
    """

    def one(weights, noise):
        some, w = [arms[key] for key in weights], list(weights.values())
        if any(arm.holes for arm in some):
            return {"method": "missing runs"}
        if not all(arm.values for arm in some):
            return {"method": "diverged" if any(arm.diverged for arm in some) else "no value"}
        difference = sum(x * np.mean(scores(arm)) for x, arm in zip(w, some, strict=True))
        if min(len(arm.values) for arm in some) < 3:
            return {"method": "few", "difference": difference}
        if len(some) == 1:
            return one_sample(scores(some[0]))
        parts = [(x * sd(scores(arm))) ** 2 / len(arm.values) for x, arm in zip(w, some, strict=True)]
        if not sum(parts):
            n = [len(arm.values) for arm in some]
            return exact("welch", difference, math.comb(sum(n), n[0]) if len(n) == 2 else 0, 1 + (n[0] == n[1]))
        freedoms = [len(arm.values) - 1 for arm in some]
        if noise:
            parts, freedoms = [*parts, noise[0]], [*freedoms, noise[1] - 1]
        df = sum(parts) ** 2 / sum(p * p / freedom for p, freedom in zip(parts, freedoms, strict=True))
        return student("welch", difference, math.sqrt(sum(parts)), df)

    found = [one(weights, noise) for weights, noise in zip(contrasts, noises or [None] * len(contrasts), strict=True)]
    order = sorted((row for row in found if "p" in row), key=lambda row: row["p"])
    for i, row in enumerate(order):
        row["holm"] = max(order[i - 1]["holm"] if i else 0.0, min(1.0, (len(order) - i) * row["p"]))
        if "df" not in row:
            continue
        half = stats.t.ppf(1 - 0.025 / len(order), row["df"]) * row["se"]
        row |= {"low": row["difference"] - half, "high": row["difference"] + half}
        row["detectable"] = half + stats.t.ppf(0.8, row["df"]) * row["se"]
    return found


NEWER = {"norm": "none", "logits": "plain", "map_rate": "common"}
"""Fields that old records lack, and their value there."""


def at(config, name):
    """Values of a field: one, or one for each attention site where the name has none."""
    tree, path = config, name.split(".")
    if path[:2] == ["model", "attention"] and len(path) == 3:
        sites = [site for site in config["model"]["attention"].values() if site is not None]
        return [site.get(path[2], NEWER.get(path[2])) for site in sites]
    for part in path:
        tree = (tree or {}).get(part)
    return [tree]


def fields(tree):
    """Fields of a configuration without their sections, and their values as the words of an arm print them."""
    for name, one in tree.items():
        if isinstance(one, dict):
            yield from fields(one)
        else:
            yield name, "none" if one is None else f"{one:g}" if isinstance(one, float) else str(one).lower()


def has(config, chosen):
    return all(one == wanted for name, wanted in chosen.items() for one in at(config, name))


def apart(test, printed):
    """Return how far a contrast is from a printed estimate and lower end; equal estimates differ by their ends."""
    ends = zip(("difference", "low"), printed, strict=True)
    return [round(abs(test.get(name, math.inf) - at), 3) for name, at in ends]


def band(rates, seed, within):
    """Doublings of the run of neighbouring rates around the best whose loss is within so much of it."""
    losses = [arm.values.get(seed, math.inf) for _, arm in rates]
    low = high = best = int(np.argmin(losses))
    while low and losses[low - 1] <= losses[best] + within:
        low -= 1
    while high + 1 < len(losses) and losses[high + 1] <= losses[best] + within:
        high += 1
    return math.log2(rates[high][0] / rates[low][0])


def bleu_parts(counts):
    """BLEU by sentence: its linear part, whose mean is BLEU."""
    h, r, *c = counts.T
    t = [np.maximum(h - n, 0) for n in range(4)]
    short = float(h.sum() < r.sum())
    whole = math.exp(
        sum(math.log(a.sum() / b.sum()) for a, b in zip(c, t, strict=True)) / 4 + short * (1 - r.sum() / h.sum())
    )
    g = sum(a / a.sum() - b / b.sum() for a, b in zip(c, t, strict=True)) / 4
    g = g + short * r.sum() / h.sum() * (h / h.sum() - r / r.sum())
    return 100 * whole * (1 + len(h) * g)


def ranked(x, y):
    """Spearman's correlation of each row."""
    a, b = (stats.rankdata(v, axis=-1) for v in (x, y))
    a, b = (v - v.mean(axis=-1, keepdims=True) for v in (a, b))
    with np.errstate(invalid="ignore"):
        return (a * b).sum(axis=-1) / np.sqrt((a**2).sum(axis=-1) * (b**2).sum(axis=-1))


def noise_of_order(blocks):
    """Standard deviation of artanh ρ over resampled baselines, and the ceiling of ρ."""
    draw, sides = np.random.default_rng(1), []

    def again(scores):
        columns = []
        for one in scores:
            n = len(one)
            means = one[draw.integers(0, n, (RESAMPLES, n))].mean(axis=1)
            columns.append(one.mean() + math.sqrt(n / (n - 1)) * (means - one.mean()))
        return np.stack(columns, axis=1)

    def middle(scores):
        return np.array([one.mean() for one in scores])

    for side in (0, 1):
        scores = [block[side] for block in blocks]
        resamples = [again(one) for one in scores]
        noisy = np.hstack([one[:, 1:] - one[:, :1] for one in resamples])
        shifted = np.hstack([middle(one)[1:] - more[:, :1] for one, more in zip(scores, resamples, strict=True)])
        sides.append((noisy, shifted))
    half = RESAMPLES // 2
    between = [ranked(noisy[:half], noisy[half:]).mean() for noisy, _ in sides]
    shift = np.std(np.arctanh(ranked(sides[0][1], sides[1][1])), ddof=1)
    return float(shift), math.sqrt(math.prod(max(0.0, 2 - 1 / one) for one in between))


def needed(row, noise, target, tail, power):
    """Seeds per arm that show a difference of the target, or none."""
    sentences = noise[0] if noise else 0.0
    v, n = max(0.0, row["se"] ** 2 - sentences) * row["n"], np.arange(3, 1001)
    df = (2 if row["method"] == "welch" else 1) * (n - 1)
    half = stats.t.ppf(1 - tail, df) + stats.t.ppf(power, df)
    enough = n[half * np.sqrt(v / n + sentences) <= target]
    return int(enough[0]) if len(enough) else None


def turns(row, test, kind, metric, entry):
    """The margin at which the printed word of a contrast turns."""
    no_difference = kind in ("equivalence", "noninferiority")
    if "low90" not in test or (not no_difference and (test["holm"] or 1) < 0.05):
        return None
    better = -1 if metric.split("/")[1] in LESS else 1
    sign = {"higher": 1, "lower": -1, "better": better, "worse": -better, "different": 0}[entry.get("expect", "better")]
    if row["finding"].startswith("contradicted"):
        found = min(abs(test["low"]), abs(test["high"]))
    elif kind == "noninferiority":
        found = max(0.0, -min(sign * test["low90"], sign * test["high90"]))
    else:
        found = max(abs(test["low90"]), abs(test["high90"]))
    return found


class Study:
    """The records of a folder by sweep and arm, and where its tables differ from them."""

    def __init__(self, root, tables):
        self.root, self.sweeps, self.metrics, self.without = root, {}, {}, {}
        self.reset(tables)
        results = root / "results"
        made, members = {}, {}
        for row in pq.read_table(results / "runs", columns=["id", "record"]).to_pylist():
            made[row["id"]] = json.loads(row["record"]) | {"scores": []}
        for row in pq.read_table(results / "arms").to_pylist():
            members.setdefault(row["sweep"], set()).add(row["id"])
        columns = ["id", "split", "metric", "subset", "value", "n"]
        for row in pq.read_table(results / "scores", columns=columns).to_pylist():
            made[row.pop("id")]["scores"].append(row)
        for sweep, told in json.loads((results / "manifest.json").read_text(encoding="utf-8"))["sweeps"].items():
            self.metrics[sweep] = told["metric"]
            names = members[sweep] | set((told["partial"] or {}).get("missing", []))
            arms = arms_of([made[name] for name in sorted(names & made.keys())], sorted(names - made.keys()))
            self.sweeps[sweep] = {runs[0]["config_hash"]: runs for runs in arms.values() if runs}
            self.without[sweep] = [runs for runs in arms.values() if not runs]
        self.records, self.texts, self.kept, self.asked = made, {}, {}, {}
        self.tree = yaml.safe_load((root / "study/claims/claims.yaml").read_text(encoding="utf-8"))

    def sentences(self, corpus, split):
        """Return the sentences of a split by run, and the references by the hash of its data.

        A reference is what some model translated exactly. One sentence of 3,000 has none; a translation stands for it.
        """
        if (corpus, split) not in self.texts:
            path = self.root / "results" / "sentences" / corpus
            columns = ["sentence", "id", "translation", "nll", "exact", *COUNTED]
            table = pq.read_table(path, columns=columns, filters=[("split", "==", split)]).to_pandas()
            data = {name: str(self.records[name]["data"]["files"]) for name in table["id"].unique()}
            right = table[["sentence", "translation", "exact"]].assign(data=table["id"].map(data))
            right = right.sort_values("exact", ascending=False, kind="stable")
            references = right.groupby(["data", "sentence"], observed=True)["translation"].first().str.strip()
            own = dict(list(table.sort_values("sentence", kind="stable").groupby("id", observed=True)))
            self.texts[corpus, split] = own, {key: rows.droplevel(0) for key, rows in references.groupby(level=0)}
        return self.texts[corpus, split]

    def by_sentence(self, name, metric):
        """Return the score of each sentence of one run, and where it counts; nothing if that is not known."""
        if (name, metric) in self.kept:
            return self.kept[name, metric]
        split, score, subset = [*metric.split("/", 2), ""][:3]
        rows, references = self.sentences(self.records[name]["config"]["data"]["name"], split)
        own, texts = rows[name], references.get(str(self.records[name]["data"]["files"]))
        inside = np.array([not PRONOUN.search(text) for text in texts]) if subset else np.full(len(own), True)
        if score == "nll":
            found = own["nll"].to_numpy(float) if own["nll"].notna().all() else None
        elif score == "exact":
            found = 100.0 * own["exact"].to_numpy(float)
        elif score == "accuracy":
            pairs = [(WORD.findall(a), WORD.findall(b)) for a, b in zip(own["translation"], texts, strict=True)]
            right = np.array([sum(x == y for x, y in zip(a, b, strict=False)) for a, b in pairs])
            found = 100.0 * right * len(texts) / sum(len(b) for _, b in pairs)
        else:
            found = bleu_parts(own[list(COUNTED)].to_numpy(float)) if own["sys_len"].notna().all() else None
        self.kept[name, metric] = None if found is None else (found[inside], own["exact"].to_numpy(bool)[inside])
        return self.kept[name, metric]

    def noise(self, metric, sides):
        """Return variance over sentences, their number, and three parts of an estimate of NLL.

        `sides`: weight and runs of equal seeds of each arm.
        """
        if metric.startswith("diagnostics/") or metric.split("/")[1] not in BY_SENTENCE:
            return None
        found = [[self.by_sentence(name, metric) for name in names] for _, names in sides]
        if len(sides[0][1]) < 2 or any(one is None for some in found for one in some):
            return None
        d = sum(w * np.array([values for values, _ in some]) for (w, _), some in zip(sides, found, strict=True))
        right = sum(np.array([exact for _, exact in some], dtype=int) for some in found)
        s, i = d.shape
        rest = d - d.mean(axis=1, keepdims=True) - d.mean(axis=0) + d.mean()
        error = (rest**2).sum() / ((s - 1) * (i - 1))
        parts = (d * (right == len(sides))).mean(), (d * (right == 0)).mean()
        shares = (parts[0], d.mean() - sum(parts), parts[1]) if "/nll" in metric else ()
        return max(0.0, s * d.mean(axis=0).var(ddof=1) - error) / (s * i), i, shares

    def reset(self, tables):
        """Compare with the tables of another folder."""
        self.tables, self.checked, self.confirmed, self.problems, self.left = tables, 0, 0, [], Counter()
        self.printed, self.known, self.first = {}, {}, {}
        return self

    def rows(self, stem):
        with (self.tables / f"{stem}.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        self.printed[stem] = sum(
            bool(re.fullmatch(r"-?\d[\d.e-]*", cell or "")) for row in rows for cell in row.values()
        )
        return rows

    @property
    def share(self):
        """Numbers that were computed again, of all printed numbers in the tables."""
        return self.confirmed / sum(self.printed.values())

    @property
    def unread(self):
        """Tables that no number is computed for."""
        return {path.stem for path in self.tables.glob("*.csv")} - self.printed.keys()

    def same(self, where, row, expected, units=0.5001):
        """Compare numbers with what a row prints: four decimals, p values three digits."""
        for name, number in expected.items():
            if name not in row:
                continue
            self.checked += 1
            self.confirmed += row[name] != ""
            text, digits = row[name], name in ("p", "holm", "false_discovery")
            if number is None or text == "":
                good = number is None and text == ""
            else:
                unit = 10 ** (math.floor(math.log10(number)) - 2) if digits else 1e-3 if name == "df" else 1e-4
                good = abs(float(text) - number) <= units * unit
            if not good:
                self.problems.append(f"{where}: {name}: {text or 'nothing'} is printed, the records give {number}")

    def runs(self, sweep, row):
        """Runs of the arm that a row names; their configuration has the values that the row's words give."""
        if not row["runs"]:  # no record tells these arms apart
            return self.without[sweep][0]
        runs = next(
            runs for runs in self.sweeps[sweep].values() if row["runs"].split()[0] in {run["id"] for run in runs}
        )
        known = set(fields(runs[0]["config"]))
        for word in (word for word in f"{row['facet']} {row['arm']}".split() if "=" in word):
            name, _, text = word.partition("=")
            self.checked += 1
            if (name.rpartition(".")[2], text) not in known:
                self.problems.append(f"{sweep}: arm: {word} is printed, {runs[0]['id']} differs")
        return runs

    def sweep_table(self, sweep):
        blocks = {}
        for row in self.rows(sweep):
            blocks.setdefault(row["facet"], []).append((row, self.runs(sweep, row)))
        for block in blocks.values():
            runs = block[0][1]
            self.first.setdefault(
                (sweep, runs[0]["config"]["model"]["family"]) if runs else None, runs and runs[0]["config_hash"]
            )
            arms = dict(enumerate(arm_of(runs, lambda run: value(run, self.metrics[sweep])) for _, runs in block))
            found = statistics(arms, [{i: 1.0, 0: -1.0} for i in arms if i])
            found = [{"method": "no baseline"}] * len(found) if arms[0].holes or not arms[0].values else found
            for (row, runs), arm, test in zip(block, arms.values(), [{"method": "baseline"}, *found], strict=True):
                where, states = f"{sweep}: {row['facet']} {row['arm']}", Counter(run["status"] for run in runs)
                known = {"n": len(arm.values), "declared": runs.declared, "missing": runs.missing, "started": 0}
                known |= {state: states[state] for state in ("finished", "diverged", "failed")}
                known |= {name: test.get(name) for name in NUMBERS}
                for name in (name for name in row if name.endswith(" mean")):
                    got = [one for run in runs if (one := value(run, name.removesuffix(" mean"))) is not None]
                    known |= {name: mean(got), name.replace(" mean", " sd"): sd(got)}
                self.left["columns beside the scores"] += sum(bool(row.get(name)) for name in BESIDE)
                self.compared(where, [row], known | {"method": test["method"]})

    def compared(self, where, rows, expected):
        for row in rows:
            if row["method"] != expected["method"]:
                self.problems.append(
                    f"{where}: method: {row['method']} is printed, the records give {expected['method']}"
                )
            self.same(where, row, {name: number for name, number in expected.items() if name != "method"})

    def arms(self, sweep, pair, where):
        """The arms of a sweep in a corpus and family, and those of them that have some fields."""
        configs = {key: self.sweeps[sweep][key][0]["config"] for key in self.sweeps[sweep]}
        here = [key for key, c in configs.items() if pair == f"{c['data']['name']}/{c['model']['family']}"]
        return here, [key for key in here if has(configs[key], where)]

    def margin(self, named, question, metric, pair):
        if not isinstance(rule := question.get("margin"), str):
            return rule
        (times, name), score = rule.split(), metric.partition("/")[2]
        score = re.sub("^(bleu|area|cliff).*", "bleu", score)
        return float(times) * named[name]["values"][pair][score]

    def answer(self, question, metric, pair, margin):
        """Expected numbers of each contrast of a question, computed once for all folders of tables."""
        key = id(question), metric, pair
        if key not in self.asked:
            self.asked[key] = self.question(question, metric, pair, margin)
        return [dict(row) for row in self.asked[key]]

    @staticmethod
    def joined(one, other):
        """Runs of an arm in two sweeps, each seed once."""
        if one is None:
            return other
        ids = {run["id"] for run in one}
        return Runs(sorted([*one, *(run for run in other if run["id"] not in ids)], key=lambda run: run["seed"]))

    def question(self, question, metric, pair, margin):
        """Expected numbers of each contrast of a question, by one score."""
        sweeps = [question["sweep"], *question.get("with_sweeps", [])]
        found = [self.arms(sweep, pair, question.get("where", {})) for sweep in sweeps]
        runs = {}
        for sweep, (_, keys) in zip(sweeps, found, strict=True):
            for key in keys:
                runs[key] = self.joined(runs.get(key), self.sweeps[sweep][key])
        arms, weights, counted, whole, noises = {}, [], [], [], []

        def read(key, metric=metric, **more):
            return arm_of(runs[key], lambda run: value(run, metric, **more))

        def chosen(side, *over):
            keyed = [(tuple(at(runs[key][0]["config"], name)[0] for name in over), key) for key in runs]
            keyed = sorted(pair for pair in keyed if has(runs[pair[1]][0]["config"], side))
            assert len({place for place, _ in keyed}) == len(keyed), (question, side)
            return keyed

        for entry in question["contrasts"]:
            kind, w, select = entry.get("statistic", "difference"), {}, entry.get("select", "valid/nll")
            if kind == "correlation":
                counted.append(self.correlation(entry, runs, read))
                continue
            parts = [(1.0, entry["arm"]), (-1.0, entry.get("baseline"))]
            if kind == "interaction":
                parts += [(-1.0, entry["minus"]["arm"]), (1.0, entry["minus"]["baseline"])]
            over = entry.get("best_over", [])
            fields = over or {"band": ["training.learning_rate"], "draws": ["data.seed"]}.get(kind, [])
            sides = [(sign, chosen(side, *fields)) for sign, side in parts if side is not None]
            whole.append(all(places and not any(runs[key].missing for _, key in places) for _, places in sides))
            for (sign, places), (_, side) in zip(sides * whole[-1], parts, strict=False):
                if kind == "difference" and over:
                    better = -1 if select.endswith("/nll") else 1
                    places = [max(places, key=lambda place: better * mean(scores(read(place[1], select))))]
                if kind in ("within", "costly"):
                    key, less = f"{places[0][1]} {entry}", np.atleast_1d(np.array(entry["minus"], dtype=object))
                    of = read(places[0][1], costing=margin) if kind == "costly" else read(places[0][1], entry["of"])
                    less = [
                        read(places[0][1], m).values if isinstance(m, str) else dict.fromkeys(of.values, m)
                        for m in less
                    ]
                    made = {seed: v - mean([one[seed] for one in less]) for seed, v in of.values.items()}
                    arms[key], w[key] = Arm(made, declared=of.declared), 1.0
                elif kind == "draws":
                    key = str(entry)
                    sums = {place: sign * mean(read(one).values.values()) for place, one in places}
                    before = arms[key].values if key in arms else dict.fromkeys(sums, 0.0)
                    made = {place: value + before[place] for place, value in sums.items()}
                    arms[key], w[key] = Arm(made, declared=len(made)), 1.0
                elif kind == "band":
                    key, rates = str(side), [(rate, read(key)) for (rate,), key in places]
                    made = {seed: band(rates, seed, entry["within"]) for seed in rates[0][1].values}
                    arms[key], w[key] = Arm(made, declared=rates[0][1].declared), sign
                else:
                    ((_, key),) = places
                    arms[key], w[key] = read(key), w.get(key, 0.0) + sign
            weights.append(w)
            n = min(len(arms[key].values) for key in w) if w else 0
            counted.append({"n": n, "declared": arms[next(iter(w))].declared} if w else {})
            if w:
                seeds = set.intersection(*(set(arms[key].values) for key in w))
                named = kind in ("difference", "interaction") and all(arms[key].values for key in w)
                sides = [
                    (x, [f"{runs[key][0]['id'].rpartition('-s')[0]}-s{seed}" for seed in sorted(seeds)])
                    for key, x in w.items()
                    if named
                ]
                noises.append(self.noise(metric, sides) if named else None)
        tests = iter(statistics(arms, [w for w in weights if w], noises) or [{}] * 2)
        told = iter(noises)
        rows = [row | next(tests) if row else {"method": "missing runs"} for row in counted]
        return [self.told(row, next(told, None), len(weights)) if row.get("n") else row for row in rows]

    def told(self, row, noise, tests):
        """Add what is printed of the sentences to a row, and the seeds that it needs."""
        parts = noise[2] if noise and noise[2] else (None,) * 3
        row |= dict(zip(("both_right", "one_right", "none_right"), parts, strict=True))
        row["sentences"] = noise and math.sqrt(noise[0])
        if row["method"] != "resampled" and "se" in row:
            row["needs"] = lambda target, one_sided, power: needed(
                row, noise, target, 0.05 if one_sided else 0.025 / tests, power
            )
        return row

    def correlation(self, entry, runs, read):
        """Spearman's ρ over arms whose second score is not at an end of its range, and its error by resampling arms."""
        both = [[read(key, metric) for metric in entry["between"]] for key in runs]
        pairs = [(scores(x), scores(y)) for x, y in both if x.values and y.values and 1 < mean(scores(y)) < 99]
        n, draw = len(pairs), np.random.default_rng(0).integers(0, len(pairs), (RESAMPLES, len(pairs)))
        if entry["level"] == "arms":
            x, y = (np.array([mean(pair[side]) for pair in pairs]) for side in (0, 1))
            rho, again = float(ranked(x, y)), ranked(x[draw], y[draw])
        else:
            own = np.array([float(ranked(np.array(x), np.array(y))) for x, y in pairs])
            rho, again = own.mean(), own[draw].mean(axis=1)
        error = np.nanstd(again, ddof=1) / (1 - rho**2)
        row = {name: math.tanh(end) for name, end in student("", math.atanh(rho), error, n - 1).items() if name in ENDS}
        p = 2 * stats.t.sf(abs(math.atanh(rho)) / error, n - 1)
        shown = math.tanh((stats.t.ppf(0.975, n - 1) + stats.t.ppf(0.8, n - 1)) * error)
        row |= {"method": "resampled", "se": error, "df": n - 1, "p": p, "holm": p, "detectable": shown}
        return row | {"n": n, "declared": len(runs), "difference": rho}

    def costs(self):
        """Times and memory of one site: geometric means of the processes' ratios."""
        sites = json.loads((self.root / "results/benchmarks/cost.json").read_text())["measured"]
        rows = {row["arm"]: row for row in self.rows("costs")}
        for m in sites:
            site = m["site"]
            one = dict(site, heads=1) if site["reach"] == "global" else dict(site, reach="global")
            base = next((other for other in sites if other["site"] == one), None)
            if base is None or base is m:
                continue
            logs = np.log(np.array(m["milliseconds"]) / np.array(base["milliseconds"]))
            (test,) = statistics({0: Arm(dict(enumerate(logs)))}, [{0: 1.0}])
            n = site["slots"]
            known = {f"time_{n}": math.exp(test["difference"]), f"low_{n}": math.exp(test["low"])}
            known |= {f"high_{n}": math.exp(test["high"]), f"memory_{n}": m["megabytes"] / base["megabytes"]}
            words = f"{site['heads']} heads, width {site['width']}"
            if site["reach"] != "global":
                reach = {"local_m": "local, monotonic", "local_p": "local, predicted", "hard": "one sampled slot"}
                near = "" if site["reach"] == "hard" else ", 4 words to either side"
                use = "" if site["training"] else ", in translation"
                words = f"{reach[site['reach']]}{near}, {site['score']}{use}"
            self.same(f"costs: {words}, {n}", rows[words], known)

    def claims(self):
        table, tests, margins = self.rows("contrasts"), [], self.tree.get("margins")
        for claim, question in ((one, question) for one in self.tree["claims"] for question in one["questions"]):
            metric, kind = question.get("metric", "test/exact"), question.get("type", claim["type"])
            for pair in question["asked"]:
                place = (str(claim["id"]), *pair.split("/"), question.get("part", ""))

                def asked(row, place=place):
                    return (row["id"], row["corpus"], row["family"] * (place[2] != ""), row["part"]) == place

                rows = list(filter(asked, table))
                if not rows or any(row["verdict"] == "not yet run" for row in rows):
                    self.left["questions without a row or without runs"] += 1
                    continue
                margin = self.margin(margins, question, metric, pair)
                found = self.answer(question, metric, pair, margin)
                second, other = question.get("second"), [{}] * len(rows)
                if second:
                    other = self.answer(question, second, pair, self.margin(margins, question, second, pair))
                for row, expected, beside, entry in zip(rows, found, other, question["contrasts"], strict=True):
                    expected["margin"] = None if "costly" in str(question["contrasts"]) else margin
                    if second:
                        counts = [self.by_sentence(name, second) for name in row["runs"].split()]
                        ends = ENDS[:1] if second.endswith("/bleu") and None in counts else ENDS[:3]
                        self.left["BLEU of sentences without counts"] += ends == ENDS[:1]
                        expected |= {f"second_{end}": beside.get(end) for end in ends}
                    no_difference = kind in ("equivalence", "noninferiority")
                    expected["turns"] = turns(row, expected, kind, metric, entry)
                    needs = expected.pop("needs", None)
                    open_row = row["needed"] or (row["finding"] == "undecided" and not second and "se" in expected)
                    if needs and margin and "costly" not in str(question["contrasts"]) and open_row:
                        seeds = needs(margin, no_difference, (0.8, 0.9)[kind == "equivalence"])
                        expected["needed"] = seeds if seeds and seeds > expected["n"] else None
                    if "df" in expected and not row["no_vote"]:  # an exact p says how many runs there are
                        tests.append((row, float(row["p"]) if expected["method"] == "resampled" else expected["p"]))
                    if expected["method"] == "resampled":
                        self.resampled(f"claim {', '.join(place)}", row, expected)
                        expected = {name: expected[name] for name in ("method", "difference", "df", "margin", "n")}
                    else:
                        expected |= {name: expected.get(name) for name in NUMBERS}
                    self.known[tuple(row[name] for name in SUMMED)] = expected
                    self.compared(f"claim {', '.join(place)}, {row['contrast']}", [row], expected)

        for (row, _), p in zip(tests, stats.false_discovery_control([p for _, p in tests]), strict=True):
            units = 1.5 if row["method"] == "resampled" else 0.5001  # whose p is the printed one
            self.same(f"claim {row['id']}, {row['contrast']}", row, {"false_discovery": p}, units)

    def noises(self):
        """Rows of the table of sentences: those of the contrasts above, and of the same contrasts by other scores."""
        for row in self.rows("sentences"):
            sides = [(float(weight), names) for weight, *names in (side.split() for side in row["runs"].split("; "))]
            noise = self.noise(row["metric"], sides)
            if noise is None and row["variance"] and row["metric"].split("/")[1] == "bleu":
                self.left["BLEU of sentences without counts"] += 1
                continue
            known = {"variance": noise and noise[0], "n": noise and noise[1]}
            parts = noise[2] if noise and noise[2] else (None,) * 3
            known |= dict(zip(("both right", "one right", "none right"), parts, strict=True))
            self.relative(f"sentences: {row['metric']}", row, known)

    def resampled(self, where, row, expected, near=0.05):
        """Compare numbers that rest on random resamples with a printed row: they differ by chance."""
        for name in (*ENDS[1:], "se", "detectable", "turns", "ceiling"):
            if row.get(name) and name in expected:
                self.checked += 1
                self.confirmed += 1
                self.left["by resampling, within .05"] += 1
                if abs(float(row[name]) - expected[name]) > near:
                    self.problems.append(f"{where}: {name}: {row[name]} is printed, resamples give {expected[name]}")

    def relative(self, where, row, expected):
        """Compare numbers that are printed with six digits."""
        for name, number in expected.items():
            self.checked += 1
            self.confirmed += row[name] != ""
            if (number is None) != (row[name] == "") or (
                number is not None and not math.isclose(float(row[name]), number, rel_tol=2e-6, abs_tol=1e-7)
            ):
                self.problems.append(f"{where}: {name}: {row[name] or 'nothing'} is printed, the records give {number}")

    def summary(self):
        """Rows of the summary, each a contrast that is computed with the verdicts."""
        for row in self.rows("summary"):
            known = self.known.get(tuple(row[name] for name in SUMMED), {})
            numbers = {name: known[name] for name in ("difference", "low", "high", "margin", "n") if name in known}
            self.same(f"summary: claim {row['id']}", row, numbers)

    def others(self):
        """Count the rows of tables that are not computed again."""
        self.left["rows of multiverse"] = len(self.rows("multiverse"))

    def agreements(self):
        """Effects of the arms that two sweeps share, and their rank correlation; with its interval, in a family."""
        for path in sorted(self.tables.glob("agreement-*.csv")):
            name, effects = path.stem.removeprefix("agreement-").removesuffix("-bleu"), {}
            sweeps = {
                "transfer": ("transfer_grammar", "transfer_multi30k"),
                "longer": ("shorter", "longer"),
                "asymptotes": ("asymptotes_1200", "asymptotes_4800"),
                "today": ("today", "today_multi30k"),
                "decoder_only": ("decoder_only", "decoder_only"),
                "decoder_only_multi30k": ("decoder_only_multi30k", "decoder_only_multi30k"),
                "decoder_only_transfer": ("decoder_only", "decoder_only_multi30k"),
            }[name]
            sources = [self.effect, self.effect] if len(set(sweeps)) == 2 else [self.counterpart, self.effect]
            bleu = ("test_2016_flickr/bleu",) * 2
            first = bleu if path.stem.endswith("-bleu") else tuple(self.metrics[sweep] for sweep in sweeps)
            asked = [(first, self.rows(path.stem))]
            correlations = (
                self.rows(f"correlation-{name}") if (path.parent / f"correlation-{name}.csv").is_file() else []
            )
            asked += [((row["first_metric"], row["second_metric"]), asked[0][1]) for row in correlations]
            for metrics, rows in asked:
                for row in rows:
                    found = [read(*one, row) for read, *one in zip(sources, sweeps, metrics, strict=True)]
                    effects[metrics, row["family"], row["arm"]] = [one["difference"] for one in found]
                    for side, one in zip(("first", "second"), found, strict=True):
                        known = {f"{side}_{end}": one.get(end) for end in ("low", "high")}
                        known[f"{side}_effect"] = one["difference"]
                        self.same(f"{path.stem}: {row['arm']}", row, known if metrics == asked[0][0] else {})
            for row in correlations:
                metrics, family = (row["first_metric"], row["second_metric"]), row["family"]
                pairs = [pair for (m, f, _), pair in effects.items() if m == metrics and family in (f, "all")]
                rho, n = stats.spearmanr(pairs).statistic, len(pairs)
                known = {"rho": rho, "arms": n}
                families = [f for f in dict.fromkeys(one["family"] for one in asked[0][1]) if family in (f, "all")]
                blocks = [self.block(sweeps, metrics, f, asked[0][1]) for f in families]
                shift, ceiling = noise_of_order(blocks)
                shift = shift if len(blocks) > 1 else 0.0
                half = stats.t.ppf(0.975, n - 1) * math.sqrt((1 + rho**2 / 2) / (n - 3) + shift**2)
                ends = {"low": math.tanh(math.atanh(rho) - half), "high": math.tanh(math.atanh(rho) + half)}
                if len(blocks) > 1:
                    self.resampled(f"correlation-{name}: {family}", row, ends | {"ceiling": ceiling})
                else:
                    known |= ends
                    self.resampled(f"correlation-{name}: {family}", row, {"ceiling": ceiling})
                self.same(f"correlation-{name}: {family}, {metrics[0]}", row, known)

    def predictions(self):
        """Predictions of each arm beside what was found, and how many of these are right."""
        for end in ("", "-decoder_only", "-decoder_only_multi30k", "-decoder_only_transfer"):
            if (self.tables / f"predictions{end}.csv").is_file():
                self.predicted(end)

    def predicted(self, end):
        """One file of predictions and its two tables."""
        name = f"predictions{end.replace('-', '_')}.yaml"
        told = yaml.safe_load((ROOT / "study" / "claims" / name).read_text())
        sign = {"gains": -1, "no difference": 0, "costs": 1, "breaks": 1}
        first, second = told["sweeps"]
        bleu = told.get("bleu", True)
        signs, effects = [], []
        for row in self.rows(f"predictions{end}"):
            row = {"family": "decoder_only" if end else "transformer", **row}
            asked = {"first": (first, self.metrics[first]), "second": (second, self.metrics[second])}
            if bleu:
                asked["bleu"] = (second, "test_2016_flickr/bleu")
            known = {}
            for side, (sweep, metric) in asked.items():
                read = self.counterpart if side == "first" and first == second else self.effect
                one = read(sweep, metric, row)
                ends = {"effect": one["difference"], "low": one.get("low"), "high": one.get("high")}
                known |= {f"{side}_{name}": number for name, number in ends.items()}
            self.same(f"predictions{end}: {row['arm']}", row, known)
            found = "no difference"
            if known["second_high"] < 0:
                found = "open" if bleu and known["bleu_high"] < 0 else "gains"
            elif known["second_low"] > 0:
                breaks = known["second_effect"] >= told["breaks"]
                found = "open" if bleu and known["bleu_low"] > 0 else "breaks" if breaks else "costs"
            foretold = told["arms"][row["arm"]]
            effects.append((known["first_effect"], known["second_effect"], found, foretold))
            signs.append((sign[foretold], sign.get(found)))
            words = {"foretold": foretold, "found": found, "class": foretold == found}
            words["direction"] = signs[-1][0] == signs[-1][1]
            for name, word in words.items():
                self.checked += 1
                if row[name] != str(word):
                    self.problems.append(f"predictions{end}: {row['arm']}: {name}: {row[name]} is printed, not {word}")
        guesses = {"the rule, direction": [a == b for a, b in signs]}
        guesses["the rule, class"] = [row["class"] == "True" for row in self.rows(f"predictions{end}")]
        limit = 0.25 * sum(x * y for x, y, *_ in effects) / sum(x * x for x, *_ in effects)
        classes = [
            (("breaks" if y >= limit else "costs") if found in ("breaks", "costs") else found) == foretold
            for _, y, found, foretold in effects
        ]
        guesses["the rule, class in the fitted unit"] = classes
        guesses |= {"every arm is worse": [b == 1 for _, b in signs], "nothing matters": [b == 0 for _, b in signs]}
        guesses["the rule, arms that gain"] = [b == -1 for a, b in signs if a == -1]
        gaining = sum(b == -1 for _, b in signs)
        for row in self.rows(f"hits{end}"):
            right = guesses[row["predictor"]]
            k, n = sum(right), len(right)
            known = {"hits": k, "arms": n, "p": None}
            known["low"] = stats.beta.ppf(0.025, k, n - k + 1) if k else 0.0
            known["high"] = stats.beta.ppf(0.975, k + 1, n - k) if k < n else 1.0
            if row["predictor"].endswith("gain"):
                known["p"] = stats.hypergeom.sf(k - 1, len(signs), gaining, n)
            elif not row["predictor"].startswith("the rule"):
                pairs = [*zip(right, guesses["the rule, direction"], strict=True)]
                ours, theirs = pairs.count((False, True)), pairs.count((True, False))
                known["p"] = stats.binomtest(ours, ours + theirs).pvalue if ours + theirs else None
            self.same(f"hits{end}: {row['predictor']}", row, known)

    def tested_last(self, sweep):
        """Arms of a sweep; of the one with early tests, the runs that another sweep tested at the last update."""
        if sweep != "asymptotes_4800":
            return self.sweeps[sweep]

        def training(run):
            config = run["config"] | {"training": run["config"]["training"] | {"select": None}, "seed": run["seed"]}
            return json.dumps({k: v for k, v in config.items() if k != "decoding"}, sort_keys=True)

        later = {training(run): run for runs in self.sweeps["asymptotes_last"].values() for run in runs}
        arms = {}
        for key, runs in self.sweeps[sweep].items():
            arms[key] = Runs([later.get(training(run), run) for run in runs])
        return arms

    def scales(self):
        """Scores of the arms of the sweeps of scales, every seed once, and the shares of the rate that are best."""
        kinds = {("rsqrt", "common"): 0, ("none", "inverse"): 1, ("none", "inverse_rsqrt"): 2, ("inverse", "common"): 3}
        arms, chosen, least = {}, {}, {}
        for sweep in (name for name in self.sweeps if name.startswith("scale_rates_")):
            for key, runs in self.sweeps[sweep].items():
                arms[key] = self.joined(arms.get(key), runs)
        for row in self.rows("scales"):
            runs = next(runs for runs in arms.values() if runs[0]["id"] == row["runs"].split()[0])
            means = {
                name: mean([value(run, f"{split}/{name}") for run in runs]) for split, name in (("test", "exact"),)
            }
            means |= {"nll": mean([value(run, "test/nll/without pronouns") for run in runs])}
            means |= {"valid": mean([value(run, "valid/nll") for run in runs]), "n": len(runs)}
            self.same(f"scales: {row['arm']}", row, means)
            place = tuple(row[name] for name in ("family", "width", "heads", "d", "steps", "warmup"))
            chosen.setdefault((place, row["arm"]), []).append((means["valid"], row["chosen"] == "True"))
            model = runs[0]["config"]["model"]
            site = model["attention"]["cross"]
            kind = kinds[site["scale"], site["map_rate"]]
            if place[1] == "64" and place[4:] == ("800", "100") and row["learning_rate"] == "0.01" and kind < 3:
                least.setdefault((row["family"], int(row["d"])), {})[kind] = means["nll"]
        for rates in chosen.values():
            self.checked += 1
            if [mark for _, mark in rates] != [len(rates) > 1 and one == min(rates)[0] for one, _ in rates]:
                self.problems.append("scales: another learning rate is chosen")
        for row in self.rows("shares"):
            losses = [least[row["family"], int(row["d"])][kind] for kind in range(3)]
            self.same(f"shares: {row['d']}", row, {f"nll_{i}": loss for i, loss in enumerate(losses)})
            a, b, _ = np.polyfit([0.0, -0.25, -0.5], losses, 2)
            best = -b / (2 * a) if a > 0 and -0.5 <= -b / (2 * a) <= 0 else None
            self.same(f"shares: {row['d']}", row, {"least": best})
            least[row["family"], int(row["d"])]["best"] = best
        for row in self.rows("shares"):
            wide = {d: one["best"] for (family, d), one in least.items() if family == row["family"] and d >= 64}
            x = np.log(list(wide))
            slope = None if None in wide.values() else np.polyfit(x, np.array(list(wide.values())) * x, 1)[0]
            self.same(f"shares: {row['d']}", row, {"slope": slope})

    def gains(self):
        """How many of the arms that gain on the grammar, and of the others, gain on Multi30k."""
        parts = {"chosen first": "transfer", "predicted in advance": "today"}
        counts = {}
        for words, name in parts.items():
            with (TABLES / f"agreement-{name}.csv").open(encoding="utf-8", newline="") as file:
                pairs = [(float(r["first_high"]) < 0, float(r["second_high"]) < 0) for r in csv.DictReader(file)]
            counts[words] = np.array([[sum(p == (a, b) for p in pairs) for b in (True, False)] for a in (True, False)])
        counts["all"] = sum(counts.values())
        for row in self.rows("gains"):
            (k, rest), (others, none) = counts[row["arms"]]
            known = {"helps": k + rest, "helps_text": k, "others": others + none, "others_text": others}
            p = stats.hypergeom.sf(k - 1, counts[row["arms"]].sum(), k + others, k + rest)
            self.same(f"gains: {row['arms']}", row, known | {"p": p})

    def updates(self):
        """Contrasts whose runs were tested at different updates, and their losses at the last one."""
        curves = pq.read_table(self.root / "results" / "curves", filters=[("name", "==", "valid_loss")]).to_pandas()
        last = curves.sort_values("step").groupby("id")["value"].last()
        for row in self.rows("tested_updates"):
            runs = [self.records[name] for name in row["runs"].split()]
            counts = Counter(run["selection"]["step"] for run in runs)
            self.checked += 1
            if row["updates"] != ", ".join(f"{step}: {counts[step]}" for step in sorted(counts)):
                self.problems.append(f"tested_updates: {row['updates']} is printed, not {dict(counts)}")
            known = self.known.get(tuple(row[name] for name in SUMMED), {})
            self.same("tested_updates", row, {name: known[name] for name in ENDS[:3] if name in known})
            arms = {}
            for run in runs:
                arms.setdefault(run["config_hash"], {})[run["seed"]] = float(last[run["id"]])
            if row["last_difference"] and len(arms) == 2:
                (test,) = statistics({i: Arm(one) for i, one in enumerate(arms.values())}, [{0: 1.0, 1: -1.0}])
                self.same("tested_updates", row, {f"last_{end}": test.get(end) for end in ENDS[:3]})

    def block(self, sweeps, metrics, family, rows):
        """Scores of a family in both sweeps: for each arm, the baseline first, those of its seeds."""
        found = []
        for i, (sweep, metric) in enumerate(zip(sweeps, metrics, strict=True)):
            here = self.tested_last(sweep)
            named = [row["runs"].split() for row in rows if row["family"] == family]
            if i == 0 and len(set(sweeps)) == 1:
                chosen = [self.encoder_decoders(self.first[sweep, family])]
                chosen += [[self.records[name] for name in names if "-transformer-" in name] for names in named]
                found.append([np.array([value(run, metric) for run in some]) for some in chosen])
                continue
            chosen = [here[self.first[sweep, family]]]
            chosen += [next(r for r in here.values() if {run["id"] for run in r} & set(names)) for names in named]
            seeds = sorted(set.intersection(*({run["seed"] for run in some} for some in chosen)))
            values = [{run["seed"]: value(run, metric) for run in some} for some in chosen]
            found.append([np.array([one[seed] for seed in seeds]) for one in values])
        return found

    def encoder_decoders(self, key):
        """Runs of the transformer with the fields of a decoder-only arm at each of its sites, and one layer a half."""
        ours = next(runs for runs in self.sweeps.values() if key in runs)[key][0]["config"]
        usual = self.sweeps["today"][self.first["today", "transformer"]][0]["config"]["model"]
        wanted = dict(fields(ours["model"]["attention"]["joint"]))

        def fits(run):
            config = run["config"]
            if config.get("pruning") or config["model"]["family"] != "transformer" or config["model"]["layers"] != 1:
                return False
            model, mine = config["model"], {**usual, **ours["model"]}
            apart = dict.fromkeys(("family", "layers", "attention", "source_mask", "factors"))
            parts = ("data", "training", "decoding", "protocol")
            same = [{**config[part], "select": None} if part == "training" else config[part] for part in parts]
            here = [{**ours[part], "select": None} if part == "training" else ours[part] for part in parts]
            if {**model, **apart} != {**mine, **apart} or same != here:
                return False
            sites = [dict(fields(site)) for site in model["attention"].values() if site]
            return all(site.get(name, one) == one for site in sites for name, one in wanted.items())

        return [run for run in self.records.values() if fits(run)]

    def counterpart(self, sweep, metric, row):
        """The encoder–decoder that a row names against the one of the base arm."""
        arm = [self.records[name] for name in row["runs"].split() if "-transformer-" in name]
        base = self.encoder_decoders(self.first[sweep, row["family"]])
        sides = [Arm({run["id"]: value(run, metric) for run in runs}) for runs in (arm, base)]
        return statistics(dict(enumerate(sides)), [{0: 1.0, 1: -1.0}])[0]

    def effect(self, sweep, metric, row):
        """The arm that a row names against the first arm of its family, over the seeds that the row names."""
        here = self.tested_last(sweep)
        arm = next(runs for runs in here.values() if {run["id"] for run in runs} & set(row["runs"].split()))
        base = here[self.first[sweep, row["family"]]]
        seeds = {run["seed"] for run in arm if run["id"] in row["runs"].split()}
        sides = [Arm({run["seed"]: value(run, metric) for run in runs if run["seed"] in seeds}) for runs in (arm, base)]
        return statistics(dict(enumerate(sides)), [{0: 1.0, 1: -1.0}])[0]


def recompute(study):
    """Compute the numbers of all tables again and compare."""
    for sweep in study.sweeps:
        study.sweep_table(sweep)
    parts = (study.claims, study.noises, study.summary, study.others, study.agreements, study.predictions)
    for part in (*parts, study.costs, study.scales, study.gains, study.updates):
        part()
    return study


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=Path, help="folder of tables (default: results/tables)")
    study = recompute(Study(ROOT, parser.parse_args().tables or TABLES))
    print("\n".join(study.problems))
    print(f"{study.checked} numbers computed again, {len(study.problems)} differ; left out: {dict(study.left)}")
    print(f"{study.share:.0%} of all printed numbers; tables that are not read: {', '.join(study.unread) or 'none'}")
    return 1 if study.problems else 0


if __name__ == "__main__":
    sys.exit(main())
