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
#include "neap/core/vision/loader_steps.h"
#include "neap/core/vision/permutation.h"

namespace neap {
namespace {

// Fewer elements than this, about a millisecond of work, do not pay for a thread.
constexpr int64_t kElementsPerThread = 1 << 19;
constexpr size_t kMaxThreads = 16;

// A batch of `size` images with any values, in the memory of `used`. Loaders of several sizes state
// those of the images.
absl::StatusOr<Batch> Resized(Batch used, const Dataset& dataset, int64_t size,
                              bool states_extents = false) {
  const ImageShape shape = dataset.shape();
  Batch batch = {.images = std::move(used.images),
                 .labels = std::move(used.labels),
                 .size = size,
                 .tokens = std::move(used.tokens)};
  try {
    int64_t values = 0;  // pixels, or tokens
    if (__builtin_mul_overflow(size, shape.elements(), &values)) throw std::bad_alloc();
    const bool has_tokens = dataset.tokens() > 0;
    batch.images.resize(has_tokens ? 0 : static_cast<size_t>(values));
    batch.tokens.resize(has_tokens ? static_cast<size_t>(values) : 0);
    batch.labels.resize(static_cast<size_t>(size * dataset.labels()));
  } catch (const std::exception&) {  // bad_alloc, length_error
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for a batch of ", size, " images of ", ToString(shape)));
  }
  if (states_extents) {
    batch.height = shape.h;
    batch.width = shape.w;
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

// Example `index` of the dataset, as number i of the batch, without augmentation or, with a view, a
// random crop.
absl::Status ReadExample(Batch& batch, const Dataset& dataset, int64_t index,
                         const RandomView* view, int64_t i) {
  int32_t* const labels = batch.labels.data() + i * dataset.labels();
  if (dataset.tokens() > 0)
    return dataset.ReadTokens(index, view, batch.tokens.data() + i * dataset.tokens(), labels);
  float* const pixels = batch.images.data() + i * dataset.shape().elements();
  return view == nullptr ? dataset.Read(index, pixels, labels)
                         : dataset.ReadView(index, *view, pixels, labels);
}

// Image i of the batch, whose first one is at `first` in the sequence of epochs.
absl::Status ReadInto(Batch& batch, const Dataset& dataset, const LoaderOptions& options,
                      int64_t first, int64_t i) {
  const int64_t position = first + i;
  int64_t index = position % dataset.size();
  if (options.shuffle) {
    const uint64_t epoch = static_cast<uint64_t>(position / dataset.size());
    index = Permutation(dataset.size(), options.seed, epoch)(index);
  }
  const RandomView view = {
      .seed = options.seed, .position = position, .color_jitter = options.color_jitter};
  RETURN_IF_ERROR(ReadExample(batch, dataset, index, options.crop ? &view : nullptr, i));
  if (options.shift == 0 && !options.flip) return absl::OkStatus();
  const ImageShape shape = dataset.shape();
  float* const pixels = batch.images.data() + i * shape.elements();
  const std::vector<float> plain(pixels, pixels + shape.elements());
  Augment(DrawAugmentation(options.seed, position, options.shift, options.flip), shape,
          plain.data(), pixels);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Batch> BatchOfStep(const Dataset& dataset, const LoaderOptions& options,
                                  int64_t step) {
  return BatchOfStep(std::vector<LoaderSize>{{&dataset}}, options, step);
}

absl::StatusOr<Batch> BatchOfStep(const std::vector<LoaderSize>& sizes,
                                  const LoaderOptions& options, int64_t step) {
  RETURN_IF_ERROR(CheckLoader(sizes, options, step));
  const StepImages of = ImagesOf(sizes, options, step);
  ASSIGN_OR_RETURN(Batch batch, Resized({}, *of.dataset, of.count, sizes.size() > 1));
  RETURN_IF_ERROR(ReadAll(*of.dataset, batch, options.threads, [&](int64_t i) {
    return ReadInto(batch, *of.dataset, options, of.first, i);
  }));
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
    return ReadExample(batch, dataset, first + i, /*view=*/nullptr, i);
  }));
  return batch;
}

// The first `begun` images are read or being read.
struct Loader::PartlyRead {
  const Dataset* dataset = nullptr;
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
  return Create(std::vector<LoaderSize>{{&dataset}}, options);
}

absl::StatusOr<std::unique_ptr<Loader>> Loader::Create(std::vector<LoaderSize> sizes,
                                                       LoaderOptions options) {
  RETURN_IF_ERROR(CheckLoader(sizes, options, options.first_step));
  const ImageRange endless = {.count = std::numeric_limits<int64_t>::max()};
  return Start(std::unique_ptr<Loader>(new Loader(std::move(sizes), options, endless)));
}

absl::StatusOr<std::unique_ptr<Loader>> Loader::InOrder(const Dataset& dataset, ImageRange range,
                                                        int64_t batch, int64_t threads) {
  if (range.first < 0 || range.count < 1 || range.first > dataset.size() - range.count) {
    return absl::InvalidArgumentError(
        absl::StrCat("no ", range.count, " images from ", range.first, " among ", dataset.size()));
  }
  const LoaderOptions options = {.batch = batch, .queue = 1, .shuffle = false, .threads = threads};
  std::vector<LoaderSize> sizes = {{&dataset}};
  RETURN_IF_ERROR(CheckLoader(sizes, options, 0));
  return Start(std::unique_ptr<Loader>(new Loader(std::move(sizes), options, range)));
}

absl::StatusOr<std::unique_ptr<Loader>> Loader::Start(std::unique_ptr<Loader> loader) {
  const LoaderOptions& options = loader->options_;
  size_t threads = 1;
  for (const LoaderSize& size : loader->sizes_) {
    threads = std::max(
        threads,
        ThreadsFor(*size.dataset, size.batch == 0 ? options.batch : size.batch, options.threads));
  }
  threads = std::min(threads, AvailableCores());
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

Loader::Loader(std::vector<LoaderSize> sizes, LoaderOptions options, ImageRange positions)
    : sizes_(std::move(sizes)),
      options_(options),
      positions_(positions),
      next_step_(options.first_step) {}

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
  if (batches_.empty() && !begins_ && NextImages().count == 0)
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
         NextImages().count > 0;
}

StepImages Loader::NextImages() const {
  StepImages next = ImagesOf(sizes_, options_, next_step_);
  const int64_t left = positions_.count - (next.first - options_.first_image);
  next.count = std::clamp(left, int64_t{0}, next.count);
  return next;
}

void Loader::BeginBatch(std::unique_lock<std::mutex>& lock) {
  auto begun = std::make_unique<PartlyRead>();
  const StepImages next = NextImages();
  begun->dataset = next.dataset;
  begun->first = positions_.first + next.first;
  ++next_step_;
  Batch used;
  if (!used_.empty()) {
    used = std::move(used_.back());
    used_.pop_back();
  }
  begins_ = true;
  lock.unlock();  // new memory takes long
  absl::StatusOr<Batch> batch =
      Resized(std::move(used), *next.dataset, next.count, sizes_.size() > 1);
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
  absl::Status status = WithMemory(*reading.dataset, [&] {
    return ReadInto(reading.batch, *reading.dataset, options_, reading.first, i);
  });
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
