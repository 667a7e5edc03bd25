// The pages: one route each, drawn from data scripts. Texts of records enter a page as text, never as HTML.
"use strict";
const site = (() => {
  const $ = (id) => document.getElementById(id);
  const waiting = new Map();
  let keys = {}, turnOf = 0;

  // Data comes in scripts, because a page of the file system may not fetch.
  const slot = (name) => {
    if (!waiting.has(name)) {
      const one = {};
      one.promise = new Promise((resolve) => { one.resolve = resolve; });
      waiting.set(name, one);
    }
    return waiting.get(name);
  };
  const put = (name, tree) => slot(name).resolve(name === "runs" ? load("site").then((main) => unfolded(tree, main.sweeps)) : tree);
  const load = (name) => {
    const one = slot(name);
    if (!one.asked) {
      one.asked = true;
      const script = document.createElement("script");
      const [kind, ...rest] = name.split("/"), file = rest.join("/").replace(/[^A-Za-z0-9_.-]/gu, (one) => `~${one.codePointAt(0).toString(16)}~`);
      script.src = `data/${kind}${file && `/${file}`}.js`;
      script.onerror = () => one.resolve(null);
      document.head.append(script);
    }
    return one.promise;
  };
  const armOf = (id) => id.slice(0, id.lastIndexOf("-s"));
  // A table comes column by column: its values, and for each run the place of its value. What most arms have alike is usual.
  const unfolded = ({ columns, ...rest }, declared) => {
    const places = {};
    declared.forEach((sweep) => sweep.arms.forEach((arm) => arm.runs.forEach((id) => { (places[armOf(id)] ||= {})[sweep.name] = arm.words.toReversed().filter(Boolean).join(", ") || "all"; })));
    const entries = Object.entries(columns), fields = Object.keys(columns).filter((name) => name.includes(".") && !name.includes("/"));
    const runs = (columns.id ? columns.id[1] : []).map((_, i) => Object.fromEntries(entries.filter(([, [, codes]]) => codes[i] >= 0).map(([name, [values, codes]]) => [name, values[codes[i]]])));
    const arms = new Map();
    runs.forEach((run) => { if (!arms.has(run.arm)) arms.set(run.arm, run); });
    const usual = fields.map((name) => {
      const counts = new Map();
      arms.forEach((run) => counts.set(run[name], (counts.get(run[name]) || 0) + 1));
      return [name, [...counts].reduce((best, one) => (one[1] > best[1] ? one : best), [undefined, 0])[0]];
    });
    const changed = (arm) => (arms.has(arm) ? usual.filter(([name, value]) => arms.get(arm)[name] !== value).map(([name]) => [name, arms.get(arm)[name]]) : []);
    const sweeps = (arm) => Object.keys(places[arm] || {}), name = (arm) => (places[arm] || {})[sweeps(arm)[0]] || arm;
    return { ...rest, runs, byId: new Map(runs.map((run) => [run.id, run])), changed, sweeps, name, place: (arm, sweep) => places[arm][sweep] };
  };

  // Elements. Styles are set one by one, since a page may forbid those in attributes.
  const element = (tag, attributes = {}, ...children) => {
    const svg = ["svg", "path", "line", "circle", "g", "title", "text"].includes(tag);
    const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (name === "style") for (const [key, one] of Object.entries(value)) made.style.setProperty(key, one);
      else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
    }
    made.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false && child !== ""));
    return made;
  };
  const e = element;
  const at = (kind, name, query = {}) => {
    const text = new URLSearchParams(query).toString();
    return `#/${kind}${name === undefined ? "" : `/${encodeURIComponent(name)}`}${text ? `?${text}` : ""}`;
  };
  const link = (kind, name, ...text) => e("a", { href: at(kind, name) }, ...text);
  const remember = (view, fields) => history.replaceState(null, "", at(view, undefined, Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== "" && value != null))));
  // A line never breaks inside the brackets of an interval, or inside 1/√d.
  const WHOLE = /(\[[−+]?[\d.,]+%?, [−+]?[\d.,]+%?\]|1\/√?d)/;
  const keepWhole = (tree) => {
    const walker = document.createTreeWalker(tree, NodeFilter.SHOW_TEXT), texts = [];
    while (walker.nextNode()) if (WHOLE.test(walker.currentNode.data) && !walker.currentNode.parentNode.closest("svg")) texts.push(walker.currentNode);
    texts.forEach((text) => text.replaceWith(...text.data.split(WHOLE).map((part, i) => (i % 2 ? e("span", { class: "whole" }, part) : part))));
  };
  const page = (title, ...content) => {
    document.title = title ? `${title} · Attention, ablated` : "Attention, ablated";
    $("main").replaceChildren(...content.flat(2).filter(Boolean));
    keepWhole($("main"));
  };
  const crumbs = (...parts) => e("p", { class: "crumbs" }, parts.filter(Boolean).map((part, i) => [i ? " › " : "", part]));

  // Numbers.
  const number = (text) => {
    const found = String(text).replace(/−/g, "-").replace(/,/g, "").match(/^[^\d\-+.]*([-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?)/i);
    return found ? parseFloat(found[1]) : NaN;
  };
  const compare = (a, b) => {
    const x = number(a), y = number(b);
    if (Number.isNaN(x) && Number.isNaN(y)) return String(a).localeCompare(String(b));
    return Number.isNaN(x) ? 1 : Number.isNaN(y) ? -1 : x - y;
  };
  const told = (value, digits = 2, sign = false) => {
    if (typeof value !== "number") return "–";
    const text = Math.abs(value).toFixed(digits);
    return `${value < 0 && number(text) ? "−" : sign && number(text) ? "+" : ""}${text}`;
  };
  const interval = (row, low, high, sign = true) => (row[low] === undefined ? "" : `[${told(row[low], row.digits, sign)}, ${told(row[high], row.digits, sign)}]`);
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const spread = (values, digits) => {
    if (!values.length) return "–";
    const centre = mean(values), sd = Math.sqrt(values.reduce((sum, value) => sum + (value - centre) ** 2, 0) / (values.length - 1));
    return values.length > 1 ? `${told(centre, digits)} ± ${told(sd, digits)}` : told(centre, digits);
  };
  const ticks = (low, high, count = 5) => {
    const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((one) => one * power >= rough), digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    const found = [];
    for (let value = Math.ceil(low / step - 1e-9) * step; value <= high + step * 1e-9; value += step) found.push([value, told(value, digits)]);
    return found;
  };

  // Tables: a button in each heading sorts.
  const sortable = (table) => {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((cell, column) => {
      if (!cell.textContent.trim()) return;
      const button = e("button", { type: "button" }, cell.textContent);
      cell.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = cell.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        cell.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...table.tBodies[0].rows];
        rows.sort((a, b) => (down ? -1 : 1) * compare(a.cells[column].textContent, b.cells[column].textContent));
        table.tBodies[0].append(...rows);
      });
    });
    return table;
  };
  const wide = (label, table) => e("div", { class: "wide", tabindex: 0, role: "region", "aria-label": label }, table);
  const bare = (heads, rows, right) => e("table", {},
    e("thead", {}, e("tr", {}, heads.map((head, i) => e("th", { scope: "col", class: right(i) ? "right" : null }, head)))),
    e("tbody", {}, rows.map((row) => e("tr", {}, row.map((cell, i) => e("td", { class: right(i) ? "right" : null }, cell))))));
  const table = (label, heads, rows, right = () => true) => wide(label, sortable(bare(heads, rows, right)));
  const facts = (rows) => e("dl", {}, rows.map(([key, value]) => e("div", {}, e("dt", {}, key), e("dd", {}, value))));

  // Markdown comes as HTML that has no HTML of a text: links lead to pages of this site or of the web, or become text.
  const SECOND = { transfer: "transfer_multi30k", longer: "longer", asymptotes: "asymptotes_4800", today: "today_multi30k" };
  const address = (href) => {
    const claim = /claim-(\w+)$/.exec(href || ""), agreement = /agreement-(\w+)\.md$/.exec(href || ""), guide = /statistics\.md#([\w-]+)$/.exec(href || "");
    return claim ? at("claim", claim[1]) : guide ? at("guide", guide[1]) : /verdicts\.md$/.test(href || "") ? at("claims") : agreement ? at("sweep", SECOND[agreement[1]]) : /^https?:\/\//.test(href || "") ? href : null;
  };
  const prose = (html) => {
    const made = e("template");
    made.innerHTML = html;
    made.content.querySelectorAll("a").forEach((one) => { const href = address(one.getAttribute("href")); one.replaceWith(href ? e("a", { href, rel: "noreferrer" }, [...one.childNodes]) : e("span", {}, [...one.childNodes])); });
    made.content.querySelectorAll("th, td").forEach((one) => { one.className = one.style.textAlign; one.removeAttribute("style"); if (one.tagName === "TH") one.scope = "col"; });
    made.content.querySelectorAll("th").forEach((one) => { if (one.textContent.startsWith("Δ NLL")) { one.title = one.textContent; one.textContent = "Δ NLL"; } });
    made.content.querySelectorAll("table").forEach((one) => { const place = document.createComment(""); one.replaceWith(place); place.replaceWith(wide("Table", sortable(one))); });
    made.content.querySelectorAll("pre").forEach((one) => { one.className = "wide"; one.tabIndex = 0; });
    return [...made.content.childNodes];
  };

  // Small charts.
  const COLOURS = ["#0173b2", "#de8f05", "#029e73", "#d55e00", "#cc78bc", "#56b4e9", "#ca9161", "#949494"];
  const chart = (title, lines, mark) => {
    const drawn = lines.map((line, i) => ({ ...line, colour: COLOURS[i % 8], dash: ["", "6 4", "2 3"][Math.floor(i / 8) % 3] })).filter((line) => line.points.length);
    if (!drawn.length) return null;
    const [W, H, L, R, T, B] = [640, 260, 52, 12, 10, 36], all = drawn.flatMap((line) => line.points);
    const ends = (values) => { const low = Math.min(...values), high = Math.max(...values), room = (high - low) * 0.04 || 0.5; return [low - room, high + room]; };
    const [x0, x1] = ends(all.map(([x]) => x)), [y0, y1] = ends(all.map(([, y]) => y));
    const X = (x) => +(L + ((x - x0) / (x1 - x0)) * (W - L - R)).toFixed(1), Y = (y) => +(H - B - ((y - y0) / (y1 - y0)) * (H - T - B)).toFixed(1);
    return e("figure", { class: "curve" }, e("h3", {}, title),
      e("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `${title}: ${drawn.map((line) => line.label).join(", ")}` },
        ticks(y0, y1).map(([value, text]) => e("g", {}, e("line", { class: "grid", x1: L, x2: W - R, y1: Y(value), y2: Y(value) }), e("text", { x: L - 6, y: Y(value) + 4, "text-anchor": "end" }, text))),
        ticks(x0, x1).map(([value, text]) => e("text", { x: X(value), y: H - B + 16, "text-anchor": "middle" }, text)),
        e("text", { x: (L + W - R) / 2, y: H - 3, "text-anchor": "middle" }, lines[0].x || "update"),
        mark == null ? null : e("line", { class: "mark", x1: X(mark), x2: X(mark), y1: T, y2: H - B }),
        drawn.map((line) => e("g", { stroke: line.colour, fill: line.colour },
          e("path", { d: `M${line.points.map(([x, y]) => `${X(x)} ${Y(y)}`).join("L")}`, fill: "none", "stroke-width": 2, "stroke-dasharray": line.dash || null }),
          line.points.length > 60 ? null : line.points.map(([x, y]) => e("circle", { cx: X(x), cy: Y(y), r: 3, "stroke-width": 0 }, e("title", {}, `${line.label}, ${x}: ${told(y)}`)))))),
      e("p", { class: "legend" }, drawn.map((line) => e("span", {}, e("i", { style: { background: line.colour } }), line.label))));
  };
  const percent = (value) => `${value.toFixed(2)}%`;
  // Effects of one page share a linear axis in margins, on which left is better; an arrow at its edge stands for what lies beyond.
  const EDGES = [10, 20, 50, 100];
  const margins = (value, edge = EDGES[0]) => 50 + (46 * Math.max(-edge, Math.min(edge, value))) / edge;
  const edgeOf = (rows) => { // four of five estimates lie on it: an axis for the largest alone would hide the margin
    const sizes = rows.filter((row) => row.margin && row.difference !== undefined).map((row) => Math.abs(row.difference / row.margin)).sort((a, b) => a - b);
    return EDGES.find((edge) => sizes.length === 0 || sizes[Math.ceil(0.8 * sizes.length) - 1] <= edge) || EDGES.at(-1);
  };
  const KINDS = { holds: "holds", fails: "fails", depends: "depends", open: "open", "not asked": "apart", "not yet run": "none" };
  const mark = (word, words) => e("span", { class: `mark ${KINDS[word] || "open"}` }, words || word);
  // Why a question does not count; empty if it does.
  const aside = (row) => (row.finding === "saturated" ? "saturated" : row.no_vote ? row.verdict : "");
  const voted = (row) => (aside(row) ? mark("not asked", `not counted (${aside(row)})`) : mark(row.verdict));
  const axis = (marks) => e("div", { class: "axis", "aria-hidden": "true" }, marks.map(([place, text]) => e("span", { style: { left: percent(place) } }, text)));
  const effect = ([estimate, ...ends], kind, edge) => {
    const pair = (a, b) => (a > b ? [b, a] : [a, b]), [low, high] = pair(ends[0], ends[1]), beyond = (value) => Math.abs(value) > edge && Math.sign(value), place = (value) => margins(value, edge);
    const line = (from, to, name) => (from === undefined || (beyond(from) && beyond(from) === beyond(to)) ? null : e("i", { class: name, style: { left: percent(place(from)), width: percent(place(to) - place(from)) } }));
    return e("div", { class: `strip forest ${KINDS[kind] || "open"}`, "aria-hidden": "true" },
      e("i", { class: "band", style: { left: percent(place(-1)), right: percent(place(-1)) } }), e("i", { class: "zero", style: { left: "50%" } }),
      line(low, high, "ci"), line(...pair(ends[2], ends[3]), "ci inner"), beyond(estimate) ? null : e("i", { class: "point", style: { left: percent(place(estimate)) } }),
      [["left", -1], ["right", 1]].map(([name, side]) => {
        const far = [estimate, low, high].find((end) => beyond(end) === side), meets = [low, high].some((end) => end !== undefined && beyond(end) !== side);
        return far === undefined ? null : [e("i", { class: `arrow ${name}` }), e("small", { class: `far ${name}${meets ? " above" : ""}` }, told(Math.abs(far), 0))];
      }));
  };
  const forest = (row, kind, edge) => {
    if (!row.margin || row.low === undefined) return e("div", { class: "strip" }, e("span", { class: "none" }, row.margin ? "no interval" : "no margin"));
    return effect(["difference", "low", "high", "low90", "high90"].map((name) => (row[name] === undefined ? undefined : (row.side * row[name]) / row.margin)), kind, edge);
  };
  const why = (claim) => (claim.verdict === "open" && claim.hold ? e("small", {}, `${claim.hold} of ${claim.questions} questions hold. A claim is open while one of its questions is open and none fails (`, e("a", { href: at("guide", "verdicts-of-claims") }, "rules"), ").") : null);
  const asked = (row) => row.asked || "–";
  const setting = (row) => asked(row).replace("multi30k", "Multi30k");
  // What would give a question another verdict.
  const change = (row) => (row && [row.needed && `${row.needed} seeds, if the effect is as large as it looks`, typeof row.turns === "number" && `a margin ${row.turns < row.margin ? "below" : "above"} ${+row.turns.toPrecision(2)} (it is ${row.margin})`].filter(Boolean).join(", or ")) || null;
  const MANY = 6;
  const runLinks = (arms, all) => {
    const counts = Object.entries(arms);
    return counts.length ? e("small", {}, "runs: ", counts.length > MANY ? `${counts.reduce((sum, [, count]) => sum + count, 0)}, of ${counts.length} arms` : counts.map(([arm, count], i) => [i ? " + " : "", e("a", { href: at("arm", arm), title: all.name(arm) }, count)])) : null;
  };
  // An interval is that of Bonferroni, a finding that of Holm, whose method is the more powerful.
  const narrow = (row) => (/^(supported|contradicted)/.test(row.finding) && row.low * row.high < 0 ? e("small", {}, `0 lies in the interval; Holm's p, ${told(row.holm, 3)}, decides`) : null);
  const claimRow = (row, kind, all, extra, edge = EDGES[0]) => e("div", { class: "row" },
    e("div", { class: "what" }, row.contrast, e("small", {}, setting(row)), runLinks(row.arms, all)),
    forest(row, kind, edge),
    e("div", { class: "number" }, row.estimate, e("small", {}, row.interval), e("small", {}, row.measure.startsWith("NLL per sentence") ? "nats" : row.measure), row.second ? e("small", {}, row.second) : null),
    e("div", {}, extra, narrow(row)));
  const counted = (rows) => rows.toSorted((a, b) => Boolean(aside(a)) - Boolean(aside(b)));
  const decisive = (claim, row) => claim.summary.contrast === row.contrast && claim.summary.asked === row.asked;
  // Questions of claims, the first ones seen at once.
  const folded = (rows, all, count, words, edge) => {
    const made = rows.map((row) => claimRow(row, aside(row) ? "not asked" : row.verdict, all, voted(row), edge));
    return [made.slice(0, count), made.length > count ? e("details", { class: "more" }, e("summary", {}, `${made.length - count} ${words}`), made.slice(count)) : null];
  };
  const forestHead = (edge = EDGES[0]) => e("div", { class: "row heading" }, e("div", {}, "first arm − second arm", e("small", {}, "data, model; question")), e("div", {}, axis([[margins(-6), "← first arm better"], [50, "margins"], [margins(6), "worse →"]]), axis([-1, -0.5, 0, 0.5, 1].map((part) => [margins(part * edge, edge), told(Math.abs(part * edge), 0)]))), e("div", { class: "number" }, "estimate", e("small", {}, "95% CI")), e("div", {}, "verdict"));
  const HOW = "On the left the first arm is better than the second. Dot: estimate. Thin line: 95% interval; thick line: 90% interval. Unit: the margin, the smallest difference of interest; grey band: ± one margin. An arrow stands for what lies beyond the axis, and the number at it says where: the estimate or, if the estimate is within, the end of the interval.";

  // Strips of a sweep: a dot for each run, a bar for the mean; the interval is that of the difference, at the arm's mean.
  const strips = (sweep, all) => [...new Set(sweep.arms.map((arm) => arm.facet))].map((facet) => {
    const arms = sweep.arms.filter((arm) => arm.facet === facet), { metric, title, digits } = arms[0];
    const rows = arms.map((arm) => {
      const dots = arm.runs.map((id) => all.byId.get(id)).filter((run) => run && typeof run[metric] === "number");
      const row = sweep.numbers.find((one) => (one.facet || "") === facet && one.arm === arm.arm) || {};
      return { arm, dots, row: { digits, ...row }, centre: dots.length ? mean(dots.map((run) => run[metric])) : null };
    });
    const base = rows.find((one) => one.arm.baseline)?.centre ?? null;
    const parts = arms.map((arm) => arm.words[1].split(", ")), shared = parts.length > 1 ? parts[0].filter((part) => parts.every((some) => some.includes(part))) : [];
    const named = ({ words }) => words[1].split(", ").filter((part) => !shared.includes(part)).join(", ") || words[1] || "all";
    const shown = rows.filter((one) => one.row.low !== undefined && base !== null);
    const values = [...rows.flatMap((one) => one.dots.map((run) => run[metric])), ...shown.flatMap((one) => [base + one.row.low, base + one.row.high])];
    if (!values.length) return null;
    const room = (Math.max(...values) - Math.min(...values)) * 0.04 || 1, low = Math.min(...values) - room, span = Math.max(...values) + room - low;
    const place = (value) => percent((100 * (value - low)) / span);
    return e("figure", { class: "dots" }, rows[0].arm.words[0] ? e("h3", {}, rows[0].arm.words[0]) : null, shared.length ? e("p", { class: "note" }, `All: ${shared.join(", ")}.`) : null,
      rows.map(({ arm, dots, row, centre }, i) => e("div", { class: "row", style: { "--c": arm.baseline ? "var(--ink)" : COLOURS[0] } },
        e("div", { class: "what" }, arm.runs.some((id) => all.byId.has(id)) ? link("arm", armOf(arm.runs[0]), named(arm)) : named(arm), arm.baseline ? e("small", {}, "baseline") : null),
        e("div", { class: "strip" },
          base === null ? null : e("i", { class: "zero", style: { left: place(base) } }),
          shown.includes(rows[i]) ? e("i", { class: "ci", style: { left: place(base + row.low), width: percent((100 * (row.high - row.low)) / span) } }) : null,
          centre === null ? null : e("i", { class: "bar", style: { left: place(centre) } }),
          dots.map((run) => e("a", { class: "dot", tabindex: "-1", href: at("run", run.id), style: { left: place(run[metric]) }, title: `seed ${run.seed}: ${told(run[metric], digits)}`, "aria-label": `${arm.words[1] || arm.arm}, seed ${run.seed}: ${told(run[metric], digits)}` }))),
        e("div", { class: "number" }, told(centre, digits), row.difference === undefined ? null : e("small", {}, `${told(row.difference, digits, true)} ${interval(row, "low", "high")}`)))),
      e("div", { class: "row" }, e("div", { class: "what" }, e("small", {}, title)), axis(ticks(low, low + span).map(([value, text]) => [(100 * (value - low)) / span, text])), e("div")));
  });

  // First page: findings, answers as cards, the picture, verdicts and doors.
  // Each card has an axis of its own, on which its whole interval is seen beside the smallest difference of interest.
  const strip = ({ ends, zero, margin, verdict }) => {
    const effects = ends.map((end) => (end - zero) / margin);
    return effect(effects, verdict, Math.max(2.5, 1.1 * Math.max(...effects.map(Math.abs))));
  };
  const card = (one) => e("article", { class: "card" }, e("h3", {}, one.question), e("p", { class: "says" }, one.answer),
    strip(one), e("p", { class: "whole value" }, one.number), e("p", {}, one.unit, one.zero ? ` (line: ${one.zero}%; right: less)` : ""), e("p", {}, one.setting), e("p", {}, link("claim", one.claim, mark(one.verdict, `${one.claim} ${one.verdict}`)), ` ${one.by}`));
  const findingOf = (main, { title, number, text, more }) => [e("strong", {}, title), e("p", { class: "value" }, number.split(/(?= \[)/).map((part, i) => (i ? e("small", {}, part) : part))), e("p", {}, `${text} `, Object.entries(more).map(([words, name], i) => [i ? ", " : "", e("a", { href: at(main.sweeps.some((sweep) => sweep.name === name) ? "sweep" : "table", name) }, words)]))];
  const verdictBar = (claims) => {
    const counts = {};
    claims.forEach((claim) => { counts[claim.summary.verdict] = (counts[claim.summary.verdict] || 0) + 1; });
    return e("p", {}, `${claims.length} claims of the literature and of folklore: `, Object.entries(counts).flatMap(([word, count], i) => [i ? ", " : "", e("a", { href: at("claims", undefined, { verdict: word }) }, mark(word, `${count} ${word}`))]), ".");
  };
  const home = async () => {
    const main = await load("site"), all = await load("runs"), seen = {};
    all.runs.forEach((run) => { seen[run.status] = (seen[run.status] || 0) + 1; });
    const states = Object.entries(seen).map(([state, count]) => `${count.toLocaleString("en")} ${count === 1 ? "run" : "runs"} ${state}`).join(", ");
    const door = (kind, text, why, name) => e("li", {}, link(kind, name, text), `: ${why}`);
    page("", e("h1", {}, main.published ? "Which parts of attention does a translation model need?" : "Runs of one folder"),
      e("p", { class: "lead full" }, main.published ? "One change at a time in small models, several seeds each: first on a toy language (the grammar), then on real text." : "What has run, what it found, and what is still to come."),
      e("div", { class: main.findings.length ? "front" : null },
        main.findings.length ? e("ol", { class: "findings" }, main.findings.map((finding) => e("li", {}, findingOf(main, finding)))) : null,
        main.hero ? e("figure", {}, e("img", { class: "paper", src: main.hero, alt: "Sentences translated exactly by d, for 1/d, 1/√d and no scale; attention with and without 1/√d" }), e("figcaption", {}, "Toy language, one rate. Framed: the right words.")) : null,
        main.answers.length ? e("section", {}, e("h2", {}, "Eight answers ", e("small", { class: "note" }, "Difference of NLL in nats, with its 95% interval; left of the line: better; grey: too small to matter. Each has its own axis.")), e("div", { class: "cards" }, main.answers.map(card))) : null,
        main.published ? null : sweepTable(main, all),
        e("section", { class: "next" }, e("h2", {}, "Where next"), main.claims.length ? verdictBar(main.claims) : null, e("ul", { class: "doors" },
          main.claims.length ? door("claims", "Check a number", "every claim, with its runs.") : null,
          main.sweeps.some((sweep) => sweep.name === "decoder_only") ? door("sweep", "Decoder-only models", "what carries over.", "decoder_only") : null,
          door("runs", "Find a run", `${states || "no record yet"}; search and sort by any field and score.`),
          door("sentences", "Look inside", "translations and attention maps of two models side by side."),
          main.published ? door("sweeps", "Run your own", "the sweep files of this study.") : null))));
  };

  // All claims, found by words and by verdict.
  const claims = async (_, query) => {
    const main = await load("site"), all = await load("runs"), counts = {};
    main.claims.forEach((claim) => { counts[claim.summary.verdict] = (counts[claim.summary.verdict] || 0) + 1; });
    const rows = (await load("claims")).contrasts, questions = (id) => rows.filter((row) => row.id === id && row.decides === "True" && KINDS[row.verdict] !== "none");
    const box = e("input", { type: "search", autocomplete: "off", placeholder: "scale, heads, fails …" }), count = e("span", { role: "status" });
    const chips = Object.entries(counts).map(([word, number]) => e("button", { type: "button", class: `mark ${KINDS[word] || "open"}`, "aria-pressed": String(query.verdict === word), "data-word": word }, `${word} ${number}`));
    const sections = main.claims.map((claim) => e("section", { class: "claim", "data-word": claim.summary.verdict },
      e("h3", {}, link("claim", claim.id, e("span", { class: "id" }, claim.id), " ", claim.statement), " ", mark(claim.summary.verdict, claim.summary.answer)), why(claim.summary),
      folded(counted(questions(claim.id)).sort((a, b) => decisive(claim, b) - decisive(claim, a)), all, 1, "more of this claim")));
    const show = () => {
      const words = box.value.toLowerCase().split(/\s+/).filter(Boolean), chosen = chips.filter((chip) => chip.getAttribute("aria-pressed") === "true").map((chip) => chip.dataset.word);
      sections.forEach((section) => { section.hidden = !(words.every((word) => section.textContent.toLowerCase().includes(word)) && (!chosen.length || chosen.includes(section.dataset.word))); });
      count.textContent = words.length || chosen.length ? `${sections.filter((section) => !section.hidden).length} of ${sections.length} claims` : "";
    };
    box.addEventListener("input", show);
    show();
    chips.forEach((chip) => chip.addEventListener("click", () => { chip.setAttribute("aria-pressed", chip.getAttribute("aria-pressed") !== "true"); show(); }));
    page("Claims", e("h1", {}, "Claims"), main.claims.length ? [e("p", {}, "Each row is one question. A claim shows the one on which its verdict rests; open it for the others. Its page has every contrast."),
      e("form", { class: "find", role: "search", onsubmit: (event) => event.preventDefault() }, e("label", {}, "Find a claim ", box), " ", count, e("span", { class: "chips", role: "group", "aria-label": "Verdicts" }, chips)),
      e("p", { class: "note" }, HOW), e("div", { class: "forestplot" }, forestHead(), sections)] : e("p", {}, "No claim asks these runs."));
  };
  const finished = (ids, all) => { const done = ids.filter((id) => all.byId.get(id)?.status === "finished").length; return done === ids.length ? done : `${done} of ${ids.length}`; };
  // Sweeps in the order of the claims that they decide; the others come last.
  const ordered = (main) => [...new Set([...main.claims.flatMap((claim) => claim.sweeps), ...main.sweeps.map((sweep) => sweep.name)])].map((name) => main.sweeps.find((sweep) => sweep.name === name));
  const sweepTable = (main, all) => (main.sweeps.length ? [e("h2", {}, "Sweeps"), e("p", {}, "A sweep is a set of experiments that answers one question. Its page has the figure, the table and every run. They stand in the order of the claims that they decide, the others last."),
    table("Sweeps", ["sweep and what varies", "arms", "runs", "claims"], ordered(main).map((one) => [[link("sweep", one.name, one.name), e("small", {}, one.about)], one.arms.length, finished(one.arms.flatMap((arm) => arm.runs), all),
      main.claims.filter((claim) => claim.sweeps.includes(one.name)).flatMap((claim) => [link("claim", claim.id, claim.id), " "])]), (i) => i === 1 || i === 2)] : null);
  const sweeps = async () => { const main = await load("site"); const table = sweepTable(main, await load("runs")); page("Sweeps", e("h1", {}, "Sweeps"), ...(table ? table.slice(1) : [e("p", {}, "No sweep declares these runs.")])); };

  const armLinks = (arms, all) => (arms.length && arms.length <= MANY ? e("small", {}, "runs: ", arms.map((arm, i) => [i ? "; " : "", link("arm", arm, all.name(arm))])) : null);
  const pooled = async (name) => { const one = await load(`table/${name}`); return one ? page(one.title, e("h1", {}, one.title), prose(one.table)) : nothing(`table ${name}`); };

  const claim = async (id) => {
    const main = await load("site"), all = await load("runs"), place = main.claims.findIndex((one) => one.id === id);
    if (place < 0) return nothing(`claim ${id}`);
    const rows = (await load("claims")).contrasts.filter((row) => row.id === id), one = main.claims[place];
    const questions = counted(rows.filter((row) => row.decides === "True")), made = questions.filter((row) => row.verdict !== "not yet run"), open = questions.filter((row) => !made.includes(row));
    const contrasts = rows.filter((row) => row.finding && row.finding !== "not yet run");
    const findings = main.findings.filter((finding) => finding.claims.includes(id)), weakest = made.find((row) => decisive(one, row) && row.interval), edge = edgeOf(made.filter((row) => !row.no_vote));
    const beside = made.filter((row) => row.no_vote), shown = (row) => claimRow(row, row.no_vote ? "not asked" : row.verdict, all,
      [voted(row), e("small", {}, row.finding, row.verdict === "open" && row.second && row.finding !== "undecided" ? " by NLL, not by BLEU" : null, row.no_vote ? `; ${row.no_vote}` : null), row.needed ? e("small", {}, `needs ${row.needed} seeds`) : null], edge);
    const turn = (step, text) => { const other = main.claims[place + step]; return other ? e("a", { href: at("claim", other.id), rel: step < 0 ? "prev" : "next" }, text(`${other.id} ${other.statement}`)) : null; };
    const short = main.answers.find((row) => row.claim === id);
    const shared = (other) => other.sweeps.filter((name) => one.sweeps.includes(name)).length;
    const related = main.claims.filter((other) => other !== one && shared(other)).sort((a, b) => shared(b) - shared(a)).slice(0, 3);
    page(`Claim ${id}`, crumbs(e("a", { href: at("claims") }, "Claims"), id), e("h1", {}, one.statement),
      e("div", { class: findings.length ? "verdict two" : "verdict" }, e("div", {},
        e("p", { class: "lead" }, mark(one.summary.verdict, one.summary.answer), why(one.summary) || e("small", {}, `${one.summary.hold} of ${one.summary.questions} questions hold, ${one.summary.fail} fail, ${one.summary.open} open`)),
        facts([["in the literature", one.published], [`in short${short ? `: ${short.question}` : ""}`, short && [e("strong", {}, `${short.answer}. `), `${short.unit}: `, e("span", { class: "whole" }, short.number), ` (${short.setting})`]],
          [one.summary.verdict === "holds" ? "the weakest question" : "what keeps it from holding", weakest && [`${weakest.contrast}: `, e("span", { class: "whole" }, `${weakest.estimate} ${weakest.interval}`), ` ${weakest.measure} (${setting(weakest)})`]],
          ["what would change it", change(weakest)]].filter(([, words]) => words))), findings.map((finding) => e("div", { class: "finding" }, findingOf(main, finding)))),
      related.length ? e("p", { class: "note", id: "related" }, "See also, of the same sweeps: ", related.map((other, i) => [i ? "; " : "", link("claim", other.id, `${other.id} ${other.statement}`), ` (${other.summary.answer})`]), ".") : null,
      made.length ? [e("h2", {}, "What the runs say"), e("div", { class: "forestplot" }, forestHead(edge), made.filter((row) => !row.no_vote).map(shown), beside.length ? e("details", { class: "more", open: beside.length === made.length }, e("summary", {}, `${beside.length} not counted`), beside.map(shown)) : null), e("p", { class: "note" }, HOW)] : null,
      open.length ? [e("h2", {}, "Not yet run"), e("ul", { class: "plain" }, open.map((row) => e("li", {}, asked(row))))] : null,
      contrasts.length ? e("details", {}, e("summary", {}, `Every contrast (${contrasts.length}), with its runs`), table("Contrasts", ["data and model", "contrast", "finding", "estimate", "95% CI", "90% CI", "margin", "turns at", "Holm p", "seeds"], contrasts.map((row) => [asked(row), [row.contrast, e("small", {}, row.measure), armLinks(Object.keys(row.arms), all)], [row.finding, row.notes ? e("small", {}, row.notes) : null],
        row.estimate, row.interval, row.inner, String(row.margin ?? "–"), String(row.turns ?? "–"), row.holm === undefined ? "–" : String(row.holm), row.n ?? ""]), (i) => i > 2)) : null,
      e("p", { class: "note" }, e("a", { href: at("guide") }, "How to read verdicts, columns and marks")),
      one.sweeps.length ? e("details", { open: one.sweeps.length < 7 }, e("summary", {}, `The sweeps behind it (${one.sweeps.length})`), e("ul", { class: "plain" }, one.sweeps.map((name) => e("li", {}, link("sweep", name, name), ": ", main.sweeps.find((other) => other.name === name)?.about || "")))) : null,
      e("nav", { class: "turn", "aria-label": "Claims" }, turn(-1, (text) => `← ${text}`), turn(1, (text) => `${text} →`)));
  };

  const sweep = async (name) => {
    const main = await load("site"), all = await load("runs"), one = await load(`sweep/${name}`);
    if (!one) return nothing(`sweep ${name}`);
    const claims = main.claims.filter((other) => other.sweeps.includes(name)), words = Object.entries(one.words);
    const arms = new Set(one.arms.flatMap((arm) => arm.runs.map(armOf)));
    const asks = claims.length ? (await load("claims")).contrasts.filter((row) => row.decides === "True" && row.estimate && Object.keys(row.arms).length && Object.keys(row.arms).every((arm) => arms.has(arm))) : [];
    page(name, crumbs(e("a", { href: at("sweeps") }, "Sweeps"), name), e("h1", {}, one.about || name),
      claims.length ? e("p", {}, "Claims that it decides: ", claims.map((other, i) => [i ? "; " : "", link("claim", other.id, `${other.id} ${other.statement}`), ` (${other.summary.answer})`]), ".") : null,
      e("details", { open: !asks.length }, e("summary", {}, "The plan, as it was declared"), prose(one.introduction), words.length ? [e("h3", {}, "Fields in words"), facts(words)] : null),
      asks.length ? [e("h2", {}, "What claims ask of its runs"), e("div", { class: "forestplot" }, forestHead(edgeOf(asks)), folded(counted(asks), all, 4, "more", edgeOf(asks)))] : null,
      e("h2", {}, "Every arm against the baseline"), e("p", {}, `The score is ${[...new Set(one.arms.map((arm) => arm.title))].join(" or ")}. A dot is one run and leads to it, the bar is the mean, the grey line the baseline's mean. A blue line is the 95% interval of the difference from the baseline. It is drawn at the arm's mean: where it does not meet the grey line, 0 lies outside the interval.`),
      one.arms.some((arm) => arm.title.includes("without pronouns")) ? e("p", { class: "note" }, "Without pronouns: on the sentences that have no ", e("i", {}, "er, sie, es"), ", whose translation hides other effects (", e("a", { href: at("guide", "which-score-decides") }, "why"), ").") : null,
      claims.length ? e("p", { class: "note" }, "These intervals are simultaneous over all arms, each from the spread of its own two arms (Welch). A claim has its own interval of the same difference: it is simultaneous over the few contrasts planned for it, and may pool the spread of all arms. See ", claims.map((other, i) => [i ? ", " : claims.length > 1 ? "claims " : "claim ", link("claim", other.id, other.id)]), ".") : null,
      strips(one, all),
      e("h2", {}, "Table"), prose(one.table),
      e("details", {}, e("summary", {}, "Arms and runs"), e("ul", { class: "plain" }, one.arms.map((arm) => { const there = arm.runs.filter((id) => all.byId.has(id)), words = arm.words.toReversed().filter(Boolean).join(", ") || "all";
        return e("li", {}, there.length ? link("arm", armOf(there[0]), words) : words, arm.baseline ? " (baseline)" : "", ": ", there.length ? there.map((id, i) => [i ? ", " : "", link("run", id, `seed ${all.byId.get(id).seed}`)]) : "no run yet"); }))));
  };

  // Arms and runs.
  const places = (all, arm) => (all.sweeps(arm).length ? e("ul", { class: "plain" }, all.sweeps(arm).map((name) => e("li", {}, link("sweep", name, name), `: ${all.place(arm, name)}`))) : e("p", {}, "No sweep of this site declares it."));
  const changed = (all, arm) => { const fields = all.changed(arm); return fields.length ? facts(fields.map(([key, value]) => [key, text(value) || "none"])) : e("p", {}, "None."); };
  const points = (run, key) => (run.curves || {})[key] || [];
  const baseline = async (all, run) => {
    const name = all.sweeps(run.arm)[0], sweep = name && (await load(`sweep/${name}`));
    const mine = sweep && sweep.arms.find((arm) => arm.runs.includes(run.id));
    const others = mine ? sweep.arms.filter((arm) => arm !== mine && arm.facet === mine.facet).sort((a, b) => b.baseline - a.baseline) : [];
    return others.flatMap((arm) => arm.runs).find((id) => all.byId.get(id)?.seed === run.seed) || "";
  };
  const translated = (arm, id) => (arm.runs[id]?.translations || []).map((place) => arm.lines[place]);
  const arm = async (id) => {
    const all = await load("runs"), one = all.runs.some((run) => run.arm === id) ? await load(`arm/${id}`) : null;
    if (!one) return nothing(`arm ${id}`);
    const runs = all.runs.filter((run) => run.arm === id), shown = ["bleu", "exact", "nll"], first = runs[0];
    const splits = [...new Set(runs.flatMap((run) => Object.keys(run)).filter((key) => key in all.digits).map((key) => key.split("/")[0]))].filter((split) => split !== "valid");
    const tested = shown.map((metric) => `${splits[0]}/${metric}`).filter((key) => key in all.digits);
    const cell = (split, metric) => spread(runs.map((run) => run[`${split}/${metric}`]).filter((value) => typeof value === "number"), all.digits[`${split}/${metric}`] ?? 2);
    page(all.name(id), crumbs(...all.sweeps(id).slice(0, 1).map((name) => link("sweep", name, name)), "arm"), e("h1", {}, all.name(id)), e("p", { class: "lead" }, `An arm is a configuration without its seed. This one has ${runs.length} ${runs.length === 1 ? "run" : "runs"}.`), places(all, id),
      e("p", {}, e("a", { href: at("sentences", undefined, { run: first.id, with: await baseline(all, first) }) }, "Its sentences and attention maps, beside another arm")),
      e("h2", {}, "Runs"), table("Runs", ["seed", ...tested.map((key) => all.titles[key]), "state", "run"], runs.map((run) => [run.seed, ...tested.map((key) => told(run[key], all.digits[key])), run.status, e("span", { class: "whole" }, link("run", run.id, run.id))]), (i) => i <= tested.length),
      splits.length ? [e("h2", {}, "Scores by split"), e("p", {}, "Mean ± standard deviation over the seeds. The runs above are those of the first split."), table("Scores", ["split", ...shown.map((metric) => all.titles[`${splits[0]}/${metric}`] || metric)], splits.map((split) => [split, ...shown.map((metric) => cell(split, metric))]), (i) => i > 0)] : null,
      e("h2", {}, "Learning curves"), [["valid_bleu", "BLEU on validation"], ["valid_loss", "loss on validation, nats a token"]].map(([key, title]) => chart(title, runs.map((run) => ({ label: `seed ${run.seed}`, points: points(one.runs[run.id] || {}, key) })))),
      e("h2", {}, "Configuration"), e("p", {}, "Fields that differ from those of most arms of this site."), changed(all, id), e("p", { class: "note" }, "Arm ", e("code", {}, id)));
  };
  // The map of one sentence at each validation, moved by hand or played.
  const learning = (maps) => {
    const drawn = e("div", { class: "wide" }), said = e("output", {}), cell = e("p", { class: "note", role: "status" });
    const show = (place) => { range.value = place; const one = maps[place]; said.textContent = ` update ${one.step}`; drawn.replaceChildren(heat(one, one, `update ${one.step}`, (text) => { cell.textContent = text; })); };
    const range = e("input", { type: "range", min: 0, max: maps.length - 1, step: 1, "aria-label": "Validation", oninput: () => show(+range.value) });
    const play = e("button", { type: "button", onclick: () => { let place = 0; clearInterval(learning.timer); show(0); learning.timer = setInterval(() => (++place < maps.length && drawn.isConnected ? show(place) : clearInterval(learning.timer)), 500); } }, "Play");
    show(maps.length - 1);
    return [e("p", {}, play, " ", range, said), drawn, cell];
  };
  const run = async (id) => {
    const all = await load("runs"), mine = all.byId.get(id), one = mine && (await load(`arm/${mine.arm}`)), found = one && (one.runs[id] || {});
    if (!one) return nothing(`run ${id}`);
    const seeds = all.runs.filter((run) => run.arm === mine.arm), place = seeds.indexOf(mine), beside = await baseline(all, mine), texts = one.texts ? await load(`texts/${one.texts}`) : null;
    const learnt = mine.validations > 1 ? (await load(`maps/${mine.arm}`))?.[id]?.["maps.jsonl"] : null;
    const lines = translated(one, id), pairs = texts ? texts.pairs : [], wrong = lines.map((line, i) => [i, line]).filter(([i, line]) => pairs[i] && line.trim() !== pairs[i][1].trim());
    const some = (wrong.length ? wrong : lines.map((line, i) => [i, line])).slice(0, 5), item = (i) => at("sentences", undefined, { run: id, with: beside, item: `${texts ? texts.split : "test"}:${i}` });
    const values = (found.scores || []).map((value, i) => [...one.kinds[found.kind][i], value]);
    const scores = (parts) => { const kept = values.filter(([, subset]) => parts || !subset), names = [...new Set(kept.map((score) => score[2]))], rows = new Map();
      kept.forEach(([split, subset, metric, n, value]) => { const key = subset ? `${split}, ${subset}` : split; rows.set(key, { n, ...rows.get(key), [metric]: told(value, all.digits[`${split}/${metric}`] ?? 2) }); });
      return table("Scores", ["split", "n", ...names.map((name) => all.titles[`${kept[0][0]}/${name}`] || name.replaceAll("_", " ").replace("nll", "NLL"))], [...rows].map(([key, row]) => [key, row.n, ...names.map((name) => row[name] ?? "")]), (i) => i > 0); };
    const heads = found.heads || [], split = Object.keys(mine).find((key) => key.startsWith("test") && key in all.digits)?.split("/")[0];
    const tested = ["bleu", "exact", "nll"].map((metric) => `${split}/${metric}`).filter((key) => typeof mine[key] === "number").map((key) => `${all.titles[key]} ${told(mine[key], all.digits[key])}`);
    const address = found.wandb && /^https?:\/\//.test(found.wandb.url || "") ? found.wandb.url : null, title = `${all.name(mine.arm)}, seed ${mine.seed}`;
    page(title, crumbs(...all.sweeps(mine.arm).slice(0, 1).map((name) => link("sweep", name, name)), link("arm", mine.arm, all.name(mine.arm)), `seed ${mine.seed}`), e("h1", {}, title),
      e("p", { class: "lead" }, found.error ? `${mine.status}: ${found.error}` : [`${mine["data.name"]}, ${mine["model.family"]}`, mine.status, ...tested].join(" · ")), e("p", {}, e("code", {}, id)),
      e("div", { class: "curves" }, e("div", {}, chart("BLEU on validation", [{ label: "BLEU", points: points(found, "valid_bleu") }], found.selection?.step)), e("div", {}, chart("Loss, nats a token", [{ label: "validation", points: points(found, "valid_loss") }, { label: "training", points: points(found, "train_loss") }], found.selection?.step))),
      found.selection ? e("p", { class: "note" }, `The grey line marks update ${found.selection.step}, whose weights were tested. The training loss has dropout and label smoothing.`) : null,
      learnt ? [e("h2", {}, "Attention while it learns"), e("p", {}, "Cross-attention on one sentence at each validation: ", e("q", {}, learnt[0].text?.source || learnt[0].source.join(" ")), "."), learning(learnt)] : null,
      e("h2", {}, "Sentences"), e("p", {}, e("a", { href: at("sentences", undefined, { run: id, with: beside }) }, mine.maps ? "Attention maps and translations" : "Translations", beside ? ", beside the baseline" : ""), ".", wrong.length ? " The first that differ from their references:" : ""),
      e("ol", { class: "sentences" }, some.map(([i, line]) => e("li", { value: i + 1 }, pairs[i] ? [e("span", { class: "source" }, pairs[i][0]), e("span", { class: "reference" }, pairs[i][1])] : null, e("a", { href: item(i) }, line || "(empty)")))),
      values.length ? [e("h2", {}, "Scores"), scores(false), values.some((score) => score[1]) ? e("details", {}, e("summary", {}, "By part of the split"), scores(true)) : null] : null,
      heads.length ? [e("h2", {}, "Attention heads"), e("details", {}, e("summary", {}, `Measures of ${heads.length === 1 ? "one head" : `${heads.length} heads`} at the last validation`), e("p", {}, "Entropy runs from 0 (one slot) to 1 (all alike). Largest weight and weight on gold run from 0 to 1. Information is in nats."),
        table("Heads", ["site", "layer", "head", "entropy", "largest weight", "weight on gold", "sd of logits", "query information"], heads.map((row) => row.map((value, i) => (i < 1 ? value.replaceAll("_", " ") : i < 3 ? value : told(value, 3)))), (i) => i > 0))] : null,
      e("h2", {}, "Facts"), e("details", {}, e("summary", {}, "Identity, size, time, machine"), facts(Object.entries(mine).filter(([name]) => !/[./]|^(id|arm|seed|status|maps|validations|texts|corpus|family)$/.test(name)).map(([name, value]) => [name.replaceAll("_", " "), text(value)]))), address ? facts([["W&B", e("a", { href: address, rel: "noreferrer" }, address)]]) : null,
      e("h2", {}, "Configuration"), e("details", {}, e("summary", {}, "Fields that differ from those of most arms of this site"), changed(all, mine.arm)), e("details", {}, e("summary", {}, "All fields"), e("pre", { class: "wide", tabindex: 0 }, JSON.stringify({ ...one.config, seed: mine.seed }, null, 1))),
      e("h2", {}, "Where it belongs"), places(all, mine.arm),
      e("nav", { class: "turn", "aria-label": "Seeds" }, seeds[place - 1] ? e("a", { rel: "prev", href: at("run", seeds[place - 1].id) }, `← seed ${seeds[place - 1].seed}`) : null, seeds[place + 1] ? e("a", { rel: "next", href: at("run", seeds[place + 1].id) }, `seed ${seeds[place + 1].seed} →`) : null));
  };

  // All runs: only the rows in sight are elements.
  const FIRST = ["name", "test/bleu", "test/exact", "test/nll", "seed", "sweeps", "status", "data.name", "model.family", "tokens_per_second"];
  const WORDS = { "name": "arm", "data.name": "data", "model.family": "family", "test/bleu": "BLEU", "test/exact": "exact match", "test/nll": "NLL", "tokens_per_second": "tokens / s" };
  const HEIGHT = 42;
  const text = (value) => (value === null || value === undefined ? "" : typeof value === "number" ? String(+value.toPrecision(6)) : String(value));
  // Search takes "-", "_" and blanks as the same.
  const plain = (value) => text(value).toLowerCase().replace(/[-_ ]/g, "_");
  const condition = (word, fields) => {
    const found = word.match(/^([^<>=!]+)(!=|<=|>=|=|<|>)(.*)$/);
    if (!found) return (run) => run.text.includes(plain(word));
    const [, name, sign, wanted] = found;
    const same = fields.filter((field) => plain(field) === plain(name)), names = same.length ? same : fields.filter((field) => /[./]/.test(field.at(-name.length - 1)) && plain(field).endsWith(plain(name)));
    const limit = number(wanted);
    const holds = (value) => {
      if (sign === "=") return plain(value) === plain(wanted);
      if (sign === "!=") return plain(value) !== plain(wanted);
      if (typeof value !== "number") return false;
      return sign === "<" ? value < limit : sign === ">" ? value > limit : sign === "<=" ? value <= limit : value >= limit;
    };
    return (run) => (sign === "!=" ? names.every((field) => holds(run[field])) : names.some((field) => holds(run[field])));
  };
  const runs = async (_, query) => {
    const main = await load("site"), all = await load("runs"), order = new Map();
    ordered(main).forEach((sweep) => sweep.arms.forEach((arm) => arm.runs.forEach((id) => order.has(id) || order.set(id, order.size))));
    const place = (run) => order.get(run.id) ?? order.size;
    const rows = all.runs.map((run) => ({ ...run, name: all.name(run.arm), sweeps: all.sweeps(run.arm).join(" ") })).sort((a, b) => place(a) - place(b));
    const fields = [...new Set(rows.flatMap(Object.keys))];
    rows.forEach((run) => { run.text = plain(Object.entries(run).map(([k, v]) => (v === null ? "" : `${k}=${v}`)).join(" ")); });
    const state = { q: "", sort: "", columns: "", ...query };
    const chosen = () => (state.columns ? state.columns.split(",").filter((name) => fields.includes(name)) : FIRST.filter((name) => fields.includes(name) && (name !== "status" || rows.some((run) => run.status !== rows[0].status))));
    const numeric = new Set(fields.filter((name) => rows.some((run) => typeof run[name] === "number")));
    let found = [];
    const head = e("thead"), body = e("tbody"), grid = e("table", { class: "runs", "aria-label": "Runs" }, head, body);
    const box = e("div", { class: "wide scroll", tabindex: 0, role: "region", "aria-label": "Runs" }, grid), count = e("span", { role: "status" });
    const cell = (run, name) => (name === "name" ? e("a", { href: at("run", run.id), title: `${run.name}, ${run.id}` }, run.name) : typeof run[name] === "number" && name in all.digits ? told(run[name], all.digits[name]) : name === "tokens_per_second" && run[name] ? Math.round(run[name]).toLocaleString("en") : text(run[name]));
    const paint = () => {
      const from = Math.max(0, Math.floor(box.scrollTop / HEIGHT) - 10), to = Math.min(found.length, from + Math.ceil(box.clientHeight / HEIGHT) + 20), columns = chosen();
      const space = (count) => e("tr", { "aria-hidden": "true", class: "space", style: { height: `${count * HEIGHT}px` } }, e("td", { colspan: columns.length }));
      body.replaceChildren(...(from ? [space(from)] : []), ...found.slice(from, to).map((run, i) => e("tr", { "aria-rowindex": from + i + 2 }, columns.map((name) => e("td", { class: numeric.has(name) ? "right" : "left", title: name === "name" ? null : text(run[name]) }, cell(run, name))))), ...(to < found.length ? [space(found.length - to)] : []));
    };
    const draw = () => {
      const conditions = state.q.split(/\s+/).filter(Boolean).map((word) => condition(word, fields));
      found = rows.filter((run) => conditions.every((holds) => holds(run)));
      const [by, down] = [state.sort.replace(/^-/, ""), state.sort.startsWith("-") ? -1 : 1], empty = (value) => value === null || value === undefined || value === "";
      if (by) found.sort((a, b) => { const x = a[by], y = b[by]; return empty(x) || empty(y) ? empty(x) - empty(y) : down * (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y))); });
      head.replaceChildren(e("tr", {}, chosen().map((name, i) => e("th", { scope: "col", class: numeric.has(name) ? "right" : `left ${{ name: "first", sweeps: "several" }[name] || ""}`, title: name, "aria-sort": name === by ? (down > 0 ? "ascending" : "descending") : null },
        e("button", { type: "button", onclick: () => { state.sort = state.sort === name ? `-${name}` : name; draw(); head.querySelectorAll("button")[i].focus(); } }, WORDS[name] || all.titles[name] || name)))));
      grid.setAttribute("aria-rowcount", found.length + 1);
      grid.style.minWidth = `${20 + 5 * (chosen().length - 1)}rem`;
      box.scrollTop = 0;
      count.textContent = found.length || !rows.length ? `${found.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")} runs` : "No run matches. Try decoder_only or scale=none.";
      remember("runs", state);
      paint();
    };
    const input = e("input", { type: "search", id: "query", autocomplete: "off", spellcheck: "false", placeholder: "scaling transformer score=dot test/exact>80", oninput: () => { state.q = input.value; draw(); } });
    input.value = state.q;
    const boxes = e("div", { id: "columns" }, fields.map((name) => e("label", { class: "check" }, e("input", { type: "checkbox", value: name, checked: chosen().includes(name), onchange: () => { state.columns = [...boxes.querySelectorAll("input:checked")].map((one) => one.value).join(","); draw(); } }), ` ${name}`)));
    box.addEventListener("scroll", () => requestAnimationFrame(paint));
    page("All runs", e("h1", {}, "All runs"), e("p", { class: "lead full" }, `${rows.length.toLocaleString("en")} runs, in the order of the claims that their sweeps decide; those of further sweeps come last. Search by words and by fields, sort by any column.`),
      e("form", { class: "find", role: "search", onsubmit: (event) => event.preventDefault() }, e("label", {}, "Find ", input), " ", count),
      e("p", { class: "note" }, "A word matches the name, the sweeps and the configuration. ", ["field=value", "field!=value", "field<number", "field>number"].map((one) => [e("code", {}, one), " "]), "test a field; the end of its name is enough: ", e("code", {}, "heads>4"), ". All conditions must hold. The address keeps them."),
      e("details", {}, e("summary", {}, "Columns"), boxes), box);
    draw();
  };
  // Page of a sentence.
  const WORDS_OF = { cross: "cross-attention", encoder_self: "encoder self-attention", decoder_self: "decoder self-attention", joint: "joint attention" };
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
  // Maps of several sentences have weights in 1/1000; the one of a record is of a sentence that may be none of theirs.
  const mapsOf = ({ "attention.json": one, "maps.json": { sentences = [] } = {} }, texts) => {
    const split = texts ? texts.split : "test", scaled = (map) => ({ ...map, weights: map.weights.map((row) => row.map((weight) => weight / 1000)) });
    const found = sentences.map((item) => ({ ...item, split, forced: false, maps: item.maps.map(scaled) }));
    const at = one && texts && one.text ? texts.pairs.findIndex(([source, target]) => source === one.text.source && target === one.text.target) : -1, line = at < 0 ? null : at;
    return one && !(line !== null && found.some((item) => item.line === line)) ? [...found, { ...one, split, line, forced: true, maps: [one] }] : found;
  };
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
    const gold = new Set(["cross", "joint"].includes(one.site) ? (item.gold || []).map(([s, t]) => `${t},${s}`) : []);
    const head = element("tr", {}, element("td"), ...columns.map((word) => element("th", { scope: "col" }, element("span", {}, word))));
    const cells = rows.map((word, t) => element("tr", {}, element("th", { scope: "row" }, word), ...columns.map((other, s) => {
      const weight = one.weights[t][s], linked = gold.has(`${t},${s}`);
      const say = `${word} → ${other}: ${weight.toFixed(3)}${linked ? ", correct link" : ""}`;
      return element("td", { style: { "--w": Math.min(1, Math.abs(weight)) }, class: `${linked ? "gold" : ""}${weight < 0 ? " minus" : ""}`, tabindex: t + s ? -1 : 0, "aria-label": say, onfocus: () => tell(say), onmouseenter: () => tell(say) });
    })));
    const table = element("table", { class: "map", style: { "--columns": columns.length, "--letters": Math.max(...rows.map((word) => word.length)) }, "aria-label": `Attention map, ${name}` }, element("thead", {}, head), element("tbody", {}, ...cells));
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
  const sentences = async (_, query) => {
    page("Sentences", $("sentence").content.cloneNode(true));
    const all = await load("runs"), { pair } = await load("site");
    const known = all.runs.map(({ id, arm, seed, maps = 0, texts }) => ({ id, arm, seed, maps, texts, name: `${all.name(arm)} · seed ${seed}`, sweeps: all.sweeps(arm) }));
    known.sort((a, b) => (a.sweeps[0] || "").localeCompare(b.sweeps[0] || "") || a.name.localeCompare(b.name, undefined, { numeric: true }));
    const find = (id) => known.find((one) => one.id === id);
    const grouped = (select, some, current, none) => {
      const groups = new Map();
      some.forEach((one) => { const key = one.sweeps[0] || "no sweep"; groups.set(key, [...(groups.get(key) || []), one]); });
      const made = [...groups].map(([label, ones]) => element("optgroup", { label }, ...ones.map((one) => element("option", { value: one.id, selected: one.id === current }, one.name + (one.maps > 1 ? " ▦" : "")))));
      select.replaceChildren(...(none ? [element("option", { value: "" }, "no other run")] : []), ...made);
    };
    const state = { run: "", with: "", item: "", site: "", layer: "", head: "", ...query };
    let left, right, items = [], turn = 0;

    const fill = async (one) => {
      if (!one) return null;
      const [arm, maps] = await Promise.all([load(`arm/${one.arm}`), one.maps ? load(`maps/${one.arm}`) : {}]);
      const texts = arm && arm.texts ? await load(`texts/${arm.texts}`) : null;
      return { ...one, lines: arm ? translated(arm, one.id) : [], maps: mapsOf((maps && maps[one.id]) || {}, texts).map(withMeans), texts };
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
    // What a run's name has and the other's has not; all of it is in the title.
    const short = (run) => {
      const words = (one) => (one ? one.name.split(/, | · /) : []), others = words(run === left ? right : left);
      return element("span", { title: run.name }, words(run).filter((word) => !others.includes(word)).join(", ") || run.name);
    };
    const named = (one) => (one.line === null ? one.split : `${one.split} ${one.line + 1}`);
    const drawList = () => {
      const words = $("find-sentence").value.toLowerCase().split(/\s+/).filter(Boolean);
      const some = items.filter((one) => {
        const all = [one.source, one.reference, one.left, one.right].join(" ").toLowerCase();
        return words.every((word) => all.includes(word)) && (!$("differ").checked || (one.right !== undefined && one.left !== one.right));
      });
      $("count").textContent = `${some.length} of ${items.length} sentences`;
      $("sentences").replaceChildren(...some.map((one) => element("li", {}, element("a", { href: `#/sentences?${new URLSearchParams({ ...state, item: one.key })}`, "aria-current": one.key === state.item ? "true" : null, onclick: (event) => { event.preventDefault(); state.item = one.key; show(); } },
        element("span", { class: "tag" }, named(one) + (Object.keys(one.maps).length ? " ▦" : "")), one.source || one.left || "(empty)", one.reference !== undefined && one.left !== undefined && one.left.trim() !== one.reference.trim() ? element("span", { class: "wrong", title: "differs from the reference" }, " ≠") : null))));
    };
    const show = () => {
      const one = items.find((item) => item.key === state.item) || items.find((item) => Object.keys(item.maps).length > 1 && item.right !== undefined && item.left !== item.right) || items.find((item) => Object.keys(item.maps).length) || items[0];
      if (!one) { $("which").textContent = "This run has neither translations nor attention maps."; ["texts", "maps", "about", "cell"].forEach((id) => $(id).replaceChildren()); $("heads").hidden = true; remember("sentences", state); drawList(); return; }
      state.item = one.key;
      $("which").textContent = one.line === null ? `A sentence of ${one.split}` : `Sentence ${one.line + 1} of ${one.split}`;
      const line = (name, ...content) => element("div", {}, element("dt", {}, name), element("dd", {}, ...content));
      const lines = [];
      if (one.source !== undefined) lines.push(line("source", one.source), line("reference", one.reference ?? "not stored"));
      else lines.push(line("source", "not part of this site, because its corpus is not"));
      for (const [run, made] of [[left, one.left], [right, one.right]]) {
        if (!run) continue;
        const name = element("a", { href: at("run", run.id) }, short(run));
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
        $("about").textContent = "Rows attend to columns. Empty is 0, full colour is 1. Frames: correct links; they are known for generated sentences, and there only where the output is the reference. " + (forced ? "The model was given the reference, token by token. " : "The model was given its own translation. ") + (all.some((map) => map.head !== null) ? "" : "A record has one map: one sentence, the last layer, the mean over its heads.");
      } else {
        $("about").replaceChildren("No attention map of this sentence is stored. ");
        const other = items.find((item) => Object.keys(item.maps).length);
        if (other) $("about").append(element("a", { href: "#/sentences", onclick: (event) => { event.preventDefault(); state.item = other.key; show(); } }, `Show ${named(other)}, which has one.`));
      }
      const panels = there.map((run) => {
        const item = one.maps[run.id], { map, same } = chosenMap(item, state);
        const what = `${WORDS_OF[map.site] || map.site}, layer ${map.layer}, ${map.head === null ? "mean over heads" : `head ${map.head}`}`;
        const tell = (text) => { $("cell").textContent = `${run.name}: ${text}`; };
        return element("figure", {}, element("figcaption", {}, element("b", {}, short(run)), element("br"), what + (same ? "" : "; this run has no map of the chosen site, layer and head")), element("div", { class: "wide" }, heat(item, map, run.name, tell)));
      });
      $("maps").replaceChildren(...panels);
      $("cell").textContent = "";
      remember("sentences", state);
      $("sentences").querySelectorAll("a").forEach((link) => link.toggleAttribute("aria-current", false));
      drawList();
    };
    const refresh = async () => {
      const mine = ++turn;
      const richest = (some) => some.reduce((best, one) => (best && best.maps >= one.maps ? best : one), null);
      const chosen = find(state.run), first = chosen || find(pair[0]) || richest(known);
      if (!first) { $("which").textContent = "There is no run yet."; return; }
      if (!chosen) state.with = first.id === pair[0] ? pair[1] : await baseline(all, first);
      state.run = first.id;
      const others = known.filter((one) => one.id !== first.id && one.texts === first.texts);
      if (!others.some((one) => one.id === state.with)) state.with = "";
      grouped($("run"), known, state.run, false);
      grouped($("with"), others, state.with, true);
      const both = await Promise.all([fill(first), fill(find(state.with))]);
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
    keys = { n: () => move(1), p: () => move(-1) };
    document.querySelectorAll("form").forEach((form) => form.addEventListener("submit", (event) => event.preventDefault()));
    await refresh();
  };
  const guide = async (name) => {
    const [all, { contrasts }] = [await load("runs"), await load("claims")], row = contrasts.find((one) => Math.abs(one.difference / one.margin) < EDGES[0] && one.verdict === "holds" && one.finding === "supported" && !aside(one) && one.measure.startsWith("NLL per sentence"));
    const example = row ? [e("h2", {}, "How to read a row"), e("div", { class: "forestplot" }, forestHead(), claimRow(row, row.verdict, all, voted(row))), e("p", {}, `“${row.contrast}” is the first arm minus the second: ${row.estimate} ${row.interval} in NLL, so the first is ${row.difference < 0 ? "better" : "worse"}. The smallest difference of interest, the margin, is ${told(row.margin, 3)}: the difference is ${told(Math.abs(row.difference / row.margin), 1)} margins. Under “runs” stand the runs of both arms.`), e("p", { class: "note" }, HOW)] : [];
    page("How to read the numbers", e("div", { class: "reading" }, prose((await load("guide")) || "")));
    $("main").querySelector("h2")?.before(...example);
    return [...$("main").querySelectorAll("h2, h3")].find((head) => head.textContent.toLowerCase().replaceAll(" ", "-") === name);
  };
  const nothing = (what) => page("Not found", e("h1", {}, "Not found"), e("p", {}, `This site has no ${what}. `, e("a", { href: "#/" }, "First page")));

  const VIEWS = { "": home, claims, claim, sweeps, sweep, arm, run, runs, sentences, guide, table: pooled };
  const whole = (part) => { try { return decodeURIComponent(part); } catch { return part; } };
  const draw = async () => {
    if (location.hash && !location.hash.startsWith("#/")) return;
    const [path, rest] = location.hash.slice(2).split("?"), [kind, name] = path.split("/").map(whole), mine = ++turnOf, here = location.hash;
    keys = {};
    const head = await (Object.hasOwn(VIEWS, kind || "") ? VIEWS[kind || ""] : () => nothing("such page"))(name, Object.fromEntries(new URLSearchParams(rest)), kind);
    if (head) head.scrollIntoView();
    else if (mine > 1) scrollTo(0, 0);
    document.body.dataset.route = here;  // a page may have changed the address
  };
  let last = Promise.resolve();
  const route = () => { last = last.then(draw, draw); };  // one after another, so that a slow page does not cover a later one
  const typing = (event) => event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  document.addEventListener("keydown", (event) => {
    if (typing(event)) return;
    const box = document.querySelector("main input[type=search]");
    if (event.key === "/" && box) { event.preventDefault(); box.focus(); }
    if (keys[event.key]) keys[event.key]();
  });
  document.addEventListener("DOMContentLoaded", () => {
    document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); $("main").focus(); });
    window.addEventListener("hashchange", route);
    route();
  });
  return { put };
})();
