// Bytes of the arena while each step runs, stacked by role; host copies below.
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

class MemoryChart {
  left = 74;
  right = 14;
  upper = 14;
  height = 320;

  constructor() {
    const { plan, runs } = report;
    this.stacks = runs.map((run) => {
      let sum = 0;
      return kLayers.map((layer) => (sum += layerBytes(run, layer)));
    });
    this.used = kLayers.map((layer) => runs.some((run) => layerBytes(run, layer) > 0));
    this.budgetShown = plan.budget_bytes <= 1.7 * plan.peak_bytes;  // otherwise the plan would be a flat line
    this.top = 1.09 * Math.max(1, plan.peak_bytes, this.budgetShown ? plan.budget_bytes : 0);
    this.hostTop = Math.max(0, ...runs.map((run) => run.host_bytes));
    this.hostHeight = this.hostTop > 0 ? 74 : 0;
    this.stripAt = this.height + this.hostHeight + (this.hostHeight > 0 ? 14 : 4);
    this.busiest = busiestRun();
    this.view = new View(Math.max(1, runs.length), 12);
    this.drawLegend();
    this.at = zoomable("memory-chart", "memory-tools", this.view, (width) => this.draw(width));
    this.listen();
  }

  drawLegend() {
    const free = this.budgetShown ? "free, up to the budget"
      : `free (the budget of ${bytesText(report.plan.budget_bytes)} is beyond the chart)`;
    legend("memory-legend", [...kLayers.filter((_, i) => this.used[i]).map(([name, text]) => [name, text]),
      ["free", free], ...(this.hostTop > 0 ? [["host", "copies in host memory"]] : []), ...kindEntries(true)]);
  }

  x(run) { return (this.left + ((run - this.view.from) / this.view.span) * this.plot).toFixed(2); }
  y(bytes) { return (this.upper + (this.height - this.upper) * (1 - bytes / this.top)).toFixed(2); }
  hostY(bytes) { return (this.height + 14 + (this.hostHeight - 8) * (1 - bytes / this.hostTop)).toFixed(2); }

  draw(width) {
    this.width = width;
    this.plot = width - this.left - this.right;
    this.from = Math.floor(this.view.from);
    this.to = Math.min(report.runs.length, Math.ceil(this.view.to));
    this.root = svg("svg", { height: this.stripAt + 34, role: "img", "aria-label": "memory per step" },
      svg("clipPath", { id: "memory-clip" },
        svg("rect", { x: this.left, y: 0, width: this.plot, height: this.stripAt + 40 })));
    this.inside = svg("g", { "clip-path": "url(#memory-clip)" });
    this.drawGrid();
    this.root.append(this.inside);
    if (this.to > this.from) {
      this.drawAreas();
      if (this.hostHeight > 0) this.drawHost();
      this.drawKinds();
      this.drawBusiest();
    }
    this.drawLevels();
    this.marker = svg("line", { class: "cursor", y1: this.upper, y2: this.stripAt + 8, visibility: "hidden" });
    this.inside.append(this.marker);
    return { svg: this.root, left: this.left, plot: this.plot };
  }

  drawGrid() {
    for (const mark of ticks(0, this.top, 6, true)) {
      const y = this.y(mark);
      this.root.append(svg("line", { class: "grid", x1: this.left, x2: this.width - this.right, y1: y, y2: y }),
        svg("text", { x: this.left - 8, y: Number(y) + 4, "text-anchor": "end" }, bytesText(mark, 1)));
    }
    const y = this.stripAt + 23;
    for (const mark of ticks(this.view.from + 1, Math.min(this.view.to, report.runs.length), 10)) {
      if (mark !== Math.round(mark)) continue;
      this.root.append(svg("text", { x: this.x(mark - 0.5), y, "text-anchor": "middle" }, mark));
    }
    this.root.append(svg("text", { x: this.left - 8, y, "text-anchor": "end" }, "steps run"));
  }

  // The outline of the area between two heights over all runs in view.
  outline(lower, higher) {
    let there = "", back = "";
    for (let i = this.from; i < this.to; i++) {
      there += `${i === this.from ? "M" : "L"}${this.x(i)} ${higher(i)}H${this.x(i + 1)}`;
      back = `L${this.x(i + 1)} ${lower(i)}H${this.x(i)}` + back;
    }
    return there + back + "Z";
  }

  drawAreas() {
    const ceiling = this.y(this.budgetShown ? report.plan.budget_bytes : this.top);
    this.inside.append(svg("path", { fill: color("free"),
      d: this.outline((i) => this.y(report.runs[i].live_bytes), () => ceiling) }));
    kLayers.forEach(([name], k) => {
      if (!this.used[k]) return;
      const below = (i) => (k > 0 ? this.stacks[i][k - 1] : 0);
      this.inside.append(svg("path", { class: "area", fill: color(name), "data-layer": name,
        d: this.outline((i) => this.y(below(i)), (i) => this.y(this.stacks[i][k])) }));
    });
  }

  drawHost() {
    const floor = this.hostY(0);
    const text = (y, value) => svg("text", { x: this.left - 8, y, "text-anchor": "end" }, value);
    this.root.append(text(Number(this.hostY(this.hostTop)) + 9, bytesText(this.hostTop, 1)), text(floor, "host"),
      svg("line", { class: "axis", x1: this.left, x2: this.width - this.right, y1: floor, y2: floor }));
    this.inside.append(svg("path", { fill: color("host"), "fill-opacity": 0.75,
      d: this.outline(() => floor, (i) => this.hostY(report.runs[i].host_bytes)) }));
  }

  // Under the chart: which steps are forward, backward, run again.
  drawKinds() {
    for (let i = this.from; i < this.to;) {
      const kind = runKind(report.runs[i]);
      let end = i + 1;
      while (end < this.to && runKind(report.runs[end]) === kind) end++;
      this.inside.append(svg("rect", { x: this.x(i), y: this.stripAt, height: 5, width: this.x(end) - this.x(i),
        fill: color(kind) }));
      i = end;
    }
  }

  drawLevels() {
    const end = this.width - this.right;
    const level = (bytes, kind, text) => this.root.append(
      svg("line", { class: kind, x1: this.left, x2: end, y1: this.y(bytes), y2: this.y(bytes) }),
      svg("text", { class: "halo", x: end - 4, y: Number(this.y(bytes)) - 5, "text-anchor": "end" }, text));
    const { budget_bytes: budget, peak_bytes: peak } = report.plan;
    const together = this.y(peak) - this.y(budget) < 18;  // no room for two texts
    const both = budget > peak ? `budget ${bytesText(budget)}, peak ${bytesText(peak)}`
      : `budget = peak ${bytesText(peak)}`;
    if (this.budgetShown) level(budget, "limit", together ? both : `budget ${bytesText(budget)}`);
    if (!this.budgetShown || !together) level(peak, "level", `peak ${bytesText(peak)}`);
  }

  drawBusiest() {
    const run = report.runs[this.busiest];
    const x = Number(this.x(this.busiest + 0.5)), y = Number(this.y(run.live_bytes));
    if (x < this.left || x > this.left + this.plot) return;
    const text = `most at ${runTitle(run)}`;
    const width = 6.9 * text.length + 14;
    const at = x > this.left + this.plot * 0.6 ? x - 10 - width : x + 10;
    this.inside.append(
      svg("line", { x1: x, x2: x, y1: y, y2: this.height, stroke: color("ink"), "stroke-opacity": 0.7 }),
      svg("circle", { cx: x, cy: y, r: 4.5, fill: color("ink"), stroke: color("card"), "stroke-width": 2 }),
      svg("rect", { x: at, y: y + 12, width, height: 20, rx: 5, fill: color("card"), "fill-opacity": 0.88 }),
      svg("text", { class: "strong", x: at + width / 2, y: y + 26, "text-anchor": "middle" }, text));
  }

  listen() {
    const chart = byId("memory-chart");
    chart.addEventListener("pointermove", (event) => {
      if (report.runs.length === 0) return;
      const i = Math.min(report.runs.length - 1, Math.floor(this.at(event)));
      cursor.set(i);
      this.describe(event, report.runs[i]);
    });
    chart.addEventListener("pointerleave", () => { tip.hide(); cursor.set(null); });
    cursor.listeners.push((i) => {
      this.marker.setAttribute("visibility", i === null ? "hidden" : "visible");
      if (i !== null) for (const end of ["x1", "x2"]) this.marker.setAttribute(end, this.x(i + 0.5));
    });
  }

  describe(event, run) {
    const layers = kLayers.filter((layer) => layerBytes(run, layer) > 0).reverse();
    tip.show(event, runTitle(run), [["live", bytesText(run.live_bytes)], ["free", bytesText(run.free_bytes)], null,
      ...layers.map((layer) => [layer[1], bytesText(layerBytes(run, layer)), layer[0]]), null,
      ...(run.host_bytes > 0 ? [["in host memory", bytesText(run.host_bytes), "host"]] : []),
      ...(run.peer_bytes > 0 ? [["in the peer's memory", bytesText(run.peer_bytes), "host"]] : []),
      ["live activations and gradients", `${run.live_tensors}, ${bytesText(run.live_activation_bytes)}`],
      ["takes", timeText(run.end_us - run.begin_us)], ...(run.engine ? [["engine", run.engine]] : [])]);
  }
}
