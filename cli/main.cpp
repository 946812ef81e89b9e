#include "program.hpp"

int main(int argc, char** argv) { return ringsched::run_program(argc, argv); }
