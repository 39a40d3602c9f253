#include "neap/core/run/parallel_session.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/without_throwing.h"
#include "neap/core/run/ranks.h"

namespace neap {
namespace {

// The outputs of a rank's images, behind those of the ranks before it.
void AppendOutputs(const StepResult& of_rank, StepResult& all) {
  for (size_t i = 0; i < of_rank.outputs.size(); ++i) {
    const NamedTensor& own = of_rank.outputs[i];
    if (i == all.outputs.size()) {
      all.outputs.push_back(own);
      continue;
    }
    NamedTensor& output = all.outputs[i];
    output.shape = WithFirstExtent(output.shape, output.shape[0] + own.shape[0]);
    output.values.insert(output.values.end(), own.values.begin(), own.values.end());
  }
}

// A thread that runs one call at a time.
class Worker {
 public:
  Worker() : thread_([this] { Run(); }) {}
  ~Worker() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void Start(std::function<void()> call) {
    {
      const std::lock_guard lock(mutex_);
      call_ = std::move(call);
    }
    changed_.notify_all();
  }
  void Await() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return call_ == nullptr; });
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return ends_ || call_ != nullptr; });
      if (call_ == nullptr) return;
      lock.unlock();
      call_();
      lock.lock();
      call_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> call_;
  bool ends_ = false;
  std::thread thread_;  // last, because it starts at once and uses the other members
};

absl::Status CheckRanks(const std::vector<ParallelSession::Rank>& ranks) {
  if (ranks.empty()) return absl::InvalidArgumentError("a parallel session needs ranks");
  for (size_t i = 0; i < ranks.size(); ++i) {
    const ParallelSession::Rank& rank = ranks[i];
    if (rank.images < 1 || rank.device == nullptr || rank.planner == nullptr ||
        rank.communicator == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("rank ", i, " needs images, a device, a planner and a communicator"));
    }
    if (rank.communicator->rank() == static_cast<int>(i) &&
        rank.communicator->ranks() == static_cast<int>(ranks.size()))
      continue;
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", i, " of ", ranks.size(), " has the communicator of rank ",
                     rank.communicator->rank(), " of ", rank.communicator->ranks()));
  }
  return absl::OkStatus();
}

}  // namespace

class ParallelSession::Impl {
 public:
  absl::Status Create(const NetFor& net_for, const std::vector<Rank>& ranks,
                      const TrainingOptions& training) {
    RETURN_IF_ERROR(CheckRanks(ranks));
    try {
      for (size_t i = 0; i < ranks.size(); ++i) workers_.push_back(std::make_unique<Worker>());
    } catch (const std::system_error& error) {
      return absl::ResourceExhaustedError(
          absl::StrCat("cannot start the ranks' threads: ", error.what()));
    }
    for (const Rank& rank : ranks) images_.push_back(rank.images);
    sessions_.resize(ranks.size());
    return OnAll([&](size_t i) -> absl::Status {
      const auto make_net = [&]() -> absl::StatusOr<Graph> { return net_for(ranks[i].images); };
      absl::StatusOr<Graph> net = WithoutThrowing("the network's function", make_net);
      RETURN_IF_ERROR(Agree(net.status(), {}, ranks[i].communicator));
      TrainingOptions options = training;
      options.communicator = ranks[i].communicator;
      ASSIGN_OR_RETURN(sessions_[i],
                       Session::Create(*net, *ranks[i].device, ranks[i].planner, options));
      return absl::OkStatus();
    });
  }

  size_t ranks() const { return images_.size(); }
  int64_t batch() const { return std::accumulate(images_.begin(), images_.end(), int64_t{0}); }
  Session& rank(size_t rank) { return *sessions_[rank]; }

  absl::Status SetLearningRate(const LearningRate& rate) {
    return OnAll([&](size_t i) { return sessions_[i]->SetLearningRate(rate); });
  }

  absl::Status Begin(const Batch& whole) {
    ASSIGN_OR_RETURN(const int64_t images, SizeOf(whole));
    if (images != batch()) {
      return absl::InvalidArgumentError(
          absl::StrCat("a batch of ", images, " images, but the ranks train ", batch()));
    }
    std::vector<Batch> parts;
    int64_t first = 0;
    for (const int64_t count : images_) {
      parts.push_back(PartOf(whole, first, count));
      first += count;
    }
    return OnAll([&](size_t i) { return sessions_[i]->Begin(parts[i]); });
  }

  // Losses are the same on all ranks; each has the outputs of its own images.
  absl::StatusOr<StepResult> Finish() {
    std::vector<StepResult> results(ranks());
    RETURN_IF_ERROR(OnAll([&](size_t i) -> absl::Status {
      ASSIGN_OR_RETURN(results[i], sessions_[i]->Finish());
      return absl::OkStatus();
    }));
    for (size_t i = 1; i < ranks(); ++i) AppendOutputs(results[i], results[0]);
    return results[0];
  }

  absl::StatusOr<StepResult> Evaluate(const Batch& whole) {
    ASSIGN_OR_RETURN(const int64_t images, SizeOf(whole));
    if (images > batch()) {
      return absl::InvalidArgumentError(
          absl::StrCat("a batch of ", images, " images, but the ranks have room for ", batch()));
    }
    std::vector<StepResult> results(ranks());
    std::vector<int64_t> counts, firsts;
    int64_t first = 0;
    for (const int64_t most : images_) {
      firsts.push_back(first);
      counts.push_back(std::min(most, images - first));
      first += counts.back();
    }
    RETURN_IF_ERROR(OnAll([&](size_t i) -> absl::Status {
      RETURN_IF_ERROR(sessions_[i]->Gather());
      if (counts[i] == 0) return absl::OkStatus();
      ASSIGN_OR_RETURN(results[i], sessions_[i]->Evaluate(PartOf(whole, firsts[i], counts[i])));
      return absl::OkStatus();
    }));
    StepResult sum = {.losses = results[0].losses};
    for (size_t k = 0; k < sum.losses.size(); ++k) {
      LossResult& of_all = sum.losses[k];
      double loss = 0;
      of_all.correct = of_all.labels = of_all.counted = 0;
      for (const StepResult& result : results) {
        if (result.losses.empty()) continue;  // of a rank without images
        const LossResult& own = result.losses[k];
        of_all.correct += own.correct;
        of_all.labels += own.labels;
        of_all.counted += own.counted;
        loss += static_cast<double>(own.loss) * static_cast<double>(own.counted);
      }
      of_all.loss =
          static_cast<float>(loss / static_cast<double>(std::max<int64_t>(of_all.counted, 1)));
      sum.loss += of_all.weight * of_all.loss;
    }
    if (!sum.losses.empty()) {
      sum.correct = sum.losses[0].correct;
      sum.labels = sum.losses[0].labels;
      sum.counted = sum.losses[0].counted;
    }
    for (const StepResult& result : results) AppendOutputs(result, sum);
    return sum;
  }

  absl::Status Save(const std::string& path) {
    return OnAll([&](size_t i) {
      const bool takes_part = i == 0 || sessions_[i]->is_sharded();
      return takes_part ? sessions_[i]->Save(path) : absl::OkStatus();
    });
  }
  absl::StatusOr<std::vector<float>> Values(std::string_view tensor) {
    std::vector<std::vector<float>> values(ranks());
    RETURN_IF_ERROR(OnAll([&](size_t i) -> absl::Status {
      ASSIGN_OR_RETURN(values[i], sessions_[i]->Values(tensor));
      return absl::OkStatus();
    }));
    return std::move(values[0]);
  }
  absl::Status Load(const std::string& path) {
    return OnAll([&](size_t i) { return sessions_[i]->Load(path); });
  }

 private:
  static absl::StatusOr<int64_t> SizeOf(const Batch& batch) {
    if (batch.on_device) {
      return absl::InvalidArgumentError(
          "images in the memory of a device are for the session of one device");
    }
    const int64_t values = InputsIn(batch);
    if (batch.size > 0 && values % batch.size == 0 && std::ssize(batch.labels) % batch.size == 0 &&
        std::ssize(batch.targets) % batch.size == 0)
      return batch.size;
    return absl::InvalidArgumentError(
        absl::StrCat("a batch of ", batch.size, " images with ", values, " values and ",
                     batch.labels.size(), " labels and ", batch.targets.size(), " targets"));
  }

  // Calls call(rank) on the threads of all ranks at once. Returns the first error, with its rank,
  // that does not follow from another rank's: UNAVAILABLE only if there is no other.
  template <typename Call>
  absl::Status OnAll(const Call& call) {
    std::vector<absl::Status> ended(ranks());
    for (size_t i = 0; i < ranks(); ++i) workers_[i]->Start([&, i] { ended[i] = call(i); });
    for (const std::unique_ptr<Worker>& worker : workers_) worker->Await();
    absl::Status error;
    for (const bool is_cause : {true, false}) {
      for (size_t i = 0; i < ranks(); ++i) {
        if (ended[i].ok() || IsOfAnotherRank(ended[i]) || absl::IsUnavailable(ended[i]) == is_cause)
          continue;
        error.Update(
            absl::Status(ended[i].code(), absl::StrCat("rank ", i, ": ", ended[i].message())));
      }
    }
    return error;
  }

  std::vector<int64_t> images_;  // by rank
  std::vector<std::optional<Session>> sessions_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

ParallelSession::ParallelSession(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ParallelSession::ParallelSession(ParallelSession&&) noexcept = default;
ParallelSession& ParallelSession::operator=(ParallelSession&&) noexcept = default;
ParallelSession::~ParallelSession() = default;

absl::StatusOr<ParallelSession> ParallelSession::Create(const NetFor& net_for,
                                                        const std::vector<Rank>& ranks,
                                                        const TrainingOptions& training) {
  auto impl = std::make_unique<Impl>();
  RETURN_IF_ERROR(impl->Create(net_for, ranks, training));
  return ParallelSession(std::move(impl));
}

int ParallelSession::ranks() const { return static_cast<int>(impl_->ranks()); }
int64_t ParallelSession::batch() const { return impl_->batch(); }
Session& ParallelSession::rank(int rank) { return impl_->rank(static_cast<size_t>(rank)); }
LearningRate ParallelSession::learning_rate() const { return impl_->rank(0).learning_rate(); }
absl::Status ParallelSession::SetLearningRate(const LearningRate& rate) {
  return impl_->SetLearningRate(rate);
}
absl::StatusOr<float> ParallelSession::TrainStep(const Batch& batch) {
  RETURN_IF_ERROR(impl_->Begin(batch));
  ASSIGN_OR_RETURN(const StepResult result, impl_->Finish());
  return result.loss;
}
absl::Status ParallelSession::Begin(const Batch& batch) { return impl_->Begin(batch); }
absl::StatusOr<StepResult> ParallelSession::Finish() { return impl_->Finish(); }
absl::StatusOr<StepResult> ParallelSession::Evaluate(const Batch& batch) {
  return impl_->Evaluate(batch);
}
absl::Status ParallelSession::Save(const std::string& path) { return impl_->Save(path); }
absl::StatusOr<std::vector<float>> ParallelSession::Values(std::string_view tensor) {
  return impl_->Values(tensor);
}
absl::Status ParallelSession::Load(const std::string& path) { return impl_->Load(path); }

}  // namespace neap
