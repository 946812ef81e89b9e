// A Gantt chart under construction: of one run, or of two above each other in each row. gantt.cpp
// draws the page, layout.cpp places things on it, differences.cpp compares two runs, and legend.cpp
// explains the signs.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "internal.hpp"

namespace ringsched {

class GanttChart {
 public:
  // `squeezed`: how far the rows give way to a page without room, from 0 on.
  GanttChart(std::vector<const Timeline*>, const GanttOptions&,
             std::optional<std::size_t> squeezed = {});
  Picture draw();

  static std::size_t squeezes();
  bool is_squeezed() const { return is_squeezed_; }  // it differs from the chart without

 private:
  double edge() const { return tight_ ? 2 : 16; }  // of the page

  // How tall things are, by how many rows there are.
  struct Sizes {
    double bar, lane, gap, words;
  };
  static Sizes sizes(std::size_t rows);
  bool squeeze(std::size_t level);

  // What is shown, and where; in layout.cpp.
  std::string row_name(std::uint32_t row) const;
  std::string side(std::size_t run) const;
  void lay_out_rows(double top);
  void choose_rows(std::uint32_t most_bands);
  bool alike(WorkerRange, WorkerRange) const;
  bool is_of_alike(std::uint32_t row) const;
  std::uint32_t rows() const { return static_cast<std::uint32_t>(row_starts_.size() - 1); }
  void find_steps();
  const Timeline& timeline(std::size_t run) const { return *runs_[run].timeline; }
  std::uint32_t first_of(std::uint32_t row) const { return row_starts_[row]; }
  std::uint32_t last_of(std::uint32_t row) const { return row_starts_[row + 1]; }
  bool shows(std::uint32_t worker) const { return !options_.worker || *options_.worker == worker; }
  double name_at() const { return bands_ ? edge() : edge() + size_.words + (tight_ ? 3 : 6); }
  double side_size() const { return std::max(std::min(9.0, size_.bar), axis_.least_text); }

  // In gantt.cpp.
  void words(double x, double y, double size, Colour, Anchor, bool bold, std::string);
  void line_of_words(double y, double size, Colour, bool bold, std::string);
  double title_lines(double y, double size, const std::string& text);
  std::string described_picture() const;
  double draw_heading();
  double draw_title();
  std::string subject() const;
  std::string outcome() const;
  std::string outcome_of_one() const;
  std::string outcome_of_two() const;
  std::string as_subject(std::size_t run) const;
  void draw_steps(double top, double bottom);
  void draw_begin_of_backward(double top);
  void draw_row(std::uint32_t row);
  double row_ratio(std::uint32_t row) const;
  std::string row_number(std::uint32_t row) const;
  std::vector<Strip> strips_by_worker(std::size_t run) const;
  DrawnPath choose_path() const;

  // In legend.cpp.
  LegendUse legend() const;

  // In differences.cpp.
  double draw_differences(double y);
  void call_out(std::uint32_t task, std::size_t number);
  Box free_place(Box wanted) const;

  const GanttOptions options_;
  const double width_;
  const bool tight_;  // the page has no room to spare
  const std::uint32_t workers_;
  std::vector<SortedRun> runs_;
  TimeAxis axis_;
  bool moves_ = false, bands_ = false;
  bool is_squeezed_ = false, differences_ = true;
  bool as_ratios_ = false;  // the numbers at the right compare runs, and some is 2 or more
  std::vector<std::uint32_t> row_starts_;  // workers; and the end of the last row
  Sizes size_{};
  double side_at_ = 0;
  std::vector<std::vector<Strip>> strips_;  // by row, then by run
  std::vector<LabelSizes> label_sizes_;     // by run
  DrawnPath path_;
  std::vector<std::pair<Step, std::int64_t>> step_starts_;
  std::vector<Box> called_;  // what a number in the chart marks
  Picture picture_;
};

}  // namespace ringsched
