// Where training steps get their batches: a dataset read in the background, or one batch for all.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "neap/core/input/batch.h"
#include "neap/core/input/dataset.h"
#include "neap/core/input/loader.h"
#include "neap/core/program/program.h"

namespace neap::apps {

// What the network takes in.
struct NetInput {
  int64_t batch = 0;
  ImageShape image = {};
  int64_t labels = 0;  // of an image
  int64_t classes = 0;
};

NetInput InputOf(const Program& program);

// The part of a dataset that suits the network; `data` is what --data says. Errors: those of
// OpenDataset(); INVALID_ARGUMENT if the network's output has fewer classes than the dataset.
absl::StatusOr<std::unique_ptr<Dataset>> OpenSplit(const std::string& data, const NetInput& input,
                                                   Split split);

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

// A file of `size` images as little-endian fp32 in N, C, H, W order, then their int32 labels,
// `labels` for each.
// Errors: as ReadableFile; DATA_LOSS for a file of another size or a label outside [0, classes).
absl::StatusOr<Batch> ReadBatchFile(const std::string& path, int64_t size, const ImageShape& shape,
                                    int64_t labels, int64_t classes);

}  // namespace neap::apps
