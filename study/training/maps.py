"""Attention maps of test sentences, by site, layer and head, as `study site` shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from study.corpora import Pair
from study.training.alignment import attention_map
from study.training.batches import Example
from study.training.decode import fits
from study.training.translation import Trained


def sentence_maps(trained: Trained, pairs: Sequence[Pair], translations: Sequence[str]) -> list[dict[str, Any]]:
    """Compute maps of every head while the model is given its own translations.

    Left out: sentences that do not fit the model, and sites whose slots are no tokens.

    Args:
        trained: the model.
        pairs: sentences of the test split, from its first line on.
        translations: what the model made of them.

    Returns:
        An item per sentence: `line`, tokens of `source` and `target`, `given` (the target tokens that the decoder
        reads), `gold` links where the translation is the reference, `text`, and `maps`: site, layer, head and weights
        in 1/1000, a row for each query.
    """
    vocabulary, model, found = trained.vocabulary, trained.model, []
    for line, (pair, text) in enumerate(zip(pairs, translations, strict=False)):
        made = pair if text.strip() == pair.target.strip() else Pair(pair.source, text)
        (source,), (target,) = vocabulary.encode([pair.source]), vocabulary.encode([text])
        example = Example(source, target, made)
        if not fits(model, example):
            continue
        item: dict[str, Any] = {"line": line, "gold": None, "text": {"source": pair.source, "target": text}, "maps": []}
        for site, layer, module in model.sites():
            for head in module.kept:
                if (tree := attention_map(model, [example], vocabulary, layer, 3, site, head)) is None:
                    continue
                rows, columns = tree["target"], tree["source"]
                sides = {"encoder_self": {"source": columns}, "decoder_self": {"target": rows, "given": columns}}
                item |= sides.get(site, {"source": columns, "target": rows, "gold": tree["gold"]})
                weights = [[round(1000 * weight) for weight in row] for row in tree["weights"]]
                item["maps"].append({"site": site, "layer": layer, "head": head, "weights": weights})
        found += [item] if item["maps"] else []
    return found
