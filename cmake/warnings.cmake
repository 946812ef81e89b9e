# ringsched_warnings(target): what every target of this project is compiled with.
function(ringsched_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
    -Wnon-virtual-dtor -Woverloaded-virtual
    $<$<CXX_COMPILER_ID:GNU>:-Wduplicated-cond -Wlogical-op>
    $<$<BOOL:${RINGSCHED_WERROR}>:-Werror>)
endfunction()
