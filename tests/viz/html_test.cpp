#include "ringsched/viz/html.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ringsched/scheduler/error.hpp"
#include "support/cases.hpp"
#include "support/machines.hpp"
#include "support/runs.hpp"

// What the page does is tried in a browser: tests/html_test.py.
namespace ringsched {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Timeline run_of(std::uint32_t workers) {
  return predicted_run(
      limit_communication(
          build_plan(small_problem(workers, 64 * workers, Pass::Both), find_schedule("balanced")),
          {}),
      test_machine(Fabric::Switch, workers));
}

TEST(HtmlPage, IsOneFileOfTheSameBytes) {
  const Timeline runs[] = {run_of(3), run_of(5)};
  const std::string page = html_page(runs);
  EXPECT_EQ(page, html_page(runs));
  const std::string names = "http://www.w3.org/2000/svg";  // of what it saves; nothing is loaded
  std::string rest = page;
  for (std::size_t at; (at = rest.find(names)) != rest.npos;) rest.erase(at, names.size());
  EXPECT_THAT(rest, Not(HasSubstr("http")));
  EXPECT_THAT(page, Not(HasSubstr("@data@")));
  EXPECT_TRUE(page.ends_with("</html>\n"));
}

TEST(HtmlPage, GrowsWithItsTasksAndNoFaster) {
  const Timeline small = run_of(8), large = run_of(32);
  const auto size = [](const Timeline& t) {
    return static_cast<double>(html_page({&t, 1}).size());
  };
  Timeline one = run_of(1);
  const double fixed = size(one);
  const double per_small = (size(small) - fixed) / static_cast<double>(small.tasks.size());
  const double per_large = (size(large) - fixed) / static_cast<double>(large.tasks.size());
  EXPECT_LT(per_large, 1.3 * per_small);
  EXPECT_LT(per_large, 100);
}

TEST(HtmlPage, KeepsNamesInTheirPlace) {
  Timeline t = run_of(2);
  t.schedule = "</script><script>alert(1)</script>";
  t.machine = "@data@ \" \\ & <b>";
  const std::string page = html_page({&t, 1});
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page, Not(HasSubstr("<b>")));
  EXPECT_THAT(page, HasSubstr("\\u003c/script\\u003e"));
}

TEST(HtmlPage, RefusesWhatHasNothingToShow) {
  Timeline t = run_of(2);
  t.tasks.clear();
  t.details.clear();
  t.critical_path.clear();
  EXPECT_THROW(html_page({&t, 1}), Error);
  EXPECT_THROW(html_page({}), Error);
}

}  // namespace
}  // namespace ringsched
