// Lists of a library's engines for a problem, kept between runs of the program, because listing the
// engines of a network can take seconds (DenseNet-201: five).
//
//   const EngineOptions options = {.lists = KeptEngineLists::Default()};  // layers/profile
//   ASSIGN_OR_RETURN(std::unique_ptr<EngineCatalog> h200, DescribedCatalog("h200", {}, options));
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace neap {

// It is only a help: what cannot be kept or found is listed again. *Threads*: any number at a time.
class EngineLists {
 public:
  virtual ~EngineLists() = default;
  // `library` is what the list depends on besides the problem: the library, its version, the
  // device, and how they are asked. nullopt if nothing is kept for this.
  virtual std::optional<std::string> Find(std::string_view library, std::string_view problem) = 0;
  virtual void Keep(std::string_view library, std::string_view problem, std::string_view list) = 0;
};

}  // namespace neap
