// What the whole process of `neap train` takes, as the kernel counts it.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "tests/apps/command.h"
#include "tests/apps/train/tiny_training.h"

namespace neap::testing {
namespace {

struct Peaks {
  int64_t arena_bytes = 0;
  int64_t process_bytes = 0;
};

Peaks PeaksWith(const Args& more) {
  const Args training = {"train",    "resnet-cifar", "--depth", "14",      "--image",
                         "16",       "--channels",   "1",       "--batch", "256",
                         "--device", "cpu",          "--steps", "2",       "--lr",
                         "0",        "--json"};
  const auto end = RunForJson(Joined(training, more)).back();
  CHECK(end.at("peaks_equal") == true);
  return {end.at("arena_bytes"), end.at("process_peak_bytes")};
}

TEST_CASE("on the CPU the process takes as much less as its budget is smaller") {
  const Peaks roomy = PeaksWith({"--budget", "300MiB"});
  const Peaks tight = PeaksWith({"--budget", "36MiB"});
  const int64_t saved = roomy.arena_bytes - tight.arena_bytes;
  REQUIRE(saved > roomy.arena_bytes / 3);
  CHECK(tight.process_bytes > tight.arena_bytes);
  CHECK(roomy.process_bytes - tight.process_bytes > saved * 3 / 4);
  // The bytes that move to the host stay in the process.
  const Peaks moving =
      PeaksWith({"--budget", "36MiB", "--host-budget", "1GiB", "--policy", "tensor-cache"});
  CHECK(moving.process_bytes > tight.process_bytes + saved / 4);
}

TEST_CASE("the text has the peak of the whole process") {
  const Outcome outcome = RunNeap(Joined(kTiny, {"--steps", "1"}));
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.out.find("  whole process  ") != std::string::npos);
  CHECK(outcome.out.find(" bytes  of the host's memory at its peak\n") != std::string::npos);
}

}  // namespace
}  // namespace neap::testing
