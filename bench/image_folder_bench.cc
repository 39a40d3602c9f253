// Reading of photographs: images/s of the loader for training, by number of threads, and for
// evaluation.
//
// NEAP_PHOTOGRAPHS names the folder with the photographs (bench/photographs.h). If it does not
// exist, it is made, with NEAP_PHOTOGRAPH_COUNT files, and stays. Without it, 500 are made in /tmp,
// and removed at the end. scripts/compare_loading.py compares the speed with PyTorch's.
#include <benchmark/benchmark.h>
#include <stdlib.h>  // mkdtemp

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "bench/photographs.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/vision/image_folder.h"
#include "neap/core/vision/loader.h"

namespace neap {
namespace {

constexpr int kUsualCount = 500;
constexpr int64_t kBatch = 256;

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

absl::StatusOr<int> Count() {
  const std::string text = Variable("NEAP_PHOTOGRAPH_COUNT");
  int count = kUsualCount;
  if (text.empty() || (absl::SimpleAtoi(text, &count) && count > 0)) return count;
  return absl::InvalidArgumentError(absl::StrCat("NEAP_PHOTOGRAPH_COUNT is '", text, "'"));
}

class Photographs {
 public:
  Photographs() : folder_(Open()) {}
  ~Photographs() {
    std::error_code ignored;
    if (!temporary_.empty()) std::filesystem::remove_all(temporary_, ignored);
  }
  const absl::StatusOr<std::unique_ptr<ImageFolder>>& folder() const { return folder_; }

 private:
  absl::StatusOr<std::unique_ptr<ImageFolder>> Open() {
    std::filesystem::path path = Variable("NEAP_PHOTOGRAPHS");
    if (path.empty()) {
      temporary_ = (std::filesystem::temp_directory_path() / "neap_bench_XXXXXX").string();
      if (mkdtemp(temporary_.data()) == nullptr)
        return absl::UnknownError(absl::StrCat(temporary_, ": the folder cannot be made"));
      path = std::filesystem::path(temporary_) / "photographs";
    }
    if (!std::filesystem::exists(path)) {
      ASSIGN_OR_RETURN(const int count, Count());
      RETURN_IF_ERROR(MakePhotographs(path, count));
    }
    return ImageFolder::Open(path.string(), {});
  }

  std::string temporary_;  // the folder that is removed at the end; empty if there is none
  absl::StatusOr<std::unique_ptr<ImageFolder>> folder_;
};

// One folder for all benchmarks of the process. Null after an error, which is reported.
const ImageFolder* OpenPhotographs(benchmark::State& state) {
  static const Photographs photographs;
  if (photographs.folder().ok()) return photographs.folder()->get();
  state.SkipWithError(std::string(photographs.folder().status().message()).c_str());
  return nullptr;
}

// Reads batches in the loop of the benchmark.
absl::Status Read(Loader& loader, benchmark::State& state) {
  // Three batches exist at a time, whose memory is new only once.
  Batch batch;
  for (int i = 0; i < 3; ++i) {
    ASSIGN_OR_RETURN(batch, loader.Next(std::move(batch)));
  }
  for (auto _ : state) {
    ASSIGN_OR_RETURN(batch, loader.Next(std::move(batch)));
  }
  state.SetItemsProcessed(state.iterations() * kBatch);
  return absl::OkStatus();
}

void Read(bool trains, float color_jitter, benchmark::State& state) {
  const ImageFolder* const folder = OpenPhotographs(state);
  if (folder == nullptr) return;
  const auto loader = Loader::Create(*folder, {.batch = kBatch,
                                               .queue = 1,
                                               .shuffle = trains,
                                               .crop = trains,
                                               .color_jitter = color_jitter,
                                               .threads = state.range(0)});
  const absl::Status status = loader.ok() ? Read(**loader, state) : loader.status();
  if (!status.ok()) state.SkipWithError(std::string(status.message()).c_str());
}

void Train(benchmark::State& state, float color_jitter) {
  Read(/*trains=*/true, color_jitter, state);
}
BENCHMARK_CAPTURE(Train, crop, 0)
    ->ArgName("threads")
    ->RangeMultiplier(2)
    ->Range(1, 16)
    ->UseRealTime()
    ->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(Train, crop_and_colors, 0.4F)
    ->ArgName("threads")
    ->Arg(1)
    ->UseRealTime()
    ->MeasureProcessCPUTime();

void Evaluate(benchmark::State& state) { Read(/*trains=*/false, /*color_jitter=*/0, state); }
BENCHMARK(Evaluate)->ArgName("threads")->Arg(1)->UseRealTime()->MeasureProcessCPUTime();

}  // namespace
}  // namespace neap
