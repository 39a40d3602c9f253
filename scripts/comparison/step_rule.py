"""Which errors pass the step check, and the tables of them.

An error is |difference| / |expected|, norms over a tensor, against PyTorch in float64. Rounding flips ReLUs near 0, so the
gradients of early layers differ between any two programs by far more than rounding; PyTorch's own error in the same type shows by
how much. Where few flip, one step may have none in PyTorch and one in neap: of several batches (--batches) the median of neap's
errors and the largest of PyTorch's count, but the largest of both for the loss, which shows no flip, and a result that is not a
number, or a change of all parameters that is wrong altogether, fails in any batch. neap passes if its errors are at most
`factor` times PyTorch's plus `floor`, for

  the loss, the norm over the changes of all parameters, the median over the parameters, and the worst tensor;
  every single tensor, parameters and running statistics.

A single tensor's error in one step is one draw from that noise, and so is PyTorch's. In 16 bits, where the noise is large, the
limit of a tensor therefore has the larger of PyTorch's error in this tensor and PyTorch's median error over the network's tensors
of the same kind (weights of convolutions, biases, ...). The floor in 16 bits is one rounding to the type (2^-8 for bf16, 2^-11
for fp16): a program that rounds a result once which PyTorch keeps in fp32 is not wrong.

A parameter that the step leaves as it is has the error 1, so a limit of 1 or more checks nothing. The check fails if the limit of
the norm or of the median is that high; single tensors with such a limit are counted as unchecked.
"""

import math
import statistics
from dataclasses import dataclass

from .table import markdown


@dataclass(frozen=True)
class Rule:
    factor: float
    floor: float
    pooled: bool  # whether the limit of a tensor takes the tensors of the same kind into account

    def limit(self, pytorch):
        return self.factor * pytorch + self.floor


RULES = {"fp32": Rule(4, 1e-5, False), "tf32": Rule(2, 2**-11, True), "bf16": Rule(2, 2**-8, True),
         "fp16": Rule(2, 2**-11, True)}


@dataclass(frozen=True)
class Row:
    """One tensor, or the loss."""
    name: str
    what: str  # its change or its value
    kind: str  # tensors of one kind have similar noise
    expected: float  # norm of the exact one
    neap: float  # norm of the difference
    pytorch: float

    @staticmethod
    def _error(difference, expected):
        if math.isnan(difference):
            return math.inf
        return difference / expected if expected > 0 else difference

    @property
    def neap_error(self):
        return self._error(self.neap, self.expected)

    @property
    def pytorch_error(self):
        return self._error(self.pytorch, self.expected)


@dataclass(frozen=True)
class Step:
    """The step with one batch."""
    loss: Row
    parameters: list
    statistics: list  # of batch norms


def over_batches(pairs):
    """The median of neap's errors, or infinity if one is, and the largest of PyTorch's."""
    neap, pytorch = zip(*pairs)
    return statistics.median(neap) if all(map(math.isfinite, neap)) else math.inf, max(pytorch)


def combined(rows):
    """One tensor with every batch."""
    neap, pytorch = over_batches((row.neap_error, row.pytorch_error) for row in rows)
    return Row(rows[0].name, rows[0].what, rows[0].kind, 1.0, neap, pytorch)


def limits(rule, rows):
    """The largest error of neap that passes, for each row."""
    kinds = {}
    for row in rows:
        kinds.setdefault(row.kind, []).append(row.pytorch_error)
    medians = {kind: statistics.median(errors) for kind, errors in kinds.items()}
    return [rule.limit(max(row.pytorch_error, medians[row.kind]) if rule.pooled else row.pytorch_error) for row in rows]


def norm(rows):
    """The errors of neap and PyTorch over all parameters together, as one vector."""
    expected = math.hypot(*(row.expected for row in rows))
    return (Row("", "", "", expected, math.hypot(*(row.neap for row in rows)), 0).neap_error,
            Row("", "", "", expected, 0, math.hypot(*(row.pytorch for row in rows))).pytorch_error)


def check(network, dtype, steps):
    """The summary of a network, with the field `passed`; `rows` has each row with its limit."""
    rule = RULES[dtype]
    loss = max((step.loss for step in steps), key=lambda row: row.neap_error)
    loss = Row(loss.name, loss.what, loss.kind, 1.0, loss.neap_error, max(step.loss.pytorch_error for step in steps))
    norms = [norm(step.parameters) for step in steps]
    parameters = [combined(rows) for rows in zip(*(step.parameters for step in steps))]
    tensors = parameters + [combined(rows) for rows in zip(*(step.statistics for step in steps))]
    neap = [row.neap_error for row in tensors]
    pytorch = [row.pytorch_error for row in tensors]
    figures = {"loss": (loss.neap_error, loss.pytorch_error), "norm": over_batches(norms),
               "median": (statistics.median(row.neap_error for row in parameters),
                          statistics.median(row.pytorch_error for row in parameters)), "worst": (max(neap), max(pytorch))}
    rows = [(loss, rule.limit(loss.pytorch_error)), *zip(tensors, limits(rule, tensors))]
    beyond = [row.name for row, limit in rows if not row.neap_error <= limit]
    exceeded = [name for name, (ours, theirs) in figures.items() if not ours <= rule.limit(theirs)]
    exceeded += ["norm of a batch"] * any(ours >= 1 and ours > rule.limit(theirs) for ours, theirs in norms)
    exceeded += [f"{name} without power" for name in ("norm", "median") if rule.limit(figures[name][1]) >= 1]
    return {"network": network, "dtype": dtype, **figures, "worst_tensor": tensors[neap.index(max(neap))].name,
            "tensors": len(tensors), "unchecked": sum(limit >= 1 for _, limit in rows), "beyond": beyond,
            "exceeded": exceeded, "rows": rows, "passed": not beyond and not exceeded}


def described(batch, batches):
    return f"batch {batch}" if batches == 1 else f"{batches} batches of {batch} (neap's median, PyTorch's largest)"


def print_rows(summary, batch, batches):
    dtype, rule = summary["dtype"], RULES[summary["dtype"]]
    print(f"\n{summary['network']}, {described(batch, batches)}, one step in {dtype}: relative errors against PyTorch in "
          f"float64; limit: {rule.factor} times PyTorch's + {rule.floor:.1e}")
    print(f"{'tensor':<44}{'of its':<9}{'neap':>12}{'PyTorch':>12}{'limit':>12}")
    for row, limit in summary["rows"]:
        mark = "" if row.neap_error <= limit else "  FAILED"
        print(f"{row.name:<44}{row.what:<9}{row.neap_error:>12.2e}{row.pytorch_error:>12.2e}{limit:>12.2e}{mark}")
    print(f"{summary['network']}: {'passed' if summary['passed'] else 'FAILED'}", flush=True)


def verdict(summary):
    if summary["passed"]:
        return "passed"
    return "FAILED: " + ", ".join(summary["exceeded"] + [f"{len(summary['beyond'])} of {summary['tensors']} tensors"])


def summary_table(summaries):
    """Each error as neap's / PyTorch's in the same type."""
    rows = []
    for summary in summaries:
        errors = {title: f"{summary[name][0]:.1e} / {summary[name][1]:.1e}" for name, title in
                  (("loss", "loss"), ("norm", "all parameters"), ("median", "median parameter"), ("worst", "worst tensor"))}
        rows.append({"network": summary["network"], "dtype": summary["dtype"], **errors,
                     "worst of neap": summary["worst_tensor"],
                     "unchecked": f"{summary['unchecked']} of {summary['tensors']}", "result": verdict(summary)})
    return markdown(rows)
