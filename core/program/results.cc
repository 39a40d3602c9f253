#include "neap/core/program/results.h"

namespace neap {

std::vector<TensorId> KeptResults(const Program& program) {
  std::vector<TensorId> results;
  const auto add = [&](const Port& port) {
    results.insert(results.end(), port.parts.begin(), port.parts.end());
  };
  if (!program.Pauses()) {
    for (const Port& output : program.outputs) add(output);
  }
  if (program.options.mode == Mode::kTraining) return results;
  for (const LossPort& loss : program.losses) {
    add(loss.logits);
    add(loss.predictions);
  }
  return results;
}

}  // namespace neap
