# ringsched_warnings(target): the compile options of every target of this project.
# GCC 12 sees overlapping copies in std::string where there are none (GCC bug 105651).
function(ringsched_warnings target)
  set(warnings -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Woverloaded-virtual
    $<$<CXX_COMPILER_ID:GNU>:-Wduplicated-cond -Wlogical-op -Wno-restrict>
    $<$<BOOL:${RINGSCHED_WERROR}>:-Werror>)
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${warnings}>")
endfunction()
