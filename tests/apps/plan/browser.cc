#include "tests/apps/plan/browser.h"

#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include "tests/apps/command.h"

namespace neap::testing {
namespace {

std::optional<std::string> BrowserPath() {
  if (const char* given = std::getenv("NEAP_BROWSER")) return given;
  const char* path = std::getenv("PATH");
  for (const char* name : {"chromium", "google-chrome"}) {
    std::istringstream folders(path == nullptr ? "" : path);
    for (std::string folder; std::getline(folders, folder, ':');) {
      const std::string file = folder + "/" + name;
      if (access(file.c_str(), X_OK) != 0) continue;
      // A snap does not see the files of /tmp.
      if (std::filesystem::canonical(file).filename() != "snap") return file;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> LoadPage(const std::string& file, int width) {
  const std::optional<std::string> browser = BrowserPath();
  if (!browser) return std::nullopt;
  const ScratchDirectory profile;
  const Outcome outcome =
      Process::StartCommand(
          *browser,
          {"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
           "--window-size=" + std::to_string(width) + ",1000", "--user-data-dir=" + profile.path(),
           "--dump-dom", "file://" + std::filesystem::absolute(file).string()})
          .Wait();
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  return outcome.out;
}

std::vector<std::string> Attributes(const std::string& page, const std::string& name) {
  const std::string begin = " " + name + "=\"";
  std::vector<std::string> values;
  for (size_t at = page.find(begin); at != std::string::npos; at = page.find(begin, at)) {
    at += begin.size();
    values.push_back(page.substr(at, page.find('"', at) - at));
  }
  return values;
}

}  // namespace neap::testing
