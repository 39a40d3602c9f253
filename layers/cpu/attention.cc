// Attention. A unit of the work is the heads of query that share a head of key and value, in an
// image. Key and value, and their gradients, are rows of the workspace of a part while it lasts:
//
//   workspace  [angles)[rows and scores of part 0)[of part 1) ...
#include "neap/layers/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "neap/core/base/parallel.h"
#include "neap/layers/attention/attention_shape.h"
#include "neap/layers/cpu/candidates.h"
#include "neap/layers/cpu/dot_product.h"

namespace neap::cpu {
namespace {

using namespace operands;

// At most so many parts run at a time, for which the workspace has room. Their number does not
// depend on the cores, so plans do not.
constexpr int64_t kMaxParts = 64;
// Threads pay from so many multiply-adds on.
constexpr int64_t kMinThreadedWork = 1 << 20;

// The cosine and the sine of the angle by which each position rotates each pair of dimensions.
class Rotation {
 public:
  Rotation(const AttentionShape& s, float* table) : pairs_(s.rotary_dims / 2), table_(table) {}
  static int64_t Floats(const AttentionShape& s) {
    return std::max(s.queries, s.keys) * s.rotary_dims;
  }

  void Fill(const AttentionShape& s) const {
    for (int64_t d = 0; d < pairs_; ++d) {
      const double exponent = -2.0 * static_cast<double>(d) / static_cast<double>(s.rotary_dims);
      const double step = std::pow(static_cast<double>(s.rotary_base), exponent);
      for (int64_t t = 0; t < std::max(s.queries, s.keys); ++t) {
        const double angle = static_cast<double>(t) * step;
        At(t)[2 * d] = static_cast<float>(std::cos(angle));
        At(t)[2 * d + 1] = static_cast<float>(std::sin(angle));
      }
    }
  }

  // Rotates a head of query or key at a position, forth or back.
  void Rotate(int64_t position, float* head, bool back) const {
    const float* const turns = At(position);
    for (int64_t d = 0; d < pairs_; ++d) {
      const float cosine = turns[2 * d], sine = back ? -turns[2 * d + 1] : turns[2 * d + 1];
      const float a = head[d], b = head[d + pairs_];
      head[d] = a * cosine - b * sine;
      head[d + pairs_] = b * cosine + a * sine;
    }
  }

 private:
  float* At(int64_t position) const { return table_ + position * 2 * pairs_; }
  int64_t pairs_;
  float* table_;
};

// Copies a head at a position from the tensor, or to it.
void Take(const Heads& heads, const float* tensor, int64_t at, float* row) {
  for (int64_t d = 0; d < heads.dims; ++d) row[d] = tensor[at + d * heads.dim_step];
}
void Put(const Heads& heads, const float* row, int64_t at, float* tensor) {
  for (int64_t d = 0; d < heads.dims; ++d) tensor[at + d * heads.dim_step] = row[d];
}

void AddTimes(float factor, const float* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] += factor * from[i];
}

// The arrays of a part of the work.
struct PartMemory {
  PartMemory(const AttentionShape& s, bool is_forward, float* memory) : end(memory) {
    const auto take = [this](int64_t count) {
      float* const taken = end;
      end += count;
      return taken;
    };
    key = take(s.keys * s.key.dims);
    value = take(s.keys * s.value.dims);
    scores = take(s.keys);
    query = take(s.query.dims);
    output = take(s.output.dims);
    if (is_forward) return;
    dkey = take(s.keys * s.key.dims);
    dvalue = take(s.keys * s.value.dims);
    dquery = take(s.query.dims);
    doutput = take(s.output.dims);
  }
  static int64_t Floats(const AttentionShape& s, bool is_forward) {
    const int64_t both = s.keys * (s.key.dims + s.value.dims);
    const int64_t row = s.query.dims + s.output.dims;
    return s.keys + (is_forward ? 1 : 2) * (both + row);
  }
  float *key, *value, *scores, *query, *output;
  float *dkey = nullptr, *dvalue = nullptr, *dquery = nullptr, *doutput = nullptr;
  float* end;
};

// The heads that share a head of key and value in an image.
class SharedHeads {
 public:
  SharedHeads(const LoopArgs& args, const AttentionShape& s, const Rotation& rotation,
              const std::vector<WindowPlace>& places, const PartMemory& memory, int64_t image,
              int64_t kv_head)
      : args_(args),
        s_(s),
        rotation_(rotation),
        places_(places),
        m_(memory),
        image_(image),
        kv_head_(kv_head) {
    const float* const key = args.Get<float>(s.key.tensor);
    const float* const value = args.Get<float>(s.value.tensor);
    for (int64_t t = 0; t < s.keys; ++t) {
      Take(s.key, key, s.key.At(image, kv_head, t), m_.key + t * s.key.dims);
      Take(s.value, value, s.value.At(image, kv_head, t), m_.value + t * s.value.dims);
      rotation.Rotate(t, m_.key + t * s.key.dims, false);
    }
  }

  void Forward() const {
    float* const y = args_.Get<float>(Y());
    float* const lse = args_.Find<float>(Saved(0));
    ForEachRow([&](int64_t head, int64_t i, int64_t keys) {
      TakeQuery(head, i);
      Score(head, i, keys);
      const float row_lse = Softmax(keys);
      if (lse != nullptr) lse[LseAt(head, i)] = row_lse;
      std::fill_n(m_.output, s_.output.dims, 0.0F);
      for (int64_t j = 0; j < keys; ++j)
        AddTimes(m_.scores[j], m_.value + j * s_.value.dims, s_.value.dims, m_.output);
      Put(s_.output, m_.output, s_.output.At(image_, head, i), y);
    });
  }

  void Backward() const {
    std::fill_n(m_.dkey, s_.keys * s_.key.dims, 0.0F);
    std::fill_n(m_.dvalue, s_.keys * s_.value.dims, 0.0F);
    ForEachRow([&](int64_t head, int64_t i, int64_t keys) { BackwardRow(head, i, keys); });
    float* const dkey = args_.Get<float>(s_.key.gradient());
    float* const dvalue = args_.Get<float>(s_.value.gradient());
    for (int64_t t = 0; t < s_.keys; ++t) {
      rotation_.Rotate(t, m_.dkey + t * s_.key.dims, true);
      Put(s_.key, m_.dkey + t * s_.key.dims, s_.key.At(image_, kv_head_, t), dkey);
      Put(s_.value, m_.dvalue + t * s_.value.dims, s_.value.At(image_, kv_head_, t), dvalue);
    }
  }

 private:
  // Calls visit(head, query position, key positions that it reads).
  template <typename Visit>
  void ForEachRow(const Visit& visit) const {
    for (int64_t k = 0; k < s_.group(); ++k) {
      for (int64_t i = 0; i < s_.queries; ++i) visit(kv_head_ * s_.group() + k, i, s_.KeysOf(i));
    }
  }

  int64_t LseAt(int64_t head, int64_t i) const {
    return (image_ * s_.query.count + head) * s_.queries + i;
  }

  void TakeQuery(int64_t head, int64_t i) const {
    Take(s_.query, args_.Get<float>(s_.query.tensor), s_.query.At(image_, head, i), m_.query);
    rotation_.Rotate(i, m_.query, false);
  }

  // Forward and backward both call this function, so backward has the scores of forward.
  [[gnu::noinline]] void Score(int64_t head, int64_t i, int64_t keys) const {
    for (int64_t j = 0; j < keys; ++j)
      m_.scores[j] = s_.scale * DotProduct(m_.query, m_.key + j * s_.key.dims, s_.key.dims);
    if (!s_.bias.has_value()) return;
    const float* const bias = args_.Get<float>(s_.bias->value) + s_.bias->At(image_, head, i);
    if (s_.bias->windows.has_value()) {
      ForEachOffset(i, keys, [&](int64_t j, int64_t row, bool is_masked) {
        m_.scores[j] += bias[row * s_.bias->key_step] + (is_masked ? kOtherRegion : 0);
      });
      return;
    }
    for (int64_t j = 0; j < keys; ++j) m_.scores[j] += bias[j * s_.bias->key_step];
  }

  // Calls visit(key position, row of the table, whether the positions are of other regions).
  template <typename Visit>
  void ForEachOffset(int64_t i, int64_t keys, const Visit& visit) const {
    const WindowPlaces& windows = *s_.bias->windows;
    const unsigned cut = windows.CutAxes(static_cast<int>(image_ % windows.windows()));
    const WindowPlace query = places_[static_cast<size_t>(i)];
    const int first = query.row + windows.center();
    for (int64_t j = 0; j < keys; ++j) {
      const WindowPlace key = places_[static_cast<size_t>(j)];
      visit(j, first - key.row, ((query.wrapped ^ key.wrapped) & cut) != 0);
    }
  }

  // Of the scores, which become their softmax; returns the logarithm of the sum of exponentials.
  float Softmax(int64_t keys) const {
    float largest = m_.scores[0];
    for (int64_t j = 1; j < keys; ++j) largest = std::max(largest, m_.scores[j]);
    double sum = 0;
    for (int64_t j = 0; j < keys; ++j) {
      m_.scores[j] = std::exp(m_.scores[j] - largest);
      sum += static_cast<double>(m_.scores[j]);
    }
    const auto factor = static_cast<float>(1 / sum);
    for (int64_t j = 0; j < keys; ++j) m_.scores[j] *= factor;
    return static_cast<float>(static_cast<double>(largest) + std::log(sum));
  }

  // With P the softmax of S: dvalue = P^T dy, dS = P (dy value^T - dy . y), dquery = scale dS key,
  // dkey = scale dS^T query, and dbias = dS.
  void BackwardRow(int64_t head, int64_t i, int64_t keys) const {
    const int64_t dims = s_.query.dims, value_dims = s_.value.dims;
    const int64_t at = s_.output.At(image_, head, i);
    Take(s_.output, args_.Get<float>(Y()), at, m_.output);
    Take(s_.output, args_.Get<float>(Dy()), at, m_.doutput);
    const float mean = DotProduct(m_.output, m_.doutput, value_dims);
    TakeQuery(head, i);
    Score(head, i, keys);
    const float lse = args_.Get<float>(Saved(0))[LseAt(head, i)];
    for (int64_t j = 0; j < keys; ++j) {
      const float probability = std::exp(m_.scores[j] - lse);
      AddTimes(probability, m_.doutput, value_dims, m_.dvalue + j * value_dims);
      const float dprobability = DotProduct(m_.doutput, m_.value + j * value_dims, value_dims);
      m_.scores[j] = probability * (dprobability - mean);
    }
    AddToBias(head, i, keys);
    std::fill_n(m_.dquery, dims, 0.0F);
    for (int64_t j = 0; j < keys; ++j) {
      AddTimes(s_.scale * m_.scores[j], m_.key + j * dims, dims, m_.dquery);
      AddTimes(s_.scale * m_.scores[j], m_.query, dims, m_.dkey + j * dims);
    }
    rotation_.Rotate(i, m_.dquery, true);
    Put(s_.query, m_.dquery, s_.query.At(image_, head, i), args_.Get<float>(s_.query.gradient()));
  }

  void AddToBias(int64_t head, int64_t i, int64_t keys) const {
    if (!s_.bias.has_value()) return;
    float* const gradient = args_.Find<float>(s_.bias->gradient);
    if (gradient == nullptr) return;
    float* const row = gradient + s_.bias->At(image_, head, i);
    if (s_.bias->windows.has_value()) {
      ForEachOffset(i, keys, [&](int64_t j, int64_t offset, bool) {
        row[offset * s_.bias->key_step] += m_.scores[j];
      });
      return;
    }
    for (int64_t j = 0; j < keys; ++j) row[j * s_.bias->key_step] += m_.scores[j];
  }

  const LoopArgs& args_;
  const AttentionShape& s_;
  const Rotation& rotation_;
  const std::vector<WindowPlace>& places_;
  const PartMemory& m_;
  int64_t image_, kv_head_;
};

// The units of the work, in sets of those that add to the same gradients of a bias: a set is run in
// order, the images of a head or the heads of an image. Other units are sets of their own.
struct UnitSets {
  int64_t count = 1, units = 1;  // of each set
  bool is_of_head = false;

  UnitSets(const StepSignature& signature, const AttentionShape& s)
      : count(s.images * s.key.count) {
    if (!s.bias.has_value() || !signature.Has(s.bias->gradient)) return;
    is_of_head = s.bias->image_step == 0;
    if (is_of_head) {
      count = s.key.count;
      units = s.images;
    } else if (s.bias->head_step == 0) {
      count = s.images;
      units = s.key.count;
    }
  }
  // Calls run(image, head of key and value) for the units of a set.
  template <typename Run>
  void ForEachUnit(int64_t set, int64_t kv_heads, const Run& run) const {
    for (int64_t unit = 0; unit < units; ++unit) {
      const int64_t i = set * units + unit;
      is_of_head ? run(unit, set) : run(i / kv_heads, i % kv_heads);
    }
  }
};

// The parts of the work that run at a time.
int64_t PartsOf(const UnitSets& sets, const AttentionShape& s) {
  const int64_t work = s.images * s.query.count * s.queries * s.keys * s.query.dims;
  return work < kMinThreadedWork ? 1 : std::min(kMaxParts, sets.count);
}

// Where sums of dbias begin.
void ClearBiasGradient(const LoopArgs& args, const AttentionShape& s) {
  if (!s.bias.has_value() || !args.signature.Has(s.bias->gradient)) return;
  if (args.signature.Accumulates(s.bias->gradient)) return;
  std::fill_n(args.Get<float>(s.bias->gradient), args.Elements(s.bias->gradient), 0.0F);
}

// Of the positions of a window, if the bias is one of windows.
std::vector<WindowPlace> PlacesInWindow(const AttentionShape& s) {
  std::vector<WindowPlace> places;
  const bool has_windows = s.bias.has_value() && s.bias->windows.has_value();
  for (int64_t i = 0; has_windows && i < s.queries; ++i)
    places.push_back(s.bias->windows->At(static_cast<int>(i)));
  return places;
}

void AttentionLoop(const LoopArgs& args) {
  const AttentionShape s = AttentionShapeOf(args.signature);
  const bool is_forward = args.signature.phase == Phase::kForward;
  const Rotation rotation(s, args.Workspace<float>());
  rotation.Fill(s);
  if (!is_forward) ClearBiasGradient(args, s);
  const std::vector<WindowPlace> places = PlacesInWindow(s);
  float* const memory = args.Workspace<float>() + Rotation::Floats(s);
  const UnitSets sets(args.signature, s);
  const int64_t parts = PartsOf(sets, s);
  const auto run_part = [&](int64_t part) {
    const PartMemory of_part(s, is_forward, memory + part * PartMemory::Floats(s, is_forward));
    for (int64_t i = sets.count * part / parts; i < sets.count * (part + 1) / parts; ++i) {
      sets.ForEachUnit(i, s.key.count, [&](int64_t image, int64_t kv_head) {
        const SharedHeads heads(args, s, rotation, places, of_part, image, kv_head);
        is_forward ? heads.Forward() : heads.Backward();
      });
    }
  };
  const auto count = static_cast<size_t>(parts);
  InParallel(count, count, [&](size_t begin, size_t end) {
    for (size_t part = begin; part < end; ++part) run_part(static_cast<int64_t>(part));
  });
}

}  // namespace

absl::StatusOr<Candidates> AttentionSteps(const StepSignature& signature) {
  const AttentionShape s = AttentionShapeOf(signature);
  const bool is_forward = signature.phase == Phase::kForward;
  const int64_t floats =
      Rotation::Floats(s) + PartsOf(UnitSets(signature, s), s) * PartMemory::Floats(s, is_forward);
  return OwnLoop(signature, AttentionLoop, floats * static_cast<int64_t>(sizeof(float)));
}

}  // namespace neap::cpu
