// Bytes of the arena while each step runs, stacked by what they are for; host copies below.
const kLayers = [
  ["param", "parameters", ["param"]],
  ["optimizer", "optimizer and states", ["optimizer", "state"]],
  ["batch", "batch", ["input", "label"]],
  ["activation", "activations", ["activation"]],
  ["saved", "saved for backward", ["saved"]],
  ["gradient", "gradients", ["gradient"]],
  ["param-grad", "parameter gradients", ["param_grad"]],
  ["workspace", "workspace", []],
];
const layerBytes = (run, [name, , roles]) => (name === "workspace" ? run.workspace_bytes
  : roles.reduce((sum, role) => sum + run.role_bytes[report.roles.indexOf(role)], 0));

function busiestRun() {
  return report.runs.reduce((best, run, i) => (run.live_bytes > report.runs[best].live_bytes ? i : best), 0);
}

function drawMemory() {
  const runs = report.runs;
  const plan = report.plan;
  const stacks = runs.map((run) => {
    let sum = 0;
    return kLayers.map((layer) => (sum += layerBytes(run, layer)));
  });
  const used = kLayers.map((layer, i) => stacks.some((stack) => stack[i] > (i > 0 ? stack[i - 1] : 0)));
  const budgetShown = plan.budget_bytes <= 1.7 * plan.peak_bytes;
  const top = 1.09 * Math.max(1, plan.peak_bytes, budgetShown ? plan.budget_bytes : 0);
  const hostTop = Math.max(0, ...runs.map((run) => run.host_bytes));
  const busiest = busiestRun();
  const view = new View(Math.max(1, runs.length), 12);

  legend("memory-legend", [...kLayers.filter((_, i) => used[i]).map(([name, text]) => [name, text]),
    ["free", budgetShown ? "free, up to the budget" : `free (the budget of ${bytesText(plan.budget_bytes)} is beyond the chart)`],
    ...(hostTop > 0 ? [["host", "copies in host memory"]] : []),
    ...kindEntries(true)]);

  const left = 74, right = 14, height = 320, upper = 14, hostHeight = hostTop > 0 ? 74 : 0;
  const stripAt = height + hostHeight + (hostHeight ? 14 : 4);
  let marker = null;
  let xOf = null;

  function outline(from, to, lower, higher) {
    let there = "", back = "";
    for (let i = from; i < to; i++) {
      there += `${i === from ? "M" : "L"}${xOf(i)} ${higher(i)}H${xOf(i + 1)}`;
      back = `L${xOf(i + 1)} ${lower(i)}H${xOf(i)}` + back;
    }
    return there + back + "Z";
  }

  const at = zoomable("memory-chart", "memory-tools", view, (width) => {
    const plot = width - left - right;
    xOf = (i) => (left + ((i - view.from) / view.span) * plot).toFixed(2);
    const yOf = (bytes) => (upper + (height - upper) * (1 - bytes / top)).toFixed(2);
    const from = Math.max(0, Math.floor(view.from)), to = Math.min(runs.length, Math.ceil(view.to));
    const clip = svg("clipPath", { id: "memory-clip" },
      svg("rect", { x: left, y: 0, width: plot, height: stripAt + 40 }));
    const inside = svg("g", { "clip-path": "url(#memory-clip)" });
    const root = svg("svg", { height: stripAt + 34, role: "img", "aria-label": "memory per step" }, clip);
    for (const mark of ticks(0, top, 6, true)) {
      root.append(svg("line", { class: "grid", x1: left, x2: width - right, y1: yOf(mark), y2: yOf(mark) }),
        svg("text", { x: left - 8, y: Number(yOf(mark)) + 4, "text-anchor": "end" }, bytesText(mark, mark < 8 * 2 ** 30 ? 1 : 0)));
    }
    root.append(inside);
    if (to > from) {
      const ceiling = budgetShown ? plan.budget_bytes : top;
      inside.append(svg("path", { fill: color("free"),
        d: outline(from, to, (i) => yOf(runs[i].live_bytes), () => yOf(ceiling)) }));
      kLayers.forEach(([name], k) => {
        if (!used[k]) return;
        inside.append(svg("path", { class: "area", fill: color(name), "data-layer": name,
          d: outline(from, to, (i) => yOf(k > 0 ? stacks[i][k - 1] : 0), (i) => yOf(stacks[i][k])) }));
      });
    }
    drawHost(root, inside, width, from, to);
    drawStrip(inside, from, to);
    drawLevels(root, inside, width, yOf);
    for (const mark of ticks(view.from + 1, Math.min(view.to, runs.length), 10)) {
      if (mark !== Math.round(mark)) continue;
      root.append(svg("text", { x: xOf(mark - 0.5), y: stripAt + 23, "text-anchor": "middle" }, mark));
    }
    root.append(svg("text", { x: left - 8, y: stripAt + 23, "text-anchor": "end" }, "steps run"));
    marker = svg("line", { class: "cursor", y1: upper, y2: stripAt + 8, visibility: "hidden" });
    inside.append(marker);
    return { svg: root, left, plot };
  });

  function drawHost(root, inside, width, from, to) {
    if (!hostHeight || to <= from) return;
    const yOf = (bytes) => (height + 14 + (hostHeight - 8) * (1 - bytes / hostTop)).toFixed(2);
    root.append(svg("text", { x: left - 8, y: Number(yOf(hostTop)) + 9, "text-anchor": "end" }, bytesText(hostTop, 1)),
      svg("text", { x: left - 8, y: Number(yOf(0)), "text-anchor": "end" }, "host"),
      svg("line", { class: "axis", x1: left, x2: width - right, y1: yOf(0), y2: yOf(0) }));
    inside.append(svg("path", { fill: color("host"), "fill-opacity": 0.75,
      d: outline(from, to, () => yOf(0), (i) => yOf(runs[i].host_bytes)) }));
  }
  function drawStrip(inside, from, to) {
    for (let i = from; i < to;) {
      let end = i + 1;
      while (end < to && runKind(runs[end]) === runKind(runs[i])) end++;
      inside.append(svg("rect", { x: xOf(i), y: stripAt, height: 5, width: xOf(end) - xOf(i), fill: color(runKind(runs[i])) }));
      i = end;
    }
  }
  function drawLevels(root, inside, width, yOf) {
    const level = (bytes, kind, text, above) => root.append(
      svg("line", { class: kind, x1: left, x2: width - right, y1: yOf(bytes), y2: yOf(bytes) }),
      svg("text", { class: "halo", x: width - right - 4, y: Number(yOf(bytes)) + (above ? -5 : 14), "text-anchor": "end" }, text));
    const apart = plan.budget_bytes > plan.peak_bytes;
    if (budgetShown) level(plan.budget_bytes, "limit", `budget ${bytesText(plan.budget_bytes)}${apart ? "" : " = peak"}`, true);
    if (apart || !budgetShown) level(plan.peak_bytes, "level", `peak ${bytesText(plan.peak_bytes)}`, true);
    if (runs.length === 0) return;
    const x = Number(xOf(busiest + 0.5)), y = Number(yOf(runs[busiest].live_bytes));
    if (x < left || x > width - right) return;
    const flip = x > left + (width - left - right) * 0.6;
    inside.append(svg("line", { x1: x, x2: x, y1: y, y2: height, stroke: color("ink"), "stroke-opacity": 0.7 }),
      svg("circle", { cx: x, cy: y, r: 4.5, fill: color("ink"), stroke: color("card"), "stroke-width": 2 }),
      ...label(`most at ${runTitle(runs[busiest])}`, x, y + 12, flip));
  }

  function label(text, x, y, flip) {
    const width = 6.9 * text.length + 14;
    const at = flip ? x - 10 - width : x + 10;
    return [svg("rect", { x: at, y, width, height: 20, rx: 5, fill: color("card"), "fill-opacity": 0.88 }),
      svg("text", { class: "strong", x: at + width / 2, y: y + 14, "text-anchor": "middle" }, text)];
  }

  const runAt = (event) => Math.min(runs.length - 1, Math.floor(at(event)));
  byId("memory-chart").addEventListener("pointermove", (event) => {
    if (runs.length === 0) return;
    const i = runAt(event);
    cursor.set(i);
    const run = runs[i];
    tip.show(event, runTitle(run), [["live", bytesText(run.live_bytes)], ["free", bytesText(run.free_bytes)], null,
      ...kLayers.filter((layer) => layerBytes(run, layer) > 0).reverse()
        .map((layer) => [layer[1], bytesText(layerBytes(run, layer)), layer[0]]), null,
      ...(run.host_bytes > 0 ? [["in host memory", bytesText(run.host_bytes), "host"]] : []),
      ["live activations and gradients", `${run.live_tensors}, ${bytesText(run.live_activation_bytes)}`],
      ["takes", timeText(run.end_us - run.begin_us)], ...(run.engine ? [["engine", run.engine]] : [])]);
  });
  byId("memory-chart").addEventListener("pointerleave", () => { tip.hide(); cursor.set(null); });
  cursor.listeners.push((i) => {
    marker.setAttribute("visibility", i === null ? "hidden" : "visible");
    if (i !== null) for (const end of ["x1", "x2"]) marker.setAttribute(end, xOf(i + 0.5));
  });
}
