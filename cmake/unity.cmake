# With CMAKE_UNITY_BUILD (all presets but dev and tidy) many files are compiled as one, which halves
# the time of a full build; the preset dev compiles a changed file by itself. Names in unnamed namespaces can then clash. Rename one of the two, or compile
# one file alone by adding it here: TARGET FILE.
set(compiled_alone
  ringsched_cli cli/calibrate_command.cpp
  ringsched_cli cli/prediction.cpp
  ringsched_cli cli/prediction_json.cpp
  ringsched_cli cli/prediction_text.cpp
  ringsched_cli cli/run_command.cpp
  ringsched_cuda runtime/backends/cuda/library.cpp  # cudnn-frontend takes a minute
  ringsched_runtime runtime/backends/cpu/task_timer.cpp
  ringsched_runtime runtime/rendezvous/store.cpp
  ringsched_scheduler scheduler/schedules/registry.cpp  # tests of the recipe replace its object
  ringsched_simulator simulator/fair_share.cpp
  ringsched_simulator simulator/one_pass.cpp
  ringsched_tests tests/scheduler/schedules_test.cpp  # tests of CONTRIBUTING's recipe replace its object
  ringsched_tests tests/simulator/export_test.cpp
  ringsched_viz viz/terminal.cpp)
while(compiled_alone)
  list(POP_FRONT compiled_alone target file)
  if(TARGET ${target})
    set_source_files_properties(${PROJECT_SOURCE_DIR}/${file} TARGET_DIRECTORY ${target}
      PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endwhile()
