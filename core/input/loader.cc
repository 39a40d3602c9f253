#include "neap/core/input/loader.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/parallel.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/image/random_view.h"
#include "neap/core/input/augment.h"
#include "neap/core/input/permutation.h"

namespace neap {
namespace {

// Fewer elements than this, about a millisecond of work, do not pay for a thread.
constexpr size_t kElementsPerThread = 1 << 19;
constexpr size_t kMostThreads = 16;

int64_t WholeBatch(const LoaderOptions& options) {
  return options.whole_batch == 0 ? options.batch : options.whole_batch;
}

absl::Status Check(const Dataset& dataset, const LoaderOptions& options, int64_t step) {
  const ImageShape shape = dataset.shape();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  if (options.batch < 1 || options.queue < 1 || step < 0 || step >= kMax / WholeBatch(options)) {
    return absl::InvalidArgumentError(
        absl::StrCat("loader: batch ", options.batch, ", queue ", options.queue, ", step ", step));
  }
  if (options.first_image < 0 || options.first_image > WholeBatch(options) - options.batch) {
    return absl::InvalidArgumentError(absl::StrCat("loader: images from ", options.first_image,
                                                   " to ", options.first_image + options.batch - 1,
                                                   " of a batch of ", WholeBatch(options)));
  }
  if (options.shift < 0 || options.shift >= std::min(shape.h, shape.w)) {
    return absl::InvalidArgumentError(
        absl::StrCat("loader: shift ", options.shift, " for images of ", ToString(shape)));
  }
  if (options.crop && (!dataset.decodes() || options.shift > 0 || options.flip)) {
    return absl::InvalidArgumentError(
        "loader: random crops are for images that are decoded, and exclude shift and flip");
  }
  if (options.threads < 0 || options.color_jitter < 0 || options.color_jitter > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("loader: threads ", options.threads, ", color_jitter ", options.color_jitter));
  }
  if (dataset.labels() > 1 && (options.shift > 0 || options.flip)) {
    return absl::InvalidArgumentError("loader: images with labelled pixels cannot be moved");
  }
  return absl::OkStatus();
}

// `batch` with the sizes for `size` images, and any values.
absl::StatusOr<Batch> Resized(Batch batch, const Dataset& dataset, int64_t size) {
  const ImageShape shape = dataset.shape();
  try {
    int64_t pixels = 0;
    if (__builtin_mul_overflow(size, shape.elements(), &pixels)) throw std::bad_alloc();
    batch.images.resize(static_cast<size_t>(pixels));
    batch.labels.resize(static_cast<size_t>(size * dataset.labels()));
  } catch (const std::exception&) {  // bad_alloc, length_error
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for a batch of ", size, " images of ", ToString(shape)));
  }
  batch.size = size;
  return batch;
}

// Returns RESOURCE_EXHAUSTED if `read`, which allocates memory for one image, throws bad_alloc.
template <typename Read>
absl::Status WithMemory(const Dataset& dataset, const Read& read) {
  try {
    return read();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for an image of ", ToString(dataset.shape())));
  }
}

// How many threads are worth it for a batch.
size_t ThreadsFor(const Dataset& dataset, const Batch& batch, int64_t threads) {
  if (threads > 0) return static_cast<size_t>(threads);
  return dataset.decodes() ? kMostThreads
                           : std::min(batch.images.size() / kElementsPerThread, kMostThreads);
}

// Calls read(i) for each image of a batch, large batches on several threads. The error is that of
// the first image that has one.
template <typename Read>
absl::Status ReadAll(const Dataset& dataset, const Batch& batch, int64_t threads,
                     const Read& read) {
  std::mutex mutex;
  std::atomic<size_t> failed = static_cast<size_t>(batch.size);  // the image of the error
  absl::Status error;
  const auto read_one = [&](size_t i) {
    if (i > failed) return;
    absl::Status status = WithMemory(dataset, [&] { return read(static_cast<int64_t>(i)); });
    if (status.ok()) return;
    const std::lock_guard lock(mutex);
    if (i > failed) return;
    error = std::move(status);
    failed = i;
  };
  EachInParallel(static_cast<size_t>(batch.size), ThreadsFor(dataset, batch, threads),
                 [&] { return read_one; });
  return error;
}

absl::Status ReadImage(const Dataset& dataset, const LoaderOptions& options, int64_t position,
                       float* pixels, int32_t* labels) {
  int64_t index = position % dataset.size();
  if (options.shuffle) {
    const uint64_t epoch = static_cast<uint64_t>(position / dataset.size());
    index = Permutation(dataset.size(), options.seed, epoch)(index);
  }
  if (options.crop) {
    return dataset.ReadView(
        index, {.seed = options.seed, .position = position, .color_jitter = options.color_jitter},
        pixels, labels);
  }
  if (options.shift == 0 && !options.flip) return dataset.Read(index, pixels, labels);
  const ImageShape shape = dataset.shape();
  std::vector<float> plain(static_cast<size_t>(shape.elements()));
  RETURN_IF_ERROR(dataset.Read(index, plain.data(), labels));
  Augment(DrawAugmentation(options.seed, position, options.shift, options.flip), shape,
          plain.data(), pixels);
  return absl::OkStatus();
}

// `used` gives its memory to the batch.
absl::StatusOr<Batch> ReadStep(const Dataset& dataset, const LoaderOptions& options, int64_t step,
                               Batch used) {
  ASSIGN_OR_RETURN(Batch batch, Resized(std::move(used), dataset, options.batch));
  RETURN_IF_ERROR(ReadAll(dataset, batch, options.threads, [&](int64_t i) {
    return ReadImage(dataset, options, step * WholeBatch(options) + options.first_image + i,
                     batch.images.data() + i * dataset.shape().elements(),
                     batch.labels.data() + i * dataset.labels());
  }));
  return batch;
}

}  // namespace

absl::StatusOr<Batch> BatchOfStep(const Dataset& dataset, const LoaderOptions& options,
                                  int64_t step) {
  RETURN_IF_ERROR(Check(dataset, options, step));
  return ReadStep(dataset, options, step, {});
}

absl::StatusOr<Batch> ReadBatch(const Dataset& dataset, int64_t first, int64_t count,
                                int64_t threads) {
  if (first < 0 || count < 1 || first >= dataset.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("no ", count, " images from ", first, " among ", dataset.size()));
  }
  const int64_t size = std::min(count, dataset.size() - first);
  ASSIGN_OR_RETURN(Batch batch, Resized({}, dataset, size));
  RETURN_IF_ERROR(ReadAll(dataset, batch, threads, [&](int64_t i) {
    return dataset.Read(first + i, batch.images.data() + i * dataset.shape().elements(),
                        batch.labels.data() + i * dataset.labels());
  }));
  return batch;
}

absl::StatusOr<std::unique_ptr<Loader>> Loader::Create(const Dataset& dataset,
                                                       LoaderOptions options) {
  RETURN_IF_ERROR(Check(dataset, options, options.first_step));
  std::unique_ptr<Loader> loader(new Loader(dataset, options));
  try {
    loader->thread_ = std::thread([&loader = *loader] { loader.Run(); });
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot start the reading thread: ", error.what()));
  }
  return loader;
}

Loader::Loader(const Dataset& dataset, LoaderOptions options)
    : dataset_(dataset), options_(options) {}

Loader::~Loader() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

absl::StatusOr<Batch> Loader::Next(Batch used) {
  std::unique_lock lock(mutex_);
  if (used.size > 0) used_.push_back(std::move(used));
  changed_.wait(lock, [this] { return !queue_.empty(); });
  if (!queue_.front().ok()) return queue_.front().status();
  absl::StatusOr<Batch> batch = std::move(queue_.front());
  queue_.pop_front();
  lock.unlock();
  changed_.notify_all();
  return batch;
}

void Loader::Run() {
  for (int64_t step = options_.first_step;; ++step) {
    absl::StatusOr<Batch> batch = ReadStep(dataset_, options_, step, TakeUsed());
    const bool ok = batch.ok();
    if (!Push(std::move(batch)) || !ok) return;
  }
}

Batch Loader::TakeUsed() {
  const std::lock_guard lock(mutex_);
  if (used_.empty()) return {};
  Batch batch = std::move(used_.back());
  used_.pop_back();
  return batch;
}

bool Loader::Push(absl::StatusOr<Batch> batch) {
  std::unique_lock lock(mutex_);
  changed_.wait(
      lock, [this] { return stopping_ || static_cast<int64_t>(queue_.size()) < options_.queue; });
  if (stopping_) return false;
  queue_.push_back(std::move(batch));
  lock.unlock();
  changed_.notify_all();
  return true;
}

}  // namespace neap
