// What the driver without a GPU (image_driver.cpp) has seen of the code loaded into it.
#pragma once

namespace ringsched {

struct LoadedCode {
  int images = 0;                     // cubins that were loaded
  int lowest_sm = 0, highest_sm = 0;  // that they are for
  int kernels = 0;                    // names that were asked for and found
  int absent = 0;                     // names that were asked for and are not there
};

// Of `ringsched_loaded_code`: what happened since its last call.
using LoadedCodeFunction = void(LoadedCode*);

}  // namespace ringsched
