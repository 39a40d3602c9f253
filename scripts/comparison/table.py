"""The measurements of the cases as one table in Markdown, with a heading and notes."""

from .cases import (CHECKPOINT, COMPILE, EAGER, FLOOR, NEAP, NEAP_IN_CHECKPOINT, NEAP_IN_THIRD, REDUCE_OVERHEAD,
                    network_of)

GIB = 2**30
HEADING = "PyTorch's batch stays on the GPU; neap copies one from pinned memory in every step."
MEMORY_HEADING = ("Units per second / peak in GiB; of PyTorch in the faster layout, if it has two. Predicted: the peak in GiB, and "
                  "the step in ms with how much longer it is than the measured one. Budgets are PyTorch's smallest peak with "
                  "checkpoints, and a third of its smallest peak without.")


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


def layout_of(record):
    """Of files from before there were several, too."""
    return record.get("layout") or ("nchw" if record["dtype"] == "fp32" else "nhwc")


def program_text(record):
    """The program, with its layout where it is measured in several."""
    of_several = len(network_of(record["network"]).layouts) > 1 and record["program"] in (CHECKPOINT, COMPILE, EAGER)
    return f"{record['program']} {layout_of(record)}" if of_several else record["program"]


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


def speed_and_peak(record):
    """Units per second and the peak, or why there are none."""
    if record.get("out_of_memory"):
        return "no memory"
    if record.get("missing"):
        return "missing"
    if record.get("images_per_second") is None:
        return "-"
    speed = network_of(record["network"]).units * record["images_per_second"]
    return f"{format(speed, ',.2f' if speed < 100 else ',.0f')} / {text(gib(record, 'peak_bytes'), '.2f')}"


def in_budget(record):
    """The same of neap within a budget, with the budget."""
    budget = gib(record, "budget_bytes")
    return speed_and_peak(record) + ("" if budget is None else f" of {budget:.2f}")


def memory_row(key, records):
    """The texts of one case in the table of memory."""
    network, batch, dtype = key
    neap = records.get(NEAP, {})
    error = prediction_error(neap)
    predicted = text(gib(neap, "predicted_peak_bytes"), ".2f")
    if error is not None:
        predicted += f", {neap['predicted_step_ms']:.1f} ({error:+.1f}%)"
    return {
        "net": network,
        "batch": str(batch),
        "dtype": dtype,
        "unit": network_of(network).kind,
        "neap": speed_and_peak(neap),
        "predicted": predicted,
        "eager": speed_and_peak(records.get(EAGER, {})),
        "compile": speed_and_peak(records.get(COMPILE, {})),
        "checkpoint": speed_and_peak(records.get(CHECKPOINT, {})),
        "neap in checkpoint's peak": in_budget(records.get(NEAP_IN_CHECKPOINT, {})),
        "neap in 1/3 of eager's": in_budget(records.get(NEAP_IN_THIRD, {})),
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
    """The latest record of each program and layout of each case, in the order of the cases' first records."""
    cases = {}
    for record in records:
        key = record["network"], record["batch"], record["dtype"]
        cases.setdefault(key, {})[record["program"], layout_of(record)] = record
    return cases


def by_program(of_case):
    """One record of each program: of several layouts the fastest."""
    programs = {}
    for (program, _), record in of_case.items():
        if record.get("images_per_second", 0) >= programs.get(program, {}).get("images_per_second", 0):
            programs[program] = record
    return programs


def is_about_memory(of_case):
    return any(program in (CHECKPOINT, NEAP_IN_CHECKPOINT, NEAP_IN_THIRD) for program, _ in of_case)


def layout_lines(records):
    """What each layout gives, where there are several."""
    return [f"{record['network']} {record['batch']} {record['dtype']} {program_text(record)}: {speed_and_peak(record)}"
            for record in records if program_text(record) != record["program"] and "error" not in record]


def gpu_table(gpu, records):
    """The tables of one GPU's records: its name, the trees and versions of cuDNN that were measured, the rows, what went wrong."""
    cases = by_case(records)
    shown = [record for of_case in cases.values() for record in of_case.values()]

    def values(name):
        return ", ".join(sorted({str(record[name]) for record in shown if name in record})) or "unknown"

    failures = [f"{record['network']} {record['batch']} {record['dtype']} {program_text(record)}: {record['error']}"
                for record in shown if "error" in record]
    speeds = [row(key, by_program(of_case)) for key, of_case in cases.items() if not is_about_memory(of_case)]
    memory = [memory_row(key, by_program(of_case)) for key, of_case in cases.items() if is_about_memory(of_case)]
    tables = [markdown(speeds)] if speeds else []
    if memory:
        tables += ([""] if speeds else []) + [MEMORY_HEADING, "", markdown(memory), *layout_lines(shown)]
    return "\n".join([f"{gpu or 'unknown device'}; commit: {values('commit')}; PyTorch's cuDNN: {values('cudnn')}", "",
                      *tables, *failures])


def speed_table(records):
    """Tables for each GPU, because measurements of different GPUs are not compared."""
    by_gpu = {}
    for record in records:
        if record.get("kind") == "speed":
            by_gpu.setdefault(record.get("gpu"), []).append(record)
    return "\n\n".join([HEADING, *(gpu_table(gpu, of_gpu) for gpu, of_gpu in by_gpu.items())])
