#include "apps/cli/outcome.h"

#include <doctest/doctest.h>

#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "tests/apps/command.h"
#include "tests/skip.h"

namespace neap::testing {
namespace {

using apps::Caught;

TEST_CASE("an exception in a subcommand becomes an error") {
  CHECK(Caught([] { return absl::StatusOr<int>(3); }).value() == 3);
  CHECK(Caught([]() -> absl::StatusOr<int> { throw std::bad_alloc(); }).status() ==
        absl::ResourceExhaustedError("out of memory: the system refused to allocate more"));
  const absl::Status refused = Caught([]() -> absl::StatusOr<int> {
                                 throw std::system_error(std::make_error_code(std::errc::io_error));
                               }).status();
  CHECK(absl::IsUnavailable(refused));
  CHECK(refused.message() == "the system refused a request: Input/output error");
  const absl::Status other =
      Caught([]() -> absl::StatusOr<int> { throw std::length_error("too long"); }).status();
  CHECK(other == absl::InternalError("internal error: too long"));
}

// Runs the command in a shell that first sets a limit, and checks that it ends with one line.
void CheckRefusedUnder(const std::string& limit, std::vector<std::string> args,
                       const std::string& complaint) {
  args.insert(args.begin(), {"-c", limit + " && exec \"$0\" \"$@\"", CommandPath()});
  const Outcome outcome = Process::StartCommand("/bin/bash", args).Wait();
  CHECK(outcome.signal == 0);
  CHECK(outcome.exit_code == 1);
  CHECK(outcome.err == "neap: " + complaint + "\n");
}

TEST_CASE("a network that is too large for the machine's memory ends with one line") {
#ifdef NEAP_SANITIZED
  return SkipCase("a sanitizer needs more addresses than the limit leaves");
#endif
  CheckRefusedUnder("ulimit -d 400000", {"plan", "resnet-cifar", "--depth", "20000"},
                    "resnet20000: no memory of the host");
}

TEST_CASE("if the system refuses threads, the command ends with one line") {
  // A thread's stack is as large as the limit: 2^47 bytes, as many as there are addresses.
  CheckRefusedUnder("ulimit -s 137438953472", {"plan", "lenet"},
                    "the system refused a request: Resource temporarily unavailable");
}

}  // namespace
}  // namespace neap::testing
