// The profile database with 100,000 rows: 1,000 operations, each with 100 measurements.
#include <benchmark/benchmark.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "neap/layers/profile/profile_database.h"

namespace neap {
namespace {

constexpr uint32_t kSeed = 1;
constexpr int kOperations = 1000;
constexpr int kBatches = 10;
constexpr int kEngines = 10;

std::string OperationName(int i) {
  return absl::StrCat("convolution backward_params training out_channels=", i,
                      " kernel=3x3 stride=1x1 padding=1x1 dilation=1x1 groups=1 bias=false "
                      "input[0]=Nx64x56x56:fp32:nchw output_grad[0]=Nx64x56x56:fp32:nchw "
                      "param_grad[0]:=64x64x3x3:fp32:nchw");
}

Measurement Row(int i) {
  return {.batch = 1 << (i % kBatches),
          .engine = {absl::StrCat("engine ", i / kBatches % kEngines, " with some knobs=1,2,3")},
          .median_seconds = 1e-3,
          .repeats = 20};
}

// A database that is filled once and removed at exit.
class FullDatabase {
 public:
  FullDatabase() {
    std::string name = (std::filesystem::temp_directory_path() / "neap_bench_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) return;
    folder_ = name;
    for (int i = 0; i < kOperations * kBatches * kEngines; ++i) {
      if (!database()->Record(OperationName(i / kBatches / kEngines), Row(i)).ok()) return;
    }
  }
  ~FullDatabase() {
    database_.reset();
    std::filesystem::remove_all(folder_);
  }
  FullDatabase(const FullDatabase&) = delete;
  FullDatabase& operator=(const FullDatabase&) = delete;

  static FullDatabase& Get() {
    static FullDatabase full;
    return full;
  }
  std::string File(const std::string& name) const { return (folder_ / name).string(); }
  absl::StatusOr<ProfileDatabase>& database() {
    if (!database_) database_ = Open("full.db");
    return *database_;
  }
  absl::StatusOr<ProfileDatabase> Open(const std::string& name) const {
    return ProfileDatabase::Open(File(name), {"device", "versions"});
  }

 private:
  std::filesystem::path folder_;
  std::optional<absl::StatusOr<ProfileDatabase>> database_;
};

void Open(benchmark::State& state) {
  const FullDatabase& full = FullDatabase::Get();
  for (auto _ : state) {
    if (!full.Open("full.db").ok()) state.SkipWithError("cannot be opened");
  }
}
BENCHMARK(Open)->Unit(benchmark::kMillisecond);

void LookUpAnOperation(benchmark::State& state) {
  absl::StatusOr<ProfileDatabase>& database = FullDatabase::Get().database();
  std::mt19937 random(kSeed);
  for (auto _ : state) {
    const auto found =
        database->Measurements(OperationName(static_cast<int>(random() % kOperations)));
    if (!found.ok() || found->size() != kBatches * kEngines)
      state.SkipWithError("rows are missing");
  }
}
BENCHMARK(LookUpAnOperation)->Unit(benchmark::kMicrosecond);

void LookUpWhatIsMissing(benchmark::State& state) {
  absl::StatusOr<ProfileDatabase>& database = FullDatabase::Get().database();
  int i = kOperations;
  for (auto _ : state) {
    if (!database->Measurements(OperationName(i++)).ok()) state.SkipWithError("no answer");
  }
}
BENCHMARK(LookUpWhatIsMissing)->Unit(benchmark::kMicrosecond);

void Record(benchmark::State& state) {
  absl::StatusOr<ProfileDatabase>& database = FullDatabase::Get().database();
  std::mt19937 random(kSeed);
  for (auto _ : state) {
    const int i = static_cast<int>(random() % (kOperations * kBatches * kEngines));
    if (!database->Record(OperationName(i / kBatches / kEngines), Row(i)).ok())
      state.SkipWithError("cannot be written");
  }
}
BENCHMARK(Record)->Unit(benchmark::kMicrosecond);

void MergeIntoNothing(benchmark::State& state) {
  const FullDatabase& full = FullDatabase::Get();
  int i = 0;
  for (auto _ : state) {
    absl::StatusOr<ProfileDatabase> fresh = full.Open(absl::StrCat("fresh", i++, ".db"));
    if (!fresh.ok() || !fresh->Merge(full.File("full.db")).ok()) state.SkipWithError("not merged");
  }
}
BENCHMARK(MergeIntoNothing)->Unit(benchmark::kMillisecond);

void WriteCsv(benchmark::State& state) {
  FullDatabase& full = FullDatabase::Get();
  for (auto _ : state) {
    if (!full.database()->WriteCsv(full.File("out.csv")).ok()) state.SkipWithError("not written");
  }
}
BENCHMARK(WriteCsv)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace neap
