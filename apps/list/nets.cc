// neap nets: the networks that the other commands take by name.
#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/cli/flags.h"
#include "apps/cli/outcome.h"
#include "apps/cli/output.h"
#include "neap/core/base/status_macros.h"
#include "neap/nets/registry.h"

namespace neap::apps {
namespace {

std::string ToText(const std::vector<nets::Network>& networks) {
  size_t width = 0;
  for (const nets::Network& network : networks) width = std::max(width, network.name.size());
  const auto name_width = static_cast<int>(width);
  std::string text = absl::StrFormat("%-*s  %-13s  %7s  %s\n", name_width, "network", "image",
                                     "classes", "description");
  for (const nets::Network& network : networks) {
    absl::StrAppendFormat(&text, "%-*s  %-13s  %7d  %s\n", name_width, network.name,
                          network.input(), network.classes, network.description);
  }
  return text;
}

Json ToJson(const std::vector<nets::Network>& networks) {
  Json all = Json::array();
  for (const nets::Network& network : networks) {
    all.push_back({{"net", network.name},
                   {"description", network.description},
                   {"channels", network.channels},
                   {"image", network.image},
                   {"axes", network.axes},
                   {"classes", network.classes}});
  }
  return {{"nets", std::move(all)}};
}

}  // namespace

absl::StatusOr<int> RunNets(const std::vector<std::string>& args) {
  bool json = false;
  FlagSet flags(
      "neap nets [--json]",
      "Lists the networks by the names that NET takes, with their image (channels x height "
      "x width), volume or sequence and\nnumber of classes unless --channels, --image and "
      "--classes "
      "change them.");
  flags.Add("json", "print one JSON object", &json);
  RETURN_IF_ERROR(flags.Parse(args));
  if (flags.help()) return PrintHelp(flags);
  const std::vector<nets::Network> networks = nets::Networks();
  json ? PrintJson(ToJson(networks)) : Print(ToText(networks));
  return 0;
}

}  // namespace neap::apps
