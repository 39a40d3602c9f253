// What runs when on the streams, and where compute waits for another.
const kStreams = ["compute", "out of arena", "into arena", ...(report.sums.length > 0 ? ["over ranks"] : [])];

function timelineSpans() {
  const spans = report.runs.map((run, i) => ({ stream: 0, run: i, begin: run.begin_us, end: run.end_us,
    kind: runKind(run), name: runName(run) }));
  for (const transfer of report.transfers) {
    const out = transfer.op === "offload";
    spans.push({ stream: out ? 1 : 2, transfer, begin: transfer.begin_us, end: transfer.end_us,
      kind: out ? "d2h" : "h2d", name: report.tensors[transfer.tensor].name });
  }
  for (const sum of report.sums)
    spans.push({ stream: 3, sum, begin: sum.begin_us, end: sum.end_us, kind: "h2d", name: sum.name });
  return spans.filter((span) => span.end > span.begin);
}

function describeStall(event, stall) {
  const name = stall.tensor === null ? "another stream" : report.tensors[stall.tensor].name;
  tip.show(event, `compute waits for ${name}`,
    [["from", timeText(stall.begin_us)], ["for", timeText(stall.end_us - stall.begin_us)]]);
}

function describeSpan(event, span) {
  const times = [["begins", timeText(span.begin)], ["takes", timeText(span.end - span.begin)]];
  if (span.sum) return tip.show(event, span.name, [...times, ["bytes", bytesText(span.sum.bytes)]]);
  if (span.transfer) {
    const { bytes } = report.tensors[span.transfer.tensor];
    const rate = bytes / (span.end - span.begin) / 1e3;
    return tip.show(event, `${span.transfer.op} ${span.name}`,
      [...times, ["bytes", bytesText(bytes)], ["rate", `${rate.toFixed(1)} GB/s`]]);
  }
  const run = report.runs[span.run];
  const engine = run.engine ? [["engine", run.engine]] : [];
  return tip.show(event, runTitle(run), [...times, ["live", bytesText(run.live_bytes)], ...engine]);
}

class TimelineChart {
  left = 112;
  right = 14;
  top = 24;
  lane = 40;
  gap = 12;

  constructor() {
    this.total = Math.max(report.timeline.total_us, 1e-3);
    this.spans = timelineSpans();
    this.height = this.top + kStreams.length * (this.lane + this.gap);
    this.view = new View(this.total, this.total / 5000);
    legend("time-legend", [...kindEntries(false),
      ...(report.transfers.length > 0 ? [["d2h", "offload"], ["h2d", "prefetch"]] : []),
      ...(report.sums.length > 0 ? [["h2d", "sum over ranks"]] : []),
      ...(report.stalls.length > 0 ? [["alarm", "compute waits", true]] : [])]);
    zoomable("time-chart", "time-tools", this.view, (width) => this.draw(width));
    cursor.listeners.push((i) => this.mark(i));
  }

  x(us) { return this.left + ((us - this.view.from) / this.view.span) * this.plot; }
  laneY(stream) { return this.top + stream * (this.lane + this.gap); }
  isShown(begin, end) { return end >= this.view.from && begin <= this.view.to; }

  draw(width) {
    this.width = width;
    this.plot = width - this.left - this.right;
    this.root = svg("svg", { height: this.height + 6, role: "img", "aria-label": "timeline of the streams" },
      svg("clipPath", { id: "time-clip" },
        svg("rect", { x: this.left, y: 0, width: this.plot, height: this.height })));
    this.inside = svg("g", { "clip-path": "url(#time-clip)" });
    this.drawGrid();
    kStreams.forEach((name, stream) => this.drawLane(name, stream));
    this.drawSpans();
    for (const stall of report.stalls) this.drawStall(stall);
    this.marker = svg("line", { class: "cursor", y1: this.top - 4, y2: this.height, visibility: "hidden" });
    this.inside.append(this.marker);
    this.root.append(this.inside);
    return { svg: this.root, left: this.left, plot: this.plot };
  }

  drawGrid() {
    const [unit, size] = this.view.to >= 2e6 ? ["s", 1e6] : this.view.to >= 2e3 ? ["ms", 1e3] : ["µs", 1];
    const marks = ticks(this.view.from, this.view.to, 8);
    const apart = marks.length > 1 ? marks[1] - marks[0] : this.view.span;
    const digits = Math.max(0, Math.ceil(-Math.log10(apart / size) - 1e-9));
    for (const mark of marks) {
      const x = this.x(mark);
      this.root.append(svg("line", { class: "grid", x1: x, x2: x, y1: this.top - 4, y2: this.height }),
        svg("text", { x, y: 13, "text-anchor": "middle" }, `${(mark / size).toFixed(digits)} ${unit}`));
    }
  }

  drawLane(name, stream) {
    const y = this.laneY(stream);
    const label = { x: this.left - 10, "text-anchor": "end" };
    const busy = percentText(report.timeline.busy_us[stream], this.total);
    this.root.append(svg("text", { class: "lane", ...label, y: y + 17 }, name),
      svg("text", { ...label, y: y + 32 }, `${busy} busy`),
      svg("rect", { x: this.left, y, width: this.plot, height: this.lane, rx: 5, fill: color("free") }));
    if (stream > 0 && !this.spans.some((span) => span.stream === stream)) {
      this.root.append(svg("text", { x: this.left + 10, y: y + 24 }, "nothing is moved"));
    }
  }

  // Spans too narrow to see are skipped if a neighbour of the same kind covers them.
  drawSpans() {
    const drawn = kStreams.map(() => ({ end: 0, kind: "" }));
    for (const span of this.spans) {
      if (!this.isShown(span.begin, span.end)) continue;
      const last = drawn[span.stream];
      const end = this.x(span.end);
      if (end - last.end < 0.6 && last.kind === span.kind) continue;
      last.end = Math.max(end, this.x(span.begin) + 0.6);
      last.kind = span.kind;
      this.drawSpan(span, this.x(span.begin), last.end);
    }
  }

  drawSpan(span, x, end) {
    const y = this.laneY(span.stream);
    const width = end - x - (end - x > 4 ? 1 : 0);
    const block = svg("rect", { x, y, width, height: this.lane, rx: width > 6 ? 3 : 0, fill: color(span.kind) });
    this.listen(block, (event) => {
      describeSpan(event, span);
      if (span.run !== undefined) cursor.set(span.run);
    });
    this.inside.append(block);
    const from = Math.max(x, this.left);
    const room = Math.floor((Math.min(end, this.left + this.plot) - from - 10) / 6.1);
    if (room < 4) return;
    const text = span.name.length > room ? `${span.name.slice(0, room - 1)}…` : span.name;
    this.inside.append(svg("text", { class: `inside ${span.kind}`, x: from + 5, y: y + 24 }, text));
  }

  drawStall(stall) {
    if (!this.isShown(stall.begin_us, stall.end_us)) return;
    const x = this.x(stall.begin_us);
    const bar = svg("rect", { x, y: this.laneY(0) + this.lane / 2 - 3, height: 6, rx: 2,
      width: Math.max(1, this.x(stall.end_us) - x), fill: color("alarm"), "fill-opacity": 0.85 });
    this.listen(bar, (event) => describeStall(event, stall));
    this.inside.append(bar);
  }

  listen(block, describe) {
    block.addEventListener("pointermove", describe);
    block.addEventListener("pointerleave", () => { tip.hide(); cursor.set(null); });
  }

  mark(i) {
    this.marker.setAttribute("visibility", i === null ? "hidden" : "visible");
    if (i === null) return;
    const middle = this.x((report.runs[i].begin_us + report.runs[i].end_us) / 2);
    for (const end of ["x1", "x2"]) this.marker.setAttribute(end, middle);
  }
}
