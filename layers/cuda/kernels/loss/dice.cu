// Soft Dice of the softmax, in four kernels: a thread per position computes its probabilities and
// cross-entropy, blocks sum the probabilities of some classes of an image, a block per class and
// set closes their Dice, and one block takes the means. Sums have a fixed order, and blocks lie
// within images, so that an image has the same bits in any batch.
//
// A block of DiceSums has as many classes as are neighbours in memory, at most one per thread, and
// several rows of threads, so that y is read once:
//
//   channels last, 3 classes    |p0: c0 c1 c2 -|p1: c0 c1 c2 -|...   64 rows of 4 lanes
//   channels first              |p0|p1|p2|...                        256 rows of 1 lane
#include <algorithm>

#include "neap/layers/cuda/kernels/loss/softmax.cuh"

namespace neap::kernels {
namespace {

constexpr int64_t kMaxPositions = 16 * kThreads;  // of a block of DiceSums
constexpr int64_t kPositionsOfRow = 64;           // of a row of its threads, at most

// Of a block's positions.
struct PositionPart {
  float entropy, known, correct;
};
struct ClassPart {
  float intersection, predictions, labels;
};

// How the positions and classes of a batch are cut into blocks, and blocks into sets.
struct DiceCut {
  explicit DiceCut(const DiceShape& s)
      : pixels(s.images),
        positions(static_cast<uint32_t>(s.images.inner)),
        position_blocks(static_cast<uint32_t>(CeilDiv(s.images.inner, kThreads))),
        lanes(static_cast<uint32_t>(LanesOf(s.images))),
        class_positions(static_cast<uint32_t>(
            std::min(kMaxPositions, kPositionsOfRow * kThreads / LanesOf(s.images)))),
        class_blocks(static_cast<uint32_t>(CeilDiv(s.images.inner, class_positions))),
        lane_blocks(static_cast<uint32_t>(CeilDiv(s.images.channels, LanesOf(s.images)))),
        images_of_set(s.batch ? static_cast<uint32_t>(s.images.outer) : 1),
        sets(s.batch ? 1 : static_cast<uint32_t>(s.images.outer)),
        first_class(s.first_class) {}
  // The power of two that has all classes, or else a block's threads.
  static int64_t LanesOf(const ChannelShape& images) {
    int64_t lanes = 1;
    while (images.channels_last && lanes < std::min<int64_t>(images.channels, kThreads)) lanes *= 2;
    return lanes;
  }
  Pixels pixels;
  uint32_t positions;        // of an image
  uint32_t position_blocks;  // of an image
  uint32_t lanes;            // classes of a block of DiceSums
  uint32_t class_positions;  // of such a block
  uint32_t class_blocks;     // of an image and class
  uint32_t lane_blocks;      // of an image's classes
  uint32_t images_of_set, sets;
  int first_class;
  // For a block of DicePositions and DiceBackward; the place of this thread's position in the
  // batch, if it has one.
  __device__ __forceinline__ bool Position(uint32_t& image, uint32_t& i) const {
    image = blockIdx.x / position_blocks;
    const uint32_t within = blockIdx.x % position_blocks * kThreads + threadIdx.x;
    i = image * positions + within;
    return within < positions;
  }
};

template <typename T>
__global__ void __launch_bounds__(kThreads)
    DicePositions(DiceCut cut, float cross_entropy, const T* logits, LabelOf labels, float* y,
                  PositionPart* parts) {
  const Pixels& p = cut.pixels;
  uint32_t image = 0, i = 0;
  PositionPart part = {};
  if (cut.Position(image, i)) {
    const T* const column = logits + p.First(i);
    const ColumnSoftmax softmax(p, column);
    const int32_t label = labels.labels == nullptr ? kNoLabel : labels(i);
    const bool valid = label >= 0 && label < p.classes;
    if (label != kNoLabel) part = {valid ? 0.0F : nanf(""), 1.0F, 0.0F};
    if (valid) {
      if (cross_entropy > 0.0F)
        part.entropy = cross_entropy * softmax.Entropy(ToFloat(column[label * p.Apart()]));
      part.correct = IsLargest(p, column, label) ? 1.0F : 0.0F;
    }
    softmax.Store(p, column, y + p.First(i));
  }
  if (labels.labels == nullptr) return;
  part.entropy = BlockReduce<false>(part.entropy);
  part.known = BlockReduce<false>(part.known);
  part.correct = BlockReduce<false>(part.correct);
  if (threadIdx.x == 0) parts[blockIdx.x] = part;
}

// parts[(image * classes + c) * class_blocks + block]; blocks of an image are those of its first
// classes, then those of the next.
__global__ void __launch_bounds__(kThreads)
    DiceSums(DiceCut cut, const float* y, LabelOf labels, ClassPart* parts) {
  __shared__ ClassPart shared[kThreads];
  const Pixels& p = cut.pixels;
  const uint32_t block = blockIdx.x % cut.class_blocks, rest = blockIdx.x / cut.class_blocks;
  const uint32_t image = rest / cut.lane_blocks, lane = threadIdx.x % cut.lanes;
  const int c = static_cast<int>(rest % cut.lane_blocks * cut.lanes + lane);
  const uint32_t rows = kThreads / cut.lanes, row = threadIdx.x / cut.lanes;
  const uint32_t begin = block * cut.class_positions;
  const uint32_t end = min(begin + cut.class_positions, cut.positions);
  ClassPart part = {};
#pragma unroll 4
  for (uint32_t within = begin + row; within < end && c < p.classes; within += rows) {
    const uint32_t i = image * cut.positions + within;
    const float probability = y[p.First(i) + c * p.Apart()];
    const int32_t label = labels(i);
    if (label == kNoLabel) continue;
    part.predictions += probability;
    if (label != c) continue;
    part.intersection += probability;
    part.labels += 1.0F;
  }
  shared[threadIdx.x] = part;
  for (uint32_t half = rows / 2; half > 0; half /= 2) {
    __syncthreads();
    if (row >= half) continue;
    const ClassPart& other = shared[threadIdx.x + half * cut.lanes];
    part.intersection += other.intersection;
    part.predictions += other.predictions;
    part.labels += other.labels;
    shared[threadIdx.x] = part;
  }
  if (row == 0 && c < p.classes)
    parts[(static_cast<size_t>(image) * p.classes + c) * cut.class_blocks + block] = part;
}

// A block per set and class: dice[set * classes + c], 0 for one that does not count, entropies[set]
// and what is saved of them.
__global__ void __launch_bounds__(kThreads)
    CloseDice(DiceCut cut, float smooth, float cross_entropy, const PositionPart* position_parts,
              const ClassPart* class_parts, float* dice, float* entropies, float* saved) {
  const uint32_t classes = static_cast<uint32_t>(cut.pixels.classes);
  const uint32_t set = blockIdx.x / classes, c = blockIdx.x % classes;
  const uint32_t first_image = set * cut.images_of_set;
  double known = 0, entropy = 0;
  const uint32_t blocks = cut.images_of_set * cut.position_blocks;
  for (uint32_t b = threadIdx.x; b < blocks; b += kThreads) {
    const PositionPart part = position_parts[first_image * cut.position_blocks + b];
    known += static_cast<double>(part.known);
    entropy += static_cast<double>(part.entropy);
  }
  known = BlockReduce<false>(known);
  entropy = BlockReduce<false>(entropy);
  double intersection = 0, sum = 0;
  for (uint32_t b = threadIdx.x; b < cut.images_of_set * cut.class_blocks; b += kThreads) {
    const uint32_t image = first_image + b / cut.class_blocks;
    const ClassPart part =
        class_parts[(image * classes + c) * cut.class_blocks + b % cut.class_blocks];
    intersection += static_cast<double>(part.intersection);
    sum += static_cast<double>(part.predictions) + static_cast<double>(part.labels);
  }
  intersection = BlockReduce<false>(intersection);
  sum = BlockReduce<false>(sum);
  if (threadIdx.x != 0) return;
  const bool counts = static_cast<int>(c) >= cut.first_class && known > 0;
  const double whole = sum + static_cast<double>(smooth);
  const double value = (2 * intersection + static_cast<double>(smooth)) / whole;
  dice[blockIdx.x] = counts ? static_cast<float>(value) : 0.0F;
  if (c == 0) entropies[set] = known > 0 ? static_cast<float>(entropy / known) : 0.0F;
  if (saved == nullptr) return;
  float* const of_set = saved + static_cast<size_t>(set) * (2 * classes + 1);
  of_set[c] = counts ? static_cast<float>(2 / whole) : 0.0F;
  of_set[classes + c] = counts ? static_cast<float>(value / whole) : 0.0F;
  if (c == 0)
    of_set[2 * classes] =
        known > 0 ? static_cast<float>(static_cast<double>(cross_entropy) / known) : 0.0F;
}

__global__ void __launch_bounds__(kThreads)
    DiceMeans(DiceCut cut, float share, uint32_t position_blocks,
              const PositionPart* position_parts, const float* dice, const float* entropies,
              LossMetrics metrics) {
  const uint32_t classes = static_cast<uint32_t>(cut.pixels.classes);
  double sum = 0, entropy = 0, correct = 0;
  for (uint32_t k = threadIdx.x; k < cut.sets * classes; k += kThreads)
    sum += static_cast<double>(dice[k]);
  for (uint32_t set = threadIdx.x; set < cut.sets; set += kThreads)
    entropy += static_cast<double>(entropies[set]);
  for (uint32_t b = threadIdx.x; b < position_blocks; b += kThreads)
    correct += static_cast<double>(position_parts[b].correct);
  sum = BlockReduce<false>(sum);
  entropy = BlockReduce<false>(entropy);
  correct = BlockReduce<false>(correct);
  if (threadIdx.x != 0) return;
  const double counted = static_cast<double>(cut.pixels.classes - cut.first_class);
  const double loss = (entropy - sum / counted) * static_cast<double>(share);
  float* const sums = metrics.mean_and_correct;
  sums[0] = (metrics.add ? sums[0] : 0.0F) + static_cast<float>(loss);
  sums[1] = (metrics.add ? sums[1] : 0.0F) + static_cast<float>(correct);
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    DiceBackward(DiceCut cut, float share, float weight, const float* y, LabelOf labels,
                 const float* saved, const LossScale* loss_scale, T* dx) {
  const Pixels& p = cut.pixels;
  uint32_t image = 0, i = 0;
  if (!cut.Position(image, i)) return;
  const float* const sums = saved + image / cut.images_of_set * (2 * p.classes + 1);
  const float counted = static_cast<float>(p.classes - cut.first_class);
  const float factor = FactorOf(weight, loss_scale) * share;
  const int32_t label = labels(i);
  const auto slope = [&](int c) {
    return (sums[p.classes + c] - (c == label ? sums[c] : 0.0F)) / counted;
  };
  float mean = 0;
  for (int c = 0; c < p.classes; ++c) mean += y[p.First(i) + c * p.Apart()] * slope(c);
  for (int c = 0; c < p.classes; ++c) {
    const size_t at = p.First(i) + c * p.Apart();
    const float probability = y[at];
    const float entropy = sums[2 * p.classes] * (probability - (c == label ? 1.0F : 0.0F));
    const float gradient = (probability * (slope(c) - mean) + entropy) * factor;
    dx[at] = RoundTo<T>(label == kNoLabel ? 0.0F : gradient);
  }
}

// The parts of the scratch memory.
struct DiceScratch {
  DiceScratch(const DiceCut& cut, int64_t images, void* memory)
      : position_blocks(images * cut.position_blocks),
        rows(images * cut.pixels.classes),
        class_parts(static_cast<ClassPart*>(memory)),
        position_parts(reinterpret_cast<PositionPart*>(class_parts + rows * cut.class_blocks)),
        dice(reinterpret_cast<float*>(position_parts + position_blocks)),
        entropies(dice + rows),
        bytes(rows * cut.class_blocks * static_cast<int64_t>(sizeof(ClassPart)) +
              position_blocks * static_cast<int64_t>(sizeof(PositionPart)) +
              (rows + images) * static_cast<int64_t>(sizeof(float))) {}
  int64_t position_blocks, rows;  // rows: images times classes
  ClassPart* class_parts;
  PositionPart* position_parts;
  float *dice, *entropies;
  int64_t bytes;
};

}  // namespace

int64_t DiceScratchBytes(const DiceShape& s) {
  return DiceScratch(DiceCut(s), s.images.outer, nullptr).bytes;
}

int64_t DiceCount(const DiceShape& s) {
  const int64_t positions = s.images.outer * s.images.inner + kThreads;
  if (!Fits32(positions)) return positions;  // too many for DiceCut
  const DiceCut cut(s);
  const DiceScratch scratch(cut, s.images.outer, nullptr);
  return std::max(
      {positions, scratch.rows * cut.class_blocks, 2 * s.images.outer * s.images.channels});
}

cudaError_t DiceLoss(const DiceShape& s, float smooth, float cross_entropy, ConstArray logits,
                     const Labels& labels, float* y, float* saved, LossMetrics metrics,
                     void* memory, cudaStream_t stream) {
  if (!Fits32(DiceCount(s))) return cudaErrorInvalidValue;
  const DiceCut cut(s);
  const DiceScratch scratch(cut, s.images.outer, memory);
  const bool sums = labels.labels != nullptr;
  const unsigned blocks = static_cast<unsigned>(scratch.position_blocks);
  const auto run = [&]<typename T>() {
    DicePositions<<<blocks, kThreads, 0, stream>>>(cut, cross_entropy, As<T>(logits),
                                                   LabelOf(labels), y, scratch.position_parts);
    return cudaGetLastError();
  };
  const cudaError_t error = WithElement(run, logits);
  if (error != cudaSuccess || !sums) return error;
  const unsigned summed =
      static_cast<unsigned>(s.images.outer) * cut.lane_blocks * cut.class_blocks;
  DiceSums<<<summed, kThreads, 0, stream>>>(cut, y, LabelOf(labels), scratch.class_parts);
  const unsigned closed = cut.sets * static_cast<unsigned>(s.images.channels);
  CloseDice<<<closed, kThreads, 0, stream>>>(cut, smooth, cross_entropy, scratch.position_parts,
                                             scratch.class_parts, scratch.dice, scratch.entropies,
                                             saved);
  if (metrics.mean_and_correct != nullptr) {
    DiceMeans<<<1, kThreads, 0, stream>>>(cut, s.share, blocks, scratch.position_parts,
                                          scratch.dice, scratch.entropies, metrics);
  }
  return cudaGetLastError();
}

cudaError_t DiceLossBackward(const DiceShape& s, float weight, const float* y, const Labels& labels,
                             const float* saved, const LossScale* loss_scale, Array dx,
                             cudaStream_t stream) {
  if (!Fits32(DiceCount(s))) return cudaErrorInvalidValue;
  const DiceCut cut(s);
  const DiceScratch scratch(cut, s.images.outer, nullptr);
  const auto run = [&]<typename T>() {
    DiceBackward<<<static_cast<unsigned>(scratch.position_blocks), kThreads, 0, stream>>>(
        cut, s.share, weight, y, LabelOf(labels), saved, loss_scale, As<T>(dx));
    return cudaGetLastError();
  };
  return WithElement(run, dx);
}

}  // namespace neap::kernels
