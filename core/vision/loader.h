// Batches for training and evaluation, read ahead by threads: one for small images, and all cores
// for many or for photographs.
//
// Each thread takes the next image of the last batch that was begun. At the end of a batch none
// waits for those that still read, for photographs differ by a factor of ten in the time they take:
//
//   thread 1 |k.0  |k.2|k.3    |k.5|k+1.0 |k+1.1  |k+1.3 ...       time ->
//   thread 2 |k.1    |k.4   |k.6                |k+1.2 ...         k.6 is image 6 of step k
//
// A killed run must be able to resume as if nothing had happened, so the batch of step k depends
// only on (dataset, options, k) and not on what was read before: the order of each epoch is a
// permutation that can be evaluated at any position (permutation.h), and every random choice comes
// from a counter. Step k takes the positions [k * batch, (k + 1) * batch) of the infinite sequence
// of epochs, so each image comes exactly once per epoch, and a batch may span two epochs. Ranks of
// data parallelism read parts of the same batches, whatever their number: positions from
// k * whole_batch + first_image on.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<Loader> loader,
//                    Loader::Create(*dataset, {.batch = 64, .first_step = session.step()}));
//   ASSIGN_OR_RETURN(Batch batch, loader->Next());
//   ASSIGN_OR_RETURN(batch, loader->Next(std::move(batch)));  // its memory is used again
//   ASSIGN_OR_RETURN(loader, Loader::InOrder(*dataset, {.count = dataset->size()}, /*batch=*/64));
//
// A network that is trained in several sizes (Graph::Sizes()) has a dataset for each of them, the
// same images resized to it. In every round of as many steps, each size has one batch, in an order
// that is drawn for the round; a batch begins where the one of the step before has ended.
//
//   ASSIGN_OR_RETURN(loader, Loader::Create({{large.get(), 32}, {small.get(), 64}}, {.seed = 7}));
//
// *Ownership*: borrows the datasets, which must outlive it. *Threads*: one at a time.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/vision/batch.h"
#include "neap/core/vision/dataset.h"

namespace neap {

struct LoaderOptions {
  int64_t batch = 1;  // images in a batch, where LoaderSize does not say it
  // For a rank: the images in all ranks' batches, and in those of the ranks before it. 0: alone.
  int64_t whole_batch = 0;
  int64_t first_image = 0;
  uint64_t seed = 1;       // of order and augmentation
  int64_t first_step = 0;  // the step of the first batch that Next returns
  int64_t queue = 4;       // batches read ahead
  bool shuffle = true;
  int64_t shift = 0;  // the most pixels by which an image is shifted along each axis, filled with 0
  bool flip = false;  // mirror each image left to right with probability 1/2
  // Instead of these, for datasets that have them (Dataset::has_views()): random crops, mirrored or
  // not, whose brightness, contrast and saturation change by up to the jitter
  // (core/vision/image/random_view.h). Volumes: random patches; tokens: windows at any offset.
  bool crop = false;
  float color_jitter = 0;
  // The most threads that read; 0: as many as are worth it. The bits do not depend on it.
  int64_t threads = 0;
};

// One of the sizes of a network's images.
struct LoaderSize {
  const Dataset* dataset = nullptr;  // of images of this size
  int64_t batch = 0;                 // 0: that of the options. Ranks have no other.
};

// The batch of one step. Errors: those of Dataset::Read;
// INVALID_ARGUMENT as for Loader::Create; RESOURCE_EXHAUSTED if there is not enough memory.
absl::StatusOr<Batch> BatchOfStep(const Dataset& dataset, const LoaderOptions& options,
                                  int64_t step);
absl::StatusOr<Batch> BatchOfStep(const std::vector<LoaderSize>& sizes,
                                  const LoaderOptions& options, int64_t step);

// Images [first, first + count) without augmentation, fewer at the end of the dataset. `threads` is
// that of LoaderOptions. Errors: those of Dataset::Read; INVALID_ARGUMENT for a range outside of
// the dataset.
absl::StatusOr<Batch> ReadBatch(const Dataset& dataset, int64_t first, int64_t count,
                                int64_t threads = 0);

struct ImageRange {
  int64_t first = 0;
  int64_t count = 0;
};

struct StepImages;  // core/vision/loader_steps.h

class Loader {
 public:
  // Errors: INVALID_ARGUMENT for options out of range; RESOURCE_EXHAUSTED if no thread can be
  // started.
  static absl::StatusOr<std::unique_ptr<Loader>> Create(const Dataset& dataset,
                                                        LoaderOptions options);
  // A loader of several sizes. If there is more than one, batches state their height and width.
  // Errors: also INVALID_ARGUMENT for datasets with other numbers of images, or for none.
  static absl::StatusOr<std::unique_ptr<Loader>> Create(std::vector<LoaderSize> sizes,
                                                        LoaderOptions options);
  // Each image of the range once, in order and without augmentation, for evaluation: the batches of
  // ReadBatch(), the last of which may be smaller. `threads` is that of LoaderOptions. Errors:
  // also INVALID_ARGUMENT for a range that is empty or not within the dataset.
  static absl::StatusOr<std::unique_ptr<Loader>> InOrder(const Dataset& dataset, ImageRange range,
                                                         int64_t batch, int64_t threads = 0);
  // Waits for the images that are being read.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Waits for the next batch. After an error, every call returns that error, and after the last
  // batch of InOrder() OUT_OF_RANGE. The memory of `used`, a batch that is no longer needed, is
  // used again: the operating system takes longer to provide new memory for large batches than a
  // GPU takes to train on them.
  absl::StatusOr<Batch> Next(Batch used = {});

 private:
  struct PartlyRead;  // a batch

  Loader(std::vector<LoaderSize> sizes, LoaderOptions options, ImageRange positions);
  static absl::StatusOr<std::unique_ptr<Loader>> Start(std::unique_ptr<Loader> loader);
  void Run();
  // The following are called with the mutex locked by `lock`, and return so.
  bool HasImage() const;
  bool MayBegin() const;
  StepImages NextImages() const;  // none after the last
  void BeginBatch(std::unique_lock<std::mutex>& lock);
  void ReadOne(std::unique_lock<std::mutex>& lock);

  const std::vector<LoaderSize> sizes_;
  const LoaderOptions options_;
  const ImageRange positions_;  // in the sequence of epochs
  std::mutex mutex_;
  std::condition_variable changed_;
  // There are at most options_.queue + 1. Images of the last one are handed out.
  std::deque<std::unique_ptr<PartlyRead>> batches_;
  int64_t next_step_;
  bool begins_ = false;      // a thread is providing the memory of the next batch
  bool failed_ = false;      // nothing more is read
  std::vector<Batch> used_;  // at most as many as are in use at the same time
  bool stopping_ = false;
  std::vector<std::thread> threads_;  // last, since they use all other members
};

}  // namespace neap
