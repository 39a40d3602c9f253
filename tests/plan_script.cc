#include "tests/plan_script.h"

#include <charconv>
#include <map>
#include <sstream>
#include <stdexcept>

namespace neap {
namespace {

class Script {
 public:
  Plan Read(std::string_view text) {
    plan_ = {.net = "script", .batch = 1, .policy = "by hand", .device = "none"};
    std::istringstream lines{std::string(text)};
    for (std::string line; std::getline(lines, line);) {
      words_ = std::istringstream(line.substr(0, line.find('#')));
      std::string word;
      if (!(words_ >> word)) continue;
      if (word.back() == ':') {
        labels_[word.substr(0, word.size() - 1)] = static_cast<int64_t>(plan_.actions.size());
        word = Word();
      }
      ReadLine(word);
    }
    return plan_;
  }

 private:
  [[noreturn]] static void Fail(const std::string& what) {
    throw std::runtime_error("script: " + what);
  }

  std::string Word() {
    std::string word;
    if (!(words_ >> word)) Fail("a line ends too early");
    return word;
  }
  static int64_t ToNumber(const std::string& word) {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc() || end != word.data() + word.size())
      Fail("'" + word + "' is not a number");
    return number;
  }
  int64_t Number() { return ToNumber(Word()); }
  int64_t Blocks() { return Number() * kBlockBytes; }
  TensorId ToTensor(const std::string& name) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) Fail("unknown tensor '" + name + "'");
    return found->second;
  }
  TensorId Tensor() { return ToTensor(Word()); }
  StepId Step(const std::string& name) const {
    const auto found = steps_.find(name);
    if (found == steps_.end()) Fail("unknown step '" + name + "'");
    return found->second;
  }

  void ReadLine(const std::string& word) {
    if (word == "batch") return ReadHeader(word);
    if (word == "tensor") return ReadTensor();
    if (word == "step") return ReadStep();
    plan_.actions.push_back(ReadAction(word));
  }

  void ReadHeader(std::string key) {
    do {
      if (key == "batch")
        plan_.batch = Number();
      else if (key == "budget")
        plan_.budget_bytes = Blocks();
      else if (key == "arena")
        plan_.arena_bytes = Blocks();
      else if (key == "peak")
        plan_.peak_bytes = Blocks();
      else if (key == "activations")
        plan_.peak_activation_bytes = Number();
      else if (key == "host")
        plan_.host_peak_bytes = Blocks();
      else if (key == "peer")
        plan_.peer_peak_bytes = Blocks();
      else if (key == "host_pool")
        plan_.host_pool_bytes = Blocks();
      else if (key == "peer_pool")
        plan_.peer_pool_bytes = Blocks();
      else if (key == "resident")
        plan_.host_resident_bytes = Blocks();
      else if (key == "incoming")
        ReadIncoming();
      else
        Fail("unknown total '" + key + "'");
    } while (words_ >> key);
  }

  void ReadIncoming() {
    const int64_t offset = Blocks();
    plan_.incoming_batch = Region{offset, Blocks()};
  }

  void ReadTensor() {
    const std::string name = Word();
    const Role role = ParseRole(Word()).value();
    const int64_t bytes = Number();
    const TensorId id(plan_.tensors.size());
    tensors_[name] = id;
    plan_.tensors.push_back({id, name, role, Shape{bytes / 4}, DType::kFp32, bytes});
    if (std::string word; words_ >> word) {
      if (word == "on_host") {
        plan_.tensors.back().host_offset = Blocks();
      } else if (word == "external") {
        plan_.tensors.back().is_external = true;
      } else if (word == "own") {
        const int64_t first = Number();
        plan_.tensors.back().own = Slice{.first = first, .count = Number()};
      } else {
        Fail("unknown property '" + word + "' of a tensor");
      }
    }
  }

  void ReadStep() {
    PlanStep step = {.id = StepId(plan_.steps.size()), .layer = Word(), .type = "test"};
    const std::string phase = Word();
    step.phase = ParsePhase(phase).value();
    steps_[step.layer + " " + phase] = step.id;
    std::vector<TensorId>* list = nullptr;
    for (std::string word; words_ >> word;) {
      if (word == "reads")
        list = &step.reads;
      else if (word == "writes")
        list = &step.writes;
      else if (word == "accumulates")
        list = &step.accumulates;
      else if (word == "rerun")
        list = &step.rerun_reads;
      else if (word == "in_place" || word == "slices")
        list = nullptr;
      else if (word.find(':') != std::string::npos)
        step.slices.push_back(ToSlice(word));
      else if (list != nullptr)
        list->push_back(ToTensor(word));
      else
        step.in_place.emplace_back(ToTensor(word.substr(0, word.find('/'))),
                                   ToTensor(word.substr(word.find('/') + 1)));
    }
    plan_.steps.push_back(std::move(step));
  }

  std::pair<TensorId, Slice> ToSlice(const std::string& word) {
    const size_t first = word.find(':') + 1, count = word.rfind(':') + 1;
    return {ToTensor(word.substr(0, first - 1)),
            {.first = ToNumber(word.substr(first, count - 1 - first)),
             .count = ToNumber(word.substr(count))}};
  }

  Action ReadAction(const std::string& op) {
    if (op == "free") return FreeAction{Tensor()};
    if (op == "offload") return ReadOffload();
    if (op == "prefetch") return PrefetchAction{Tensor()};
    if (op == "alloc") return ReadAlloc();
    if (op == "wait") return ReadWait();
    if (op == "sum") return CollectiveAction{Step(Word() + " all_reduce")};
    if (op == "scatter") return CollectiveAction{Step(Word() + " reduce_scatter")};
    if (op == "gather") return CollectiveAction{Step(Word() + " all_gather")};
    if (op == "rerun") return ReadCompute(Step(Word() + " forward"), true);
    if (op != "run") Fail("unknown action '" + op + "'");
    const std::string layer = Word();
    return ReadCompute(Step(layer + " " + Word()), false);
  }
  Action ReadOffload() {
    OffloadAction offload = {.tensor = Tensor()};
    std::string word = Word();
    if (word == "peer") {
      offload.pool = Pool::kPeer;
      word = Word();
    }
    offload.offset = ToNumber(word) * kBlockBytes;
    return offload;
  }
  Action ReadAlloc() {
    AllocAction alloc = {.tensor = Tensor(), .region = {.offset = Blocks()}};
    const int64_t bytes = plan_.tensors[alloc.tensor.index()].bytes;
    alloc.region.bytes = (bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
    if (std::string blocks; words_ >> blocks) alloc.region.bytes = ToNumber(blocks) * kBlockBytes;
    return alloc;
  }
  Action ReadWait() {
    const Stream stream = ParseStream(Word()).value();
    const std::string on = Word();
    const auto label = labels_.find(on);
    return WaitAction{stream, label == labels_.end() ? ToNumber(on) : label->second};
  }
  Action ReadCompute(StepId step, bool recompute) {
    ComputeAction compute = {.step = step, .recompute = recompute};
    for (std::string word; words_ >> word;) {
      if (word == "engines") continue;
      if (word == "workspace") {
        const int64_t offset = Blocks();
        compute.workspace = Region{offset, Blocks()};
      } else {
        const bool adds = word.back() == '+';
        if (adds) word.pop_back();
        const size_t colon = word.find(':');
        compute.engines.push_back({word.substr(0, colon), ToNumber(word.substr(colon + 1)), adds});
      }
    }
    return compute;
  }

  Plan plan_;
  std::istringstream words_;
  std::map<std::string, TensorId> tensors_;
  std::map<std::string, StepId> steps_;  // by "layer phase"
  std::map<std::string, int64_t> labels_;
};

}  // namespace

Plan PlanFromScript(std::string_view script) { return Script().Read(script); }

std::string Edited(std::string_view script, std::string_view from, std::string_view to) {
  std::string text(script);
  const size_t at = text.find(from);
  if (at == std::string::npos || text.find(from, at + 1) != std::string::npos) {
    throw std::runtime_error("script: '" + std::string(from) + "' does not occur exactly once");
  }
  return text.replace(at, from.size(), to);
}

std::vector<double> SecondsEach(const Plan& plan, double step, double recomputation) {
  std::vector<double> seconds;
  for (const Action& action : plan.actions) {
    if (const auto* compute = std::get_if<ComputeAction>(&action))
      seconds.push_back(compute->recompute ? recomputation : step);
  }
  return seconds;
}

}  // namespace neap
