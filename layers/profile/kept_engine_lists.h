// EngineLists in an SQLite file, which any number of processes share.
//
// The file is a cache: it may be deleted at any time, also while neap runs, and one that is damaged
// or something else is deleted. What does not work, a full disk for instance, costs only time.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "neap/layers/catalog/engine_lists.h"
#include "neap/layers/profile/sqlite.h"

namespace neap {

// Must not be used after a fork(), because SQLite's connections must not.
class KeptEngineLists final : public EngineLists {
 public:
  // Beyond so many bytes of lists, the older half is deleted.
  static constexpr int64_t kMaxBytes = int64_t{64} << 20;

  // The default file: engines.db beside the default profile database. Null if it has no place.
  static std::shared_ptr<KeptEngineLists> OpenDefault();
  // Creates missing folders and a missing file. Null if that fails.
  static std::shared_ptr<KeptEngineLists> Open(const std::string& path,
                                               int64_t max_bytes = kMaxBytes);

  std::optional<std::string> Find(std::string_view library, std::string_view problem) override;
  void Keep(std::string_view library, std::string_view problem, std::string_view list) override;

 private:
  explicit KeptEngineLists(SqliteConnection connection) : connection_(std::move(connection)) {}

  std::mutex mutex_;
  SqliteConnection connection_;  // guarded by mutex_
};

}  // namespace neap
