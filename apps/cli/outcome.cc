#include "apps/cli/outcome.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <system_error>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "apps/cli/interrupt.h"

namespace neap::apps {
namespace {

constexpr char kUsagePayload[] = "neap/bad-usage";

// Whether the standard output is a pipe that has no reader left.
bool ReaderIsGone() {
  pollfd output = {.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  return poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
}

}  // namespace

absl::Status BadUsage(const std::string& message) {
  absl::Status status = absl::InvalidArgumentError(message);
  status.SetPayload(kUsagePayload, absl::Cord());
  return status;
}

absl::Status AsBadUsage(const absl::Status& status) {
  return status.ok() ? status : BadUsage(std::string(status.message()));
}

absl::StatusOr<int> Caught(const std::function<absl::StatusOr<int>()>& run) {
  try {
    return run();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory: the system refused to allocate more");
  } catch (const std::system_error& error) {
    return absl::UnavailableError(absl::StrCat("the system refused a request: ", error.what()));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("internal error: ", error.what()));
  }
}

int Finish(const absl::StatusOr<int>& outcome) {
  absl::StatusOr<int> result = outcome;
  // An earlier write that failed has set the stream's error flag.
  const bool is_written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  // In `neap ... | tee log`, Ctrl-C ends the reader, too. The exit code stays that of Ctrl-C.
  const bool is_interrupted = result.ok() && *result > SignalExitCode(0);
  if (!is_written && result.ok() && !is_interrupted) {
    if (ReaderIsGone()) return SignalExitCode(SIGPIPE);
    result = absl::DataLossError("cannot write to the standard output");
  }
  if (result.ok()) return *result;
  std::string line(result.status().message());
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  std::fprintf(stderr, "neap: %s\n", line.c_str());
  return result.status().GetPayload(kUsagePayload).has_value() ? 2 : 1;
}

}  // namespace neap::apps
