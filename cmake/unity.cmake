# With CMAKE_UNITY_BUILD (all presets but dev and tidy) many files are compiled as one, which halves
# the time of a full build. Names in unnamed namespaces can then clash: rename one of the two, or add
# its file here, TARGET FILE, which is then compiled alone.
set(compiled_alone
  ringsched_cuda runtime/backends/cuda/library.cpp  # cudnn-frontend takes a minute
  ringsched_runtime runtime/backends/cpu/task_timer.cpp
  ringsched_runtime runtime/rendezvous/store.cpp
  ringsched_scheduler scheduler/schedules/registry.cpp  # tests of the recipe replace its object
  ringsched_simulator simulator/fair_share.cpp
  ringsched_simulator simulator/one_pass.cpp
  ringsched_tests tests/scheduler/schedules_test.cpp  # tests of CONTRIBUTING's recipe replace its object
  ringsched_viz viz/terminal.cpp)
while(compiled_alone)
  list(POP_FRONT compiled_alone target file)
  if(TARGET ${target})
    set_source_files_properties(${PROJECT_SOURCE_DIR}/${file} TARGET_DIRECTORY ${target}
      PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endwhile()
