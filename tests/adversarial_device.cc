#include "tests/adversarial_device.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/layout.h"
#include "neap/core/base/status_macros.h"

namespace neap {
namespace {

constexpr int64_t kGuardBytes = 4096;
constexpr std::byte kGuard{0xA5};
constexpr int kNan = 0xFF;  // in every byte: NaN as fp32, fp16 and bf16, -1 as an integer

struct QueuedEvent {
  bool has_time = false;  // made by RecordTime()
  bool happened = false;
  std::chrono::steady_clock::time_point time = {};
};

// A range of memory.
struct Span {
  std::byte* begin = nullptr;
  int64_t bytes = 0;

  std::byte* end() const { return begin + bytes; }
  bool Overlaps(const Span& other) const { return begin < other.end() && other.begin < end(); }
};

bool IsGuard(const std::byte* begin) {
  return std::all_of(begin, begin + kGuardBytes, [](std::byte b) { return b == kGuard; });
}

}  // namespace

// The queues, and the buffers that their work may touch.
class AdversarialDevice::Streams {
 public:
  explicit Streams(uint32_t seed)
      : changes_(seed >= kFixedOrders),
        ends_late_(!changes_ && seed / kPermutations % 2 == 1),
        random_(seed) {
    for (uint32_t i = 0; i < seed % kPermutations; ++i)
      std::next_permutation(preference_.begin(), preference_.begin() + 3);
    if (seed / kPermutations >= 2)
      std::rotate(preference_.begin(), preference_.end() - 1, preference_.end());
  }

  // Enqueues a kernel or a copy: `results` are NaN from its beginning to its end, when `work` runs.
  void Enqueue(Stream stream, std::vector<Span> results, std::function<absl::Status()> work) {
    Push(stream, {.begins = std::move(results)});
    Push(stream, {.number = enqueued_++, .work = std::move(work)});
  }
  std::shared_ptr<QueuedEvent> Record(Stream stream, bool has_time) {
    auto event = std::make_shared<QueuedEvent>();
    event->has_time = has_time;
    Push(stream, {.records = event});
    return event;
  }
  void Wait(Stream stream, std::shared_ptr<QueuedEvent> event) {
    Push(stream, {.awaits = std::move(event)});
  }
  void RunUntil(const QueuedEvent& event) {
    while (!event.happened) {
      if (RunOne()) continue;
      status_.Update(absl::InternalError("adversarial device: an event that never happens"));
      return;
    }
  }
  void RunAll() {
    while (RunOne()) continue;
    const bool is_idle = std::all_of(queues_.begin(), queues_.end(),
                                     [](const std::deque<Task>& queue) { return queue.empty(); });
    if (!is_idle) status_.Update(absl::InternalError("adversarial device: streams in deadlock"));
  }

  void Add(std::byte* begin, int64_t bytes) { buffers_[begin] = bytes; }
  void Remove(std::byte* begin) {
    CheckGuards(begin, buffers_.at(begin));
    buffers_.erase(begin);
  }
  // `host_allowed`: whether the memory may be host memory that no buffer owns.
  absl::Status CheckPlace(std::string_view what, const Span& span, bool host_allowed) {
    const auto after = buffers_.upper_bound(span.begin);
    const auto before = after == buffers_.begin() ? buffers_.end() : std::prev(after);
    if (before != buffers_.end() && span.begin < before->first + before->second) {
      if (span.end() <= before->first + before->second) return absl::OkStatus();
    } else {
      const bool is_apart = (before == buffers_.end() ||
                             span.begin >= before->first + before->second + kGuardBytes) &&
                            (after == buffers_.end() || span.end() <= after->first - kGuardBytes);
      if (is_apart && host_allowed) return absl::OkStatus();
    }
    Note(absl::StrCat(std::string(what), " of ", span.bytes, " bytes is not within one buffer"));
    return absl::InternalError(fault_);
  }
  void CheckAllGuards() {
    for (const auto& [begin, bytes] : buffers_) CheckGuards(begin, bytes);
  }

  const absl::Status& status() const { return status_; }
  const std::string& fault() const { return fault_; }
  int64_t overtakings() const { return overtakings_; }

 private:
  static constexpr uint32_t kPermutations = 6;  // of compute, d2h and h2d

  struct Task {
    std::vector<Span> begins = {};       // results of the work that ends with the next task
    std::optional<int64_t> number = {};  // of the work that ends, in the order of enqueueing
    std::function<absl::Status()> work = nullptr;
    std::shared_ptr<QueuedEvent> records = nullptr;
    std::shared_ptr<QueuedEvent> awaits = nullptr;
  };

  void Push(Stream stream, Task task) {
    queues_[static_cast<size_t>(stream)].push_back(std::move(task));
  }

  bool IsRunnable(size_t stream) const {
    const std::deque<Task>& queue = queues_[stream];
    return !queue.empty() && (queue.front().awaits == nullptr || queue.front().awaits->happened);
  }

  std::optional<size_t> Choose() {
    constexpr uint32_t kStay = 4;  // so that a stream gets ahead by several tasks
    if (changes_ && random_() % kStay == 0) {
      for (size_t i = 0; i + 1 < preference_.size(); ++i)
        std::swap(preference_[i], preference_[i + random_() % (preference_.size() - i)]);
    }
    std::optional<size_t> ending;
    for (const size_t stream : preference_) {
      if (!IsRunnable(stream)) continue;
      if (!ends_late_ || !queues_[stream].front().number.has_value()) return stream;
      if (!ending.has_value()) ending = stream;
    }
    return ending;
  }

  // Returns false if no stream can continue.
  bool RunOne() {
    const std::optional<size_t> stream = Choose();
    if (!stream.has_value()) return false;
    const Task task = std::move(queues_[*stream].front());
    queues_[*stream].pop_front();
    for (const Span& span : task.begins)
      std::memset(span.begin, kNan, static_cast<size_t>(span.bytes));
    if (task.work != nullptr) {
      status_.Update(task.work());
      if (HasEarlier(*task.number)) ++overtakings_;
    }
    if (task.records != nullptr) {
      task.records->happened = true;
      task.records->time = std::chrono::steady_clock::now();
    }
    return true;
  }

  // Numbers increase within a queue.
  bool HasEarlier(int64_t number) const {
    return std::any_of(queues_.begin(), queues_.end(), [number](const std::deque<Task>& queue) {
      const auto next = std::find_if(queue.begin(), queue.end(),
                                     [](const Task& task) { return task.number.has_value(); });
      return next != queue.end() && *next->number < number;
    });
  }

  void CheckGuards(const std::byte* begin, int64_t bytes) {
    if (!IsGuard(begin - kGuardBytes)) Note("a guard before a buffer was written to");
    if (!IsGuard(begin + bytes)) Note("a guard after a buffer was written to");
  }
  void Note(const std::string& fault) {
    if (fault_.empty()) fault_ = "adversarial device: " + fault;
  }

  std::array<std::deque<Task>, kStreamCount> queues_;
  std::array<size_t, kStreamCount> preference_ = {0, 1, 2, 3, 4};
  bool changes_;
  bool ends_late_;
  std::mt19937 random_;
  int64_t enqueued_ = 0;
  int64_t overtakings_ = 0;
  absl::Status status_;
  std::map<std::byte*, int64_t> buffers_;
  std::string fault_;
};

// Enqueues the work that the CPU's kernel would do at once.
class AdversarialDevice::QueuedKernel final : public Kernel {
 public:
  QueuedKernel(std::shared_ptr<Kernel> kernel, StepSignature signature,
               std::shared_ptr<Streams> streams)
      : kernel_(std::move(kernel)),
        signature_(std::move(signature)),
        streams_(std::move(streams)) {}

  absl::Status Run(const KernelArgs& args) override {
    RETURN_IF_ERROR(streams_->status());
    std::vector<Span> results;  // they hold no value yet
    for (size_t i = 0; i < args.operands.size(); ++i) {
      RETURN_IF_ERROR(streams_->CheckPlace("an operand", Operand(args, i), false));
      if (IsResultAlone(args, i)) results.push_back(Operand(args, i));
    }
    const Span workspace = {static_cast<std::byte*>(args.workspace), args.workspace_bytes};
    if (workspace.bytes > 0) {
      RETURN_IF_ERROR(streams_->CheckPlace("a workspace", workspace, false));
      results.push_back(workspace);
    }
    const std::vector<void*> operands(args.operands.begin(), args.operands.end());
    streams_->Enqueue(Stream::kCompute, results, [kernel = kernel_, operands, workspace] {
      return kernel->Run(
          {.operands = operands, .workspace = workspace.begin, .workspace_bytes = workspace.bytes});
    });
    return absl::OkStatus();
  }

 private:
  Span Operand(const KernelArgs& args, size_t i) const {
    return {static_cast<std::byte*>(args.operands[i]), signature_.operands[i].tensor.size_bytes()};
  }
  bool IsResultAlone(const KernelArgs& args, size_t i) const {
    if (signature_.operands[i].access != Access::kWrite) return false;
    for (size_t other = 0; other < args.operands.size(); ++other) {
      if (other != i && Operand(args, other).Overlaps(Operand(args, i))) return false;
    }
    return true;
  }

  std::shared_ptr<Kernel> kernel_;
  StepSignature signature_;
  std::shared_ptr<Streams> streams_;
};

class AdversarialDevice::QueueingBackend final : public Backend {
 public:
  QueueingBackend(Backend& backend, std::shared_ptr<Streams> streams)
      : backend_(backend), streams_(std::move(streams)) {}

  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& signature) override {
    return backend_.Engines(signature);
  }
  std::string Versions() const override { return backend_.Versions(); }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(const StepSignature& signature,
                                                     std::string_view engine) override {
    ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, backend_.MakeKernel(signature, engine));
    return std::make_unique<QueuedKernel>(std::move(kernel), signature, streams_);
  }

 private:
  Backend& backend_;
  std::shared_ptr<Streams> streams_;
};

AdversarialDevice::AdversarialDevice(Device& cpu, uint32_t seed)
    : ForwardingDevice(cpu),
      streams_(std::make_shared<Streams>(seed)),
      backend_(std::make_unique<QueueingBackend>(cpu.backend(), streams_)) {}

AdversarialDevice::~AdversarialDevice() { streams_->RunAll(); }

absl::StatusOr<Buffer> AdversarialDevice::Allocate(MemoryKind kind, int64_t size_bytes) {
  RETURN_IF_ERROR(streams_->status());
  if (size_bytes <= 0 || size_bytes > description().memory_bytes)
    return ForwardingDevice::Allocate(kind, size_bytes);
  ASSIGN_OR_RETURN(Buffer whole, ForwardingDevice::Allocate(kind, size_bytes + 2 * kGuardBytes));
  std::fill_n(whole.data(), whole.size_bytes(), kGuard);
  std::byte* const begin = whole.data() + kGuardBytes;
  std::memset(begin, kNan, static_cast<size_t>(size_bytes));
  streams_->Add(begin, size_bytes);
  auto owner = std::make_shared<Buffer>(std::move(whole));
  return Buffer(begin, size_bytes, [owner, begin, streams = streams_](void*) {
    streams->RunAll();
    streams->Remove(begin);
  });
}

// The values lie in the caller's memory, which has no guards.
absl::Status AdversarialDevice::CopyFromNchw(Stream stream, const float* nchw,
                                             const TensorSpec& spec, std::byte* stored) {
  RETURN_IF_ERROR(streams_->status());
  const Span place = {stored, spec.size_bytes()};
  RETURN_IF_ERROR(streams_->CheckPlace("a copy's destination", place, true));
  streams_->Enqueue(stream, {place}, [=] {
    FromNchw({nchw, static_cast<size_t>(spec.elements())}, spec, stored);
    return absl::OkStatus();
  });
  return absl::OkStatus();
}

absl::Status AdversarialDevice::Copy(Stream stream, void* destination, const void* source,
                                     int64_t size_bytes) {
  RETURN_IF_ERROR(streams_->status());
  if (size_bytes == 0) return absl::OkStatus();
  const auto place = [&](const void* begin) {
    return Span{static_cast<std::byte*>(const_cast<void*>(begin)), size_bytes};
  };
  RETURN_IF_ERROR(streams_->CheckPlace("a copy's destination", place(destination), true));
  RETURN_IF_ERROR(streams_->CheckPlace("a copy's source", place(source), true));
  std::vector<Span> results;
  if (!place(destination).Overlaps(place(source))) results.push_back(place(destination));
  streams_->Enqueue(stream, std::move(results), [=] {
    std::memmove(destination, source, static_cast<size_t>(size_bytes));
    return absl::OkStatus();
  });
  return absl::OkStatus();
}

absl::StatusOr<Event> AdversarialDevice::Record(Stream stream) {
  RETURN_IF_ERROR(streams_->status());
  return Event(streams_->Record(stream, /*has_time=*/false));
}

absl::StatusOr<Event> AdversarialDevice::RecordTime(Stream stream) {
  RETURN_IF_ERROR(streams_->status());
  return Event(streams_->Record(stream, /*has_time=*/true));
}

absl::StatusOr<double> AdversarialDevice::ElapsedUs(const Event& earlier, const Event& later) {
  const auto begin = std::static_pointer_cast<QueuedEvent>(earlier);
  const auto end = std::static_pointer_cast<QueuedEvent>(later);
  if (begin == nullptr || !begin->has_time || end == nullptr || !end->has_time)
    return absl::InvalidArgumentError("adversarial device: an event without time");
  if (!begin->happened || !end->happened)
    return absl::FailedPreconditionError("adversarial device: an event that is yet to happen");
  return std::chrono::duration<double, std::micro>(end->time - begin->time).count();
}

absl::Status AdversarialDevice::Wait(Stream stream, const Event& event) {
  RETURN_IF_ERROR(streams_->status());
  if (event == nullptr) return absl::InternalError("adversarial device: Wait(no event)");
  streams_->Wait(stream, std::static_pointer_cast<QueuedEvent>(event));
  return absl::OkStatus();
}

absl::Status AdversarialDevice::Await(const Event& event) {
  if (event == nullptr) return absl::InternalError("adversarial device: Await(no event)");
  streams_->RunUntil(*std::static_pointer_cast<QueuedEvent>(event));
  return streams_->status();
}

absl::Status AdversarialDevice::Synchronize() {
  streams_->RunAll();
  return streams_->status();
}

std::string AdversarialDevice::Fault() const {
  streams_->CheckAllGuards();
  return streams_->fault();
}

int64_t AdversarialDevice::overtakings() const { return streams_->overtakings(); }

}  // namespace neap
