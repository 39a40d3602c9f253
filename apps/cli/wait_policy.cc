#include "apps/cli/wait_policy.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace neap::apps {
namespace {

constexpr char kPolicy[] = "OMP_WAIT_POLICY";
constexpr char kProgram[] = "/proc/self/exe";

// If the dynamic loader was executed with this program as its argument, /proc/self/exe is the
// loader.
bool IsStartedByLoader() { return getauxval(AT_BASE) == 0; }

}  // namespace

void WaitPassively(char** argv) {
  const bool is_chosen =
      std::getenv(kPolicy) != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr;
  if (is_chosen || IsStartedByLoader() || setenv(kPolicy, "passive", 0) != 0) return;
  // The program starts again by its real path, so that ps and top show its name.
  std::error_code unknown;
  const std::filesystem::path program = std::filesystem::read_symlink(kProgram, unknown);
  if (!unknown) execv(program.c_str(), argv);
  execv(kProgram, argv);
}

}  // namespace neap::apps
