# Finds the project's dependencies, and reports at the end of the configuration what was found and
# what is lost without the rest. To add a dependency: find it quietly, then one ringsched_dependency().

set(ringsched_dependency_lines)
set(ringsched_absent)

# One line of the table. `cost` is what is lost without it; "required" stops the configuration.
function(ringsched_dependency name found version package cost)
  string(LENGTH "${name}" length)
  math(EXPR pad "18 - ${length}")
  string(REPEAT " " ${pad} pad)
  if(found)
    list(APPEND ringsched_dependency_lines "  ${name}${pad}${version}")
  else()
    list(APPEND ringsched_dependency_lines
      "  ${name}${pad}absent: ${cost} (Debian: ${package})")
    if(cost STREQUAL "required" OR RINGSCHED_REQUIRE_ALL)
      list(APPEND ringsched_absent ${package})
    endif()
  endif()
  set(ringsched_dependency_lines "${ringsched_dependency_lines}" PARENT_SCOPE)
  set(ringsched_absent "${ringsched_absent}" PARENT_SCOPE)
endfunction()

function(ringsched_print_dependencies)
  message(STATUS "ringsched ${ringsched_VERSION}, ${CMAKE_BUILD_TYPE}, "
                 "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
  foreach(line IN LISTS ringsched_dependency_lines)
    message(STATUS "${line}")
  endforeach()
endfunction()

find_package(fmt 9 QUIET)
find_package(simdjson QUIET)
find_package(Boost 1.74 QUIET)
find_file(RINGSCHED_BOOST_GRAPH boost/graph/adjacency_list.hpp HINTS ${Boost_INCLUDE_DIRS})
mark_as_advanced(RINGSCHED_BOOST_GRAPH)
find_package(tomlplusplus 3 QUIET)
find_package(CLI11 2 QUIET)
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(CAIRO QUIET IMPORTED_TARGET cairo>=1.16)
  pkg_check_modules(GRAPHVIZ QUIET IMPORTED_TARGET libgvc>=2.42 libcgraph)
endif()

ringsched_dependency(fmt "${fmt_FOUND}" "${fmt_VERSION}" libfmt-dev "required")
ringsched_dependency(simdjson "${simdjson_FOUND}" "${simdjson_VERSION}" libsimdjson-dev "required")
ringsched_dependency(Boost.Graph "${RINGSCHED_BOOST_GRAPH}" "${Boost_VERSION_STRING}"
  libboost-graph-dev "required")
ringsched_dependency("toml++" "${tomlplusplus_FOUND}" "${tomlplusplus_VERSION}"
  libtomlplusplus-dev "required")
ringsched_dependency(CLI11 "${CLI11_FOUND}" "${CLI11_VERSION}" libcli11-dev
  "no program `ringsched`")
ringsched_dependency(Cairo "${CAIRO_FOUND}" "${CAIRO_VERSION}" "libcairo2-dev pkg-config"
  "pictures as SVG and HTML, not as PDF and PNG")
ringsched_dependency(Graphviz "${GRAPHVIZ_FOUND}" "${GRAPHVIZ_libgvc_VERSION}"
  "libgraphviz-dev pkg-config" "task graphs as dot files only")
# In a wheel it would be one more library to carry.
if(NOT SKBUILD)
  find_package(SQLite3 QUIET)
  ringsched_dependency(SQLite3 "${SQLite3_FOUND}" "${SQLite3_VERSION}" libsqlite3-dev
    "no import of traces of nsys")
endif()
find_package(Threads REQUIRED)
set(MPI_CXX_SKIP_MPICXX ON)
find_package(MPI QUIET COMPONENTS CXX)
ringsched_dependency(MPI "${MPI_CXX_FOUND}" "${MPI_CXX_VERSION}" libopenmpi-dev
  "runs in one process only")
# The cuda backend needs nvcc, cuDNN's headers and those of cudnn-frontend, from `scripts/setup cuda`
# or elsewhere. Never required.
if(RINGSCHED_CUDA)
  include(CheckLanguage)
  find_package(CUDAToolkit 13 QUIET)
  if(CUDAToolkit_FOUND AND NOT CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
  endif()
  set(python_packages ${PROJECT_SOURCE_DIR}/build/cuda)
  find_path(RINGSCHED_CUDNN_FRONTEND_INCLUDE cudnn_frontend.h
    HINTS ${python_packages}/include PATH_SUFFIXES include)
  find_path(RINGSCHED_CUDNN_INCLUDE cudnn.h
    HINTS ${CUDAToolkit_INCLUDE_DIRS} ${python_packages}/nvidia/cudnn/include)
  mark_as_advanced(RINGSCHED_CUDNN_FRONTEND_INCLUDE RINGSCHED_CUDNN_INCLUDE)
  set(missing "")
  if(NOT CUDAToolkit_FOUND)
    list(APPEND missing "no CUDA toolkit 13")
  endif()
  if(NOT RINGSCHED_CUDNN_INCLUDE)
    list(APPEND missing "no cudnn.h")
  endif()
  if(NOT RINGSCHED_CUDNN_FRONTEND_INCLUDE)
    list(APPEND missing "no cudnn_frontend.h, see scripts/setup cuda")
  endif()
  if(missing)
    list(JOIN missing "; " missing)
    list(APPEND ringsched_dependency_lines "  CUDA              absent: no GPU backend (${missing})")
  else()
    enable_language(CUDA)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know it
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    endif()
    set(RINGSCHED_CUDA_FOUND ON)
    ringsched_dependency(CUDA ON "${CUDAToolkit_VERSION}" "" "")
  endif()
endif()
# Never required: to build, the nccl transport needs the headers and libraries of CUDA and NCCL, but no
# GPU.
find_package(CUDAToolkit QUIET)
find_path(RINGSCHED_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS}
  ${PROJECT_SOURCE_DIR}/build/cuda/nvidia/nccl/include)
find_library(RINGSCHED_NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${CUDAToolkit_LIBRARY_DIR}
  ${CUDAToolkit_LIBRARY_ROOT} ${PROJECT_SOURCE_DIR}/build/cuda/nvidia/nccl PATH_SUFFIXES lib lib64)
mark_as_advanced(RINGSCHED_NCCL_INCLUDE RINGSCHED_NCCL_LIBRARY)
if(CUDAToolkit_FOUND AND RINGSCHED_NCCL_INCLUDE AND RINGSCHED_NCCL_LIBRARY)
  set(RINGSCHED_NCCL_FOUND ON)
  list(APPEND ringsched_dependency_lines "  NCCL              ${RINGSCHED_NCCL_LIBRARY}")
else()
  list(APPEND ringsched_dependency_lines
    "  NCCL              absent: no messages between GPUs of several processes")
endif()
# A Python with nanobind: pip's, that of `scripts/setup python`, or the one in use.
if(RINGSCHED_PYTHON)
  set(made ${PROJECT_SOURCE_DIR}/build/nanobind/bin/python)
  if(NOT Python_EXECUTABLE AND EXISTS ${made})
    set(Python_EXECUTABLE ${made})
  endif()
  find_package(Python 3.10 QUIET COMPONENTS Interpreter Development.Module ${SKBUILD_SABI_COMPONENT})
  if(Python_FOUND)
    execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir OUTPUT_VARIABLE nanobind_ROOT
      OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    find_package(nanobind QUIET CONFIG)
  endif()
  if(nanobind_FOUND)
    list(APPEND ringsched_dependency_lines "  nanobind          ${nanobind_VERSION}, Python ${Python_VERSION}")
  elseif(SKBUILD)
    message(FATAL_ERROR "The Python module needs Python's headers (Debian: python3-dev) and nanobind")
  else()
    list(APPEND ringsched_dependency_lines
      "  nanobind          absent: no Python module (scripts/setup python)")
  endif()
endif()
if(RINGSCHED_TESTS)
  find_package(GTest QUIET)
  find_package(Python3 3.9 QUIET COMPONENTS Interpreter)
  find_library(SIMGRID_LIBRARY simgrid)
  mark_as_advanced(SIMGRID_LIBRARY)
  ringsched_dependency(GoogleTest "${GTest_FOUND}" "${GTest_VERSION}" libgtest-dev "no tests")
  ringsched_dependency(Python "${Python3_FOUND}" "${Python3_VERSION}" python3
    "no check of the layering")
endif()
# A Python with HolisticTraceAnalysis: that of `scripts/setup hta`, or the one in use.
if(RINGSCHED_TESTS AND Python3_FOUND)
  set(RINGSCHED_HTA_PYTHON "")
  foreach(python ${PROJECT_SOURCE_DIR}/build/hta/bin/python ${Python3_EXECUTABLE})
    if(EXISTS ${python} AND NOT RINGSCHED_HTA_PYTHON)
      execute_process(COMMAND ${python} -c
        "import importlib.util, sys; sys.exit(importlib.util.find_spec('hta.trace_analysis') is None)"
        RESULT_VARIABLE absent OUTPUT_QUIET ERROR_QUIET)
      if(absent EQUAL 0)
        set(RINGSCHED_HTA_PYTHON ${python})
      endif()
    endif()
  endforeach()
  if(NOT RINGSCHED_HTA_PYTHON)  # never required
    list(APPEND ringsched_dependency_lines
      "  HTA               absent: traces are not read by HolisticTraceAnalysis (scripts/setup hta)")
  endif()
endif()
if(RINGSCHED_TESTS)
  find_program(RINGSCHED_CHROMIUM NAMES chromium chromium-browser google-chrome)
  mark_as_advanced(RINGSCHED_CHROMIUM)
  if(NOT RINGSCHED_CHROMIUM)  # never required
    list(APPEND ringsched_dependency_lines
      "  Chromium          absent: the HTML page is not opened by a browser (Debian: chromium)")
  endif()
endif()
if(RINGSCHED_TESTS AND NOT SIMGRID_LIBRARY)  # never required
  list(APPEND ringsched_dependency_lines
    "  SimGrid           absent: no second simulator as referee (Debian: libsimgrid-dev)")
endif()
if(RINGSCHED_BENCH)
  find_package(benchmark QUIET)
  ringsched_dependency("Google Benchmark" "${benchmark_FOUND}" "${benchmark_VERSION}"
    libbenchmark-dev "no benchmarks")
endif()

if(ringsched_absent)
  ringsched_print_dependencies()
  list(JOIN ringsched_absent " " packages)
  message(FATAL_ERROR "Needed and absent. On Debian or Ubuntu: apt-get install ${packages}")
endif()
