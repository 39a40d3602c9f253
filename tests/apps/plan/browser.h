// Looks at pages as a user does: in a browser.
//
//   const std::optional<std::string> page = LoadPage("plan.html");
//   if (!page) return SkipCase("no browser");
//   CHECK(Attributes(*page, "data-peak-bytes") == Strings{"4096"});
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace neap::testing {

// The page's elements as text, once its script has run, in a window of this width. None where there
// is no browser: chromium or google-chrome on the PATH and no snap, or what NEAP_BROWSER says.
std::optional<std::string> LoadPage(const std::string& file, int width = 1400);

// The values of an attribute wherever it occurs, in order.
std::vector<std::string> Attributes(const std::string& page, const std::string& name);

}  // namespace neap::testing
