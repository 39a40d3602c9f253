#include "neap/layers/cpu/onednn.h"

#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "neap/core/base/units.h"
#include "neap/layers/cpu/strides.h"

namespace neap::cpu {
namespace {

using dnnl::memory;

memory::data_type TypeOf(const TensorSpec& spec) {
  return spec.dtype == DType::kBf16 ? memory::data_type::bf16 : memory::data_type::f32;
}

std::string ShapesOf(const StepSignature& signature) {
  std::string text;
  for (const OperandSpec& operand : signature.operands) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", ToString(operand.operand), " ",
                    operand.tensor.ToString());
  }
  return text;
}

// An operand that the primitive needs in another format, as a copy in the workspace.
struct Conversion {
  size_t binding;  // position in Recipe::bindings
  bool is_result;
  memory::desc wanted;
  dnnl::reorder::primitive_desc reorder;
  int64_t offset;  // of the copy in the workspace
};

// Everything needed to make the kernel, known when it is listed. The workspace begins with the
// scratch memory of the stages, which run one after another and share it, followed by the copies.
struct Recipe {
  Origin origin;
  dnnl::primitive_desc_base desc;
  std::vector<Binding> bindings;
  std::vector<Conversion> conversions;
  int64_t workspace_bytes = 0;
};

memory::desc Wanted(const dnnl::primitive_desc_base& desc, const Binding& binding) {
  return desc.query_md(dnnl::query::exec_arg_md, binding.argument);
}

int64_t ScratchBytes(const dnnl::primitive_desc_base& desc) {
  return static_cast<int64_t>(desc.query_md(dnnl::query::scratchpad_md).get_size());
}

Conversion MakeConversion(const StepSignature& signature, const Recipe& recipe, size_t position) {
  const Binding& binding = recipe.bindings[position];
  const memory::desc wanted = Wanted(recipe.desc, binding);
  const size_t operand = signature.Find(binding.operand).value();
  const bool is_result = signature.operands[operand].access != Access::kRead;
  const dnnl::engine& engine = recipe.origin.engine;
  return {.binding = position,
          .is_result = is_result,
          .wanted = wanted,
          .reorder = is_result ? dnnl::reorder::primitive_desc(engine, wanted, engine, binding.desc,
                                                               UserScratchpad())
                               : dnnl::reorder::primitive_desc(engine, binding.desc, engine, wanted,
                                                               UserScratchpad())};
}

Recipe MakeRecipe(const StepSignature& signature, const Origin& origin,
                  const dnnl::primitive_desc_base& desc, std::vector<Binding> bindings) {
  Recipe recipe = {.origin = origin, .desc = desc, .bindings = std::move(bindings)};
  int64_t scratch = ScratchBytes(desc);
  for (size_t i = 0; i < recipe.bindings.size(); ++i) {
    if (Wanted(desc, recipe.bindings[i]) == recipe.bindings[i].desc) continue;
    recipe.conversions.push_back(MakeConversion(signature, recipe, i));
    scratch = std::max(scratch, ScratchBytes(recipe.conversions.back().reorder));
  }
  recipe.workspace_bytes = scratch;
  for (Conversion& conversion : recipe.conversions) {
    conversion.offset = RoundUp(recipe.workspace_bytes, kWorkspaceAlignment);
    recipe.workspace_bytes = conversion.offset + static_cast<int64_t>(conversion.wanted.get_size());
  }
  return recipe;
}

// A primitive and its arguments.
struct Stage {
  dnnl::primitive primitive;
  std::unordered_map<int, memory> arguments;
};

class PrimitiveKernel final : public Kernel {
 public:
  PrimitiveKernel(StepSignature signature, const Recipe& recipe)
      : signature_(std::move(signature)),
        origin_(recipe.origin),
        stream_(recipe.origin.engine),
        workspace_bytes_(recipe.workspace_bytes) {
    Stage main = {.primitive = dnnl::primitive(recipe.desc.get())};
    for (const Binding& binding : recipe.bindings) {
      const memory operand(binding.desc, origin_.engine, nullptr);
      bound_.emplace_back(signature_.Find(binding.operand).value(), operand);
      main.arguments.emplace(binding.argument, operand);
    }
    AddScratch(recipe.desc, main);
    std::vector<Stage> after;
    for (const Conversion& conversion : recipe.conversions) {
      Stage stage = Convert(recipe, conversion, main);
      (conversion.is_result ? after : stages_).push_back(std::move(stage));
    }
    stages_.push_back(std::move(main));
    stages_.insert(stages_.end(), after.begin(), after.end());
  }

  // The workspace may be too small if the engine was listed for fewer OpenMP threads.
  absl::Status Run(const KernelArgs& args) override {
    if (args.workspace_bytes < workspace_bytes_) {
      return absl::InternalError(absl::StrCat(
          "oneDNN needs ", workspace_bytes_, " bytes of workspace, not ", args.workspace_bytes,
          ", with ", ShapesOf(signature_), "; has the number of OpenMP threads changed?"));
    }
    try {
      for (auto& [position, operand] : bound_) {
        operand.set_data_handle(args.operands[position], stream_);
      }
      for (auto& [offset, part] : workspace_) {
        part.set_data_handle(static_cast<std::byte*>(args.workspace) + offset, stream_);
      }
      for (const Stage& stage : stages_) stage.primitive.execute(stream_, stage.arguments);
      stream_.wait();
      return absl::OkStatus();
    } catch (const dnnl::error& error) {
      return OnednnError(error, "execute", signature_);
    }
  }

 private:
  void AddScratch(const dnnl::primitive_desc_base& desc, Stage& stage) {
    const memory scratch(desc.query_md(dnnl::query::scratchpad_md), origin_.engine, nullptr);
    if (scratch.get_desc().get_size() == 0) return;
    stage.arguments.emplace(DNNL_ARG_SCRATCHPAD, scratch);
    workspace_.emplace_back(0, scratch);
  }

  // The stage that converts an operand; makes `main` use the copy.
  Stage Convert(const Recipe& recipe, const Conversion& conversion, Stage& main) {
    const memory copy(conversion.wanted, origin_.engine, nullptr);
    workspace_.emplace_back(conversion.offset, copy);
    memory& argument = main.arguments.at(recipe.bindings[conversion.binding].argument);
    Stage stage = {.primitive = dnnl::reorder(conversion.reorder)};
    stage.arguments.emplace(DNNL_ARG_FROM, conversion.is_result ? copy : argument);
    stage.arguments.emplace(DNNL_ARG_TO, conversion.is_result ? argument : copy);
    AddScratch(conversion.reorder, stage);
    argument = copy;
    return stage;
  }

  StepSignature signature_;
  Origin origin_;
  dnnl::stream stream_;
  int64_t workspace_bytes_;
  std::vector<Stage> stages_;
  // Handles to the memory objects among the arguments, with the operand's position or the offset in
  // the workspace.
  std::vector<std::pair<size_t, memory>> bound_;
  std::vector<std::pair<int64_t, memory>> workspace_;
};

// The numbers of the first axes, and those of the spatial axes behind them.
memory::dims WithSpatial(memory::dims first, absl::Span<const int64_t> spatial) {
  first.insert(first.end(), spatial.begin(), spatial.end());
  return first;
}

// The distances between neighbours along the spatial axes of an image or volume.
memory::dims SpatialStrides(const TensorSpec& spec) {
  const Strides t = StridesOf(spec);
  if (spec.shape.spatial_axes() == 3) return {t.d, t.h, t.w};
  return {t.h, t.w};
}

absl::StatusOr<std::unique_ptr<Kernel>> MakePrimitiveKernel(const StepSignature& signature,
                                                            const Recipe& recipe) {
  try {
    return std::make_unique<PrimitiveKernel>(signature, recipe);
  } catch (const dnnl::error& error) {
    return OnednnError(error, "primitive", signature);
  }
}

}  // namespace

memory::desc ImageDesc(const TensorSpec& spec) {
  const Shape& s = spec.shape;
  const Strides t = StridesOf(spec);
  return {WithSpatial({s.n(), s.c()}, s.spatial()), TypeOf(spec),
          WithSpatial({t.n, t.c}, SpatialStrides(spec))};
}

memory::desc GroupedWeightDesc(const TensorSpec& spec, int64_t groups) {
  const Shape& s = spec.shape;
  const Strides t = StridesOf(spec);
  const int64_t outputs = s.n() / groups;
  return {WithSpatial({groups, outputs, s.c()}, s.spatial()), TypeOf(spec),
          WithSpatial({outputs * t.n, t.n, t.c}, SpatialStrides(spec))};
}

memory::desc MatrixDesc(const TensorSpec& spec) {
  return {{spec.shape.n(), spec.shape.c()}, TypeOf(spec), memory::format_tag::ab};
}

memory::desc FlatDesc(const TensorSpec& spec) {
  return {{spec.elements()}, TypeOf(spec), memory::format_tag::a};
}

memory::dims DimsOf(const Extents& extents) {
  return {extents.values().begin(), extents.values().end()};
}

dnnl::primitive_attr UserScratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

std::mutex& DescriptorMutex() {
  static std::mutex mutex;
  return mutex;
}

absl::Status OnednnError(const dnnl::error& error, std::string_view what,
                         const StepSignature& signature) {
  const std::string message =
      absl::StrCat("oneDNN ", std::string(what), " of ", std::string(signature.layer.type()), " ",
                   std::string(Name(signature.phase)), ": ", error.message, " (status ",
                   static_cast<int>(error.status), ") with ", ShapesOf(signature));
  if (error.status == dnnl_unimplemented) return absl::UnimplementedError(message);
  return absl::InternalError(message);
}

bool Converts(const dnnl::primitive_desc_base& desc, const std::vector<Binding>& bindings) {
  return std::any_of(bindings.begin(), bindings.end(),
                     [&](const Binding& binding) { return Wanted(desc, binding) != binding.desc; });
}

bool HasInstructions(dnnl::cpu_isa isa) {
  const auto wanted = static_cast<unsigned>(isa);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
}

bool HasBf16() { return HasInstructions(dnnl::cpu_isa::avx512_core_bf16); }

Candidate PrimitiveCandidate(const StepSignature& signature, std::string id, const Origin& origin,
                             const dnnl::primitive_desc_base& desc, std::vector<Binding> bindings) {
  Recipe recipe = MakeRecipe(signature, origin, desc, std::move(bindings));
  Engine engine = {.id = std::move(id), .workspace_bytes = recipe.workspace_bytes};
  return {.engine = std::move(engine), .make = [signature, recipe = std::move(recipe)] {
            return MakePrimitiveKernel(signature, recipe);
          }};
}

}  // namespace neap::cpu
