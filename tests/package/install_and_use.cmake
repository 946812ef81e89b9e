# Installs the build folder BUILD to a fresh prefix under WORK, then configures, builds and runs the
# project beside this file against it. It must find nothing in the source tree.
function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --config ${CONFIG} --prefix ${WORK}/prefix)
# A copy, so that no relative path leads back to the sources.
file(COPY ${CMAKE_CURRENT_LIST_DIR}/CMakeLists.txt ${CMAKE_CURRENT_LIST_DIR}/main.cpp
     DESTINATION ${WORK}/outside)
run(${CMAKE_COMMAND} -S ${WORK}/outside -B ${WORK}/build -G ${GENERATOR}
    -D CMAKE_PREFIX_PATH=${WORK}/prefix -D CMAKE_BUILD_TYPE=${CONFIG}
    -D CMAKE_CXX_COMPILER=${COMPILER} -D CMAKE_CXX_FLAGS=${FLAGS})
run(${CMAKE_COMMAND} --build ${WORK}/build --config ${CONFIG})
execute_process(COMMAND ${WORK}/build/outside WORKING_DIRECTORY ${WORK}/outside
  OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
if(NOT printed MATCHES "^proven, [0-9]+ tasks, [0-9.]+ ms\n$")
  message(FATAL_ERROR "the example printed `${printed}`")
endif()
file(READ ${WORK}/outside/balanced.svg picture)
if(NOT picture MATCHES "^<svg .*</svg>\n?$")
  message(FATAL_ERROR "the example drew no chart in balanced.svg")
endif()

# The C++ examples likewise; tests/shown_examples_test.py runs them.
file(COPY ${CMAKE_CURRENT_LIST_DIR}/../../examples/cpp DESTINATION ${WORK})
run(${CMAKE_COMMAND} -S ${WORK}/cpp -B ${WORK}/examples -G ${GENERATOR}
    -D CMAKE_PREFIX_PATH=${WORK}/prefix -D CMAKE_BUILD_TYPE=${CONFIG}
    -D CMAKE_CXX_COMPILER=${COMPILER} -D CMAKE_CXX_FLAGS=${FLAGS})
run(${CMAKE_COMMAND} --build ${WORK}/examples --config ${CONFIG})

if(PROGRAM)
  execute_process(COMMAND ${WORK}/prefix/bin/ringsched --version
    OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
  if(NOT printed MATCHES "${VERSION}")
    message(FATAL_ERROR "the installed program says it is `${printed}`, not ${VERSION}")
  endif()
endif()
