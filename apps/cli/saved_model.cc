#include "apps/cli/saved_model.h"

#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "apps/cli/numbers.h"
#include "apps/cli/outcome.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/checkpoint/model_description.h"

namespace neap::apps {
namespace {

// The texts of flags by their names, without the dashes; "" of a switch.
std::map<std::string, std::string> ByName(const std::vector<std::string>& flags) {
  std::map<std::string, std::string> by_name;
  for (size_t i = 0; i < flags.size(); ++i) {
    if (!absl::StartsWith(flags[i], "--")) continue;
    const bool has_value = i + 1 < flags.size() && !absl::StartsWith(flags[i + 1], "--");
    by_name[flags[i].substr(2)] = has_value ? flags[i + 1] : "";
  }
  return by_name;
}

bool IsSameNet(const std::string& given, const std::string& saved) {
  return given == saved || (IsOnnxFile(given) && IsOnnxFile(saved));
}

}  // namespace

absl::StatusOr<SavedModel> CompleteFromFile(const std::string& weights, const FlagSet& given,
                                            NetFlags& net) {
  if (weights.empty()) {
    if (!net.name.empty()) return SavedModel();
    return BadUsage(
        absl::StrCat("NET is missing, and --weights FILE, which may name it; NET is ", kNetHelp));
  }
  ASSIGN_OR_RETURN(const ModelDescription model, ReadModelDescription(weights));
  SavedModel saved = {.classes = model.classes};
  if (net.name.empty() && model.net.empty()) {
    return BadUsage(absl::StrCat("NET is missing, since ", weights,
                                 " does not name its network; NET is ", kNetHelp));
  }
  if (net.name.empty()) net.name = model.net;
  if (!IsSameNet(net.name, model.net)) return saved;
  const std::map<std::string, std::string> own = ByName(net.NetworkFlags());
  std::vector<std::string> taken;
  for (const auto& [name, value] : ByName(model.flags)) {
    if (!given.Has(name)) continue;
    if (!given.Given(name)) {
      taken.push_back(absl::StrCat("--", name));
      if (!value.empty()) taken.push_back(value);
    } else if (const auto found = own.find(name); found != own.end() && found->second != value) {
      saved.notes.push_back(absl::StrCat("--", name, " ", found->second, " is not that of ",
                                         weights, ", which was trained with ", value));
    }
  }
  FlagSet flags("", "");
  net.AddSizesTo(flags);
  const absl::Status parsed = flags.Parse(taken);
  if (parsed.ok()) return saved;
  return absl::DataLossError(
      absl::StrCat(weights, ": the flags of its network: ", parsed.message()));
}

absl::StatusOr<std::optional<int64_t>> SavedClasses(const std::string& weights,
                                                    const std::string& net) {
  ASSIGN_OR_RETURN(const ModelDescription model, ReadModelDescription(weights));
  const std::map<std::string, std::string> flags = ByName(model.flags);
  const auto classes = flags.find("classes");
  if (model.net != net || classes == flags.end()) return std::nullopt;
  return ReadWhole(classes->second);
}

}  // namespace neap::apps
