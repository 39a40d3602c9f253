#include "neap/core/vision/loader.h"

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
#include "neap/core/base/without_throwing.h"
#include "neap/core/vision/augment.h"
#include "neap/core/vision/image/random_view.h"
#include "neap/core/vision/permutation.h"

namespace neap {
namespace {

// Fewer elements than this, about a millisecond of work, do not pay for a thread.
constexpr int64_t kElementsPerThread = 1 << 19;
constexpr size_t kMaxThreads = 16;

int64_t WholeBatch(const LoaderOptions& options) {
  return options.whole_batch == 0 ? options.batch : options.whole_batch;
}

// Of the batch of a step, in the sequence of epochs.
int64_t FirstPosition(const LoaderOptions& options, int64_t step) {
  return step * WholeBatch(options) + options.first_image;
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

// A batch of `size` images with any values, in the memory of `used`.
absl::StatusOr<Batch> Resized(Batch used, const Dataset& dataset, int64_t size) {
  const ImageShape shape = dataset.shape();
  Batch batch = {.images = std::move(used.images), .labels = std::move(used.labels), .size = size};
  try {
    int64_t pixels = 0;
    if (__builtin_mul_overflow(size, shape.elements(), &pixels)) throw std::bad_alloc();
    batch.images.resize(static_cast<size_t>(pixels));
    batch.labels.resize(static_cast<size_t>(size * dataset.labels()));
  } catch (const std::exception&) {  // bad_alloc, length_error
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for a batch of ", size, " images of ", ToString(shape)));
  }
  return batch;
}

// `read` allocates memory for one image, and the data set may be one of the program's own.
template <typename Read>
absl::Status WithMemory(const Dataset& dataset, const Read& read) {
  return WithoutThrowing(absl::StrCat("reading an image of ", ToString(dataset.shape())), read);
}

// How many threads are worth it for a batch of `size` images.
size_t ThreadsFor(const Dataset& dataset, int64_t size, int64_t threads) {
  if (threads > 0) return static_cast<size_t>(threads);
  if (dataset.decodes()) return kMaxThreads;
  const int64_t images_per_thread =
      std::max(kElementsPerThread / dataset.shape().elements(), int64_t{1});
  return std::min(static_cast<size_t>(size / images_per_thread), kMaxThreads);
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
  EachInParallel(static_cast<size_t>(batch.size), ThreadsFor(dataset, batch.size, threads),
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

// Image i of the batch, whose first one is at `first` in the sequence of epochs.
absl::Status ReadInto(Batch& batch, const Dataset& dataset, const LoaderOptions& options,
                      int64_t first, int64_t i) {
  return ReadImage(dataset, options, first + i,
                   batch.images.data() + i * dataset.shape().elements(),
                   batch.labels.data() + i * dataset.labels());
}

}  // namespace

absl::StatusOr<Batch> BatchOfStep(const Dataset& dataset, const LoaderOptions& options,
                                  int64_t step) {
  RETURN_IF_ERROR(Check(dataset, options, step));
  ASSIGN_OR_RETURN(Batch batch, Resized({}, dataset, options.batch));
  const int64_t first = FirstPosition(options, step);
  RETURN_IF_ERROR(ReadAll(dataset, batch, options.threads,
                          [&](int64_t i) { return ReadInto(batch, dataset, options, first, i); }));
  return batch;
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

// The first `begun` images are read or being read.
struct Loader::PartlyRead {
  Batch batch;
  int64_t first = 0;  // in the sequence of epochs
  int64_t begun = 0;
  int64_t ended = 0;
  int64_t failed = std::numeric_limits<int64_t>::max();  // the first image that has an error
  absl::Status error;

  bool is_complete() const { return ended == batch.size; }
};

absl::StatusOr<std::unique_ptr<Loader>> Loader::Create(const Dataset& dataset,
                                                       LoaderOptions options) {
  RETURN_IF_ERROR(Check(dataset, options, options.first_step));
  const ImageRange endless = {.count = std::numeric_limits<int64_t>::max()};
  return Start(std::unique_ptr<Loader>(new Loader(dataset, options, endless)));
}

absl::StatusOr<std::unique_ptr<Loader>> Loader::InOrder(const Dataset& dataset, ImageRange range,
                                                        int64_t batch, int64_t threads) {
  if (range.first < 0 || range.count < 1 || range.first > dataset.size() - range.count) {
    return absl::InvalidArgumentError(
        absl::StrCat("no ", range.count, " images from ", range.first, " among ", dataset.size()));
  }
  const LoaderOptions options = {.batch = batch, .queue = 1, .shuffle = false, .threads = threads};
  RETURN_IF_ERROR(Check(dataset, options, 0));
  return Start(std::unique_ptr<Loader>(new Loader(dataset, options, range)));
}

absl::StatusOr<std::unique_ptr<Loader>> Loader::Start(std::unique_ptr<Loader> loader) {
  const LoaderOptions& options = loader->options_;
  const size_t threads = std::clamp(ThreadsFor(loader->dataset_, options.batch, options.threads),
                                    size_t{1}, AvailableCores());
  try {
    while (loader->threads_.size() < threads)
      loader->threads_.emplace_back([&loader = *loader] { loader.Run(); });
  } catch (const std::system_error& error) {  // with one it works, too
    if (loader->threads_.empty()) {
      return absl::ResourceExhaustedError(
          absl::StrCat("cannot start a reading thread: ", error.what()));
    }
  }
  return loader;
}

Loader::Loader(const Dataset& dataset, LoaderOptions options, ImageRange positions)
    : dataset_(dataset), options_(options), positions_(positions), next_step_(options.first_step) {}

Loader::~Loader() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

absl::StatusOr<Batch> Loader::Next(Batch used) {
  std::unique_lock lock(mutex_);
  if (used.size > 0) used_.push_back(std::move(used));
  if (batches_.empty() && !begins_ && ImagesOfNextBatch() == 0)
    return absl::OutOfRangeError("loader: all images have been read");
  changed_.wait(lock, [this] { return !batches_.empty() && batches_.front()->is_complete(); });
  if (!batches_.front()->error.ok()) return batches_.front()->error;
  Batch batch = std::move(batches_.front()->batch);
  batches_.pop_front();
  lock.unlock();
  changed_.notify_all();
  return batch;
}

void Loader::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || failed_ || HasImage() || MayBegin(); });
    if (stopping_ || failed_) return;
    if (HasImage()) {
      ReadOne(lock);
    } else {
      BeginBatch(lock);
    }
  }
}

bool Loader::HasImage() const {
  return !batches_.empty() && batches_.back()->begun < batches_.back()->batch.size;
}

bool Loader::MayBegin() const {
  return !begins_ && static_cast<int64_t>(batches_.size()) <= options_.queue &&
         ImagesOfNextBatch() > 0;
}

int64_t Loader::ImagesOfNextBatch() const {
  const int64_t earlier = next_step_ * WholeBatch(options_);
  return std::clamp(positions_.count - earlier, int64_t{0}, options_.batch);
}

void Loader::BeginBatch(std::unique_lock<std::mutex>& lock) {
  auto begun = std::make_unique<PartlyRead>();
  begun->first = positions_.first + FirstPosition(options_, next_step_);
  const int64_t size = ImagesOfNextBatch();
  ++next_step_;
  Batch used;
  if (!used_.empty()) {
    used = std::move(used_.back());
    used_.pop_back();
  }
  begins_ = true;
  lock.unlock();  // new memory takes long
  absl::StatusOr<Batch> batch = Resized(std::move(used), dataset_, size);
  lock.lock();
  begins_ = false;
  if (batch.ok()) {
    begun->batch = *std::move(batch);
  } else {
    begun->error = std::move(batch).status();
    failed_ = true;
  }
  batches_.push_back(std::move(begun));
  changed_.notify_all();
}

void Loader::ReadOne(std::unique_lock<std::mutex>& lock) {
  PartlyRead& reading = *batches_.back();  // stays where it is, since it is not complete
  const int64_t i = reading.begun++;
  lock.unlock();
  absl::Status status = WithMemory(
      dataset_, [&] { return ReadInto(reading.batch, dataset_, options_, reading.first, i); });
  lock.lock();
  ++reading.ended;
  if (!status.ok()) {
    failed_ = true;
    reading.ended += reading.batch.size - reading.begun;  // the others are not read
    reading.begun = reading.batch.size;
    if (i < reading.failed) reading.error = std::move(status);
    reading.failed = std::min(reading.failed, i);
  }
  if (failed_ || reading.is_complete()) changed_.notify_all();
}

}  // namespace neap
