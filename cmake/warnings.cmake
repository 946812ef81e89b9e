# ringsched_warnings(target): what every target of this project is compiled with.
function(ringsched_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion)
  if(RINGSCHED_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
endfunction()
