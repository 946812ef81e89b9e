// `ringsched doctor`, compared with the system's own tools, and on machines that lack things.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/utsname.h>

#include <string>
#include <vector>

#include "support/program.hpp"

namespace {

using ringsched::Outcome;
using ringsched::program_path;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class Doctor : public ringsched::ProgramTest {
 protected:
  // With these variables; exits with 0 and complains of nothing, whatever it finds.
  std::string doctor(const std::string& variables = "", const std::string& flags = "") const {
    return printed("/usr/bin/env " + variables + " '" + program_path().string() + "' doctor " +
                   flags);
  }
  std::string printed(const std::string& command) const {
    const std::string all = "(" + command + ") >" + file("out") + " 2>" + file("err");
    EXPECT_EQ(std::system(all.c_str()), 0) << command;
    EXPECT_EQ(ringsched::read_all(file("err")), "") << command;
    return ringsched::read_all(file("out"));
  }
  // The lines of one part, as one.
  static std::string part(const std::string& text, const std::string& name) {
    std::size_t at = text.find("\n" + name + " ");
    if (at == text.npos) return "no part " + name;
    std::string out;
    do {
      const std::size_t end = text.find('\n', at + 1);
      out += (out.empty() ? "" : " ") + text.substr(at + 12, end - at - 12);
      at = end;
    } while (text.compare(at, 12, "\n           ") == 0);
    return out;
  }
  static std::string with_gpus(const std::string& description) {
    return "LD_LIBRARY_PATH='" +
           (program_path().parent_path().parent_path() / "tests" / "described_driver").string() +
           "' DESCRIBED_GPUS='" + description + "'";
  }

 private:
  std::string file(const char* name) const { return (folder_ / name).string(); }
};

TEST_F(Doctor, SaysWhatTheSystemSays) {
  const std::string text = doctor();
  EXPECT_THAT(text, testing::StartsWith(run("--version").out.substr(0, 15) + ", built with "));
  utsname kernel{};
  ASSERT_EQ(::uname(&kernel), 0);
  EXPECT_THAT(part(text, "system"), HasSubstr(std::string("Linux ") + kernel.release));
  std::string cores = printed("nproc");
  cores.pop_back();
  EXPECT_THAT(part(text, "CPU"), ContainsRegex(", " + cores + " of [0-9]+ cores usable"));
  EXPECT_THAT(part(printed("taskset -c $(taskset -cp $$ | sed 's/.*[ ,-]//') '" +
                           program_path().string() + "' doctor"),
                   "CPU"),
              ContainsRegex(", 1 of [0-9]+ cores usable"));
  // `free` counts in kibibytes.
  const double gib =
      std::stod(printed("free | sed -n 's/^Mem: *\\([0-9]*\\) .*/\\1/p'")) / (1 << 20);
  EXPECT_NEAR(std::stod(part(text, "memory")), gib, 0.06);
}

TEST_F(Doctor, FitsOneScreen) {
  const std::string text = doctor("PATH=/nowhere RINGSCHED_CPU=none");
  std::size_t lines = 0;
  for (std::size_t at = 0; at < text.size(); ++lines) {
    const std::size_t end = text.find('\n', at);
    EXPECT_LE(end - at, 80u) << text.substr(at, end - at);
    at = end + 1;
  }
  EXPECT_LE(lines, 40u);
}

TEST_F(Doctor, SaysWhatIsMissingAndWhatThatCosts) {
  const std::string without = doctor("PATH=/nowhere");
  EXPECT_EQ(part(without, "Python"),
            "absent: no python3 in PATH; only the Python package needs one");
  EXPECT_THAT(part(without, "MPI"),
              testing::AnyOf(HasSubstr("no mpirun in PATH"), HasSubstr("built without it")));
  EXPECT_EQ(part(doctor("RINGSCHED_CPU=none"), "attention"),
            "absent: RINGSCHED_CPU is 'none', not one of portable, avx2, avx512, avx512bf16, amx; "
            "run and calibrate are not available");
  EXPECT_EQ(part(doctor("RINGSCHED_CPU=portable"), "attention"),
            "portable for fp32, portable for bf16, portable for fp16 (RINGSCHED_CPU is portable)");
  std::ofstream(folder_ / "no-fonts.conf") << "<fontconfig><dir>/nowhere</dir></fontconfig>";
  const std::string no_fonts = "FONTCONFIG_FILE=" + (folder_ / "no-fonts.conf").string();
  EXPECT_THAT(
      part(doctor(no_fonts), "Cairo"),
      testing::AnyOf(HasSubstr("problem: no font Liberation Sans"), HasSubstr("built without it")));
}

TEST_F(Doctor, KnowsGpus) {
  const std::string two = part(doctor(with_gpus("13000 2 90")), "GPU");
  EXPECT_THAT(two, HasSubstr("1 x NVIDIA First (80 GiB, compute capability 9.0), "));
  EXPECT_THAT(two, HasSubstr("1 x NVIDIA Other (80 GiB, compute capability 9.0), "));
  EXPECT_THAT(two, HasSubstr("for CUDA 13.0"));
  EXPECT_THAT(two, Not(HasSubstr("problem:")));
  EXPECT_THAT(part(doctor(with_gpus("13010 3 100")), "GPU"),
              HasSubstr("2 x NVIDIA Other (80 GiB, compute capability 10.0), "));

  const std::string cost = "; --backend cuda is not available";
  EXPECT_THAT(
      part(doctor(with_gpus("12040 1 90")), "GPU"),
      HasSubstr("problem: the driver is too old: it supports CUDA 12.4, but this needs 13.0" +
                cost));
  EXPECT_THAT(
      part(doctor(with_gpus("13000 1 75")), "GPU"),
      HasSubstr("problem: GPU 0 has compute capability 7.5, but this needs 8.0 or more" + cost));
  EXPECT_THAT(part(doctor(with_gpus("13000 0 0")), "GPU"),
              HasSubstr("problem: the driver finds no GPU" + cost));
  EXPECT_THAT(part(doctor(with_gpus("13000 -100 0")), "GPU"),
              HasSubstr("problem: the driver finds no GPU (cuInit: error 100)" + cost));
}

TEST_F(Doctor, SaysTheSameInJson) {
  const std::string variables = with_gpus("13000 1 75") + " PATH=/nowhere";
  const std::string text = doctor(variables), json = doctor(variables, "--format json");
  std::size_t parts = 0;
  for (std::size_t at = 0; (at = json.find("{\"name\": \"", at)) != json.npos; ++parts) {
    at += 10;
    const std::string name = json.substr(at, json.find('"', at) - at);
    const std::size_t line_end = json.find('\n', at);
    const std::string line = json.substr(at, line_end - at);
    const auto value = [&line](const std::string& key) {
      const std::size_t from = line.find("\"" + key + "\": ") + key.size() + 4;
      if (line.compare(from, 4, "null") == 0) return std::string();
      return line.substr(from + 1, line.find('"', from + 1) - from - 1);
    };
    const std::string found = value("found"), missing = value("missing");
    EXPECT_FALSE(found.empty() && missing.empty()) << name;
    const std::string all = missing.empty() ? found
                            : found.empty() ? "absent: " + missing
                                            : found + " problem: " + missing;
    if (name != "memory") {  // which changes from run to run
      EXPECT_EQ(part(text, name), all);
    }
  }
  EXPECT_EQ(parts, 13u);
}

TEST_F(Doctor, RefusesWhatItDoesNotKnow) {
  const Outcome o = run("doctor --format csv");
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.err, HasSubstr("use text or json"));
}

}  // namespace
