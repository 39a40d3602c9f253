// Reading of photographs: images/s of the loader for training and for evaluation, by number of
// threads. 500 JPEG files of about 500 x 375 pixels, as in ImageNet, are made in a folder of /tmp
// first.
#include <benchmark/benchmark.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "neap/core/input/image_folder.h"
#include "neap/core/input/loader.h"
#include "tests/image_files.h"

namespace neap {
namespace {

constexpr int kImages = 500;
constexpr int64_t kBatch = 100;

class PhotoFolder {
 public:
  PhotoFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "neap_bench_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) return;
    path_ = name;
    std::filesystem::create_directory(path_ / "photographs");
    for (int i = 0; i < kImages; ++i) {
      // Around 500 x 375, upright or not.
      const int more = i % 7 * 12 - 36;
      const int width = i % 3 == 0 ? 375 + more : 500 + more;
      const int height = i % 3 == 0 ? 500 - more : 375 - more;
      const testing::TestImage photo = testing::Photo(width, height, static_cast<uint32_t>(i));
      std::ofstream file(path_ / "photographs" / absl::StrCat(i, ".jpg"), std::ios::binary);
      file << testing::JpegBytes(photo, {.quality = 95});
    }
  }
  ~PhotoFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

// One folder for all benchmarks of the process.
std::unique_ptr<ImageFolder> OpenPhotos(benchmark::State& state) {
  static const PhotoFolder photos;
  auto folder = ImageFolder::Open(photos.path(), {});
  if (folder.ok()) return *std::move(folder);
  state.SkipWithError(std::string(folder.status().message()).c_str());
  return nullptr;
}

void Train(benchmark::State& state, float color_jitter) {
  const auto folder = OpenPhotos(state);
  if (folder == nullptr) return;
  int64_t step = 0;
  for (auto _ : state) {
    const auto batch = BatchOfStep(
        *folder,
        {.batch = kBatch, .crop = true, .color_jitter = color_jitter, .threads = state.range(0)},
        step++);
    if (!batch.ok()) state.SkipWithError(std::string(batch.status().message()).c_str());
  }
  state.SetItemsProcessed(state.iterations() * kBatch);
}
BENCHMARK_CAPTURE(Train, crop, 0)->Arg(1)->Arg(2)->Arg(4)->UseRealTime()->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(Train, crop_and_colors, 0.4F)->Arg(1)->UseRealTime()->MeasureProcessCPUTime();

void Evaluate(benchmark::State& state) {
  const auto folder = OpenPhotos(state);
  if (folder == nullptr) return;
  int64_t first = 0;
  for (auto _ : state) {
    const auto batch = ReadBatch(*folder, first, kBatch, state.range(0));
    if (!batch.ok()) state.SkipWithError(std::string(batch.status().message()).c_str());
    first = (first + kBatch) % kImages;
  }
  state.SetItemsProcessed(state.iterations() * kBatch);
}
BENCHMARK(Evaluate)->Arg(1)->UseRealTime()->MeasureProcessCPUTime();

}  // namespace
}  // namespace neap
