// Two bytes with the length of the file of images, little-endian, that file, and the one of labels.
#include "neap/core/vision/dataset.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/scratch_directory.h"

namespace neap::testing {
namespace {

std::string Number(uint32_t value) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(value >> shift);
  return bytes;
}

}  // namespace

std::vector<std::string> FuzzSeeds() {
  std::vector<std::string> seeds;
  for (const uint32_t count : {1U, 3U}) {
    const std::string images = Number(0x803) + Number(count) + Number(4) + Number(5) +
                               std::string(size_t{count} * 20, '\x7F');
    const std::string labels = Number(0x801) + Number(count) + std::string(count, '\1');
    const char length[] = {static_cast<char>(images.size()), static_cast<char>(images.size() >> 8)};
    seeds.push_back(std::string(length, 2) + images + labels);
  }
  return seeds;
}

void ReadFuzzed(std::string_view bytes) {
  if (bytes.size() < 2) return;
  static const ScratchDirectory directory;
  const size_t length =
      static_cast<uint8_t>(bytes[0]) + size_t{256} * static_cast<uint8_t>(bytes[1]);
  bytes.remove_prefix(2);
  WriteText(directory.File("train-images-idx3-ubyte"), std::string(bytes.substr(0, length)));
  WriteText(directory.File("train-labels-idx1-ubyte"),
            std::string(bytes.substr(std::min(length, bytes.size()))));
  const auto dataset = OpenDataset("idx:" + directory.path(), {});
  if (!dataset.ok()) return;
  std::vector<float> pixels(static_cast<size_t>((*dataset)->shape().elements()));
  std::vector<int32_t> labels(static_cast<size_t>((*dataset)->labels()));
  for (int64_t i = 0; i < (*dataset)->size(); ++i) {
    if (!(*dataset)->Read(i, pixels.data(), labels.data()).ok())
      FailFuzzed("an image of an accepted file cannot be read");
    if (labels[0] < 0 || labels[0] >= (*dataset)->classes()) FailFuzzed("a label is not a class");
  }
}

}  // namespace neap::testing
