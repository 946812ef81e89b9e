// Pictures as PDF and PNG, through Cairo.
#include "ringsched/scheduler/error.hpp"
#include "ringsched/viz/libraries.hpp"
#include "ringsched/viz/picture.hpp"

#ifdef RINGSCHED_CAIRO
#include <cairo-pdf.h>
#include <cairo.h>

#include <algorithm>
#include <cmath>
#include <memory>
#endif

namespace ringsched {

#ifdef RINGSCHED_CAIRO

namespace {

struct Release {
  void operator()(cairo_t* c) const { cairo_destroy(c); }
  void operator()(cairo_surface_t* s) const { cairo_surface_destroy(s); }
};
using Surface = std::unique_ptr<cairo_surface_t, Release>;
using Context = std::unique_ptr<cairo_t, Release>;

constexpr double kMostPixels = 32'000;  // Cairo's images have no more on a side

void require_success(cairo_status_t status) {
  if (status == CAIRO_STATUS_NO_MEMORY) throw std::bad_alloc();
  if (status != CAIRO_STATUS_SUCCESS)
    fail("cannot draw the picture: {}", cairo_status_to_string(status));
}

cairo_status_t append(void* out, const unsigned char* data, unsigned length) {
  static_cast<std::string*>(out)->append(reinterpret_cast<const char*>(data), length);
  return CAIRO_STATUS_SUCCESS;
}

class Pen {
 public:
  explicit Pen(cairo_t* c) : c_(c) {}

  void operator()(const Box& b) {
    if (b.fill) {
      use(*b.fill);
      cairo_rectangle(c_, b.x, b.y, b.width, b.height);
      cairo_fill(c_);
    }
    if (b.hatch != Hatch::None) {
      cairo_save(c_);
      cairo_rectangle(c_, b.x, b.y, b.width, b.height);
      cairo_clip(c_);
      hatch(b.hatch, b.x, b.y, b.x + b.width, b.y + b.height);
      cairo_restore(c_);
    }
    if (!b.outline) return;
    use(*b.outline);
    cairo_set_line_width(c_, b.outline_width);
    const double w = b.outline_width;
    cairo_rectangle(c_, b.x + w / 2, b.y + w / 2, std::max(0.0, b.width - w),
                    std::max(0.0, b.height - w));
    cairo_stroke(c_);
  }
  void operator()(const Stroke& s) {
    use(s.colour);
    cairo_set_line_width(c_, s.width);
    const double dashes[] = {3, 3};
    cairo_set_dash(c_, dashes, s.dashed ? 2 : 0, 0);
    trace(s.points);
    cairo_stroke(c_);
    cairo_set_dash(c_, dashes, 0, 0);
    if (s.arrow && s.points.size() > 1)
      head(s.points[s.points.size() - 2], s.points.back(), s.width);
  }
  void operator()(const Area& a) {
    use(a.fill, a.opacity);
    trace(a.corners);
    cairo_close_path(c_);
    cairo_fill(c_);
  }
  void operator()(const Label& l) {
    use(l.colour);
    cairo_select_font_face(c_, "Liberation Sans", CAIRO_FONT_SLANT_NORMAL,
                           l.bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(c_, l.size);
    cairo_text_extents_t found;
    cairo_text_extents(c_, l.text.c_str(), &found);
    // Without the font, the replacement may be wider: then the text is condensed.
    const double planned = text_width(l.text, l.size, l.bold);
    const double squeeze = found.x_advance > planned ? planned / found.x_advance : 1;
    const double width = found.x_advance * squeeze;
    const double left = l.anchor == Anchor::Start    ? l.x
                        : l.anchor == Anchor::Middle ? l.x - width / 2
                                                     : l.x - width;
    cairo_save(c_);
    cairo_translate(c_, left, l.y);
    cairo_scale(c_, squeeze, 1);
    cairo_move_to(c_, 0, 0);
    cairo_show_text(c_, l.text.c_str());
    cairo_restore(c_);
  }

 private:
  void use(Colour k, double opacity = 1) {
    cairo_set_source_rgba(c_, k.red / 255.0, k.green / 255.0, k.blue / 255.0, opacity);
  }
  void trace(const std::vector<Point>& points) {
    cairo_new_path(c_);
    for (const Point& p : points) cairo_line_to(c_, p.x, p.y);
  }
  // The same lines as the patterns of the SVG.
  void hatch(Hatch kind, double x0, double y0, double x1, double y1) {
    cairo_new_path(c_);
    if (kind == Hatch::Diagonal) {
      use(ink::white);
      cairo_set_line_width(c_, 1.2);
      const double apart = 5 * std::sqrt(2.0);
      for (double at = std::floor((x0 + y0) / apart) * apart; at < x1 + y1 + apart; at += apart) {
        cairo_move_to(c_, at - y0, y0);
        cairo_line_to(c_, at - y1, y1);
      }
      cairo_stroke(c_);
      return;
    }
    use({0xb4, 0xb4, 0xb4});
    for (double y = std::floor(y0 / 4) * 4 + 1; y < y1; y += 4)
      for (double x = std::floor(x0 / 4) * 4 + 1; x < x1; x += 4) {
        cairo_new_sub_path(c_);
        cairo_arc(c_, x, y, 0.6, 0, 2 * M_PI);
      }
    cairo_fill(c_);
  }
  void head(Point from, Point to, double width) {
    const double length = std::hypot(to.x - from.x, to.y - from.y);
    if (length <= 0) return;
    const double ux = (to.x - from.x) / length, uy = (to.y - from.y) / length;
    const double back = 7 * width, side = 3.5 * width;
    const double tip_x = to.x + ux * width, tip_y = to.y + uy * width;
    cairo_new_path(c_);
    cairo_move_to(c_, tip_x, tip_y);
    cairo_line_to(c_, tip_x - ux * back - uy * side, tip_y - uy * back + ux * side);
    cairo_line_to(c_, tip_x - ux * back + uy * side, tip_y - uy * back - ux * side);
    cairo_close_path(c_);
    cairo_fill(c_);
  }

  cairo_t* c_;
};

void draw(const Picture& p, cairo_surface_t* surface, double scale) {
  require_success(cairo_surface_status(surface));
  const Context context(cairo_create(surface));
  cairo_scale(context.get(), scale, scale);
  cairo_set_source_rgb(context.get(), 1, 1, 1);
  cairo_paint(context.get());
  Pen pen(context.get());
  for (const Shape& s : p.shapes) std::visit(pen, s);
  require_success(cairo_status(context.get()));
}

}  // namespace

std::string pdf(const Picture& p) {
  std::string out;
  const Surface surface(cairo_pdf_surface_create_for_stream(append, &out, p.width, p.height));
  // LaTeX warns of figures with later versions.
  cairo_pdf_surface_restrict_to_version(surface.get(), CAIRO_PDF_VERSION_1_5);
  cairo_pdf_surface_set_metadata(surface.get(), CAIRO_PDF_METADATA_TITLE, p.title.c_str());
  // Equal pictures give equal files, whenever they are made.
  cairo_pdf_surface_set_metadata(surface.get(), CAIRO_PDF_METADATA_CREATE_DATE,
                                 "2000-01-01T00:00:00Z");
  draw(p, surface.get(), 1);
  cairo_surface_finish(surface.get());
  require_success(cairo_surface_status(surface.get()));
  return out;
}

std::string png(const Picture& p, double scale) {
  const double width = std::ceil(p.width * scale), height = std::ceil(p.height * scale);
  if (width > kMostPixels || height > kMostPixels)
    fail("the picture has {:.0f} x {:.0f} pixels; a PNG can have {:.0f} per side", width, height,
         kMostPixels);
  const Surface surface(cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(width),
                                                   static_cast<int>(height)));
  draw(p, surface.get(), scale);
  std::string out;
  require_success(cairo_surface_write_to_png_stream(surface.get(), append, &out));
  return with_density(out, scale);
}

std::string cairo_version() { return cairo_version_string(); }

bool cairo_has_font() {
  const std::string text = "The quick brown fox jumps over the lazy dog";
  constexpr double size = 100;
  const Surface surface(cairo_image_surface_create(CAIRO_FORMAT_RGB24, 1, 1));
  const Context context(cairo_create(surface.get()));
  cairo_select_font_face(context.get(), "Liberation Sans", CAIRO_FONT_SLANT_NORMAL,
                         CAIRO_FONT_WEIGHT_NORMAL);
  cairo_set_font_size(context.get(), size);
  cairo_text_extents_t found;
  cairo_text_extents(context.get(), text.c_str(), &found);
  const double planned = text_width(text, size);
  return std::abs(found.x_advance - planned) < 0.01 * planned;
}

#else

namespace {
[[noreturn]] void no_cairo() {
  fail(
      "this ringsched was built without Cairo, which writes PDF and PNG; write .svg or .html, "
      "or install libcairo2-dev and build again");
}
}  // namespace

std::string pdf(const Picture&) { no_cairo(); }
std::string png(const Picture&, double) { no_cairo(); }
std::string cairo_version() { return {}; }
bool cairo_has_font() { return false; }

#endif

}  // namespace ringsched
