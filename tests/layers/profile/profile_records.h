// Measurements, databases and processes for the tests of the profile database.
#pragma once

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/layers/profile/profile_database.h"

namespace neap::testing {

inline Measurement Measured(int64_t batch, std::string engine, int64_t repeats = 20,
                            int64_t recorded_unix_ms = 0) {
  return {.batch = batch,
          .engine = {.id = std::move(engine)},
          .median_seconds = 1e-3,
          .spread = 0.01,
          .repeats = repeats,
          .recorded_unix_ms = recorded_unix_ms};
}

// Whether `m` equals Measured(batch, engine).
inline bool IsMeasured(const Measurement& m, int64_t batch, const std::string& engine) {
  const Measurement expected = Measured(batch, engine);
  return m.batch == expected.batch && m.engine.id == engine &&
         m.engine.workspace_bytes == expected.engine.workspace_bytes && m.engine.deterministic &&
         m.median_seconds == expected.median_seconds && m.spread == expected.spread &&
         m.repeats == expected.repeats && !m.failed();
}

inline ProfileDatabase OpenDatabase(const std::string& path,
                                    ProfiledDevice device = {"H200", "cudnn 9"}) {
  absl::StatusOr<ProfileDatabase> database = ProfileDatabase::Open(path, std::move(device));
  const absl::Status status = database.status();
  CAPTURE(status.ToString());
  REQUIRE(status.ok());
  return *std::move(database);
}

// A name of about a KiB.
inline std::string OperationName(int i) { return absl::StrCat("conv ", i, std::string(1000, 'x')); }

// Fills a database, which is closed when this returns.
inline void FillDatabase(const std::string& path, int operations = 300) {
  ProfileDatabase database = OpenDatabase(path);
  for (int i = 0; i < operations; ++i) {
    REQUIRE(database.Record(OperationName(i), Measured(1, "a")).ok());
  }
}

// Runs `child` in a process of its own, which must not use connections of this one. Its exit status
// is the result of `child`.
inline pid_t Fork(const std::function<int()>& child) {
  const pid_t pid = fork();
  if (pid == 0) _exit(child());
  REQUIRE(pid > 0);
  return pid;
}

// The exit status of the process, or minus the signal that killed it.
inline int Await(pid_t pid) {
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace neap::testing
