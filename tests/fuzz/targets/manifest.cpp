// manifest.json of a checkpoint. An input without its checksum gets one, so that the reader goes
// on.
#include "formats/manifest.h"

#include <nlohmann/json.hpp>

#include "formats/strict_json.h"
#include "fuzz/sealed.h"
#include "fuzz/target.h"

namespace lmtrain::fuzzing {

LMTRAIN_FUZZ_TARGET(manifest) {
  for (const std::string& text : {std::string(input), sealed(input)}) {
    Manifest manifest;
    const auto read = [&] { manifest = parse_manifest(text, "manifest.json"); };
    if (!accepts(read)) continue;
    require(manifest.step >= 0, "a step is negative");
    for (const auto& [name, entry] : manifest.files) {
      require(!name.empty() && name.find_first_of(std::string_view("/\0", 2)) == std::string::npos,
              "a name leaves the folder");
      require(name != "." && name != ".." && name != kManifestFile, "a name is no file of it");
    }
    require(parse_manifest(manifest_to_text(manifest), "manifest.json") == manifest,
            "a manifest that is written reads as another");
  }
}

}  // namespace lmtrain::fuzzing
