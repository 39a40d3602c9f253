// neap eval: the accuracy of trained weights on a dataset.
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/outcome.h"
#include "apps/cli/output.h"
#include "apps/inference/inference.h"
#include "apps/train/evaluation.h"
#include "neap/core/base/status_macros.h"

namespace neap::apps {
namespace {

void Report(const InferenceFlags& flags, const Accuracy& accuracy,
            const std::vector<std::string>& notes, const std::vector<std::string>& skipped) {
  if (flags.json) {
    Json json = {{"net", flags.net.name},
                 {"weights", flags.weights},
                 {"data", flags.data},
                 {"split", flags.split},
                 {"notes", notes}};
    json.update(ToJson(accuracy));
    if (flags.reading.skip_bad) json["bad_files"] = skipped;
    PrintJson(json);
    return;
  }
  Print(absl::StrFormat("%s on %s (%s): %s\n", flags.weights, flags.data, flags.split,
                        ToText(accuracy)));
  for (const std::string& note : notes) Print(absl::StrCat("note: ", note, "\n"));
  if (!skipped.empty()) Print(BadFilesText(skipped, std::ssize(skipped)));
}

// Numbers the labels as the network's classes are, and says which of these have no images.
absl::Status MatchClassesOf(const InferenceFlags& flags, Inference& inference) {
  const std::vector<std::string> found = inference.dataset->class_names();
  ASSIGN_OR_RETURN(MatchedClasses matched,
                   MatchSplit(flags.data, std::move(inference.dataset), inference.classes));
  for (std::string& note : AbsentNotes(flags.data, matched))
    inference.notes.push_back(std::move(note));
  inference.dataset = std::move(matched.dataset);
  const int64_t classes = inference.input.classes;
  if (inference.classes.empty() && !found.empty() && std::ssize(found) < classes) {
    inference.notes.push_back(
        absl::StrCat(flags.weights, " does not name its ", classes, " classes; the ", found.size(),
                     " of ", flags.data, " count as the first ones, in the order of their names"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int> RunEval(const std::vector<std::string>& args) {
  InferenceFlags given;
  FlagSet flags("neap eval [NET] [--weights FILE] [flags]",
                "Runs a trained network on a dataset and prints how many labels it gets right. "
                "Classes of an\nimagefolder are those with the same names in training.");
  flags.OptionalPositional("NET", kOptionalNetHelp, &given.net.name);
  given.AddTo(flags);
  RETURN_IF_ERROR(flags.Parse(args));
  if (flags.help()) return PrintHelp(flags);
  ASSIGN_OR_RETURN(Inference inference, OpenInference(given, flags));
  RETURN_IF_ERROR(MatchClassesOf(given, inference));
  WatchForInterrupt();
  ASSIGN_OR_RETURN(const std::optional<Accuracy> accuracy,
                   Evaluate(inference.session, *inference.dataset, inference.input.batch,
                            /*communicator=*/nullptr, given.reading.workers));
  if (!accuracy.has_value()) return InterruptedExitCode();
  if (accuracy->not_finite.has_value()) return absl::FailedPreconditionError(*accuracy->not_finite);
  ASSIGN_OR_RETURN(const std::vector<std::string> skipped, inference.Skipped());
  Report(given, *accuracy, inference.notes, skipped);
  return 0;
}

}  // namespace neap::apps
