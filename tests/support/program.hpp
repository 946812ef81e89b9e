// Runs the program through the shell in a folder of the test's own. Its long outputs are kept in
// tests/golden/; RINGSCHED_REFRESH=1 rewrites them.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "support/paths.hpp"

namespace ringsched {

struct Outcome {
  int code;
  std::string out, err;
};

inline std::string read_all(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class ProgramTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "ringsched-test-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    setenv("LC_ALL", "C.UTF-8", 1);  // else charts are ASCII
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Runs in the test's own folder, through the shell.
  Outcome run(const std::string& arguments) const {
    const std::string command = "cd '" + folder_.string() + "' && '" + program_path().string() +
                                "' " + arguments + " >out.txt 2>err.txt";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_all(folder_ / "out.txt"),
            read_all(folder_ / "err.txt")};
  }

  std::filesystem::path folder_;
};

inline void expect_golden(const std::string& name, const std::string& text) {
  const std::filesystem::path path = source_folder() / "tests" / "golden" / name;
  if (std::getenv("RINGSCHED_REFRESH")) std::ofstream(path, std::ios::binary) << text;
  EXPECT_EQ(text, read_all(path)) << "RINGSCHED_REFRESH=1 writes " << path << " anew";
}

}  // namespace ringsched
