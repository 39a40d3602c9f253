// Sources of training batches: a dataset read in the background, or one batch for every step.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "apps/train/bad_files.h"
#include "apps/train/reading_flags.h"
#include "neap/core/program/program.h"
#include "neap/core/vision/batch.h"
#include "neap/core/vision/dataset.h"
#include "neap/core/vision/loader.h"
#include "neap/core/vision/match_classes.h"
#include "neap/nets/registry.h"

namespace neap::apps {

// The prefixes of a folder's name in --data.
inline constexpr char kImageFolderPrefix[] = "imagefolder:";
inline constexpr char kMasksPrefix[] = "masks:";
inline constexpr char kVolumesPrefix[] = "volumes:";

// The network's input.
struct NetInput {
  int64_t batch = 0;
  ImageShape image = {};  // 1 x 1 x T for T tokens
  int64_t labels = 0;     // per image
  int64_t classes = 0;
  bool is_fixed = false;  // the number of classes: the network is from a file
  bool reads_tokens = false;
  // The input with images `size` high and wide, with as many labels for each pixel.
  NetInput Scaled(int64_t size) const;
  // Makes a network by name take this input.
  void SetIn(nets::NetOptions& options) const;
};

// Errors: INVALID_ARGUMENT for a network that takes more than images and labels.
absl::StatusOr<NetInput> InputOf(const Program& program);

// Opens a split of the dataset that --data names, in the network's image format. Errors: those of
// OpenDataset(); INVALID_ARGUMENT if the network's output has fewer classes than the dataset, or if
// its examples have another form than the dataset's: tokens, volumes or a label for each pixel.
// With `bad_files`, which must outlive the dataset, it collects the files that cannot be decoded.
absl::StatusOr<std::unique_ptr<Dataset>> OpenSplit(const std::string& data, const NetInput& input,
                                                   Split split, const ReadingFlags& reading = {},
                                                   BadFiles* bad_files = nullptr);

// MatchClasses() (core/vision/match_classes.h) of the dataset that `data` names. Errors name it.
absl::StatusOr<MatchedClasses> MatchSplit(const std::string& data, std::unique_ptr<Dataset> dataset,
                                          const std::vector<std::string>& classes);
// "imagefolder:test has no images of 1 of 4 classes: bee"; empty if it has images of all.
std::vector<std::string> AbsentNotes(const std::string& data, const MatchedClasses& matched);

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // Valid until the next call.
  virtual absl::StatusOr<const Batch*> Next() = 0;
};

class LoadedBatches final : public BatchSource {
 public:
  explicit LoadedBatches(std::unique_ptr<Loader> loader) : loader_(std::move(loader)) {}
  absl::StatusOr<const Batch*> Next() override;

 private:
  std::unique_ptr<Loader> loader_;
  Batch batch_;
};

class RepeatedBatch final : public BatchSource {
 public:
  explicit RepeatedBatch(Batch batch) : batch_(std::move(batch)) {}
  absl::StatusOr<const Batch*> Next() override { return &batch_; }

 private:
  Batch batch_;
};

// Reads `size` images as little-endian fp32 in N, C, H, W order, then `labels` int32 labels for
// each image. Errors: those of ReadableFile; DATA_LOSS for a file of another size or a label
// outside [0, classes).
absl::StatusOr<Batch> ReadBatchFile(const std::string& path, int64_t size, const ImageShape& shape,
                                    int64_t labels, int64_t classes);

}  // namespace neap::apps
