#include "apps/train/next_steps.h"

#include <cerrno>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "apps/cli/output.h"
#include "apps/train/batch_source.h"

namespace neap::apps {

std::vector<std::pair<std::string, std::string>> NextSteps(const TrainFlags& flags,
                                                           const std::vector<std::string>& saved,
                                                           bool is_complete) {
  std::vector<std::pair<std::string, std::string>> steps;
  const FileFlags& files = flags.files;
  const std::string resume = absl::StrCat("the same command with --resume ", ShellWord(files.save));
  if (!is_complete && !files.save.empty()) steps.emplace_back("to continue", resume);
  if (saved.empty() || !is_complete || !flags.batches.batch_file.empty()) return steps;
  const std::string neap = ShellWord(program_invocation_name);  // as it was called
  const std::string weights = absl::StrCat(" --weights ", ShellWord(saved.back()));
  const BatchFlags& batches = flags.batches;
  if (!batches.validation.empty()) {
    steps.emplace_back("to evaluate", absl::StrCat(neap, " eval", weights, " --data ",
                                                   ShellWord(batches.validation)));
  } else if (batches.data != "synthetic" && !batches.decodes()) {
    steps.emplace_back("to evaluate",
                       absl::StrCat(neap, " eval", weights, " --data ", ShellWord(batches.data)));
  }
  if (batches.decodes()) {
    steps.emplace_back("to predict", absl::StrCat(neap, " predict IMAGE.jpg", weights));
  } else if (batches.data != "synthetic" && !absl::StartsWith(batches.data, "tokens")) {
    steps.emplace_back(
        "to predict", absl::StrCat(neap, " predict", weights, " --data ", ShellWord(batches.data)));
  }
  if (!files.save.empty())
    steps.emplace_back("to train on", absl::StrCat(resume, ", and more --epochs or --steps"));
  return steps;
}

}  // namespace neap::apps
