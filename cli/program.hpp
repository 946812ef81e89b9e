// The whole program. Exit codes: 0 success; 1 a check failed; 2 bad input or usage; 3 a run failed.
#pragma once

namespace ringsched {

int run_program(int argc, char** argv);

}  // namespace ringsched
