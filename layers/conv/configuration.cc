#include "neap/layers/conv/configuration.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace neap {

std::string ToString(absl::Span<const EngineUse> parts) {
  if (parts.size() == 1) return parts.front().engine;
  std::vector<std::string> groups;
  for (size_t begin = 0, end = 0; begin < parts.size(); begin = end) {
    const auto is_same = [&](const EngineUse& part) {
      return part.batch == parts[begin].batch && part.engine == parts[begin].engine;
    };
    while (end < parts.size() && is_same(parts[end])) ++end;
    const std::string times = end - begin > 1 ? absl::StrCat(end - begin, " x ") : "";
    groups.push_back(absl::StrCat(times, parts[begin].batch, " ", parts[begin].engine));
  }
  return absl::StrJoin(groups, " + ");
}

}  // namespace neap
