#include "neap/nets/registry.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "neap/core/base/edit_distance.h"
#include "neap/core/base/status_macros.h"
#include "neap/nets/by_name/check_options.h"
#include "neap/nets/by_name/entry.h"
#include "neap/nets/by_name/nnunet_by_name.h"

namespace neap::nets {
namespace {

std::vector<Entry> AllEntries() {
  std::vector<Entry> all;
  for (const absl::Span<const Entry> some : {Classifiers(), Transformers(), Decoders()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

absl::Status UnknownNetwork(std::string_view name) {
  constexpr size_t kSuggestions = 3;
  const std::string given(name.substr(0, 64));
  const std::string wanted = absl::AsciiStrToLower(given);
  std::vector<std::string> known;
  for (const Entry& entry : AllEntries()) known.emplace_back(entry.network.name);
  std::stable_sort(known.begin(), known.end(), [&](const std::string& a, const std::string& b) {
    return EditDistance(wanted, a) < EditDistance(wanted, b);
  });
  known.resize(kSuggestions);
  return absl::NotFoundError(
      absl::StrCat("unknown network '", given, "'; closest: ", absl::StrJoin(known, ", ")));
}

absl::StatusOr<Entry> FindEntry(std::string_view name) {
  for (const Entry& entry : AllEntries()) {
    if (entry.network.name == name) return entry;
  }
  return UnknownNetwork(name);
}

}  // namespace

std::string Network::input() const {
  if (reads_tokens()) return absl::StrCat(image, " tokens");
  std::string text = absl::StrCat(channels);
  for (int axis = 0; axis < axes; ++axis) absl::StrAppend(&text, "x", image);
  return text;
}

std::vector<Network> Networks() {
  std::vector<Network> networks;
  for (const Entry& entry : AllEntries()) networks.push_back(entry.network);
  return networks;
}

absl::StatusOr<Depths> DepthsOf(std::string_view name) {
  ASSIGN_OR_RETURN(const Entry entry, FindEntry(name));
  Depths depths = entry.takes.depths;
  depths.most_n = depths.step > 0 ? entry.takes.most_blocks : 0;
  return depths;
}

absl::StatusOr<Graph> Build(std::string_view name, const NetOptions& options) {
  const bool is_plan = IsPlansName(name);
  Entry entry = {.network = {.name = name, .image = 1}};
  if (!is_plan) {
    ASSIGN_OR_RETURN(entry, FindEntry(name));
  }
  RETURN_IF_ERROR(CheckOptions(entry.network, entry.takes, options));
  return is_plan ? BuildFromPlans(name, options) : entry.build(options);
}

int64_t ParameterCount(const ResolvedGraph& graph) {
  int64_t count = 0;
  absl::flat_hash_set<std::string> counted;  // layers may share some
  for (const ResolvedLayer& layer : graph.layers) {
    for (const ParamSpec& param : layer.spec.params)
      count += counted.insert(ParamName(layer, param)).second ? param.tensor.elements() : 0;
  }
  return count;
}

}  // namespace neap::nets
