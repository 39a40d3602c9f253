// Batches for training, read ahead by a thread of their own.
//
// A killed run must go on as if nothing had happened, so the batch of step k depends on (dataset,
// options, k) alone and not on what was read before: the order of each epoch is a permutation that
// can be entered anywhere (permutation.h), and every random choice comes from a counter. Step k
// takes the positions [k * batch, (k + 1) * batch) of the endless row of epochs; so each image
// comes exactly once an epoch, and a batch may span two epochs.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<Loader> loader,
//                    Loader::Create(*dataset, {.batch = 64, .first_step = session.step()}));
//   ASSIGN_OR_RETURN(Batch batch, loader->Next());
//
// *Ownership*: borrows the dataset, which must outlive it. *Threads*: Next from one at a time.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/status/statusor.h"
#include "neap/core/input/batch.h"
#include "neap/core/input/dataset.h"

namespace neap {

struct LoaderOptions {
  int64_t batch = 1;       // images
  uint64_t seed = 1;       // of order and augmentation
  int64_t first_step = 0;  // of the first batch that Next returns
  int64_t queue = 4;       // batches read ahead
  bool shuffle = true;
  int64_t shift = 0;  // each image moves by up to so many pixels along both axes; what enters is 0
  bool flip = false;  // every second image, by chance, is mirrored left to right
};

// The batch of one step, without a thread. Errors: as Dataset::Read; INVALID_ARGUMENT as
// Loader::Create; RESOURCE_EXHAUSTED where there is no memory for it.
absl::StatusOr<Batch> BatchOfStep(const Dataset& dataset, const LoaderOptions& options,
                                  int64_t step);

// Images [first, first + count) as they are, fewer at the end of the dataset: for evaluation.
// Errors: as Dataset::Read; INVALID_ARGUMENT for a range outside of the dataset.
absl::StatusOr<Batch> ReadBatch(const Dataset& dataset, int64_t first, int64_t count);

class Loader {
 public:
  // Errors: INVALID_ARGUMENT for options out of range; RESOURCE_EXHAUSTED when there is no thread
  // to be had.
  static absl::StatusOr<std::unique_ptr<Loader>> Create(const Dataset& dataset,
                                                        LoaderOptions options);
  // Waits for the batch being read.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Waits for the next batch. After an error every call returns it.
  absl::StatusOr<Batch> Next();

 private:
  Loader(const Dataset& dataset, LoaderOptions options);
  void Run();
  // False once the loader is to stop.
  bool Push(absl::StatusOr<Batch> batch);

  const Dataset& dataset_;
  const LoaderOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<absl::StatusOr<Batch>> queue_;
  bool stopping_ = false;
  std::thread thread_;  // last: it starts when all else is there
};

}  // namespace neap
