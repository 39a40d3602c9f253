// neap eval: the accuracy of trained weights on a dataset.
#include <optional>

#include "absl/strings/str_format.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/outcome.h"
#include "apps/cli/output.h"
#include "apps/inference/inference.h"
#include "apps/train/evaluation.h"
#include "neap/core/base/status_macros.h"

namespace neap::apps {
namespace {

void Report(const InferenceFlags& flags, const Accuracy& accuracy) {
  if (flags.json) {
    Json json = {{"net", flags.net.name},
                 {"weights", flags.weights},
                 {"data", flags.data},
                 {"split", flags.split}};
    json.update(ToJson(accuracy));
    PrintJson(json);
    return;
  }
  Print(absl::StrFormat("%s on %s (%s): %s\n", flags.weights, flags.data, flags.split,
                        ToText(accuracy)));
}

}  // namespace

absl::StatusOr<int> RunEval(const std::vector<std::string>& args) {
  InferenceFlags given;
  FlagSet flags("neap eval NET [--weights FILE] [flags]",
                "Runs a trained network on a dataset and prints how many labels it gets right.");
  given.AddTo(flags);
  RETURN_IF_ERROR(flags.Parse(args));
  if (flags.help()) {
    Print(flags.HelpText());
    return 0;
  }
  ASSIGN_OR_RETURN(Inference inference, OpenInference(given));
  WatchForInterrupt();
  ASSIGN_OR_RETURN(const std::optional<Accuracy> accuracy,
                   Evaluate(inference.session, *inference.dataset, inference.input.batch));
  if (!accuracy.has_value()) return InterruptedExitCode();
  Report(given, *accuracy);
  return 0;
}

}  // namespace neap::apps
