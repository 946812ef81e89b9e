# `cpack -G TGZ` and the like. scripts/deb makes a Debian package that meets Debian's rules.
set(CPACK_PACKAGE_VENDOR ringsched)
set(CPACK_PACKAGE_CONTACT "ringsched maintainers <maintainers@ringsched.example>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "plan, predict, verify and run distributed exact attention")
set(CPACK_PACKAGE_DESCRIPTION
  "Long-context transformers split one attention over many GPUs. ringsched turns a
schedule for that (ring, striped, zigzag, balanced, Ulysses and others) into a
plan. It proves the plan, predicts its time on a model of a machine, draws it,
and runs it on CPUs.
This package has the program, the C++ library and the profiles of machines.")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
include(CPack)
