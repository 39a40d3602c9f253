// EngineLists in an SQLite file, which any number of processes share.
//
// The file is a cache, which may be deleted at any time, also while neap runs. It is opened when
// something is first looked for or kept. A damaged one, or one of another version of neap, is
// deleted and begun anew; another program's file stays as it is. After an error nothing more is
// found or kept: a full disk, or a file that somebody locks, costs only time.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "neap/layers/catalog/engine_lists.h"
#include "neap/layers/profile/sqlite.h"

namespace neap {

// Must not be used after a fork(), because SQLite's connections must not.
class KeptEngineLists final : public EngineLists {
 public:
  // A file that has more bytes when it is opened loses the older half of its lists.
  static constexpr int64_t kMaxBytes = int64_t{64} << 20;

  // The lists in engines.db beside the default profile database; null if that has no place.
  static std::shared_ptr<KeptEngineLists> Default();

  // Missing folders and a missing file are created when the file is opened.
  explicit KeptEngineLists(std::string path, int64_t max_bytes = kMaxBytes)
      : path_(std::move(path)), max_bytes_(max_bytes) {}

  std::optional<std::string> Find(std::string_view library, std::string_view problem) override;
  void Keep(std::string_view library, std::string_view problem, std::string_view list) override;

 private:
  // Does nothing after an error.
  void Do(absl::FunctionRef<absl::Status(SqliteConnection&)> work);

  const std::string path_;
  const int64_t max_bytes_;
  std::mutex mutex_;
  std::optional<SqliteConnection> connection_;  // guarded by mutex_
  bool has_failed_ = false;                     // guarded by mutex_
};

}  // namespace neap
