"""The measurements of the cases as one table in Markdown, with a heading and notes."""

from .cases import COMPILE, EAGER, FLOOR, NEAP, REDUCE_OVERHEAD

GIB = 2**30
HEADING = "PyTorch's batch stays on the GPU; neap copies one from pinned memory in every step."


def text(value, form):
    return "-" if value is None else format(value, form)


def ratio(numerator, denominator):
    return numerator / denominator if numerator and denominator else None


def gib(record, name):
    value = record.get(name)
    return None if value is None else value / GIB


def prediction_error(neap):
    """How much longer than measured neap predicted the step to be, in %."""
    quotient = ratio(neap.get("predicted_step_ms"), neap.get("step_ms"))
    return None if quotient is None else 100 * (quotient - 1)


def row(key, records):
    """The texts of one case, whose records are by program."""
    network, batch, dtype = key
    neap, eager, compiled, reduced, floor = (records.get(program, {}) for program in
                                             (NEAP, EAGER, COMPILE, REDUCE_OVERHEAD, FLOOR))
    speeds = [record.get("images_per_second") for record in (neap, eager, compiled, reduced)]
    best = max((speed for speed in speeds[1:] if speed), default=None)
    return {
        "net": network,
        "batch": str(batch),
        "dtype": dtype,
        "neap, images/s": text(speeds[0], ".1f"),
        "eager": text(speeds[1], ".1f"),
        "compile": text(speeds[2], ".1f"),
        "reduce-overhead": text(speeds[3], ".1f"),
        "neap / compile": text(ratio(speeds[0], speeds[2]), ".3f"),
        "neap / fastest": text(ratio(speeds[0], best), ".3f"),
        "neap peak, GiB": text(gib(neap, "peak_bytes"), ".2f"),
        "predicted": text(gib(neap, "predicted_peak_bytes"), ".2f"),
        "eager peak": text(gib(eager, "peak_bytes"), ".2f"),
        "compile peak": text(gib(compiled, "peak_bytes"), ".2f"),
        "neap, ms": text(neap.get("step_ms"), ".2f"),
        "floor": text(floor.get("floor_ms"), ".2f"),
        "prediction": text(prediction_error(neap), "+.1f") + ("" if prediction_error(neap) is None else "%"),
    }


def markdown(rows):
    """Rows, which are dicts with the same keys, as an aligned table; the first column is aligned to the left."""
    if not rows:
        return ""
    names = list(rows[0])
    widths = [max(len(name), *(len(row[name]) for row in rows)) for name in names]

    def line(texts):
        cells = [texts[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(texts[1:], widths[1:])]
        return "| " + " | ".join(cells) + " |"

    rule = "|" + "|".join(["-" * (widths[0] + 2)] + ["-" * (width + 1) + ":" for width in widths[1:]]) + "|"
    return "\n".join([line(names), rule, *(line([row[name] for name in names]) for row in rows)])


def by_case(records):
    """The latest record of each program of each case, in the order of the cases' first records."""
    cases = {}
    for record in records:
        key = record["network"], record["batch"], record["dtype"]
        cases.setdefault(key, {})[record["program"]] = record
    return cases


def gpu_table(gpu, records):
    """The table of one GPU's records: its name, the trees and versions of cuDNN that were measured, the rows, what went wrong."""
    cases = by_case(records)
    shown = [(key, program, record) for key, programs in cases.items() for program, record in programs.items()]

    def values(name):
        return ", ".join(sorted({str(record[name]) for *_, record in shown if name in record})) or "unknown"

    failures = [f"{' '.join(map(str, key))} {program}: {record['error']}" for key, program, record in shown if "error" in record]
    return "\n".join([f"{gpu or 'unknown device'}; commit: {values('commit')}; PyTorch's cuDNN: {values('cudnn')}", "",
                      markdown([row(key, programs) for key, programs in cases.items()]), *failures])


def speed_table(records):
    """A table for each GPU, because measurements of different GPUs are not compared."""
    by_gpu = {}
    for record in records:
        if record.get("kind") == "speed":
            by_gpu.setdefault(record.get("gpu"), []).append(record)
    return "\n\n".join([HEADING, *(gpu_table(gpu, of_gpu) for gpu, of_gpu in by_gpu.items())])
