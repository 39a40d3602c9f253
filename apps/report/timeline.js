// What runs when on the three streams, and where compute waits for a transfer.
const kStreams = ["compute", "d2h", "h2d"];
const kStreamNames = ["compute", "to the host", "from the host"];

function timelineSpans() {
  const spans = report.runs.map((run, i) => ({ stream: 0, run: i, begin: run.begin_us, end: run.end_us,
    kind: runKind(run), name: runName(run) }));
  for (const transfer of report.transfers) {
    const out = transfer.op === "offload";
    spans.push({ stream: out ? 1 : 2, transfer, begin: transfer.begin_us, end: transfer.end_us,
      kind: out ? "d2h" : "h2d", name: report.tensors[transfer.tensor].name });
  }
  return spans;
}

function describeSpan(event, span) {
  const times = [["begins", timeText(span.begin)], ["takes", timeText(span.end - span.begin)]];
  if (span.stall) {
    const on = report.tensors[span.stall.tensor];
    return tip.show(event, `compute waits for ${on ? on.name : "a transfer"}`, times);
  }
  if (span.run !== undefined) {
    const run = report.runs[span.run];
    const engine = run.engine ? [["engine", run.engine]] : [];
    return tip.show(event, runTitle(run), [...times, ["live", bytesText(run.live_bytes)], ...engine]);
  }
  const { tensor, op } = span.transfer;
  const bytes = report.tensors[tensor].bytes;
  const seconds = (span.end - span.begin) / 1e6;
  const rate = seconds > 0 ? [["rate", `${(bytes / seconds / 1e9).toFixed(1)} GB/s`]] : [];
  return tip.show(event, `${op} ${span.name}`, [...times, ["bytes", bytesText(bytes)], ...rate]);
}

function drawTimeline() {
  const total = report.timeline.total_us;
  const spans = timelineSpans();
  const moves = report.transfers.length > 0;
  const view = new View(Math.max(total, 1e-3), Math.max(total, 1e-3) / 5000);
  const left = 112, right = 14, lane = 40, gap = 12, top = 24;
  const height = top + kStreams.length * (lane + gap);
  legend("time-legend", [...kindEntries(false),
    ...(moves ? [["d2h", "offload"], ["h2d", "prefetch"]] : []),
    ...(report.stalls.length > 0 ? [["alarm", "compute waits for a transfer", true]] : [])]);
  let xOf = null;
  let marker = null;

  zoomable("time-chart", "time-tools", view, (width) => {
    const plot = width - left - right;
    xOf = (us) => left + ((us - view.from) / view.span) * plot;
    const root = svg("svg", { height: height + 6, role: "img", "aria-label": "timeline of the streams" },
      svg("clipPath", { id: "time-clip" }, svg("rect", { x: left, y: 0, width: plot, height })));
    const marks = ticks(view.from, view.to, 8);
    const apart = marks.length > 1 ? marks[1] - marks[0] : view.span;
    for (const mark of marks) {
      root.append(svg("line", { class: "grid", x1: xOf(mark), x2: xOf(mark), y1: top - 4, y2: height }),
        svg("text", { x: xOf(mark), y: 13, "text-anchor": "middle" }, tickText(mark, apart)));
    }
    const inside = svg("g", { "clip-path": "url(#time-clip)" });
    kStreamNames.forEach((name, i) => drawLane(root, inside, width, name, i));
    drawSpans(inside);
    marker = svg("line", { class: "cursor", y1: top - 4, y2: height, visibility: "hidden" });
    inside.append(marker);
    root.append(inside);
    return { svg: root, left, plot };
  });

  function tickText(us, apart) {
    const [unit, size] = view.to >= 2e6 ? ["s", 1e6] : view.to >= 2e3 ? ["ms", 1e3] : ["µs", 1];
    const digits = Math.max(0, Math.ceil(-Math.log10(apart / size) - 1e-9));
    return `${(us / size).toFixed(digits)} ${unit}`;
  }
  function drawLane(root, inside, width, name, i) {
    const y = top + i * (lane + gap);
    const busy = report.timeline.busy_us[i];
    root.append(svg("text", { class: "lane", x: left - 10, y: y + 17, "text-anchor": "end" }, name),
      svg("text", { x: left - 10, y: y + 32, "text-anchor": "end" }, `${percentText(busy, total)} busy`),
      svg("rect", { x: left, y, width: width - left - right, height: lane, rx: 5, fill: color("free") }));
    if (i > 0 && busy === 0 && !report.transfers.some((t) => (t.op === "offload") === (i === 1))) {
      root.append(svg("text", { x: left + 10, y: y + 24 }, "nothing is moved"));
    }
  }
  // Spans too narrow to see are drawn together with their neighbours of the same kind.
  function drawSpans(inside) {
    const ends = [0, 0, 0];
    const kinds = ["", "", ""];
    for (const span of spans) {
      if (span.end < view.from || span.begin > view.to || span.end === span.begin) continue;
      const x = xOf(span.begin), end = xOf(span.end);
      if (end - ends[span.stream] < 0.6 && kinds[span.stream] === span.kind) continue;
      ends[span.stream] = Math.max(end, x + 0.6);
      kinds[span.stream] = span.kind;
      drawSpan(inside, span, x, ends[span.stream]);
    }
    for (const stall of report.stalls) {
      if (stall.end_us < view.from || stall.begin_us > view.to) continue;
      const x = xOf(stall.begin_us);
      const mark = svg("rect", { x, y: top + lane / 2 - 3, height: 6, width: Math.max(1, xOf(stall.end_us) - x),
        rx: 2, fill: color("alarm"), "fill-opacity": 0.85 });
      hover(mark, { stall, begin: stall.begin_us, end: stall.end_us });
      inside.append(mark);
    }
  }
  function drawSpan(inside, span, x, end) {
    const y = top + span.stream * (lane + gap);
    const width = Math.max(0.6, end - x - (end - x > 4 ? 1 : 0));
    const block = svg("rect", { x, y, width, height: lane, rx: width > 6 ? 3 : 0, fill: color(span.kind) });
    hover(block, span);
    inside.append(block);
    const from = Math.max(x, left);
    const room = Math.floor((Math.min(end, xOf(view.to)) - from - 10) / 6.1);
    if (room < 4) return;
    const text = span.name.length > room ? `${span.name.slice(0, room - 1)}…` : span.name;
    inside.append(svg("text", { class: `inside ${span.kind}`, x: from + 5, y: y + 24 }, text));
  }
  function hover(block, span) {
    block.addEventListener("pointermove", (event) => {
      describeSpan(event, span);
      if (span.run !== undefined) cursor.set(span.run);
    });
    block.addEventListener("pointerleave", () => { tip.hide(); cursor.set(null); });
  }
  cursor.listeners.push((i) => {
    marker.setAttribute("visibility", i === null ? "hidden" : "visible");
    if (i === null) return;
    const middle = (report.runs[i].begin_us + report.runs[i].end_us) / 2;
    for (const end of ["x1", "x2"]) marker.setAttribute(end, xOf(middle));
  });
}
