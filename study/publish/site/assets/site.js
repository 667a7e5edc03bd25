// Behaviour of the pages: tables, search, curves, attention maps. Texts of records enter the page as text, never as HTML.
"use strict";
const site = (() => {
  const root = document.documentElement.dataset.root;
  const $ = (id) => document.getElementById(id);
  const waiting = new Map();

  // Data comes in scripts, because a page of the file system may not fetch.
  const slot = (name) => {
    if (!waiting.has(name)) {
      const one = {};
      one.promise = new Promise((resolve) => { one.resolve = resolve; });
      waiting.set(name, one);
    }
    return waiting.get(name);
  };
  const put = (name, tree) => slot(name).resolve(tree);
  const get = (name) => {
    const one = slot(name);
    if (!one.asked) {
      one.asked = true;
      const script = document.createElement("script");
      script.src = `${root}data/${name.split("/").map(encodeURIComponent).join("/")}.js`;
      script.onerror = () => one.resolve(null);
      document.head.append(script);
    }
    return one.promise;
  };

  const element = (tag, attributes = {}, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "class") made.className = value;
      else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
    }
    made.append(...children.filter((child) => child !== null));
    return made;
  };
  const hash = () => Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  const remember = (fields) => {
    const kept = Object.entries(fields).filter(([, value]) => value !== "" && value != null);
    const text = new URLSearchParams(kept).toString();
    history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
  };
  const number = (text) => {
    const found = String(text).replace(/−/g, "-").replace(/,/g, "").match(/^[^\d\-+.]*([-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?)/i);
    return found ? parseFloat(found[1]) : NaN;
  };
  const compare = (a, b) => {
    const x = number(a), y = number(b);
    if (Number.isNaN(x) && Number.isNaN(y)) return String(a).localeCompare(String(b));
    return Number.isNaN(x) ? 1 : Number.isNaN(y) ? -1 : x - y;
  };

  // Tables: a button in each heading sorts.
  const arrow = (cell, direction) => cell.setAttribute("aria-sort", direction);
  const sortable = (table) => {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((cell, column) => {
      const button = element("button", { type: "button" }, cell.textContent);
      cell.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = cell.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        arrow(cell, down ? "descending" : "ascending");
        const rows = [...table.tBodies[0].rows];
        rows.sort((a, b) => (down ? -1 : 1) * compare(a.cells[column].textContent, b.cells[column].textContent));
        table.tBodies[0].append(...rows);
      });
    });
  };

  // First page: claims that have all words, and one of the chosen verdicts.
  const claims = () => {
    const box = $("find"), sections = [...document.querySelectorAll("section.claim")], chips = [...document.querySelectorAll(".chips button")];
    const show = () => {
      const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
      const chosen = chips.filter((chip) => chip.getAttribute("aria-pressed") === "true").map((chip) => chip.dataset.word);
      sections.forEach((one) => {
        const text = one.textContent.toLowerCase();
        one.hidden = !(words.every((word) => text.includes(word)) && (!chosen.length || chosen.includes(one.dataset.word)));
      });
      const count = sections.filter((one) => !one.hidden).length;
      $("found").textContent = words.length || chosen.length ? `${count} of ${sections.length} claims` : "";
    };
    box.addEventListener("input", show);
    chips.forEach((chip) => chip.addEventListener("click", () => { chip.setAttribute("aria-pressed", chip.getAttribute("aria-pressed") !== "true"); show(); }));
    box.form.addEventListener("submit", (event) => event.preventDefault());
    if (box.value) show();
  };

  // Page of all runs.
  const FIRST = ["name", "seed", "sweeps", "status", "data.name", "model.family", "test/bleu", "test/exact", "test/nll", "tokens/s"];
  const WORDS = { "name": "arm", "data.name": "data", "model.family": "family", "test/bleu": "BLEU", "test/exact": "exact match, %", "test/nll": "NLL" };
  const flatten = (table) => table.runs.map(([id, arm, seed, status, maps, shape, values]) => {
    const one = table.arms[arm] || { name: arm, sweeps: [], config: {} };
    const scores = Object.fromEntries(table.shapes[shape].map((name, i) => [name, values[i]]));
    return { id, arm, name: one.name, sweeps: one.sweeps.join(" "), seed, status, maps, ...table.usual, ...one.config, ...scores };
  });
  const text = (value) => (value === null || value === undefined ? "" : typeof value === "number" ? String(+value.toPrecision(6)) : String(value));
  const condition = (word, fields) => {
    const found = word.match(/^([^<>=!]+)(!=|<=|>=|=|<|>)(.*)$/);
    if (!found) return (run) => run.text.includes(word.toLowerCase());
    const [, name, sign, wanted] = found;
    const names = fields.includes(name) ? [name] : fields.filter((field) => field.endsWith(`.${name}`) || field.endsWith(`/${name}`));
    const limit = number(wanted);
    const holds = (value) => {
      if (sign === "=") return text(value).toLowerCase() === wanted.toLowerCase();
      if (sign === "!=") return text(value).toLowerCase() !== wanted.toLowerCase();
      if (typeof value !== "number") return false;
      return sign === "<" ? value < limit : sign === ">" ? value > limit : sign === "<=" ? value <= limit : value >= limit;
    };
    return (run) => (sign === "!=" ? names.every((field) => holds(run[field])) : names.some((field) => holds(run[field])));
  };
  const runs = async () => {
    const table = await get("runs"), all = flatten(table);
    const fields = [...new Set(all.flatMap(Object.keys))].filter((name) => name !== "arm");
    all.forEach((run) => { run.text = Object.entries(run).map(([k, v]) => (v === null ? "" : `${k}=${v}`)).join(" ").toLowerCase(); });
    const state = { q: "", sort: "", columns: "", ...hash() };
    const chosen = () => (state.columns ? state.columns.split(",").filter((name) => fields.includes(name)) : FIRST.filter((name) => fields.includes(name)));
    const draw = () => {
      const conditions = state.q.split(/\s+/).filter(Boolean).map((word) => condition(word, fields));
      const found = all.filter((run) => conditions.every((holds) => holds(run)));
      const [by, down] = [state.sort.replace(/^-/, ""), state.sort.startsWith("-") ? -1 : 1];
      const empty = (value) => value === null || value === undefined || value === "";
      if (by) {
        found.sort((a, b) => {
          const x = a[by], y = b[by];
          if (empty(x) || empty(y)) return empty(x) - empty(y);
          return down * (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y)));
        });
      }
      const columns = chosen();
      const side = (name) => (found.some((run) => typeof run[name] === "number") ? "right" : "left");
      const sides = columns.map(side);
      const heads = columns.map((name, i) => element("th", { scope: "col", class: sides[i], title: name, "aria-sort": name === by ? (down > 0 ? "ascending" : "descending") : null },
        element("button", { type: "button", onclick: () => { state.sort = state.sort === name ? `-${name}` : name; draw(); $("runs").querySelectorAll("th button")[i].focus(); } }, WORDS[name] || name)));
      const cell = (run, name) => (name === "name"
        ? element("a", { href: `runs/${encodeURIComponent(file(run.id))}.html`, title: run.id }, run.name)
        : typeof run[name] === "number" && name in table.decimals ? run[name].toFixed(table.decimals[name]) : text(run[name]));
      const rows = found.map((run) => element("tr", {}, ...columns.map((name, i) => element("td", { class: sides[i] }, cell(run, name)))));
      $("runs").replaceChildren(element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...rows));
      $("found").textContent = `${found.length} of ${all.length} runs`;
      remember(state);
    };
    const boxes = fields.filter((name) => name !== "text").map((name) => element("label", { class: "check" },
      element("input", { type: "checkbox", value: name, checked: chosen().includes(name), onchange: () => {
        state.columns = [...$("columns").querySelectorAll("input:checked")].map((box) => box.value).join(",");
        draw();
      } }), name));
    $("columns").replaceChildren(...boxes);
    $("query").value = state.q;
    $("query").addEventListener("input", () => { state.q = $("query").value; draw(); });
    $("query").form.addEventListener("submit", (event) => event.preventDefault());
    window.addEventListener("hashchange", () => { Object.assign(state, { q: "", sort: "", columns: "" }, hash()); $("query").value = state.q; draw(); });
    draw();
  };
  let files = {};
  const file = (name) => files[name] || name;

  // Curves.
  const COLOURS = ["#0173b2", "#de8f05", "#029e73", "#d55e00", "#cc78bc", "#56b4e9", "#ca9161", "#949494"];
  const DASHES = [[], [6, 4], [2, 3], [8, 3, 2, 3]];
  const curves = () => {
    const boxes = [...document.querySelectorAll("[data-chart]")];
    const draw = () => boxes.forEach((box) => {
      const chart = JSON.parse(box.dataset.chart);
      const style = getComputedStyle(document.body);
      const [ink, line] = [style.getPropertyValue("--ink-2"), style.getPropertyValue("--line")];
      const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line }, font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif", labelSize: 20 };
      const sides = [...new Set(chart.lines.map((one) => one.side || 0))];
      const name = (side) => (sides.length > 1 ? ["BLEU", "nats a token"][side] : "");
      const options = {
        width: box.clientWidth, height: 260, cursor: { points: { size: 8 } },
        scales: { x: { time: false }, y0: {}, y1: {} },
        axes: [{ ...axis, label: chart.label }, ...sides.map((side, i) => ({ ...axis, scale: `y${side}`, side: i ? 1 : 3, size: 46, label: name(side) || undefined, grid: { ...axis.grid, show: !i } }))],
        series: [{ label: chart.label }, ...chart.lines.map((one, i) => ({ label: one.label, scale: `y${one.side || 0}`, stroke: COLOURS[i % COLOURS.length], width: 2, dash: DASHES[Math.floor(i / COLOURS.length) % 4 || (one.side ? i % 4 : 0)], points: { size: 6 }, value: (_, value) => (value == null ? "–" : value.toFixed(2)) }))],
        hooks: { draw: [(plot) => {
          if (chart.mark == null) return;
          const x = Math.round(plot.valToPos(chart.mark, "x", true));
          plot.ctx.save(); plot.ctx.strokeStyle = ink; plot.ctx.globalAlpha = 0.6; plot.ctx.lineWidth = devicePixelRatio;
          plot.ctx.beginPath(); plot.ctx.moveTo(x, plot.bbox.top); plot.ctx.lineTo(x, plot.bbox.top + plot.bbox.height); plot.ctx.stroke(); plot.ctx.restore();
        }] },
      };
      box.replaceChildren();
      new uPlot(options, [chart.x, ...chart.lines.map((one) => one.values)], box);
    });
    draw();
    let timer;
    const again = () => { clearTimeout(timer); timer = setTimeout(draw, 100); };
    window.addEventListener("resize", again);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  };

  // Page of a sentence.
  const WORDS_OF = { cross: "cross-attention", encoder_self: "encoder self-attention", decoder_self: "decoder self-attention" };
  const options = (select, values, names, current) => {
    select.replaceChildren(...values.map((value, i) => element("option", { value, selected: String(value) === String(current) }, names[i])));
    return select.value;
  };
  const marked = (text, other) => {
    const there = new Map();
    for (const word of (other || "").split(" ")) there.set(word, (there.get(word) || 0) + 1);
    return text.split(" ").flatMap((word, i) => {
      const left = there.get(word) || 0;
      there.set(word, left - 1);
      return [i ? " " : "", left > 0 ? word : element("mark", {}, word)];
    });
  };
  const average = (maps) => maps[0].weights.map((row, t) => row.map((_, s) => maps.reduce((sum, one) => sum + one.weights[t][s], 0) / maps.length));
  const withMeans = (item) => {
    const groups = new Map();
    for (const one of item.maps) groups.set(`${one.site} ${one.layer}`, [...(groups.get(`${one.site} ${one.layer}`) || []), one]);
    const means = [...groups.values()].filter((some) => some.length > 1).map((some) => ({ ...some[0], head: null, weights: average(some) }));
    return { ...item, maps: [...means, ...item.maps] };
  };
  // The map of the chosen site, layer and head, or the nearest one. The only head of a layer is its mean.
  const chosenMap = (item, state) => {
    const fits = (one) => one.site === state.site && String(one.layer) === state.layer;
    const here = item.maps.filter(fits), alone = state.head === "mean" && here.length === 1 ? here[0] : null;
    const exact = alone || here.find((one) => String(one.head ?? "mean") === state.head);
    const alike = item.maps.filter((one) => one.site === state.site), some = alike.length ? alike : item.maps;
    return { map: exact || some.findLast((one) => one.head === null) || some.at(-1), same: Boolean(exact) };
  };
  const heat = (item, one, name, tell) => {
    const rows = one.site === "encoder_self" ? item.source : item.target, columns = one.site === "decoder_self" ? item.given : item.source;
    const gold = new Set(one.site === "cross" ? (item.gold || []).map(([s, t]) => `${t},${s}`) : []);
    const head = element("tr", {}, element("td"), ...columns.map((word) => element("th", { scope: "col" }, element("span", {}, word))));
    const cells = rows.map((word, t) => element("tr", {}, element("th", { scope: "row" }, word), ...columns.map((other, s) => {
      const weight = one.weights[t][s] / 1000, linked = gold.has(`${t},${s}`);
      const say = `${word} → ${other}: ${weight.toFixed(3)}${linked ? ", gold link" : ""}`;
      return element("td", { style: `--w:${Math.min(1, Math.abs(weight))}`, class: `${linked ? "gold" : ""}${weight < 0 ? " minus" : ""}`, tabindex: t + s ? -1 : 0, "aria-label": say, onfocus: () => tell(say), onmouseenter: () => tell(say) });
    })));
    const table = element("table", { class: "map", "aria-label": `Attention map, ${name}` }, element("thead", {}, head), element("tbody", {}, ...cells));
    table.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      const here = event.target.closest("td");
      if (!step || !here) return;
      event.preventDefault();
      const next = table.rows[here.parentNode.rowIndex + step[0]]?.cells[here.cellIndex + step[1]];
      if (next && next.tagName === "TD" && next.tabIndex < 1 && next.hasAttribute("aria-label")) { here.tabIndex = -1; next.tabIndex = 0; next.focus(); }
    });
    return table;
  };
  const sentence = async () => {
    const table = await get("runs");
    files = table.files;
    const known = table.runs.map(([id, arm, seed, , maps]) => ({ id, arm, seed, maps, name: `${table.arms[arm].name} · seed ${seed}`, sweeps: table.arms[arm].sweeps, texts: table.arms[arm].texts }));
    known.sort((a, b) => (a.sweeps[0] || "").localeCompare(b.sweeps[0] || "") || a.name.localeCompare(b.name, undefined, { numeric: true }));
    const find = (id) => known.find((one) => one.id === id);
    const grouped = (select, some, current, none) => {
      const groups = new Map();
      some.forEach((one) => { const key = one.sweeps[0] || "no sweep"; groups.set(key, [...(groups.get(key) || []), one]); });
      const made = [...groups].map(([label, ones]) => element("optgroup", { label }, ...ones.map((one) => element("option", { value: one.id, selected: one.id === current }, one.name + (one.maps > 1 ? " ▦" : "")))));
      select.replaceChildren(...(none ? [element("option", { value: "" }, "no other run")] : []), ...made);
    };
    const state = { run: "", with: "", item: "", site: "", layer: "", head: "", ...hash() };
    let left, right, items = [], turn = 0;

    const load = async (one) => {
      if (!one) return null;
      const [arm, maps] = await Promise.all([get(`arms/${file(one.arm)}`), one.maps ? get(`maps/${file(one.id)}`) : []]);
      const texts = arm && arm.texts ? await get(`texts/${arm.texts}`) : null;
      return { ...one, lines: (arm && arm.translations[one.id]) || [], maps: (maps || []).map(withMeans), texts };
    };
    const key = (split, line) => (line === null ? split : `${split}:${line}`);
    const list = () => {
      const found = new Map();
      for (const run of [left, right]) {
        for (const map of run ? run.maps : []) {
          const at = key(map.split, map.line), one = found.get(at) || { key: at, split: map.split, line: map.line, source: map.text?.source, reference: map.forced ? map.text?.target : undefined, maps: {} };
          one.maps[run.id] = map;
          found.set(at, one);
        }
      }
      const split = left.texts ? left.texts.split : "test", pairs = left.texts ? left.texts.pairs : [];
      left.lines.forEach((line, i) => {
        const at = key(split, i), one = found.get(at) || { key: at, split, line: i, maps: {} };
        found.set(at, { ...one, source: pairs[i] ? pairs[i][0] : one.source, reference: pairs[i] ? pairs[i][1] : one.reference, left: line, right: right ? right.lines[i] : undefined });
      });
      items = [...found.values()].sort((a, b) => (a.line ?? -1) - (b.line ?? -1));
    };
    const named = (one) => (one.line === null ? one.split : `${one.split} ${one.line + 1}`);
    const drawList = () => {
      const words = $("find-sentence").value.toLowerCase().split(/\s+/).filter(Boolean);
      const some = items.filter((one) => {
        const all = [one.source, one.reference, one.left, one.right].join(" ").toLowerCase();
        return words.every((word) => all.includes(word)) && (!$("differ").checked || (one.right !== undefined && one.left !== one.right));
      });
      $("count").textContent = `${some.length} of ${items.length} sentences`;
      $("sentences").replaceChildren(...some.map((one) => element("li", {}, element("a", { href: `#${new URLSearchParams({ ...state, item: one.key })}`, "aria-current": one.key === state.item ? "true" : null, onclick: (event) => { event.preventDefault(); state.item = one.key; show(); } },
        element("span", { class: "tag" }, named(one) + (Object.keys(one.maps).length ? " ▦" : "")), one.source || one.left || "(empty)", one.reference !== undefined && one.left !== undefined && one.left.trim() !== one.reference.trim() ? element("span", { class: "wrong", title: "differs from the reference" }, " ≠") : null))));
    };
    const show = () => {
      const one = items.find((item) => item.key === state.item) || items.find((item) => Object.keys(item.maps).length) || items[0];
      if (!one) { $("which").textContent = "This run has neither translations nor attention maps."; ["texts", "maps"].forEach((id) => $(id).replaceChildren()); remember(state); return; }
      state.item = one.key;
      $("which").textContent = one.line === null ? `A sentence of ${one.split}` : `Sentence ${one.line + 1} of ${one.split}`;
      const line = (name, ...content) => element("div", {}, element("dt", {}, name), element("dd", {}, ...content));
      const lines = [];
      if (one.source !== undefined) lines.push(line("source", one.source), line("reference", one.reference ?? "not stored"));
      else lines.push(line("source", "not part of this site, because its corpus is not"));
      for (const [run, made] of [[left, one.left], [right, one.right]]) {
        if (!run) continue;
        const name = element("a", { href: `${root}runs/${encodeURIComponent(file(run.id))}.html` }, run.name);
        if (made === undefined) lines.push(line(name, "no translation of this sentence is at hand"));
        else lines.push(line(name, ...(one.reference === undefined ? [made] : marked(made, one.reference)), one.reference !== undefined && made.trim() === one.reference.trim() ? element("span", { class: "right-answer" }, " = reference") : null));
      }
      $("texts").replaceChildren(...lines);
      const there = [left, right].filter((run) => run && one.maps[run.id]);
      const all = there.flatMap((run) => one.maps[run.id].maps);
      $("heads").hidden = !all.length;
      const unique = (values) => [...new Set(values)];
      if (all.length) {
        const sites = unique(all.map((map) => map.site)).sort();
        state.site = options($("site"), sites, sites.map((site) => WORDS_OF[site] || site), sites.includes(state.site) ? state.site : sites.includes("cross") ? "cross" : sites[0]);
        const layers = unique(all.filter((map) => map.site === state.site).map((map) => String(map.layer))).sort((a, b) => a - b);
        state.layer = options($("layer"), layers, layers, layers.includes(state.layer) ? state.layer : layers.at(-1));
        const heads = unique(all.filter((map) => map.site === state.site && String(map.layer) === state.layer).map((map) => String(map.head ?? "mean"))).sort((a, b) => (b === "mean") - (a === "mean") || a - b);
        state.head = options($("head"), heads, heads.map((head) => (head === "mean" ? "mean over heads" : head)), heads.includes(state.head) ? state.head : heads[0]);
        const forced = there.some((run) => one.maps[run.id].forced);
        $("about").textContent = "Rows attend to columns. Empty is 0, full colour is 1; a frame is a gold link. " + (forced ? "The model was given the reference, token by token. " : "The model was given its own translation. ") + (all.some((map) => map.head !== null) ? "" : "A record has one map: one sentence, the last layer, the mean over its heads.");
      } else {
        $("about").replaceChildren("No attention map of this sentence is stored. ");
        const other = items.find((item) => Object.keys(item.maps).length);
        if (other) $("about").append(element("a", { href: "#", onclick: (event) => { event.preventDefault(); state.item = other.key; show(); } }, `Show ${named(other)}, which has one.`));
      }
      const panels = there.map((run) => {
        const item = one.maps[run.id], { map, same } = chosenMap(item, state);
        const what = `${WORDS_OF[map.site] || map.site}, layer ${map.layer}, ${map.head === null ? "mean over heads" : `head ${map.head}`}`;
        const tell = (text) => { $("cell").textContent = `${run.name}: ${text}`; };
        return element("figure", {}, element("figcaption", {}, element("b", {}, run.name), element("br"), what + (same ? "" : "; this run has no map of the chosen site, layer and head")), element("div", { class: "wide" }, heat(item, map, run.name, tell)));
      });
      $("maps").replaceChildren(...panels);
      $("cell").textContent = "";
      remember(state);
      $("sentences").querySelectorAll("a").forEach((link) => link.toggleAttribute("aria-current", false));
      drawList();
    };
    const refresh = async () => {
      const mine = ++turn;
      const richest = (some) => some.reduce((best, one) => (best && best.maps >= one.maps ? best : one), null);
      const chosen = find(state.run), first = chosen || richest(known);
      if (!first) { $("which").textContent = "There is no run yet."; return; }
      if (!chosen) state.with = richest(known.filter((one) => one.texts === first.texts && one.arm !== first.arm))?.id || "";
      state.run = first.id;
      const others = known.filter((one) => one.id !== first.id && one.texts === first.texts);
      if (!others.some((one) => one.id === state.with)) state.with = "";
      grouped($("run"), known, state.run, false);
      grouped($("with"), others, state.with, true);
      const both = await Promise.all([load(first), load(find(state.with))]);
      if (mine !== turn) return;
      [left, right] = both;
      list();
      show();
    };
    const move = (step) => {
      const links = [...$("sentences").querySelectorAll("a")], here = links.findIndex((link) => link.hasAttribute("aria-current"));
      links[Math.max(0, Math.min(links.length - 1, here + step))]?.click();
    };
    $("run").addEventListener("change", () => { state.run = $("run").value; refresh(); });
    $("with").addEventListener("change", () => { state.with = $("with").value; refresh(); });
    for (const name of ["site", "layer", "head"]) $(name).addEventListener("change", () => { state[name] = $(name).value; show(); });
    $("find-sentence").addEventListener("input", drawList);
    $("differ").addEventListener("change", drawList);
    $("previous").addEventListener("click", () => move(-1));
    $("next").addEventListener("click", () => move(1));
    document.addEventListener("keydown", (event) => {
      if (typing(event)) return;
      if (event.key === "n") move(1);
      if (event.key === "p") move(-1);
    });
    document.querySelectorAll("form").forEach((form) => form.addEventListener("submit", (event) => event.preventDefault()));
    window.addEventListener("hashchange", () => { Object.assign(state, hash()); refresh(); });
    await refresh();
  };

  const typing = (event) => event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  const live = () => {
    const version = document.documentElement.dataset.version;
    if (!version) return;
    setInterval(async () => {
      try {
        const now = await (await fetch(`${root}version`, { cache: "no-store" })).text();
        if (now !== version) location.reload();
      } catch { /* the server has ended */ }
    }, 2000);
  };
  document.addEventListener("keydown", (event) => {
    const box = document.querySelector("input[type=search]");
    if (event.key === "/" && box && !typing(event)) { event.preventDefault(); box.focus(); }
  });
  document.addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll("table.sortable").forEach(sortable);
    if ($("find")) claims();
    if ($("runs")) get("runs").then((table) => { files = table.files; return runs(); });
    if ($("sentences")) sentence();
    if (document.querySelector("[data-chart]")) curves();
    live();
  });
  return { put, get };
})();
