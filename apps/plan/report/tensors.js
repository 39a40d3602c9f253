// What happens to each tensor, why, what it costs and what it saves; and the steps as numbers.
const kFates = [
  ["offloaded", "d2h"], ["rebuilt", "again"], ["in place", "workspace"], ["freed", "activation"], ["kept", "param"],
];
const kRoleColors = { state: "optimizer", input: "batch", label: "batch", param_grad: "param-grad" };
const roleColor = (role) => kRoleColors[role] || role;
const savedBytes = (tensor) => tensor.bytes * tensor.absent_steps;

// The part of the iteration, from left to right, in which the tensor has bytes on the device.
function strip(tensor) {
  const runs = Math.max(1, report.runs.length);
  const bars = tensor.resident.map(([from, to]) => svg("rect", { x: (130 * from) / runs, y: 0, height: 12,
    width: Math.max(1, (130 * (to - from)) / runs), fill: color(roleColor(tensor.role)) }));
  return svg("svg", { class: "strip", viewBox: "0 0 130 12", preserveAspectRatio: "none" }, ...bars);
}
const twoLines = (first, second) => (second ? [first, el("small", {}, second)] : [first]);

function alternativesText(tensor) {
  if (tensor.alternatives === null) return "";
  const { move_us: move, rebuild_us: rebuild } = tensor.alternatives;
  const rebuilding = rebuild === null ? "cannot be rebuilt" : `rebuilding ${timeText(rebuild)}`;
  return move === null ? twoLines(rebuilding) : twoLines(`moving ${timeText(move)}`, rebuilding);
}

const kTensorColumns = [
  { title: "Tensor", style: "name", key: (t) => t.name, cell: (t) => twoLines(t.name, `${t.shape} ${t.dtype}`) },
  { title: "Role", key: (t) => t.role,
    cell: (t) => el("span", { class: "role" }, swatch(roleColor(t.role)), t.role.replace("_", " ")) },
  { title: "Bytes", number: true, key: (t) => t.bytes, cell: (t) => bytesText(t.bytes) },
  { title: "On the device", hint: "when it has bytes of its own in the arena, from the first step to the last",
    key: (t) => (t.resident.length > 0 ? t.resident[0][0] : Infinity), cell: strip },
  { title: "Fate", key: (t) => t.fates.join(), cell: (t) => t.fates.map((fate) => el("span", { class: "tag",
    style: `--tag:${color(kFates.find(([name]) => name === fate)[1])}` }, fate)) },
  { title: "What happens to it, and why", style: "story", key: (t) => t.story, cell: (t) => t.story },
  { title: "Alternatives", optional: true, number: true,
    hint: "instead of keeping its bytes: copies to the host and back, hidden or not; or one more run of the step " +
      "that writes it, if what that reads is there",
    key: (t) => (t.alternatives ? Math.min(t.alternatives.move_us ?? Infinity, t.alternatives.rebuild_us ?? Infinity) : 0),
    cell: alternativesText },
  { title: "Transfers", number: true, optional: true,
    hint: "time of its transfers, hidden or not, and how long compute waits for them", key: (t) => t.transfer_us,
    cell: (t) => twoLines(timeText(t.transfer_us), t.transfer_us > 0 ? `${timeText(t.stall_us)} not hidden` : "") },
  { title: "Recomputed", number: true, optional: true, hint: "its share of the time of steps run again",
    key: (t) => t.recompute_us,
    cell: (t) => twoLines(timeText(t.recompute_us), t.reruns > 0 ? plural(t.reruns, "time") : "") },
  { title: "Steps absent", number: true,
    hint: "steps run while it has no bytes of its own on the device; away: between its first and its last use",
    key: (t) => t.absent_steps,
    cell: (t) => twoLines(grouped(t.absent_steps), t.away_steps > 0 ? `${grouped(t.away_steps)} away` : "") },
  { title: "Saves", number: true, hint: "bytes × steps absent", key: savedBytes,
    cell: (t) => twoLines(`${bytesText(savedBytes(t), 2)}·steps`,
      t.away_steps > 0 ? `${bytesText(t.bytes * t.away_steps, 2)}·steps away` : "") },
];

function drawTensors() {
  const table = new Table("tensor-table", kTensorColumns, report.tensors, (t) => ({
    "data-tensor": t.name, "data-bytes": t.bytes, "data-fates": t.fates.join(","), "data-away-steps": t.away_steps,
    "data-absent-steps": t.absent_steps, "data-reruns": t.reruns,
    ...(t.alternatives && { "data-move-us": t.alternatives.move_us, "data-rebuild-us": t.alternatives.rebuild_us }),
  }), { title: "Bytes", ascending: false });
  const roles = [...new Set(report.tensors.map((t) => t.role))];
  byId("tensor-role").replaceChildren(el("option", { value: "" }, "every role"),
    ...roles.map((role) => el("option", { value: role }, role.replace("_", " "))));
  let fate = "";
  const refresh = () => {
    const words = byId("tensor-filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const role = byId("tensor-role").value;
    table.show((t) => (!fate || t.fates.includes(fate)) && (!role || t.role === role) &&
      words.every((word) => `${t.name} ${t.story}`.toLowerCase().includes(word)));
    const sum = (of) => table.shown.reduce((total, t) => total + of(t), 0);
    byId("tensor-note").textContent = `${plural(table.shown.length, "tensor")}, ${bytesText(sum((t) => t.bytes))}; ` +
      `transfers ${timeText(sum((t) => t.transfer_us))}, of which compute waits ${timeText(sum((t) => t.stall_us))}; ` +
      `recomputation ${timeText(sum((t) => t.recompute_us))}`;
  };
  const chips = [["", "all", report.tensors.length], ...kFates.map(([name]) =>
    [name, name, report.tensors.filter((t) => t.fates.includes(name)).length])].filter(([, , count]) => count > 0)
    .map(([value, text, count]) => {
      const chip = el("button", { type: "button", "aria-pressed": value === "" }, `${text} ${grouped(count)}`);
      chip.addEventListener("click", () => {
        fate = value;
        for (const other of chips) other.setAttribute("aria-pressed", other === chip);
        refresh();
      });
      return chip;
    });
  byId("tensor-fates").replaceChildren(...chips);
  byId("tensor-filter").addEventListener("input", refresh);
  byId("tensor-role").addEventListener("change", refresh);
  refresh();
}

const kStepColumns = [
  { title: "Run", number: true, key: (r) => r.index + 1, cell: (r) => grouped(r.index + 1) },
  { title: "Step", number: true, key: (r) => r.step + 1, cell: (r) => grouped(r.step + 1) },
  { title: "Layer", style: "name", key: (r) => stepOf(r).layer, cell: (r) => stepOf(r).layer },
  { title: "Phase", key: (r) => stepOf(r).phase, cell: (r) => (r.recompute ? "again " : "") + stepOf(r).phase },
  ...[["Live", "live_bytes"], ["Free", "free_bytes"], ["Workspace", "workspace_bytes"], ["On the host", "host_bytes"]]
    .map(([title, key]) => ({ title, number: true, key: (r) => r[key], cell: (r) => bytesText(r[key]) })),
  { title: "Live tensors", number: true, key: (r) => r.live_tensors, cell: (r) => grouped(r.live_tensors) },
  { title: "Begins", number: true, key: (r) => r.begin_us, cell: (r) => timeText(r.begin_us) },
  { title: "Takes", number: true, key: (r) => r.end_us - r.begin_us, cell: (r) => timeText(r.end_us - r.begin_us) },
  { title: "Engine", style: "story", key: (r) => r.engine, cell: (r) => r.engine },
];

function drawSteps() {
  new Table("step-table", kStepColumns, report.runs.map((run, index) => ({ ...run, index })), (r) => ({
    "data-step": r.step + 1, "data-recompute": r.recompute, "data-live-bytes": r.live_bytes,
    "data-live-tensors": r.live_tensors, "data-host-bytes": r.host_bytes }));
}
