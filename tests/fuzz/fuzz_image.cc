// JPEG and PNG files, decoded whole and in part, and as the numbers of masks.
#include <algorithm>

#include "neap/core/vision/image/decoder.h"
#include "neap/core/vision/image/orientation.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/image_files.h"

namespace neap::testing {

std::vector<std::string> FuzzSeeds() {
  const TestImage photo = Photo(37, 29, 1);
  std::vector<std::string> files = {JpegBytes(photo),
                                    JpegBytes(photo, {.quality = 60, .progressive = true})};
  for (const JpegForm form : {JpegForm::kGrey, JpegForm::kCmyk})
    files.push_back(JpegBytes(photo, {.form = form}));
  files.push_back(PngBytes(photo));
  files.push_back(PngBytes(photo, {.form = PngForm::kGrey16, .interlaced = true}));
  files.push_back(PngBytes(Solid(9, 7, 1, 2, 3), {.form = PngForm::kPalette}));
  files.push_back(PngBytes(Solid(9, 7, 1, 2, 3), {.form = PngForm::kGrey, .interlaced = true}));
  files.push_back(WithExif(files.front(), ExifBytes(6, /*little_endian=*/true)));
  files.push_back(WithExif(PngBytes(photo), ExifBytes(5, /*little_endian=*/false)));
  // A chunk that says it has more than 1 GiB.
  std::string long_chunk = files.back();
  long_chunk[long_chunk.find("eXIf") - 4] = 0x40;
  files.push_back(long_chunk);
  return files;
}

void ReadFuzzed(std::string_view bytes) {
  const auto* const data = reinterpret_cast<const uint8_t*>(bytes.data());
  ReadOrientation({data, bytes.size()});
  if (const auto mask = DecodeIndices({data, bytes.size()}); mask.ok()) {
    if (static_cast<int64_t>(mask->indices.size()) != mask->size.width * mask->size.height)
      FailFuzzed("a mask has another size than its pixels");
  }
  for (const int64_t part : {1, 3}) {
    const auto decoder = OpenImage({data, bytes.size()});
    if (!decoder.ok()) return;
    const ImageSize size = (*decoder)->size();
    if (size.width * size.height > 1 << 22) return;  // slow, and no other code
    const PixelBox box = {.left = size.width / 2 / part,
                          .top = size.height / 2 / part,
                          .right = std::max(size.width / part, size.width / 2 / part + 1),
                          .bottom = std::max(size.height / part, size.height / 2 / part + 1)};
    DecodedPart decoded;
    if (!(*decoder)
             ->Decode(part == 1 ? PixelBox{0, 0, size.width, size.height} : box,
                      {.width = 8, .height = 8}, decoded)
             .ok())
      continue;
    if (decoded.pixels.size() !=
        static_cast<size_t>(4 * decoded.box.width() * decoded.box.height()))
      FailFuzzed("a decoded part has another size than its pixels");
  }
}

}  // namespace neap::testing
