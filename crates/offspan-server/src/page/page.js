"use strict";
(() => {
  const KEPT = 900;
  /** Rows below this are too few to speak of a share. */
  const FEW = 200;
  /** The server tells something every second. After so many milliseconds without it nothing that is shown is news. */
  const SILENCE = 3500;
  const state = { all: null, seconds: new Map(), model: null, span: 300, cursor: new Map(), connected: false, lost: false, asks: false, heard: 0 };
  const at = (id) => document.getElementById(id);

  // --- numbers and times in words -----------------------------------------------------------------------------------

  const short = (x, digits = 3) => {
    if (x === null || x === undefined) return "–";
    if (typeof x === "string") return x.replace("-", "\u2212");
    const size = Math.abs(x);
    const text = size >= 1e6 || (size > 0 && size < 1e-3) ? x.toExponential(1) : String(+x.toPrecision(digits));
    return text.replace("-", "\u2212");
  };
  const percent = (x) => (x === null ? "–" : `${short(100 * x)}\u00a0%`);
  const evidence = (log10) => (log10 < 4 && log10 > -2 ? short(10 ** log10) : `1e${log10.toFixed(1)}`);
  const seconds = (x) => (x === null ? "–" : x < 1 ? `${short(1000 * x)}\u00a0ms` : `${short(x)}\u00a0s`);
  const clock = (t) => new Date(1000 * t).toLocaleTimeString();
  const ago = (from, now) => {
    const passed = Math.max(0, Math.round(now - from));
    if (passed < 90) return `${passed}\u00a0s`;
    if (passed < 5400) return `${Math.round(passed / 60)}\u00a0min`;
    return passed < 172800 ? `${Math.round(passed / 3600)}\u00a0h` : `${Math.round(passed / 86400)}\u00a0days`;
  };
  const since = (t, now) => {
    const far = now - t > 64800 ? `${new Date(1000 * t).toLocaleDateString()} ` : "";
    return `since ${far}${clock(t)}, for ${ago(t, now)}`;
  };

  // --- what came ----------------------------------------------------------------------------------------------------

  const key = (model) => `${model.name} ${model.version}`;
  const SECOND = ["time", "requests", "refused", "rows", "out", "p50", "p99", "share", "moved"];

  function take(kind, all) {
    if (kind === "all") state.seconds.clear();
    for (const model of all.models) {
      const list = state.seconds.get(key(model)) ?? [];
      for (const values of model.seconds) {
        if (list.length && values[0] <= list[list.length - 1].time) continue;
        list.push(Object.fromEntries(SECOND.map((name, k) => [name, values[k]])));
      }
      list.splice(0, Math.max(0, list.length - KEPT));
      state.seconds.set(key(model), list);
    }
    state.all = all;
    const keys = all.models.map(key);
    if (!keys.includes(state.model)) state.model = worst(all) ?? keys[0] ?? null;
  }

  const worst = (all) => {
    const alarmed = all.models.find((model) => alarmTime(model) !== null);
    return alarmed ? key(alarmed) : null;
  };
  const alarmTime = (model) => {
    const times = (model.monitor?.alarms ?? []).filter((time) => time !== null);
    return times.length ? Math.min(...times) : null;
  };

  // --- is something wrong, and since when? --------------------------------------------------------------------------

  /** The share of rows called out in the last minutes, and since when it is larger than chance allows. */
  function outShare(model, span) {
    const list = state.seconds.get(key(model)) ?? [];
    const now = state.all.time;
    const last = list.filter((s) => s.time > now - span);
    const rows = last.reduce((sum, s) => sum + s.rows, 0);
    const out = last.reduce((sum, s) => sum + s.out, 0);
    if (!rows || model.keep === null) return { rows, share: null, high: false };
    const promised = 1 - model.keep;
    const bound = promised + 4 * Math.sqrt((promised * (1 - promised)) / rows);
    const share = out / rows;
    const high = rows >= FEW && share > bound;
    let from = null;
    if (high) {
      // Backwards, half a minute at a time, as long as most of it is above the promise.
      from = now;
      for (let end = now; end > now - KEPT; end -= 30) {
        const part = list.filter((s) => s.time > end - 30 && s.time <= end);
        const all = part.reduce((sum, s) => sum + s.rows, 0);
        const bad = part.reduce((sum, s) => sum + s.out, 0);
        if (all && bad / all <= promised * 1.5) break;
        if (all) from = part[0].time;
      }
    }
    return { rows, share, high, from };
  }

  function findings() {
    const { all } = state;
    const found = [];
    const add = (level, text, from) => found.push({ level, text, from });
    for (const model of all.models) {
      const name = all.models.length > 1 ? `${key(model)}: ` : "";
      const [share, moved] = model.monitor?.alarms ?? [null, null];
      if (share !== null) add("bad", `${name}more rows than before are out-of-distribution`, share);
      if (moved !== null) add("bad", `${name}the scores have moved away from the calibration`, moved);
      const out = outShare(model, 300);
      if (out.high) {
        add("warn", `${name}${percent(out.share)} of the rows are called out, and ${percent(1 - model.keep)} are promised`, out.from);
      }
      if (model.problem) add("warn", `${name}${model.problem}`, null);
      if (model.monitor?.save_failed) add("warn", `${name}the monitor's state cannot be saved`, null);
      const list = state.seconds.get(key(model)) ?? [];
      const last = list.filter((s) => s.time > all.time - 60);
      const refused = last.reduce((sum, s) => sum + s.refused, 0);
      const requests = last.reduce((sum, s) => sum + s.requests, 0);
      if (refused && refused >= 0.01 * requests) {
        add("warn", `${name}${refused} of ${requests} requests of the last minute were refused`, last.find((s) => s.refused).time);
      }
    }
    for (const model of all.broken) add("warn", `${model.name} ${model.version}: ${model.reason}`, null);
    if (!all.server.ready) add("bad", "the server says that it is not ready", null);
    if (all.panics) add("warn", `${all.panics} requests failed where nothing should; the log has them`, null);
    if (all.queue > all.max_queue / 2) add("warn", `${all.queue} of at most ${all.max_queue} rows are waiting`, null);
    return found;
  }

  function drawStatus() {
    const panel = at("status");
    const { all } = state;
    let [level, text, list] = ["waiting", "Waiting for the server…", []];
    const stale = Boolean(all) && !state.connected;
    if (state.asks) {
      text = "This server asks for a token";
    } else if (stale) {
      [level, text] = ["bad", `\u2716 No connection to the server ${since(state.heard / 1000, Date.now() / 1000)}. What is below is old`];
    } else if (!all && state.lost) {
      [level, text] = ["bad", "\u2716 No connection to the server"];
    } else if (all) {
      list = findings();
      const first = list.find((f) => f.level === "bad") ?? list[0];
      const busy = all.models.some((model) =>
        (state.seconds.get(key(model)) ?? []).some((s) => s.rows && s.time > all.time - 60));
      if (first) {
        level = first.level;
        const word = level === "bad" ? "ALARM" : "Look at this";
        text = `${level === "bad" ? "\u2716" : "\u26a0"} ${word}: ${first.text}` + (first.from ? `, ${since(first.from, all.time)}` : "");
        list = list.filter((f) => f !== first);
      } else if (busy) {
        [level, text] = ["good", "\u2714 All is well"];
      } else {
        [level, text] = ["waiting", "Idle: no rows in the last minute, and nothing is wrong"];
      }
    }
    panel.className = level;
    document.body.classList.toggle("stale", stale);
    set(at("verdict"), text);
    const lines = list.map((f) => f.text + (f.from ? `, ${since(f.from, all.time)}` : ""));
    const reasons = at("reasons");
    if (reasons.dataset.lines !== lines.join("\n")) {
      reasons.dataset.lines = lines.join("\n");
      reasons.replaceChildren(...lines.map((line) => make("li", {}, line)));
    }
    const alarm = state.connected ? "\u2716 ALARM – " : "\u2716 No connection – ";
    document.title = `${level === "bad" ? alarm : level === "warn" ? "\u26a0 " : ""}offspan`;
  }

  // --- drawing ------------------------------------------------------------------------------------------------------

  function make(name, attributes = {}, ...children) {
    const element = document.createElement(name);
    for (const [attribute, value] of Object.entries(attributes)) element.setAttribute(attribute, value);
    element.append(...children);
    return element;
  }
  function draw(name, attributes = {}, text = null) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [attribute, value] of Object.entries(attributes)) element.setAttribute(attribute, value);
    if (text !== null) element.textContent = text;
    return element;
  }
  function set(element, text) {
    if (element.textContent !== text) element.textContent = text;
  }

  const model = () => state.all?.models.find((m) => key(m) === state.model) ?? null;

  /** The shown time in parts of equal length, with what was in each. */
  function parts() {
    const length = Math.max(1, Math.ceil(state.span / 90));
    const end = Math.ceil(state.all.time / length) * length;
    const count = Math.round(state.span / length);
    const list = Array.from({ length: count }, (_, k) => ({
      time: end - (count - k) * length, n: 0, rows: 0, out: 0, p50: null, p99: null, share: null, moved: null,
    }));
    for (const s of state.seconds.get(state.model) ?? []) {
      const part = list[Math.floor((s.time - list[0].time) / length)];
      if (!part) continue;
      part.n += 1;
      part.rows += s.rows;
      part.out += s.out;
      if (s.p50 !== null) part.p50 = Math.max(part.p50 ?? 0, s.p50);
      if (s.p99 !== null) part.p99 = Math.max(part.p99 ?? 0, s.p99);
      [part.share, part.moved] = [s.share, s.moved];
    }
    return { list, length };
  }

  const nice = (top) => {
    if (!(top > 0)) return 1;
    const power = 10 ** Math.floor(Math.log10(top));
    return [1, 2, 2.5, 5, 10].map((k) => k * power).find((value) => value >= top * 0.999);
  };

  const MARGIN = { left: 54, right: 10, top: 10, bottom: 22 };

  function frame(figure, title, note) {
    let caption = figure.querySelector("figcaption");
    if (!caption) {
      caption = make("figcaption", {}, make("div"), make("span"));
      figure.append(caption, draw("svg", { role: "img" }));
    }
    set(caption.firstChild, title);
    set(caption.lastChild, note);
    const svg = figure.querySelector("svg");
    svg.setAttribute("aria-label", `${title}: ${note}`);
    const [width, height] = [svg.clientWidth || 400, svg.clientHeight || 190];
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren();
    const inner = { width: width - MARGIN.left - MARGIN.right, height: height - MARGIN.top - MARGIN.bottom };
    return { svg, inner, bottom: MARGIN.top + inner.height };
  }

  /** Lines over time. `marks` are levels to be seen, with a name. */
  function overTime(id, title, series, { format, top, most = Infinity, low = 0, marks = [], note }) {
    const figure = at(id);
    const { list, length } = parts();
    const { svg, inner, bottom } = frame(figure, title, note);
    const values = series.flatMap((s) => list.map(s.of)).filter((v) => v !== null);
    const high = Math.min(most, Math.max(nice(Math.max(...values, ...marks.map((m) => m.at), 0) * 1.05), top ?? 0) || 1);
    const x = (k) => MARGIN.left + (inner.width * (k + 0.5)) / list.length;
    const y = (v) => bottom - (inner.height * (Math.min(Math.max(v, low), high) - low)) / (high - low);
    for (const share of [0, 0.5, 1]) {
      const v = low + (high - low) * share;
      svg.append(draw("line", { class: "grid", x1: MARGIN.left, x2: MARGIN.left + inner.width, y1: y(v), y2: y(v) }));
      svg.append(draw("text", { x: MARGIN.left - 6, y: y(v) + 4, "text-anchor": "end" }, format(v)));
    }
    const first = list[0].time;
    svg.append(draw("text", { x: MARGIN.left, y: bottom + 16 }, clock(first)));
    svg.append(draw("text", { x: MARGIN.left + inner.width, y: bottom + 16, "text-anchor": "end" }, clock(first + length * list.length)));
    for (const { of, kind, area } of series) {
      let [path, shape, run] = ["", "", null];
      list.forEach((part, k) => {
        const value = of(part);
        if (value === null) {
          if (run !== null) shape += `L${x(k - 1)} ${bottom}Z`;
          run = null;
          return;
        }
        path += `${run === null ? "M" : "L"}${x(k)} ${y(value)}`;
        shape += `${run === null ? `M${x(k)} ${bottom}L` : "L"}${x(k)} ${y(value)}`;
        if (run === null && (k === list.length - 1 || of(list[k + 1]) === null)) path += "h1";
        run = k;
      });
      if (run !== null) shape += `L${x(run)} ${bottom}Z`;
      if (area && shape) svg.append(draw("path", { class: "area", d: shape }));
      if (path) svg.append(draw("path", { class: kind, d: path }));
    }
    for (const mark of marks) {
      svg.append(draw("line", { class: "mark", x1: MARGIN.left, x2: MARGIN.left + inner.width, y1: y(mark.at), y2: y(mark.at) }));
      svg.append(draw("text", { class: "marked", x: MARGIN.left + inner.width - 4, y: y(mark.at) - 4, "text-anchor": "end" }, mark.name));
    }
    const cursor = state.cursor.get(id);
    if (cursor !== undefined) {
      const k = Math.min(Math.max(cursor, 0), list.length - 1);
      state.cursor.set(id, k);
      svg.append(draw("line", { class: "cursor", x1: x(k), x2: x(k), y1: MARGIN.top, y2: bottom }));
      const words = series.map((s) => `${s.name} ${s.of(list[k]) === null ? "–" : format(s.of(list[k]))}`);
      set(figure.querySelector("figcaption span"), `${clock(list[k].time)}: ${words.join(", ")}`);
    }
  }

  function drawScores(shown) {
    const figure = at("scores");
    const sum = (list) => list.reduce((total, count) => total + count, 0);
    const [now, then] = [shown.scores, shown.calibration];
    const [nowRows, thenRows] = [sum(now), then ? sum(then) : 0];
    const note = `last 5 min: ${nowRows} rows${then ? `, calibration: ${thenRows}` : ""}`;
    const { svg, inner, bottom } = frame(figure, "Scores now, against calibration", note);
    const shares = (list, total) => list.map((count) => (total ? count / total : 0));
    const [a, b] = [shares(now, nowRows), then ? shares(then, thenRows) : null];
    const high = nice(Math.max(...a, ...(b ?? [0]))) || 1;
    const width = inner.width / a.length;
    const x = (k) => MARGIN.left + width * k;
    const y = (v) => bottom - (inner.height * v) / high;
    const { bounds, threshold } = shown;
    for (const v of [0, high / 2, high]) {
      svg.append(draw("line", { class: "grid", x1: MARGIN.left, x2: MARGIN.left + inner.width, y1: y(v), y2: y(v) }));
      svg.append(draw("text", { x: MARGIN.left - 6, y: y(v) + 4, "text-anchor": "end" }, percent(v)));
    }
    a.forEach((share, k) => {
      if (!share) return;
      const out = threshold !== null && (bounds[k] ?? Infinity) <= threshold;
      svg.append(draw("rect", { class: out ? "bar out" : "bar", x: x(k) + 0.5, y: y(share), width: Math.max(width - 1, 1), height: bottom - y(share) }));
    });
    if (b) {
      const steps = b.map((share, k) => `L${x(k)} ${y(share)}L${x(k + 1)} ${y(share)}`).join("");
      svg.append(draw("path", { class: "two", d: `M${x(0)} ${bottom}${steps}L${x(b.length)} ${bottom}` }));
    }
    const place = (score) => {
      // Bound k ends part k; the first and the last part are open.
      const k = bounds.findIndex((bound) => bound >= score);
      if (k <= 0) return k === 0 ? x(1) : x(a.length - 1);
      return x(k) + (width * (score - bounds[k - 1])) / (bounds[k] - bounds[k - 1]);
    };
    if (threshold !== null) {
      const t = place(threshold);
      svg.append(draw("line", { class: "mark", x1: t, x2: t, y1: MARGIN.top, y2: bottom }));
      const side = t > MARGIN.left + inner.width / 2 ? "end" : "start";
      svg.append(draw("text", { class: "marked", x: t + (side === "end" ? -4 : 4), y: MARGIN.top + 10, "text-anchor": side }, `out below ${short(threshold)}`));
    }
    svg.append(draw("text", { x: MARGIN.left, y: bottom + 16 }, `\u2264 ${short(bounds[0])}`));
    svg.append(draw("text", { x: MARGIN.left + inner.width, y: bottom + 16, "text-anchor": "end" }, `> ${short(bounds[bounds.length - 1])}`));
    const cursor = state.cursor.get("scores");
    if (cursor !== undefined) {
      const k = Math.min(Math.max(cursor, 0), a.length - 1);
      state.cursor.set("scores", k);
      svg.append(draw("rect", { class: "area", x: x(k), y: MARGIN.top, width, height: inner.height }));
      const range = k === 0 ? `\u2264 ${short(bounds[0])}` : k < bounds.length ? `${short(bounds[k - 1])} to ${short(bounds[k])}` : `> ${short(bounds[k - 1])}`;
      set(figure.querySelector("figcaption span"), `${range}: now ${percent(a[k])}${b ? `, calibration ${percent(b[k])}` : ""}`);
    }
  }

  function drawCharts(shown) {
    const last = parts().list.filter((part) => part.n).at(-1);
    const promised = shown.keep === null ? null : 1 - shown.keep;
    const out = outShare(shown, state.span);
    overTime("share", "Share called out-of-distribution", [
      { name: "share", kind: "one", area: true, of: (p) => (p.rows ? p.out / p.rows : null) },
    ], {
      format: percent, most: 1,
      note: `${percent(out.share)} of ${out.rows} rows`,
      marks: promised === null ? [] : [{ at: promised, name: `promised: at most ${percent(promised)}` }],
    });
    const monitor = shown.monitor;
    overTime("evidence", "Evidence of drift", [
      { name: "more rows out", kind: "one", of: (p) => p.share },
      { name: "scores moved", kind: "two", of: (p) => p.moved },
    ], {
      format: evidence, low: -1, top: 1,
      note: monitor ? `out ${evidence(monitor.evidence[0])}, moved ${evidence(monitor.evidence[1])} (dashed)` : "not watched",
      marks: monitor ? [{ at: monitor.needed, name: `alarm at ${evidence(monitor.needed)}` }] : [],
    });
    overTime("rows", "Rows per second", [
      { name: "rows/s", kind: "one", area: true, of: (p) => (p.n ? p.rows / p.n : null) },
    ], { format: short, note: last ? `${short(last.rows / last.n)} now` : "none yet" });
    overTime("latency", "Latency", [
      { name: "half within", kind: "one", of: (p) => p.p50 },
      { name: "99 % within", kind: "two", of: (p) => p.p99 },
    ], { format: seconds, note: last ? `half ${seconds(last.p50)}, 99 % ${seconds(last.p99)} (dashed)` : "none yet" });
    drawScores(shown);
  }

  function drawTiles(shown) {
    const list = state.seconds.get(state.model) ?? [];
    const last = list.filter((s) => s.time > state.all.time - 10.5);
    const rows = last.reduce((sum, s) => sum + s.rows, 0) / Math.max(1, last.length);
    const out = outShare(shown, 300);
    const times = last.filter((s) => s.p99 !== null);
    const p99 = times.length ? Math.max(...times.map((s) => s.p99)) : null;
    const most = shown.monitor ? Math.max(...shown.monitor.evidence) : null;
    const alarmed = alarmTime(shown) !== null;
    const tiles = [
      ["rows per second", short(rows), ""],
      [shown.keep === null ? "no threshold" : `called out, 5 min (promised ${percent(1 - shown.keep)})`, percent(out.share), out.high ? "warn" : ""],
      [shown.monitor ? `evidence of drift (alarm at ${evidence(shown.monitor.needed)})` : "drift is not watched", most === null ? "–" : evidence(most), alarmed ? "bad" : ""],
      ["99 % answered within", seconds(p99), ""],
      ["rows waiting", short(state.all.queue), state.all.queue > state.all.max_queue / 2 ? "warn" : ""],
    ];
    const panel = at("tiles");
    if (panel.children.length !== tiles.length) {
      panel.replaceChildren(...tiles.map(() => make("div", {}, make("b"), make("span"))));
    }
    tiles.forEach(([name, value, level], k) => {
      const tile = panel.children[k];
      tile.className = `tile ${level}`;
      set(tile.firstChild, value);
      set(tile.lastChild, name);
    });
  }

  function fill(table, head, rows, empty) {
    const text = JSON.stringify(rows);
    if (table.dataset.rows === text) return;
    table.dataset.rows = text;
    const cells = (row, tag) => make("tr", {}, ...row.map((cell) => make(tag, tag === "th" ? { scope: "col" } : {}, String(cell))));
    const body = rows.length ? rows.map((row) => cells(row, "td")) : [make("tr", {}, make("td", { colspan: head.length }, empty))];
    table.replaceChildren(make("thead", {}, cells(head, "th")), make("tbody", {}, ...body));
  }

  function drawLists(shown) {
    const { all } = state;
    const versions = all.models.map((m) => [m.name, m.version, m.method, `${clock(m.loaded)}, ${ago(m.loaded, all.time)} ago`,
      short(m.threshold), m.rows, m.problem ?? "ready"]);
    const broken = all.broken.map((m) => [m.name, m.version, "", "", "", "", m.reason]);
    fill(at("versions"), ["model", "version", "method", "loaded", "threshold", "rows", "state"], [...versions, ...broken], "none");
    const rows = shown.flagged.map((r) => [clock(r.time), r.id, r.row, short(r.score, 5), short(r.p)]);
    fill(at("flagged"), ["time", "request", "row", "score", "p-value"], rows, "none so far");
  }

  function drawModels() {
    const list = at("models");
    const names = state.all.models.map((m) => `${m.name}\u00a0${m.version}${alarmTime(m) !== null ? " \u2716" : ""}`);
    const keys = state.all.models.map(key);
    list.hidden = keys.length < 2;
    const text = JSON.stringify([names, state.model]);
    if (list.dataset.text === text) return;
    list.dataset.text = text;
    const focused = list.contains(document.activeElement);
    list.replaceChildren(...keys.map((name, k) => {
      const selected = name === state.model;
      const tab = make("button", { type: "button", role: "tab", "aria-selected": selected, tabindex: selected ? 0 : -1 }, names[k]);
      tab.addEventListener("click", () => choose(name));
      return tab;
    }));
    if (focused) list.querySelector('[aria-selected="true"]')?.focus();
  }

  function choose(name) {
    state.model = name;
    state.cursor.clear();
    drawAll();
  }

  function drawAll() {
    drawStatus();
    if (!state.all) return;
    set(at("build"), state.all.server.version);
    drawModels();
    const shown = model();
    at("charts").hidden = at("tiles").hidden = !shown;
    if (!shown) return;
    drawTiles(shown);
    drawCharts(shown);
    drawLists(shown);
    document.documentElement.dataset.drawn = String(state.all.time);
  }

  // --- keys, buttons ------------------------------------------------------------------------------------------------

  function chooseSpan(span) {
    state.span = span;
    state.cursor.clear();
    for (const button of at("spans").children) button.setAttribute("aria-pressed", Number(button.dataset.span) === span);
    if (state.all) drawAll();
  }
  function switchTheme() {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  }
  for (const button of at("spans").children) button.addEventListener("click", () => chooseSpan(Number(button.dataset.span)));
  at("theme").addEventListener("click", switchTheme);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "INPUT") return;
    const spans = { 1: 60, 2: 300, 3: 900 };
    if (spans[event.key]) chooseSpan(spans[event.key]);
    else if (event.key === "d") switchTheme();
  });
  at("models").addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step || !state.all) return;
    const keys = state.all.models.map(key);
    choose(keys[(keys.indexOf(state.model) + step + keys.length) % keys.length]);
    event.preventDefault();
  });
  for (const figure of document.querySelectorAll("figure")) {
    const move = (to) => {
      if (to === null) state.cursor.delete(figure.id);
      else state.cursor.set(figure.id, to);
      if (state.all) drawAll();
    };
    figure.addEventListener("keydown", (event) => {
      const count = figure.id === "scores" ? model()?.scores.length ?? 1 : parts().list.length;
      const here = state.cursor.get(figure.id) ?? count - 1;
      const to = { ArrowLeft: here - 1, ArrowRight: here + 1, Home: 0, End: count - 1 }[event.key];
      if (event.key === "Escape") move(null);
      else if (to === undefined) return;
      else move(Math.min(Math.max(to, 0), count - 1));
      event.preventDefault();
    });
    figure.addEventListener("pointermove", (event) => {
      const svg = figure.querySelector("svg");
      if (!svg || !state.all || !model()) return;
      const box = svg.getBoundingClientRect();
      const share = (event.clientX - box.left - MARGIN.left) / (box.width - MARGIN.left - MARGIN.right);
      const count = figure.id === "scores" ? model().scores.length : parts().list.length;
      move(share < 0 || share > 1 ? null : Math.floor(share * count));
    });
    figure.addEventListener("pointerleave", () => move(null));
    figure.addEventListener("blur", () => move(null));
  }
  new ResizeObserver(() => state.all && drawAll()).observe(at("charts"));

  // --- the connection -----------------------------------------------------------------------------------------------

  const TOKEN = "offspan token";
  /** Ends the connection that there is, if there is one. */
  let controller = null;
  /** When something came last, or the connection was begun. */
  let news = 0;
  /** How long to wait before the next connection. */
  let pause = 500;
  const LONGEST_PAUSE = 2000;

  /** A server that hangs, or a network that swallows everything, ends no connection: silence does. */
  setInterval(() => {
    if (controller && Date.now() - news > SILENCE) controller.abort();
    if (!state.connected) drawStatus();
  }, 500);

  /** Server-sent events by fetch, because a token goes into a header. */
  async function connect() {
    const token = sessionStorage.getItem(TOKEN);
    const headers = token ? { Authorization: `Bearer ${token}` } : {};
    controller = new AbortController();
    news = Date.now();
    const response = await fetch("live", { headers, signal: controller.signal, cache: "no-store" });
    at("ask").hidden = response.status !== 401;
    if (response.status === 401) {
      controller = null;
      [state.connected, state.asks] = [false, true];
      drawStatus();
      at("token").focus();
      return new Promise((done) => { waiting = done; });
    }
    if (!response.ok) throw new Error(`the server answered ${response.status}`);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return null;
      text += value;
      let end;
      while ((end = text.indexOf("\n\n")) >= 0) {
        const lines = text.slice(0, end).split("\n");
        text = text.slice(end + 2);
        const of = (name) => lines.filter((l) => l.startsWith(`${name}: `)).map((l) => l.slice(name.length + 2)).join("\n");
        take(of("event"), JSON.parse(of("data")));
        state.connected = true;
        state.heard = news = Date.now();
        pause = 500;
        drawAll();
      }
    }
  }

  let waiting = null;
  at("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem(TOKEN, at("token").value.trim());
    at("token").value = "";
    waiting?.();
    waiting = null;
  });

  async function stay() {
    for (;;) {
      try {
        await connect();
      } catch {
        // The state says it.
      }
      controller = null;
      [state.connected, state.lost, state.asks] = [false, !state.asks, false];
      drawStatus();
      await new Promise((done) => setTimeout(done, pause));
      pause = Math.min(2 * pause, LONGEST_PAUSE);
    }
  }
  chooseSpan(300);
  stay();
})();
